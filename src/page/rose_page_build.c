/*-------------------------------------------------------------------------
 *
 * rose_page_build.c
 *	  Building multicolumn pages.
 *
 * Rows are collected column by column, uncompressed, until no more fit.  Each
 * column has a plan (rose_codec.h) that bounds what its values will take when packed;
 * how plans are made is in rose_page_plan.c.
 *
 * As in the papers, space is given out speculatively, so that appending costs one check a
 * row (rose_page_append.c).  From the plans follows what a row of any content adds at
 * most.  Rows whose worst cases fit together in the free space are taken unseen
 * ("pending").  When that budget is used up, the pending rows are settled: the plans
 * follow them, which shows what they really take, and a new budget is computed.  The last
 * row of the page is tried alone and taken back if it does not fit.
 *
 * A column without values is all NULL and costs nothing a row.  Its first value brings
 * the bits of the NULLs before.
 *
 * Backend-local; no locks.  A page is an image in memory until somebody writes it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "page/rose_page_build.h"

/* Values that the columns of a builder buffer at most, to bound its memory. */
#define MAX_BUFFERED_VALUES		(1024 * 1024)

/* Rows for which room is made at first. */
#define INITIAL_CAPACITY		256

/*
 * Segments are put together here.  Plans promise that they fit on a page; the rest is
 * there so that a broken promise is found and reported instead of overwriting memory.
 */
#define WORKSPACE_SIZE			(BLCKSZ * 8)

/* ---- Memory ---- */

void *
rose_builder_grow_array(MemoryContext context, void *array, Size size)
{
	return array == NULL ? MemoryContextAlloc(context, size) : repalloc(array, size);
}

void
rose_builder_reserve_rows(RosePageBuilder *builder, int capacity)
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

		column->isnull = rose_builder_grow_array(context, column->isnull, capacity / 8);
		memset(column->isnull + old / 8, 0, capacity / 8 - old / 8);
		if (buffer->is_words)
			buffer->words = rose_builder_grow_array(context, buffer->words, capacity * sizeof(int64));
		else
			buffer->ends = rose_builder_grow_array(context, buffer->ends, capacity * sizeof(uint32));
	}
	scratch->capacity = capacity;
	scratch->packed = rose_builder_grow_array(context, scratch->packed, capacity * sizeof(uint64));
	scratch->words = rose_builder_grow_array(context, scratch->words, capacity * sizeof(int64));
	scratch->positions = rose_builder_grow_array(context, scratch->positions, capacity * sizeof(uint64));
	scratch->wide = rose_builder_grow_array(context, scratch->wide, capacity * sizeof(uint64));
	scratch->patches = rose_builder_grow_array(context, scratch->patches, capacity * sizeof(RosePatch));
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
	builder->effort = ROSE_EFFORT_NORMAL;
	builder->ncols = ncols;
	builder->available = BLCKSZ - (int) ROSE_PAGE_DATA_OFFSET(ncols) - ROSE_PAGE_SLOP;
	builder->max_rows = TYPEALIGN_DOWN(8, Min(ROSE_PAGE_MAX_ROWS, MAX_BUFFERED_VALUES / ncols));
	builder->columns = MemoryContextAllocZero(context, ncols * sizeof(BuilderColumn));
	builder->usual_nulls = MemoryContextAllocZero(context, ncols * sizeof(bool));
	builder->word_targets = MemoryContextAllocZero(context, ncols * sizeof(RoseWordTarget));
	builder->item_columns = MemoryContextAllocZero(context, ncols * sizeof(int));
	builder->row_values = MemoryContextAllocZero(context, ncols * sizeof(Datum));
	builder->row_nulls = MemoryContextAllocZero(context, ncols * sizeof(bool));
	builder->workspace = MemoryContextAllocZero(context, WORKSPACE_SIZE);
	for (c = 0; c < ncols; c++)
		rose_column_buffer_init(&builder->columns[c].buffer, &descs[c], &builder->scratch,
								context);
	rose_builder_reserve_rows(builder, INITIAL_CAPACITY);
	rose_page_builder_reset(builder);
	return builder;
}

void
rose_page_builder_free(RosePageBuilder *builder)
{
	MemoryContextDelete(builder->context);
}

void
rose_page_builder_set_effort(RosePageBuilder *builder, RoseEffort effort)
{
	builder->effort = effort;
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

int
rose_page_builder_nrows(const RosePageBuilder *builder)
{
	return builder->nrows;
}

int
rose_page_builder_size(RosePageBuilder *builder)
{
	int			total;

	rose_builder_count_rows(builder);
	rose_builder_settle(builder, NULL);
	builder->headroom -= builder->pending_item_bytes;
	total = rose_builder_total_size(builder);
	rose_builder_renew_budget(builder, total);
	return BLCKSZ - builder->available + total;
}


/* ---- Packing ---- */

/* Write a column's segment at 'out' in the workspace; returns its end. */
static char *
pack_column(RosePageBuilder *builder, BuilderColumn *column, RoseDirectoryEntryDisk *entry,
			char *out)
{
	RoseColumnBuffer *buffer = &column->buffer;
	const RosePlan *plan = &buffer->plan;
	const RoseCodec *codec;
	int64		constant = 0;
	RoseNullForm form = rose_nullmap_form(builder->nrows, buffer->nvalues == 0 ?
										  builder->nrows : column->nnulls);
	char	   *start = out;

	entry->codec = ROSE_CODEC_NONE;
	entry->flags = form;
	entry->offset = 0;
	if (buffer->nvalues == 0)
		return out;

	codec = rose_codec_to_write(plan, &constant);
	entry->codec = codec->id;
	if (codec->id == ROSE_CODEC_CONSTANT && form == ROSE_NULLS_NONE &&
		constant >= PG_INT16_MIN && constant <= PG_INT16_MAX)
	{
		entry->flags |= ROSE_DIR_INLINE;
		entry->offset = (uint16) constant;
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

	rose_builder_count_rows(builder);
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

bool
rose_page_add_extra(char *page, const char *data, int size, int end)
{
	PageHeader	standard = (PageHeader) page;
	int			start = end - (int) MAXALIGN(size);

	Assert(standard->pd_special == BLCKSZ);
	Assert(end == BLCKSZ ? size > ROSE_FOREIGN_SPECIAL : end == BLCKSZ - ROSE_FOREIGN_SPECIAL);
	if (start < standard->pd_lower + ROSE_PAGE_SLOP)
		return false;
	memcpy(page + start, data, size);
	standard->pd_upper = (LocationIndex) start;
	standard->pd_special = (LocationIndex) (end < BLCKSZ ? end : start);
	return true;
}
