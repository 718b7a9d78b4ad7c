/*-------------------------------------------------------------------------
 *
 * rose_page_build.c
 *	  Building multicolumn pages.
 *
 * Rows are collected column by column, uncompressed, until no more fit.  Each
 * column has a plan (rose_codec.h) that bounds what its values will take when packed;
 * how plans are made is in rose_page_plan.c.
 *
 * As in the papers, space is given out speculatively, so that appending costs
 * one check a row.  From the plans follows what a row of any content adds
 * at most.  Rows whose worst cases fit together in the free space are taken
 * unseen ("pending").  When that budget is used up, the pending rows are
 * settled: the plans follow them, which shows what they really
 * take, and a new budget is computed.  The last row of the page is tried alone and taken
 * back if it does not fit.
 *
 * A column without values is all NULL and costs nothing a row.  Its first value brings the
 * bits of the NULLs before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_varatt.h"
#include "utils/memutils.h"

#include "codec/rose_items.h"
#include "page/rose_page_build.h"

/* Values that the columns of a builder buffer at most, to bound its memory. */
#define MAX_BUFFERED_VALUES		(1024 * 1024)

/* The same for the bytes of items: long items that repeat take hardly any space packed. */
#define MAX_BUFFERED_ITEM_BYTES	(8 * 1024 * 1024)

/* Rows for which room is made at first. */
#define INITIAL_CAPACITY		256

/*
 * Segments are put together here.  Plans promise that they fit on a page; the rest is
 * there so that a broken promise is found and reported instead of overwriting memory.
 */
#define WORKSPACE_SIZE			(BLCKSZ * 8)

/* ---- Memory ---- */

static void *
grow_array(MemoryContext context, void *array, Size size)
{
	return array == NULL ? MemoryContextAlloc(context, size) : repalloc(array, size);
}

static void
reserve_rows(RosePageBuilder *builder, int capacity)
{
	RosePackScratch *scratch = &builder->scratch;
	MemoryContext context = builder->context;
	int			old = builder->row_capacity;
	int			c;

	/* bits are stored by whole bytes */
	capacity = TYPEALIGN(8, capacity);
	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		RoseColumnBuffer *buffer = &column->buffer;

		column->isnull = grow_array(context, column->isnull, capacity / 8);
		memset(column->isnull + old / 8, 0, capacity / 8 - old / 8);
		if (buffer->is_words)
			buffer->words = grow_array(context, buffer->words, capacity * sizeof(int64));
		else
			buffer->ends = grow_array(context, buffer->ends, capacity * sizeof(uint32));
	}
	scratch->capacity = capacity;
	scratch->packed = grow_array(context, scratch->packed, capacity * sizeof(uint64));
	scratch->words = grow_array(context, scratch->words, capacity * sizeof(int64));
	scratch->positions = grow_array(context, scratch->positions, capacity * sizeof(uint64));
	scratch->wide = grow_array(context, scratch->wide, capacity * sizeof(uint64));
	scratch->patches = grow_array(context, scratch->patches, capacity * sizeof(RosePatch));
	builder->row_capacity = capacity;
}

RosePageBuilder *
rose_page_builder_create(int ncols, const RoseColumnDesc *descs, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "rose page builder",
												  ALLOCSET_DEFAULT_SIZES);
	RosePageBuilder *builder = MemoryContextAllocZero(context, sizeof(RosePageBuilder));
	int			c;

	if (ncols < 1 || ncols > ROSE_PAGE_MAX_COLUMNS)
		elog(ERROR, "invalid number of columns for a page: %d", ncols);

	builder->context = context;
	builder->ncols = ncols;
	builder->available = BLCKSZ - (int) ROSE_PAGE_DATA_OFFSET(ncols) - ROSE_PAGE_SLOP;
	builder->max_rows = TYPEALIGN_DOWN(8, Min(ROSE_PAGE_MAX_ROWS, MAX_BUFFERED_VALUES / ncols));
	builder->columns = MemoryContextAllocZero(context, ncols * sizeof(BuilderColumn));
	builder->usual_nulls = MemoryContextAllocZero(context, ncols * sizeof(bool));
	builder->workspace = MemoryContextAllocZero(context, WORKSPACE_SIZE);
	for (c = 0; c < ncols; c++)
	{
		rose_column_buffer_init(&builder->columns[c].buffer, &descs[c], &builder->scratch,
								context);
		if (descs[c].attbyval)
			builder->columns[c].unused_bits = (uint8) (64 - 8 * descs[c].attlen);
	}
	reserve_rows(builder, INITIAL_CAPACITY);
	rose_page_builder_reset(builder);
	return builder;
}

void
rose_page_builder_free(RosePageBuilder *builder)
{
	MemoryContextDelete(builder->context);
}


void
rose_page_builder_reset(RosePageBuilder *builder)
{
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];

		if (column->nnulls > 0)
			memset(column->isnull, 0, builder->row_capacity / 8);
		column->nnulls = 0;
		rose_column_buffer_reset(&column->buffer);
	}
	builder->nrows = 0;
	builder->item_bytes = 0;
	builder->last_item_bytes = 0;
	rose_builder_reset_plans(builder);
}


/* ---- Adding values ---- */

/* Make room for 'size' more item bytes after 'used'; returns where they go. */
static char *
reserve_item(RoseColumnBuffer *buffer, uint32 used, uint32 size)
{
	if (used + size > buffer->items_capacity)
	{
		uint32		capacity = Max(used + size, Max(1024, buffer->items_capacity * 2));

		buffer->items = grow_array(buffer->context, buffer->items, capacity);
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
	}
	return bits;
}

/* What a word, or its difference, adds to row_bits at most. */
static inline int
unusual_bits(const BuilderColumn *column, int64 x)
{
	uint64		offset = (uint64) rose_wrap_sub(x, column->usual_base);

	if (likely(column->unit_step))
		return likely(offset <= column->usual_top) ? 0 : column->unusual_bits;
	return likely(x >= column->usual_base &&
				  rose_divide(&column->divisor, offset) <= column->usual_top) ?
		0 : column->unusual_bits;
}

/* Put a word into the buffer; returns what it adds to row_bits at most. */
static inline int
add_word(BuilderColumn *column, Datum value)
{
	RoseColumnBuffer *buffer = &column->buffer;
	int			n = buffer->nvalues;

	/* sign-extended; right shift is arithmetic on all our compilers */
	int64		word = (int64) ((uint64) value << column->unused_bits) >> column->unused_bits;
	int64		x;

	buffer->words[n] = word;
	if (column->unusual_bits == 0)
		return 0;
	x = rose_wrap_sub(word, buffer->words[n - 1] & column->previous_mask);
	x = rose_wrap_sub(x, rose_line_at(column->usual_slope, column->fraction_bits, n));
	return unusual_bits(column, x);
}

/* Put a row into the buffers; returns what it adds at most, in bits. */
static int64
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
	builder->nrows++;
	builder->item_bytes += item_bytes;
	builder->last_item_bytes = item_bytes;
	builder->pending_item_bytes += item_bytes;
	return bits + item_bytes * 8;
}

/*
 * The same for a row without surprises: a column has a value if it has had one in each
 * row before.  Nearly all rows are like that, so here is where the time goes.  Values of
 * words are counted later, by count_dense_rows().
 */
static int64
add_dense_row(RosePageBuilder *builder, const Datum *values)
{
	int64		bits = builder->row_bits;
	int64		item_bytes = 0;
	int			row = builder->nrows++;
	int			ncols = builder->ncols;
	int			c;

	for (c = 0; c < ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		int64	   *words = column->buffer.words;
		int64		word;
		int64		x;

		if (!column->in_row_bits)
			continue;
		if (unlikely(words == NULL))
		{
			item_bytes += add_item(&column->buffer, values[c]);
			column->buffer.nvalues++;
			continue;
		}
		word = (int64) ((uint64) values[c] << column->unused_bits) >> column->unused_bits;
		words[row] = word;
		x = rose_wrap_sub(word, words[row - 1] & column->previous_mask);
		if (column->usual_slope != 0)
			x = rose_wrap_sub(x, rose_line_at(column->usual_slope, column->fraction_bits, row));
		bits += unusual_bits(column, x);
	}
	builder->item_bytes += item_bytes;
	builder->last_item_bytes = item_bytes;
	builder->pending_item_bytes += item_bytes;
	return bits + item_bytes * 8;
}

static void
count_dense_rows(RosePageBuilder *builder)
{
	int			c;

	if (!builder->dense)
		return;
	for (c = 0; c < builder->ncols; c++)
	{
		if (builder->columns[c].in_row_bits)
			builder->columns[c].buffer.nvalues = builder->nrows;
	}
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

RoseAppendResult
rose_page_builder_append(RosePageBuilder *builder, const Datum *values, const bool *nulls)
{
	if (builder->nrows == builder->row_capacity)
	{
		if (builder->nrows >= builder->max_rows)
			return ROSE_APPEND_FULL;
		reserve_rows(builder, Min(builder->row_capacity * 2, builder->max_rows));
	}
	if (builder->item_bytes >= MAX_BUFFERED_ITEM_BYTES)
		return ROSE_APPEND_FULL;
	if (builder->dense && memcmp(nulls, builder->usual_nulls, builder->ncols) == 0)
		builder->pending_bits += add_dense_row(builder, values);
	else
	{
		count_dense_rows(builder);
		builder->dense = false;
		builder->pending_bits += add_row(builder, values, nulls);
	}
	if (++builder->npending <= builder->pending_limit &&
		builder->pending_bits <= builder->budget_bits &&
		builder->pending_item_bytes <= builder->headroom)
		return ROSE_APPEND_OK;
	count_dense_rows(builder);
	if (rose_builder_settle_last_row(builder, nulls))
		return ROSE_APPEND_OK;
	take_back_last_row(builder, nulls);
	return builder->nrows == 0 ? ROSE_APPEND_TOO_LARGE : ROSE_APPEND_FULL;
}

int
rose_page_builder_nrows(const RosePageBuilder *builder)
{
	return builder->nrows;
}

int
rose_page_builder_size(RosePageBuilder *builder)
{
	count_dense_rows(builder);
	rose_builder_settle(builder, NULL);
	return BLCKSZ - builder->available + rose_builder_total_size(builder);
}


/* ---- Packing ---- */

/* Write a column's segment at 'out' in the workspace; returns its end. */
static char *
pack_column(RosePageBuilder *builder, BuilderColumn *column, RoseDirectoryEntryDisk *entry,
			char *out)
{
	RoseColumnBuffer *buffer = &column->buffer;
	const RosePlan *plan = &buffer->plan;
	const RoseCodec *codec = plan->codec;
	RoseNullForm form = rose_nullmap_form(builder->nrows, buffer->nvalues == 0 ?
										  builder->nrows : column->nnulls);
	char	   *start = out;

	entry->codec = ROSE_CODEC_NONE;
	entry->flags = form;
	entry->offset = 0;
	if (buffer->nvalues == 0)
		return out;

	if (codec == &rose_codec_frame && plan->width == 0 && plan->npatches == 0 &&
		plan->nwide == 0)
		codec = &rose_codec_constant;
	entry->codec = codec->id;
	if (codec == &rose_codec_constant && form == ROSE_NULLS_NONE &&
		plan->base >= PG_INT16_MIN && plan->base <= PG_INT16_MAX)
	{
		entry->flags |= ROSE_DIR_INLINE;
		entry->offset = (uint16) plan->base;
		return out;
	}
	entry->offset = (uint16) (out - builder->workspace);
	out = rose_nullmap_write(out, column->isnull, builder->nrows, column->nnulls);
	out = codec->pack(buffer, plan, builder->workspace, out);
	if (out - start > plan->size + rose_nullmap_size(builder->nrows, column->nnulls))
		elog(ERROR, "codec \"%s\" took %d bytes where it had promised %d",
			 codec->name, (int) (out - start), plan->size);
	return out;
}

static void
fill_header(const RosePageBuilder *builder, char *page, int end)
{
	PageHeader	standard = (PageHeader) page;
	RosePageHeaderDisk *header = rose_page_header(page);

	PageInit((Page) page, BLCKSZ, 0);
	standard->pd_lower = (LocationIndex) end;
	header->magic = ROSE_PAGE_MAGIC;
	header->version = ROSE_PAGE_VERSION;
	header->kind = ROSE_PAGE_LEAF;
	header->nrows = (uint16) builder->nrows;
	header->ncols = (uint16) builder->ncols;
	header->prev = InvalidBlockNumber;
	header->next = InvalidBlockNumber;
}

int
rose_page_builder_pack(RosePageBuilder *builder, char *page)
{
	RoseDirectoryEntryDisk *directory;
	int			data_offset = (int) ROSE_PAGE_DATA_OFFSET(builder->ncols);
	char	   *out = builder->workspace + data_offset;
	int			nrows = builder->nrows;
	int			c;

	count_dense_rows(builder);
	rose_builder_finish_plans(builder);
	directory = (RoseDirectoryEntryDisk *) (builder->workspace + ROSE_PAGE_DIRECTORY_OFFSET);
	for (c = 0; c < builder->ncols; c++)
	{
		out = pack_column(builder, &builder->columns[c], &directory[c], out);
		if (out - builder->workspace > BLCKSZ - ROSE_PAGE_SLOP)
			elog(ERROR, "rows accepted for a rose page do not fit on it");
	}
	fill_header(builder, page, (int) (out - builder->workspace));
	memcpy(page + ROSE_PAGE_DIRECTORY_OFFSET, builder->workspace + ROSE_PAGE_DIRECTORY_OFFSET,
		   out - builder->workspace - ROSE_PAGE_DIRECTORY_OFFSET);
	rose_builder_learn(builder);
	rose_page_builder_reset(builder);
	return nrows;
}
