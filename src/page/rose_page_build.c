/*-------------------------------------------------------------------------
 *
 * rose_page_build.c
 *	  Building multicolumn pages.
 *
 * Rows are collected column by column, uncompressed, until no more fit.  Each
 * column has a plan (rose_codec.h) that bounds what its values will take when packed.
 *
 * As in the papers, space is given out speculatively, so that appending costs
 * one check a row.  From the plans follows what a row of any content adds
 * at most.  Rows whose worst cases fit together in the free space are taken
 * unseen ("pending").  When that budget is used up, the pending rows are
 * settled: the plans follow them, which shows what they really
 * take, and a new budget is computed.  The last row of the page is tried alone and taken
 * back if it does not fit.
 *
 * Plans are made anew each time the number of rows has doubled or the bytes of items have
 * grown by a quarter, when a column's codec refuses a value, and when the page seems full
 * ("tight" plans, without room for surprises).  A plan looks at all values, so growth by
 * a factor, not by an amount, is what keeps the work in proportion to the rows.
 * A new plan is taken only if it is no larger, so what was accepted always fits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "codec/rose_codec.h"
#include "codec/rose_items.h"
#include "page/rose_page_format.h"

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

typedef struct BuilderColumn
{
	RoseColumnBuffer buffer;
	int			nnulls;
	uint8	   *isnull;			/* one bit a row, low bits first */
	RosePlan	saved;			/* before the row being tried */
} BuilderColumn;

struct RosePageBuilder
{
	MemoryContext context;
	int			ncols;
	int			available;		/* bytes for all segments of a page */
	int			max_rows;
	bool		has_items;
	BuilderColumn *columns;
	RosePackScratch scratch;
	char	   *workspace;

	int			nrows;
	int			row_capacity;
	int64		item_bytes;		/* in the buffers of all columns */
	int64		last_item_bytes;	/* of the last row */

	/* budget of the rows not settled yet */
	int			npending;
	int			pending_limit;
	int64		pending_bits;
	int64		budget_bits;
	int64		row_bits;		/* the most a row adds, but for items' bytes and NULLs */

	/* state of the plans */
	int			planned_rows;	/* rows when all plans were last made */
	int			tight_rows;		/* rows when they were last made tight, or 0 */
	int64		headroom_bits;	/* item bits that the plans are still prepared for */
};


/* ---- Memory ---- */

static void *
grow_array(MemoryContext context, void *array, Size old_size, Size new_size)
{
	if (array == NULL)
		return MemoryContextAllocZero(context, new_size);
	array = repalloc(array, new_size);
	memset((char *) array + old_size, 0, new_size - old_size);
	return array;
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

		column->isnull = grow_array(context, column->isnull, old / 8, capacity / 8);
		if (buffer->is_words)
			buffer->words = grow_array(context, buffer->words, old * sizeof(int64),
									   capacity * sizeof(int64));
		else
			buffer->ends = grow_array(context, buffer->ends, old * sizeof(uint32),
									  capacity * sizeof(uint32));
	}
	scratch->capacity = capacity;
	scratch->packed = grow_array(context, scratch->packed, old * sizeof(uint64),
								 capacity * sizeof(uint64));
	scratch->words = grow_array(context, scratch->words, old * sizeof(int64),
								capacity * sizeof(int64));
	scratch->patches = grow_array(context, scratch->patches, old * sizeof(RosePatch),
								  capacity * sizeof(RosePatch));
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
	builder->workspace = MemoryContextAllocZero(context, WORKSPACE_SIZE);
	for (c = 0; c < ncols; c++)
	{
		rose_column_buffer_init(&builder->columns[c].buffer, &descs[c], &builder->scratch,
								context);
		builder->has_items |= !descs[c].attbyval;
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


/* ---- Budget ---- */

static int
total_size(const RosePageBuilder *builder)
{
	int64		total = 0;
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		const BuilderColumn *column = &builder->columns[c];

		/* without values there is no segment, whatever the first one will add */
		if (column->buffer.nvalues > 0)
			total += column->buffer.plan.size;
		total += rose_nullmap_size(builder->nrows, column->nnulls);
	}
	return (int) Min(total, PG_INT32_MAX);
}

/* Give out what the settled rows, which take 'total' bytes, leave free. */
static void
renew_budget(RosePageBuilder *builder, int total)
{
	int			c;

	builder->npending = 0;
	builder->pending_bits = 0;
	builder->pending_limit = builder->max_rows;
	builder->budget_bits = Max(0, builder->available - total) * (int64) 8;
	if (builder->has_items)
		builder->budget_bits = Min(builder->budget_bits, Max(0, builder->headroom_bits));
	builder->row_bits = 0;
	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];

		builder->row_bits += column->buffer.plan.value_bits;
		if (column->nnulls > 0)
			builder->row_bits += ROSE_NULLMAP_ROW_BITS;
		builder->pending_limit = Min(builder->pending_limit, column->buffer.plan.spare);
	}
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
	builder->planned_rows = 0;
	builder->tight_rows = 0;
	builder->headroom_bits = BLCKSZ * 8;
	renew_budget(builder, total_size(builder));
}


/* ---- Adding values ---- */

static inline int64
word_from_datum(Datum value, int size)
{
	switch (size)
	{
		case 1:
			return (int8) DatumGetChar(value);
		case 2:
			return DatumGetInt16(value);
		case 4:
			return DatumGetInt32(value);
		default:
			return (int64) value;
	}
}

/* Make room for 'size' more item bytes after 'used'; returns where they go. */
static char *
reserve_item(RoseColumnBuffer *buffer, uint32 used, uint32 size)
{
	if (used + size > buffer->items_capacity)
	{
		uint32		capacity = Max(used + size, Max(1024, buffer->items_capacity * 2));

		buffer->items = grow_array(buffer->context, buffer->items, buffer->items_capacity,
								   capacity);
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
			column->isnull[row / 8] |= (uint8) (1 << (row % 8));
			column->nnulls++;
			bits += ROSE_NULLMAP_ROW_BITS;
			continue;
		}
		/* the first value brings the segment, see total_size() */
		if (buffer->nvalues == 0)
			bits += buffer->plan.size * (int64) 8;
		if (buffer->is_words)
			buffer->words[buffer->nvalues] = word_from_datum(values[c], buffer->desc.attlen);
		else
			item_bytes += add_item(buffer, values[c]);
		buffer->nvalues++;
	}
	builder->nrows++;
	builder->item_bytes += item_bytes;
	builder->last_item_bytes = item_bytes;
	return bits + item_bytes * 8;
}


/* ---- Settling ---- */

/* Let the plans follow all rows, or all but the last one. */
static void
settle_pending(RosePageBuilder *builder, const bool *last_nulls)
{
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		RoseColumnBuffer *buffer = &column->buffer;
		int			n = buffer->nvalues;

		if (last_nulls != NULL && !last_nulls[c])
			n--;
		if (buffer->plan.n < n && !buffer->plan.codec->extend(buffer, &buffer->plan, n))
			elog(ERROR, "codec \"%s\" refused a value that it had promised to take",
				 buffer->plan.codec->name);
		column->saved = buffer->plan;
	}
}

/*
 * Plan a column anew; false if it cannot hold its values at all.  The plan that it has
 * stays if it covers all values and is smaller.  For items that is so for tight
 * plans only: otherwise the old plan may have no headroom left.
 */
static bool
replan_column(BuilderColumn *column, bool tight, int headroom)
{
	RoseColumnBuffer *buffer = &column->buffer;
	RosePlan	old = buffer->plan;
	bool		covered = old.n == buffer->nvalues;
	RosePlan	plan;

	if (rose_codec_choose(buffer, tight, headroom, &plan) &&
		(!covered || plan.size <= old.size || (!buffer->is_words && !tight)))
	{
		buffer->plan = plan;
		return true;
	}
	rose_column_buffer_restore(buffer, buffer->nvalues, &old);
	if (!buffer->is_words)
		buffer->plan.spare = 0;
	return covered;
}

/* Plan all columns anew; false if one of them cannot hold its values at all. */
static bool
replan(RosePageBuilder *builder, bool tight)
{
	int			headroom = 0;
	int			c;

	if (!tight)
		headroom = (int) Max(builder->available / 4, builder->item_bytes / 4);

	for (c = 0; c < builder->ncols; c++)
	{
		if (!replan_column(&builder->columns[c], tight, headroom))
			return false;
	}
	builder->planned_rows = builder->nrows;
	if (tight)
		builder->tight_rows = builder->nrows;
	builder->headroom_bits = headroom * (int64) 8;
	return true;
}

/* Let the plans follow the last row; those that refuse are made anew. */
static bool
try_last_row(RosePageBuilder *builder)
{
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		RoseColumnBuffer *buffer = &column->buffer;

		if (buffer->plan.n == buffer->nvalues ||
			buffer->plan.codec->extend(buffer, &buffer->plan, buffer->nvalues))
			continue;
		/* it may have moved on before it refused */
		buffer->plan = column->saved;
		if (!replan_column(column, builder->tight_rows > 0,
						   (int) (Max(0, builder->headroom_bits) / 8)))
			return false;
	}
	return true;
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
}

/*
 * Is it time to look for better plans?  They are expensive, so on a page that
 * seems full only after it has grown by a few per cent.
 */
static bool
replan_is_due(const RosePageBuilder *builder, int total)
{
	if (total > builder->available)
		return builder->nrows > builder->tight_rows + builder->tight_rows / 32;
	return builder->nrows >= builder->planned_rows * 2 ||
		(builder->has_items && builder->headroom_bits <= 0 && builder->tight_rows == 0);
}

/* The last row is beyond the budget: see what all rows really take. */
static RoseAppendResult
settle_last_row(RosePageBuilder *builder, const bool *nulls)
{
	int			total;
	bool		fits;

	settle_pending(builder, nulls);
	builder->headroom_bits -= builder->pending_bits;
	fits = try_last_row(builder);
	total = total_size(builder);
	if (fits && replan_is_due(builder, total))
	{
		bool		tight = total > builder->available || builder->tight_rows > 0;

		fits = replan(builder, tight);
		total = total_size(builder);
		if (fits && !tight && total > builder->available)
		{
			fits = replan(builder, true);
			total = total_size(builder);
		}
	}
	if (fits && total <= builder->available)
	{
		renew_budget(builder, total);
		return ROSE_APPEND_OK;
	}

	take_back_last_row(builder, nulls);
	renew_budget(builder, total_size(builder));
	return builder->nrows == 0 ? ROSE_APPEND_TOO_LARGE : ROSE_APPEND_FULL;
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
	builder->pending_bits += add_row(builder, values, nulls);
	if (++builder->npending <= builder->pending_limit &&
		builder->pending_bits <= builder->budget_bits)
		return ROSE_APPEND_OK;
	return settle_last_row(builder, nulls);
}

int
rose_page_builder_nrows(const RosePageBuilder *builder)
{
	return builder->nrows;
}

int
rose_page_builder_size(RosePageBuilder *builder)
{
	settle_pending(builder, NULL);
	return BLCKSZ - builder->available + total_size(builder);
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
	RoseNullForm form = rose_nullmap_form(builder->nrows, column->nnulls);
	char	   *start = out;

	entry->codec = ROSE_CODEC_NONE;
	entry->flags = form;
	entry->offset = 0;
	if (buffer->nvalues == 0)
		return out;

	if (codec == &rose_codec_frame && plan->width == 0 && plan->npatches == 0)
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

	settle_pending(builder, NULL);
	if (nrows > builder->planned_rows + builder->planned_rows / 8)
		replan(builder, true);

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
	rose_page_builder_reset(builder);
	return nrows;
}
