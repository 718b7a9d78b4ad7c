/*-------------------------------------------------------------------------
 *
 * rose_page_append.c
 *	  Rows on their way into the page being built, one by one or many in columns.
 *
 * Space is given out as rose_page_build.c says.  Most rows have a value where all rows of
 * the page before had one, and NULL elsewhere: such rows are "dense".  Of a dense row
 * that comes alone nothing is looked at; each of its words counts as unusual until that
 * is more than the budget allows.  Then the words are looked at, a column at a time,
 * which shows what the rows really may take.  Rows that come in columns are taken as far
 * as they fit, which is then searched for.  Either way a row is taken for the same
 * reasons, so that pages are the same.
 *
 * After an error in here the builder can only be reset or freed.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_distinct.h"
#include "codec/rose_items.h"
#include "codec/rose_kernels.h"
#include "page/rose_page_build.h"
#include "page/rose_page_unusual.h"

/* The bytes of items that are buffered: long items that repeat take hardly any space packed. */
#define MAX_BUFFERED_ITEM_BYTES	(8 * 1024 * 1024)

/* Rows in columns that are taken at a time. */
#define BATCH_ROWS				512

/* Fewer are cheaper one by one. */
#define MIN_BATCH_ROWS			8

/* Room for fewer rows of unusual words makes watchful. */
#define WATCHFUL_ROWS			16

/* ---- Items ---- */

/* Make room for 'size' more item bytes after 'used'; returns where they go. */
static char *
reserve_item(RoseColumnBuffer *buffer, uint32 used, uint32 size)
{
	if (used + size > buffer->items_capacity)
	{
		uint32		capacity = Max(used + size, Max(1024, buffer->items_capacity * 2));

		buffer->items = rose_builder_grow_array(buffer->context, buffer->items, capacity);
		buffer->items_capacity = capacity;
	}
	return buffer->items + used;
}

static void
report_item_size(Size size)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("value of %zu bytes is too large for a rose page", size),
			 errdetail("The limit is %d bytes.", ROSE_ITEM_MAX_SIZE)));
}

/* Copy a varlena, with a short header if it can have one; returns the bytes it takes. */
static uint32
add_varlena(RoseColumnBuffer *buffer, uint32 used, struct varlena *value)
{
	Size		length;
	uint32		padding;
	char	   *out;

	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		elog(ERROR, "toasted value on its way to a rose page");
	length = VARSIZE_ANY_EXHDR(value);
	if (length + VARHDRSZ > ROSE_ITEM_MAX_SIZE)
		report_item_size(length + VARHDRSZ);
	if (!buffer->desc.long_headers && length + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		out = reserve_item(buffer, used, (uint32) length + VARHDRSZ_SHORT);
		SET_VARSIZE_SHORT(out, length + VARHDRSZ_SHORT);
		memcpy(out + VARHDRSZ_SHORT, VARDATA_ANY(value), length);
		return (uint32) length + VARHDRSZ_SHORT;
	}
	padding = TYPEALIGN(ALIGNOF_INT, used) - used;
	out = reserve_item(buffer, used, padding + (uint32) length + VARHDRSZ);
	memset(out, 0, padding);
	SET_VARSIZE(out + padding, length + VARHDRSZ);
	memcpy(out + padding + VARHDRSZ, VARDATA_ANY(value), length);
	return padding + (uint32) length + VARHDRSZ;
}

/* Copy a by-reference value to the end of the buffer; returns the bytes it takes. */
static uint32
add_item(RoseColumnBuffer *buffer, Datum value)
{
	uint32		used = rose_item_start(buffer, buffer->nvalues);
	const char *pointer = DatumGetPointer(value);
	Size		length;
	uint32		size;
	char	   *out;

	if (buffer->desc.kind == ROSE_COLUMN_VARLEN)
		size = add_varlena(buffer, used, (struct varlena *) DatumGetPointer(value));
	else
	{
		length = buffer->desc.kind == ROSE_COLUMN_CSTRING ?
			strlen(pointer) + 1 : (Size) buffer->desc.attlen;
		if (length > ROSE_ITEM_MAX_SIZE)
			report_item_size(length);
		size = TYPEALIGN(rose_item_alignment(&buffer->desc), (uint32) length);
		out = reserve_item(buffer, used, size);
		memcpy(out, pointer, length);
		memset(out + length, 0, size - length);
	}
	buffer->ends[buffer->nvalues] = used + size;
	return size;
}


/* ---- The budget ---- */

static inline bool
is_within_budget(const RosePageBuilder *builder)
{
	return builder->npending <= builder->pending_limit &&
		builder->pending_bits + builder->reach_bits <= builder->budget_bits &&
		builder->pending_item_bytes <= builder->headroom;
}

/* Look at the words of dense rows that were not looked at. */
static void
look_at_words(RosePageBuilder *builder)
{
	int			from = builder->nlooked;
	int			to = builder->nrows;
	int			k;

	if (from == to)
		return;
	builder->pending_bits -= (to - from) * builder->unusual_bits;
	for (k = 0; k < builder->nword_targets; k++)
	{
		BuilderColumn *column = &builder->columns[builder->word_targets[k].column];

		if (column->unusual_bits > 0)
			builder->pending_bits += (int64) rose_builder_count_unusual(column, from, to) * column->unusual_bits;
	}
	builder->nlooked = to;
}

/*
 * With 'more' dense rows in the buffers beyond those that are counted: do the plans reach
 * as far, and how much further?
 */
static bool
find_reach(RosePageBuilder *builder, int more)
{
	int			npending = builder->npending + more;
	int			slack = builder->pending_most - npending;
	int			c;

	builder->reach_bits = 0;
	if (slack < 0)
		return false;
	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		RoseColumnBuffer *buffer = &column->buffer;
		int			n = more + (builder->dense && buffer->is_words ?
								builder->nrows : buffer->nvalues);
		int			reach;
		int			bits;

		if (!column->in_row_bits || buffer->plan.codec->reach == NULL)
			continue;
		reach = buffer->plan.codec->reach(buffer, &buffer->plan, &column->ahead, n, &bits);
		if (reach < n)
			return false;
		builder->reach_bits += bits;
		slack = Min(slack, reach - n);
	}
	builder->pending_limit = npending + slack;
	return true;
}

/* All rows were looked at.  From here on as they come? */
static void
watch_out(RosePageBuilder *builder)
{
	builder->watchful = (builder->row_bits + builder->unusual_bits) * WATCHFUL_ROWS >
		builder->budget_bits - builder->pending_bits;
}

/* The last row seems to be beyond the budget.  Is it? */
static bool
look_closer(RosePageBuilder *builder)
{
	if (builder->npending > builder->pending_limit && !find_reach(builder, 0))
		return false;
	look_at_words(builder);
	watch_out(builder);
	return is_within_budget(builder);
}


/* ---- A row ---- */

/* A column gets its first value: the rows before are NULL. */
static void
begin_column(RosePageBuilder *builder, BuilderColumn *column)
{
	int			nrows = builder->nrows;

	column->nnulls = nrows;
	memset(column->isnull, 0xff, nrows / 8);
	if (nrows % 8 != 0)
		column->isnull[nrows / 8] = (uint8) ((1 << (nrows % 8)) - 1);
}

/* What a value adds to a column that had none when the budget was made, in bits. */
static int64
unforeseen_bits(RosePageBuilder *builder, BuilderColumn *column)
{
	const RosePlan *plan = &column->buffer.plan;
	int64		bits = plan->value_bits + ROSE_NULLMAP_ROW_BITS;

	if (column->buffer.nvalues == 0)
	{
		begin_column(builder, column);
		bits += plan->size * (int64) 8;
		builder->pending_limit = Min(builder->pending_limit, plan->spare);
		builder->pending_most = Min(builder->pending_most, plan->spare);
	}
	return bits;
}

/* Put a word into the buffer; returns what it adds to row_bits at most. */
static inline int
add_word(BuilderColumn *column, Datum value)
{
	RoseColumnBuffer *buffer = &column->buffer;
	int			n = buffer->nvalues;
	int			unused_bits = 64 - 8 * buffer->desc.attlen;

	/* sign-extended; right shift is arithmetic on all our compilers */
	buffer->words[n] = (int64) ((uint64) value << unused_bits) >> unused_bits;
	return column->unusual_bits > 0 && rose_builder_is_unusual(column, n) ? column->unusual_bits : 0;
}

static void
count_items(RosePageBuilder *builder, int64 bytes)
{
	builder->item_bytes += bytes;
	builder->last_item_bytes = bytes;
	builder->pending_item_bytes += bytes;
	builder->pending_bits += bytes * 8;
}

/* Put a row into the buffers. */
static void
add_row(RosePageBuilder *builder, const Datum *values, const bool *nulls)
{
	int64		bits = builder->row_bits;
	int64		item_bytes = 0;
	int			row = builder->nrows;
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		RoseColumnBuffer *buffer = &column->buffer;

		if (nulls[c])
		{
			if (buffer->nvalues == 0)
				continue;
			column->isnull[row / 8] |= (uint8) (1 << (row % 8));
			column->nnulls++;
			bits += ROSE_NULLMAP_ROW_BITS;
			continue;
		}
		if (unlikely(!column->in_row_bits))
			bits += unforeseen_bits(builder, column);
		if (buffer->is_words)
			bits += add_word(column, values[c]);
		else
			item_bytes += add_item(buffer, values[c]);
		buffer->nvalues++;
	}
	builder->nlooked = ++builder->nrows;
	builder->pending_bits += bits;
	count_items(builder, item_bytes);
}

/* Put the words of a dense row into the buffers. */
static inline void
add_words(const RosePageBuilder *builder, int row, const Datum *values)
{
	const RoseWordTarget *target = builder->word_targets;
	const RoseWordTarget *end = target + builder->nword_targets;

	for (; target < end; target++)
		target->words[row] = (int64) ((uint64) values[target->column] << target->unused_bits) >>
			target->unused_bits;
}

/* Add a row's values to the columns of words, and look at them; returns what they add to row_bits at most. */
static int64
add_watched_words(RosePageBuilder *builder, int row, const Datum *values)
{
	const RoseWordTarget *target = builder->word_targets;
	const RoseWordTarget *end = target + builder->nword_targets;
	int64		bits = 0;

	for (; target < end; target++)
	{
		int64		word = (int64) ((uint64) values[target->column] << target->unused_bits) >>
			target->unused_bits;
		int64		x = rose_wrap_sub(word, target->words[row - 1] & target->previous_mask);
		bool		unusual;

		target->words[row] = word;
		if (likely(target->simple))
			unusual = (uint64) rose_wrap_sub(x, target->base) > target->top;
		else
			unusual = rose_builder_is_unusual(&builder->columns[target->column], row);
		bits += unusual ? target->unusual_bits : 0;
	}
	return bits;
}

/*
 * add_row for a dense row.  Nearly all rows are like that, so here is where the
 * time goes.
 */
static void
add_dense_row(RosePageBuilder *builder, const Datum *values)
{
	int64		bits = builder->row_bits;
	int64		item_bytes = 0;
	int			row = builder->nrows++;
	int			k;

	if (builder->watchful)
	{
		bits += add_watched_words(builder, row, values);
		builder->nlooked = builder->nrows;
	}
	else
	{
		bits += builder->unusual_bits;
		add_words(builder, row, values);
	}
	for (k = 0; k < builder->nitem_columns; k++)
	{
		int			c = builder->item_columns[k];

		item_bytes += add_item(&builder->columns[c].buffer, values[c]);
		builder->columns[c].buffer.nvalues++;
	}
	builder->pending_bits += bits;
	count_items(builder, item_bytes);
}

static void
set_word_target(RoseWordTarget *target, const BuilderColumn *column)
{
	const RosePlan *plan = &column->buffer.plan;

	target->words = column->buffer.words;
	target->unused_bits = 64 - 8 * column->buffer.desc.attlen;
	target->unusual_bits = column->unusual_bits;
	target->simple = column->unusual_bits == 0 ||
		(plan->usual.step == 1 && (plan->usual.kind == ROSE_USUAL_VALUE ||
								   plan->usual.kind == ROSE_USUAL_DIFFERENCE));
	target->previous_mask = plan->usual.kind == ROSE_USUAL_DIFFERENCE ? -1 : 0;
	target->base = plan->usual.base;
	target->top = plan->usual.top;
}

void
rose_builder_begin_dense(RosePageBuilder *builder)
{
	int			c;

	builder->nword_targets = builder->nitem_columns = 0;
	for (c = 0; c < builder->ncols; c++)
	{
		const RoseColumnBuffer *buffer = &builder->columns[c].buffer;

		builder->usual_nulls[c] = buffer->nvalues == 0;
		if (buffer->nvalues == 0)
			continue;
		if (buffer->is_words)
		{
			RoseWordTarget *target = &builder->word_targets[builder->nword_targets++];

			target->column = c;
			set_word_target(target, &builder->columns[c]);
		}
		else
			builder->item_columns[builder->nitem_columns++] = c;
	}
	watch_out(builder);
}

void
rose_builder_count_rows(RosePageBuilder *builder)
{
	int			k;

	if (!builder->dense)
		return;
	for (k = 0; k < builder->nword_targets; k++)
		builder->columns[builder->word_targets[k].column].buffer.nvalues = builder->nrows;
}

static void
take_back_last_row(RosePageBuilder *builder, const bool *nulls)
{
	int			row = --builder->nrows;
	int			c;

	builder->item_bytes -= builder->last_item_bytes;
	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		int			n = column->buffer.nvalues;

		if (n == 0)
			continue;
		if (nulls[c])
		{
			column->isnull[row / 8] &= (uint8) ~(1 << (row % 8));
			column->nnulls--;
		}
		else
			n--;
		rose_column_buffer_restore(&column->buffer, n, &column->saved);
	}
	builder->planned_rows = Min(builder->planned_rows, row);
	rose_builder_renew_budget(builder, rose_builder_total_size(builder));
}

/* Room in the buffers for one more row at least; false if there may be no more. */
static bool
make_room(RosePageBuilder *builder)
{
	int			k;

	if (builder->nrows == builder->row_capacity)
	{
		if (builder->nrows >= builder->max_rows)
			return false;
		rose_builder_reserve_rows(builder, Min(builder->row_capacity * 2, builder->max_rows));
		for (k = 0; k < builder->nword_targets; k++)
			builder->word_targets[k].words =
				builder->columns[builder->word_targets[k].column].buffer.words;
	}
	return builder->item_bytes < MAX_BUFFERED_ITEM_BYTES;
}

/* A row that is not dense: the budget must be exact from here on. */
static void
end_dense(RosePageBuilder *builder)
{
	if (!builder->dense)
		return;
	look_at_words(builder);
	rose_builder_count_rows(builder);
	builder->dense = false;
}

RoseAppendResult
rose_page_builder_append(RosePageBuilder *builder, const Datum *values, const bool *nulls)
{
	if (unlikely(!make_room(builder)))
		return ROSE_APPEND_FULL;
	builder->npending++;
	if (builder->dense && memcmp(nulls, builder->usual_nulls, builder->ncols) == 0)
		add_dense_row(builder, values);
	else
	{
		end_dense(builder);
		add_row(builder, values, nulls);
	}
	if (likely(is_within_budget(builder)) || look_closer(builder))
	{
		/* from the second row on they may be dense */
		if (unlikely(builder->nrows == 1))
		{
			rose_builder_settle(builder, NULL);
			rose_builder_renew_budget(builder, rose_builder_total_size(builder));
		}
		return ROSE_APPEND_OK;
	}
	rose_builder_count_rows(builder);
	if (rose_builder_settle_last_row(builder, nulls))
		return ROSE_APPEND_OK;
	take_back_last_row(builder, nulls);
	return builder->nrows == 0 ? ROSE_APPEND_TOO_LARGE : ROSE_APPEND_FULL;
}


/* ---- Rows in columns ---- */

/* How many of rows [from, from + n) in front are dense? */
static int
count_dense(const RosePageBuilder *builder, const RoseColumnValues *columns, int from, int n)
{
	int			c;

	for (c = 0; c < builder->ncols && n > 0; c++)
	{
		const bool *nulls = columns[c].nulls;
		const bool *other = NULL;

		if (columns[c].values == NULL || nulls == NULL)
			n = builder->usual_nulls[c] == (columns[c].values == NULL) ? n : 0;
		else
			other = memchr(nulls + from, !builder->usual_nulls[c], n);
		if (other != NULL)
			n = (int) (other - (nulls + from));
	}
	return n;
}

/* Copy rows into the buffers, beyond those that are counted. */
static void
copy_rows(RosePageBuilder *builder, const RoseColumnValues *columns, int from, int n)
{
	int			k;
	int			i;

	for (k = 0; k < builder->nword_targets; k++)
	{
		const RoseWordTarget *target = &builder->word_targets[k];

		rose_kernel_extend_signs(columns[target->column].values + from, n, target->unused_bits,
								 target->words + builder->nrows);
	}
	for (k = 0; k < builder->nitem_columns; k++)
	{
		int			c = builder->item_columns[k];
		RoseColumnBuffer *buffer = &builder->columns[c].buffer;
		int			nvalues = buffer->nvalues;

		for (i = 0; i < n; i++, buffer->nvalues++)
			add_item(buffer, columns[c].values[from + i]);
		buffer->nvalues = nvalues;
	}
}

/* The bytes of items in n rows beyond those that are counted. */
static int64
uncounted_item_bytes(const RosePageBuilder *builder, int n)
{
	int64		bytes = 0;
	int			k;

	for (k = 0; k < builder->nitem_columns; k++)
	{
		const RoseColumnBuffer *buffer = &builder->columns[builder->item_columns[k]].buffer;

		bytes += rose_item_start(buffer, buffer->nvalues + n) -
			rose_item_start(buffer, buffer->nvalues);
	}
	return bytes;
}

/*
 * Are n rows beyond those that are counted within the budget?  Sets reach_bits and
 * pending_limit as if they were counted, and *bits to what else is then pending; to 0 if
 * they do not fit for another reason.
 */
static bool
rows_fit(RosePageBuilder *builder, int n, int64 *bits)
{
	int64		item_bytes = uncounted_item_bytes(builder, n);
	int			row = builder->nrows;
	int			k;

	*bits = 0;
	if (builder->pending_item_bytes + item_bytes > builder->headroom ||
		builder->item_bytes + item_bytes >= MAX_BUFFERED_ITEM_BYTES ||
		!find_reach(builder, n))
		return false;
	*bits = builder->pending_bits + n * builder->row_bits + item_bytes * 8;
	for (k = 0; k < builder->nword_targets; k++)
	{
		BuilderColumn *column = &builder->columns[builder->word_targets[k].column];

		if (column->unusual_bits > 0)
			*bits += (int64) rose_builder_count_unusual(column, row, row + n) * column->unusual_bits;
	}
	return *bits + builder->reach_bits <= builder->budget_bits;
}

/* Dictionaries have met values of rows that were not taken. */
static void
forget_uncounted_values(RosePageBuilder *builder)
{
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		RoseColumnBuffer *buffer = &builder->columns[c].buffer;
		int			n = buffer->is_words && buffer->nvalues > 0 ? builder->nrows : buffer->nvalues;

		if (rose_distinct_seen(buffer->distinct) > n)
			rose_distinct_truncate(buffer->distinct, buffer, n);
	}
}

/*
 * How many of n rows beyond those that are counted to take, all if they fit; *bits is
 * then pending.  It need not be the most: what is left is tried again.  If it is none,
 * reach_bits and pending_limit are to be found anew.
 */
static int
find_rows_that_fit(RosePageBuilder *builder, int n, int64 *bits)
{
	while (n > 0 && !rows_fit(builder, n, bits))
	{
		double		room = (double) (builder->budget_bits - builder->reach_bits -
									 builder->pending_bits);
		double		needed = (double) (*bits - builder->pending_bits);

		n = *bits == 0 ? n / 2 : Min(n - 1, Max(0, (int) (n * room / needed)));
	}
	return n;
}

/* Take dense rows from [from, from + n) as far as the budget certainly allows; returns how many. */
static int
add_dense_rows(RosePageBuilder *builder, const RoseColumnValues *columns, int from, int n)
{
	int			taken;
	int64		bits;
	int64		item_bytes;
	int64		expected;
	int			k;

	look_at_words(builder);
	if (!is_within_budget(builder))
		return 0;
	n = Min(n, Min(builder->row_capacity - builder->nrows,
				   builder->pending_most - builder->npending));
	expected = Max(builder->expected_bits, builder->row_bits);
	if (expected > 0)
		n = (int) Min(n, (builder->budget_bits - builder->pending_bits) / expected);
	if (builder->item_bytes > 0)
		n = (int) Min(n, (builder->headroom - builder->pending_item_bytes) * builder->nrows /
					  builder->item_bytes);
	if (n < MIN_BATCH_ROWS)
		return 0;
	copy_rows(builder, columns, from, n);

	taken = find_rows_that_fit(builder, n, &bits);
	if (taken == 0)
	{
		forget_uncounted_values(builder);
		if (!find_reach(builder, 0))
			builder->pending_limit = -1;	/* the next row has to look closer */
		return 0;
	}
	item_bytes = uncounted_item_bytes(builder, taken);
	for (k = 0; k < builder->nitem_columns; k++)
		builder->columns[builder->item_columns[k]].buffer.nvalues += taken;
	builder->nrows += taken;
	builder->nlooked = builder->nrows;
	builder->npending += taken;
	builder->expected_bits = (bits - builder->pending_bits) / taken;
	builder->pending_bits = bits;
	builder->item_bytes += item_bytes;
	builder->pending_item_bytes += item_bytes;
	if (taken < n)
		forget_uncounted_values(builder);
	return taken;
}

static RoseAppendResult
append_row_of(RosePageBuilder *builder, const RoseColumnValues *columns, int row)
{
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		const RoseColumnValues *column = &columns[c];

		builder->row_nulls[c] = column->values == NULL ||
			(column->nulls != NULL && column->nulls[row]);
		if (!builder->row_nulls[c])
			builder->row_values[c] = column->values[row];
	}
	return rose_page_builder_append(builder, builder->row_values, builder->row_nulls);
}

int
rose_page_builder_append_columns(RosePageBuilder *builder, const RoseColumnValues *columns,
								 int from, int n, RoseAppendResult *result)
{
	int			done = 0;

	*result = ROSE_APPEND_OK;
	while (done < n)
	{
		int			m = 0;

		if (builder->dense && make_room(builder))
			m = count_dense(builder, columns, from + done, Min(n - done, BATCH_ROWS));
		if (m > 0)
			m = add_dense_rows(builder, columns, from + done, m);
		if (m == 0)
		{
			/* whatever is special about a row is seen to when it comes alone */
			*result = append_row_of(builder, columns, from + done);
			if (*result != ROSE_APPEND_OK)
				break;
			m = 1;
		}
		done += m;
	}
	return done;
}
