/*-------------------------------------------------------------------------
 *
 * rose_builder.c
 *	  Writing a component: versions in, in order; leaves, inner pages, Bloom
 *	  filter and footer out.
 *
 * Everything is written once, front to back: a leaf when the next row does not fit it,
 * inner pages when they are full, parts of the Bloom filter when they have all of their
 * keys (rose_filter_build.c), and at the end the footer.  Nothing refers to the new pages
 * until the caller publishes the manifest entry, so a builder that dies leaves only
 * blocks of an owner that is not live.
 *
 * A builder may outlive a transaction (merges): all its memory is in its own
 * context, and the relation is rebound before each use.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "store/rose_block.h"
#include "store/rose_manifest.h"
#include "store/rose_region_owner.h"
#include "store/rose_store.h"
#include "lsm/component/rose_builder_internal.h"

/* A component with one leaf and no more rows than this has no filter: to ask it is to read as many pages. */
#define FILTER_FEW_ROWS			64

/* Values above this size in rows above ROSE_OVERFLOW_ROW_SIZE overflow. */
#define OVERFLOW_WORTHWHILE		256

/*
 * A leaf ends when its rows' overflow values reach this many bytes: whoever
 * reads the leaf keeps the values that he fetched.
 */
#define LEAF_MAX_OVERFLOW		(4 * 1024 * 1024)

/* ---- create, free ---- */

RoseComponentBuilder *
rose_component_builder_create(Relation rel, RoseStoreShared *store,
							  const RoseSchema *schema, uint64 expected_rows,
							  int options, MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose component builder",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(own);
	RoseComponentBuilder *builder = palloc0(sizeof(RoseComponentBuilder));

	builder->context = own;
	builder->row_context = AllocSetContextCreate(own, "rose component builder row",
												 ALLOCSET_DEFAULT_SIZES);
	builder->store = store;
	builder->schema = schema;
	builder->private_run = (options & ROSE_BUILD_PRIVATE) != 0;
	builder->key_exact = rose_key_prefix_exact(schema);
	builder->owner = rose_region_owner_begin(rel, store, 2, (options & ROSE_BUILD_KEEP) != 0);
	builder->writer = rose_blockwriter_create(rel, store, builder->owner, own);
	builder->tree = rose_tree_builder_create(schema, builder->owner, builder->writer, own);

	builder->ncols = ROSE_SYSCOLS + schema->natts;
	builder->pages = rose_page_builder_create(builder->ncols,
											  rose_leaf_column_descs(schema, schema->natts,
																	 NULL, NULL, own), own);
	if (rose_options_get(&store->options, ROSE_OPTION_CODEC_EFFORT) != ROSE_OPTION_UNSET)
		rose_page_builder_set_effort(builder->pages,
									 rose_options_get(&store->options, ROSE_OPTION_CODEC_EFFORT));
	builder->values = palloc0(builder->ncols * sizeof(Datum));
	builder->nulls = palloc0(builder->ncols * sizeof(bool));
	builder->row_values = palloc0(schema->natts * sizeof(Datum));
	builder->row_nulls = palloc0(schema->natts * sizeof(bool));
	builder->page = palloc0(BLCKSZ);
	builder->leaf_block = InvalidBlockNumber;
	builder->previous_leaf = InvalidBlockNumber;
	builder->separator_scratch = palloc(ROSE_ITEM_MAX_SIZE);
	builder->leaf_separator.seq = ROSE_SEPARATOR_ANY;
	builder->unique_keys = true;
	rose_key_buffer_init(&builder->separator_key, own);
	rose_key_buffer_init(&builder->last_key, own);
	rose_key_buffer_init(&builder->min_key, own);

	/* nobody looks for a row by its hidden row id but with a component in hand */
	if (schema->nkeys > 0 && schema->hashable)
		builder->filter = rose_filter_builder_create(schema, builder->owner, builder->writer,
													 expected_rows, options,
													 rose_options_get(&store->options,
																	  ROSE_OPTION_FILTER_BITS),
													 own);
	builder->footer.min_xid = builder->footer.min_seq = PG_UINT64_MAX;
	MemoryContextSwitchTo(old);
	return builder;
}

void
rose_component_builder_free(RoseComponentBuilder *builder)
{
	rose_region_owner_end(builder->store, builder->owner);
	MemoryContextDelete(builder->context);
}

void
rose_component_builder_rebind(RoseComponentBuilder *builder, Relation rel)
{
	rose_blockwriter_rebind(builder->writer, rel);
}

/* ---- leaves ---- */

/* Write the leaf and enter it into the tree; next: block of the one after it. */
static void
flush_leaf(RoseComponentBuilder *builder, BlockNumber next)
{
	RosePageHeaderDisk *header;
	bool		narrow = builder->narrow != NULL;
	int			nrows = rose_page_builder_pack(narrow ? builder->narrow : builder->pages,
											   builder->page);

	header = rose_page_header(builder->page);
	header->flags = builder->leaf_flags;
	header->component_id = builder->owner;
	header->prev = builder->previous_leaf;
	header->next = next;
	header->first_ordinal = builder->leaf_first_ordinal;
	rose_blockwriter_write(builder->writer, builder->leaf_block, builder->page);
	rose_tree_builder_add(builder->tree, &builder->leaf_separator, builder->leaf_block,
						  builder->leaf_first_ordinal);

	if (builder->previous_leaf == InvalidBlockNumber)
		builder->group.first_leaf = builder->leaf_block;
	builder->group.last_leaf = builder->leaf_block;
	builder->previous_leaf = builder->leaf_block;
	builder->leaf_block = next;
	builder->leaf_first_ordinal += nrows;
	builder->leaf_overflow = 0;
	builder->leaf_flags = 0;
	if (narrow)
		rose_page_builder_free(builder->narrow);
	builder->narrow = NULL;
}

void
rose_component_next_leaf(RoseComponentBuilder *builder, const Datum *key, uint64 seq)
{
	RoseSeparator *separator = &builder->leaf_separator;

	flush_leaf(builder, rose_blockwriter_reserve(builder->writer));
	rose_separator_make(builder->schema, builder->last_key.key, key, seq, separator,
						builder->separator_scratch);
	rose_key_buffer_set_prefix(&builder->separator_key, builder->schema, separator->key,
							   separator->ncols);
	memcpy(separator->key, builder->separator_key.key, separator->ncols * sizeof(Datum));
}

/* ---- values that do not fit ---- */

static RoseOverflowWriter *
overflow_writer(RoseComponentBuilder *builder)
{
	if (builder->overflow == NULL)
		builder->overflow = rose_overflow_writer_create(builder->owner, builder->writer,
														builder->context);
	return builder->overflow;
}

/* Make ROSE_SYSCOL_OVERFLOW: a bitmap, all zero, and room for 'extra' bytes. */
static bits8 *
make_overflow_column(RoseComponentBuilder *builder, Size extra)
{
	Size		size = VARHDRSZ + ROSE_PRESENT_BYTES(builder->schema->natts) + extra;
	char	   *bitmap = palloc0(size);

	SET_VARSIZE(bitmap, size);
	builder->values[ROSE_SYSCOL_OVERFLOW] = PointerGetDatum(bitmap);
	builder->nulls[ROSE_SYSCOL_OVERFLOW] = false;
	return (bits8 *) VARDATA(bitmap);
}

/* Move the largest values to overflow pages until the rest is small. */
static void
overflow_large_values(RoseComponentBuilder *builder, Size row_size)
{
	Datum	   *values = builder->values + ROSE_SYSCOLS;
	bits8	   *bitmap = NULL;

	while (row_size > ROSE_OVERFLOW_ROW_SIZE)
	{
		int			attno = rose_fit_largest(builder->schema, values,
											 builder->nulls + ROSE_SYSCOLS,
											 OVERFLOW_WORTHWHILE);
		struct varlena *value;
		RoseOverflowPointerDisk pointer;
		char	   *stand_in;

		if (attno < 0)
			return;
		value = (struct varlena *) DatumGetPointer(values[attno - 1]);
		rose_overflow_write(overflow_writer(builder), VARDATA_ANY(value),
							VARSIZE_ANY_EXHDR(value), &pointer);
		stand_in = palloc(VARHDRSZ + sizeof(pointer));
		SET_VARSIZE(stand_in, VARHDRSZ + sizeof(pointer));
		memcpy(VARDATA(stand_in), &pointer, sizeof(pointer));
		values[attno - 1] = PointerGetDatum(stand_in);

		if (bitmap == NULL)
			bitmap = make_overflow_column(builder, 0);
		rose_present_set(bitmap, attno);
		builder->footer.overflow_values++;
		builder->row_overflow += VARSIZE_ANY(value);
		row_size -= VARSIZE_ANY(value) - VARSIZE(stand_in);
	}
}

/*
 * Move the whole row to overflow pages, but for its key.  values/nulls: the row
 * as it was given.
 */
static void
overflow_whole_row(RoseComponentBuilder *builder, const Datum *values, const bool *nulls)
{
	const RoseSchema *schema = builder->schema;
	MinimalTuple tuple = rose_form_minimal_tuple(schema->tupdesc, (Datum *) values,
												 (bool *) nulls);
	bits8	   *bitmap = make_overflow_column(builder, sizeof(RoseOverflowPointerDisk));
	RoseOverflowPointerDisk pointer;

	rose_overflow_write(overflow_writer(builder), (char *) tuple, tuple->t_len, &pointer);
	memcpy((char *) bitmap + ROSE_PRESENT_BYTES(schema->natts), &pointer, sizeof(pointer));
	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
	{
		if (nulls[attno - 1] || rose_fit_is_key(schema, attno))
			continue;
		rose_present_set(bitmap, attno);
		builder->nulls[ROSE_SYSCOLS + attno - 1] = true;
	}
	builder->footer.overflow_values++;
	builder->row_overflow += tuple->t_len;
}

/* ---- rows ---- */

/* System columns of the row at hand. */
static void
set_system_columns(RoseComponentBuilder *builder, const RoseVersion *version)
{
	Datum	   *values = builder->values;
	bool	   *nulls = builder->nulls;
	bool		writer = builder->private_run;
	bool		lock = version->op == ROSE_OP_LOCK;

	memset(nulls, true, ROSE_SYSCOLS);
	nulls[ROSE_SYSCOL_SEQ] = nulls[ROSE_SYSCOL_XID] = nulls[ROSE_SYSCOL_OP] = false;
	values[ROSE_SYSCOL_SEQ] = Int64GetDatum((int64) version->seq);
	values[ROSE_SYSCOL_XID] = Int64GetDatum((int64) U64FromFullTransactionId(version->xid));
	values[ROSE_SYSCOL_OP] = Int16GetDatum(version->op);
	if (version->moved_to != 0 || lock)
	{
		nulls[ROSE_SYSCOL_MOVED] = false;
		values[ROSE_SYSCOL_MOVED] = Int64GetDatum(lock ? version->lockmode :
												  (int64) version->moved_to);
	}
	if (writer)
	{
		nulls[ROSE_SYSCOL_SUBXID] = !TransactionIdIsValid(version->subxid);
		values[ROSE_SYSCOL_SUBXID] = Int32GetDatum((int32) version->subxid);
		nulls[ROSE_SYSCOL_CID] = false;
		values[ROSE_SYSCOL_CID] = Int32GetDatum((int32) version->cid);
	}
	if (builder->schema->nkeys == 0)
	{
		nulls[ROSE_SYSCOL_ROWID] = false;
		values[ROSE_SYSCOL_ROWID] = Int64GetDatum(version->rowid);
	}
	if (version->op == ROSE_OP_PARTIAL && version->present != NULL)
	{
		Size		bytes = ROSE_PRESENT_BYTES(builder->schema->natts);
		char	   *bitmap = palloc(VARHDRSZ + bytes);

		SET_VARSIZE(bitmap, VARHDRSZ + bytes);
		memcpy(VARDATA(bitmap), version->present, bytes);
		nulls[ROSE_SYSCOL_PRESENT] = false;
		values[ROSE_SYSCOL_PRESENT] = PointerGetDatum(bitmap);
	}
}

static uint8
row_leaf_flags(const RoseComponentBuilder *builder)
{
	const bool *nulls = builder->nulls;

	return (nulls[ROSE_SYSCOL_PRESENT] ? 0 : ROSE_LEAF_HAS_PRESENT) |
		(nulls[ROSE_SYSCOL_MOVED] ? 0 : ROSE_LEAF_HAS_MOVED) |
		(nulls[ROSE_SYSCOL_OVERFLOW] ? 0 : ROSE_LEAF_HAS_OVERFLOW) |
		(builder->private_run ? ROSE_LEAF_HAS_WRITER : 0);
}

/*
 * After overflow_whole_row: put the row into a narrow leaf for itself.  That has a page
 * builder of its own, so that nothing learned from other rows makes a difference to what
 * rose_component_check_row_fits has seen.
 */
static void
append_narrow_row(RoseComponentBuilder *builder, const RoseVersion *version, const Datum *key)
{
	const RoseSchema *schema = builder->schema;
	int			ncols = rose_fit_narrow_columns(schema);
	struct varlena *whole = (struct varlena *) DatumGetPointer(builder->values[ROSE_SYSCOL_OVERFLOW]);
	struct varlena *present = (struct varlena *) DatumGetPointer(builder->values[ROSE_SYSCOL_PRESENT]);
	RoseOverflowPointerDisk pointers[2];
	int			npointers = 1;
	char	   *column = palloc(VARHDRSZ + sizeof(pointers));

	if (rose_page_builder_nrows(builder->pages) > 0)
		rose_component_next_leaf(builder, key, version->seq);
	memcpy(&pointers[0], VARDATA(whole) + ROSE_PRESENT_BYTES(schema->natts), sizeof(pointers[0]));
	if (!builder->nulls[ROSE_SYSCOL_PRESENT])
		rose_overflow_write(overflow_writer(builder), VARDATA(present),
							VARSIZE_ANY_EXHDR(present), &pointers[npointers++]);
	SET_VARSIZE(column, VARHDRSZ + npointers * sizeof(pointers[0]));
	memcpy(VARDATA(column), pointers, npointers * sizeof(pointers[0]));
	builder->values[ROSE_SYSCOL_OVERFLOW] = PointerGetDatum(column);
	builder->leaf_flags = row_leaf_flags(builder) | ROSE_LEAF_NARROW;
	builder->leaf_overflow = builder->row_overflow;
	builder->nulls[ROSE_SYSCOL_PRESENT] = true;

	builder->narrow = rose_page_builder_create(ncols,
											   rose_leaf_column_descs(schema, schema->natts, NULL,
																	  NULL, CurrentMemoryContext),
											   builder->context);
	if (rose_page_builder_append(builder->narrow, builder->values, builder->nulls) != ROSE_APPEND_OK)
		elog(ERROR, "row does not fit a page of component %u", builder->owner);
	builder->has_narrow = true;
}

void
rose_component_note_owner(RoseComponentBuilder *builder, uint64 xid)
{
	int			at = builder->nowners;

	builder->last_owner = xid;
	while (at > 0 && builder->owners[at - 1] > xid)
		at--;
	if (at > 0 && builder->owners[at - 1] == xid)
		return;
	if (builder->nowners == builder->max_owners)
	{
		builder->max_owners = Max(16, 2 * builder->max_owners);
		builder->owners = builder->owners == NULL ?
			MemoryContextAlloc(builder->context, builder->max_owners * sizeof(uint64)) :
			repalloc(builder->owners, builder->max_owners * sizeof(uint64));
	}
	memmove(&builder->owners[at + 1], &builder->owners[at],
			(builder->nowners - at) * sizeof(uint64));
	builder->owners[at] = xid;
	builder->nowners++;
}

static void
count_row(RoseComponentBuilder *builder, const RoseVersion *version, Size row_size)
{
	RoseFooterDisk *footer = &builder->footer;
	uint64		xid = U64FromFullTransactionId(version->xid);

	footer->nrows++;
	footer->raw_bytes += row_size;
	footer->ntombstones += version->op == ROSE_OP_TOMBSTONE;
	footer->npartials += version->op == ROSE_OP_PARTIAL;
	builder->has_locks |= version->op == ROSE_OP_LOCK;
	footer->nwriters += TransactionIdIsValid(version->subxid) || version->op == ROSE_OP_LOCK;
	footer->min_xid = Min(footer->min_xid, xid);
	footer->max_xid = Max(footer->max_xid, xid);
	footer->min_seq = Min(footer->min_seq, version->seq);
	footer->max_seq = Max(footer->max_seq, version->seq);
	if (builder->private_run && xid != builder->last_owner)
		rose_component_note_owner(builder, xid);
}

/* ---- order ---- */

bool
rose_component_check_order(RoseComponentBuilder *builder, const RoseVersion *version, const Datum *key)
{
	const RoseSchema *schema = builder->schema;
	int			cmp = -1;

	if (builder->last_key.valid)
		cmp = rose_key_compare_prefixed(schema, builder->key_exact, builder->last_key.prefix,
										builder->last_key.key, rose_key_prefix(schema, key), key);
	if (cmp == 0 && version->seq == builder->last_seq)
		return false;
	if (cmp > 0 || (cmp == 0 && version->seq > builder->last_seq))
		elog(ERROR, "versions out of order: sequence " UINT64_FORMAT " after " UINT64_FORMAT,
			 version->seq, builder->last_seq);
	if (cmp == 0)
	{
		builder->unique_keys = false;
		return true;
	}
	if (!builder->min_key.valid)
		rose_key_buffer_set(&builder->min_key, schema, key);
	builder->footer.ndistinct++;
	if (builder->filter == NULL)
		return true;
	if (builder->filter->n >= builder->filter->part_keys)
		rose_filter_builder_end_part(builder->filter, builder->last_key.key);
	rose_filter_builder_add(builder->filter, rose_key_hash(schema, key));
	return true;
}

/* Put the row at hand into the leaf, or into the next one; false: it is too large. */
static bool
append_row(RoseComponentBuilder *builder, const Datum *key, uint64 seq)
{
	if (builder->leaf_block == InvalidBlockNumber)
		builder->leaf_block = rose_blockwriter_reserve(builder->writer);
	if (builder->narrow != NULL)
		rose_component_next_leaf(builder, key, seq);
	if (builder->leaf_overflow + builder->row_overflow > LEAF_MAX_OVERFLOW &&
		rose_page_builder_nrows(builder->pages) > 0)
		rose_component_next_leaf(builder, key, seq);

	for (;;)
	{
		switch (rose_page_builder_append(builder->pages, builder->values, builder->nulls))
		{
			case ROSE_APPEND_OK:
				builder->leaf_flags |= row_leaf_flags(builder);
				builder->leaf_overflow += builder->row_overflow;
				return true;
			case ROSE_APPEND_FULL:
				rose_component_next_leaf(builder, key, seq);
				break;
			case ROSE_APPEND_TOO_LARGE:
				return false;
		}
	}
}

void
rose_component_builder_add_values(RoseComponentBuilder *builder, const RoseVersion *version,
								  const Datum *values, const bool *nulls)
{
	const RoseSchema *schema = builder->schema;
	MemoryContext old = MemoryContextSwitchTo(builder->row_context);
	Datum		key[INDEX_MAX_KEYS];
	Size		row_size;
	bool		oversized;

	Assert(builder->private_run ||
		   (!TransactionIdIsValid(version->subxid) && version->op != ROSE_OP_LOCK));
	MemoryContextReset(builder->row_context);
	rose_key_from_values(schema, values, version->rowid, key);
	if (!rose_component_check_order(builder, version, key))
	{
		MemoryContextSwitchTo(old);
		return;
	}

	builder->row_overflow = 0;
	set_system_columns(builder, version);
	memcpy(builder->values + ROSE_SYSCOLS, values, schema->natts * sizeof(Datum));
	memcpy(builder->nulls + ROSE_SYSCOLS, nulls, schema->natts * sizeof(bool));
	row_size = rose_fit_row_size(schema, values, nulls, &oversized);
	overflow_large_values(builder, row_size);
	if (oversized)
		(void) rose_fit_row_size(schema, builder->values + ROSE_SYSCOLS,
								 builder->nulls + ROSE_SYSCOLS, &oversized);
	if (oversized || !append_row(builder, key, version->seq))
	{
		overflow_whole_row(builder, values, nulls);
		if (!append_row(builder, key, version->seq))
			append_narrow_row(builder, version, key);
	}

	count_row(builder, version, row_size);
	rose_key_buffer_set(&builder->last_key, schema, key);
	builder->last_seq = version->seq;
	MemoryContextSwitchTo(old);
}

/*
 * Columns that a version does not have are NULL: all but the key of a
 * TOMBSTONE or LOCK, those absent from a PARTIAL.
 */
static void
clear_absent_columns(RoseComponentBuilder *builder, const RoseRow *row, bits8 *present)
{
	const RoseSchema *schema = builder->schema;

	memset(present, 0, ROSE_PRESENT_BYTES(schema->natts));
	for (int j = 0; j < schema->nkeys; j++)
		rose_present_set(present, schema->keys[j].def.attno);
	if (row->version.op == ROSE_OP_PARTIAL)
	{
		for (AttrNumber attno = 1; attno <= schema->natts; attno++)
			if (rose_row_is_present(row, attno))
				rose_present_set(present, attno);
	}
	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
		if (!rose_present_test(present, attno))
			builder->row_nulls[attno - 1] = true;
}

void
rose_component_builder_add(RoseComponentBuilder *builder, const RoseRow *row)
{
	bits8		present[ROSE_PRESENT_BYTES(MaxHeapAttributeNumber)];
	RoseVersion version = row->version;

	if (row->tuple == NULL && row->rows == NULL)
		memset(builder->row_nulls, true, builder->schema->natts);	/* a LOCK by row id */
	else
		rose_row_deform(row, builder->schema, 1, builder->schema->natts,
						builder->row_values, builder->row_nulls);
	if (version.op != ROSE_OP_PUT)
	{
		clear_absent_columns(builder, row, present);
		version.present = present;
	}
	rose_component_builder_add_values(builder, &version, builder->row_values,
									  builder->row_nulls);
}

/* ---- the end ---- */

static void
finish_filter(RoseComponentBuilder *builder)
{
	RoseFilterBuilder *filter = builder->filter;

	if (filter == NULL)
		return;
	/* not worth a page; but what is written already, the footer has to tell */
	if (filter->nparts == 0 && builder->group.height == 0 &&
		builder->footer.nrows <= FILTER_FEW_ROWS)
		return;
	if (filter->n > 0)
		rose_filter_builder_end_part(filter, builder->last_key.key);
	builder->footer.bloom_nblocks = filter->nblocks;
	builder->footer.bloom_nprobes = filter->nprobes;
	builder->footer.bloom_pages = filter->npages;
}

static void
begin_section(StringInfo stream, RoseFooterSectionDisk *section, RoseFooterSection type)
{
	while (stream->len != MAXALIGN(stream->len))
		appendStringInfoChar(stream, '\0');
	section->type = type;
	section->offset = stream->len;
}

static void
end_section(StringInfo stream, RoseFooterSectionDisk *section)
{
	section->length = stream->len - section->offset;
}

static void
add_section(StringInfo stream, RoseFooterSectionDisk *section, RoseFooterSection type,
			const void *data, Size size)
{
	begin_section(stream, section, type);
	appendBinaryStringInfo(stream, data, size);
	end_section(stream, section);
}

/* Append what the footer has of variable length; returns how many sections that are. */
static int
add_sections(RoseComponentBuilder *builder, StringInfo stream, RoseFooterSectionDisk *sections)
{
	const RoseSchema *schema = builder->schema;
	const RoseFilterBuilder *filter = builder->filter;
	RoseColumnDesc *descs = rose_leaf_column_descs(schema, schema->natts, NULL, NULL,
												   CurrentMemoryContext);
	int			n = 0;

	begin_section(stream, &sections[n], ROSE_SECTION_COLUMN_KINDS);
	for (int i = 0; i < builder->ncols; i++)
		appendStringInfoChar(stream, (char) rose_column_kind_code(descs[i].kind));
	end_section(stream, &sections[n++]);
	begin_section(stream, &sections[n], ROSE_SECTION_MIN_KEY);
	rose_key_write(schema, builder->min_key.key, stream);
	end_section(stream, &sections[n++]);
	begin_section(stream, &sections[n], ROSE_SECTION_MAX_KEY);
	rose_key_write(schema, builder->last_key.key, stream);
	end_section(stream, &sections[n++]);
	add_section(stream, &sections[n++], ROSE_SECTION_BLOOM_EXTENTS,
				filter ? filter->extents->data : NULL, filter ? filter->extents->len : 0);
	add_section(stream, &sections[n++], ROSE_SECTION_COLUMN_GROUPS, &builder->group, sizeof(builder->group));
	add_section(stream, &sections[n++], ROSE_SECTION_LAYOUT, schema->layout->columns,
				schema->natts * sizeof(RoseLayoutColumnDisk));
	if (builder->nowners > 1)
		add_section(stream, &sections[n++], ROSE_SECTION_OWNERS, builder->owners,
					builder->nowners * sizeof(uint64));
	if (filter != NULL && filter->nparts > 1)
	{
		uint64		nparts = filter->nparts;

		begin_section(stream, &sections[n], ROSE_SECTION_FILTER_PARTS);
		appendBinaryStringInfo(stream, (char *) &nparts, sizeof(nparts));
		appendBinaryStringInfo(stream, (char *) filter->parts,
							   filter->nparts * sizeof(RoseFilterPartDisk));
		appendBinaryStringInfo(stream, filter->keys->data, filter->keys->len);
		end_section(stream, &sections[n++]);
	}
	Assert(n <= ROSE_FOOTER_SECTIONS);
	return n;
}

/* The oldest version that says what the component has. */
static uint16
footer_version(const RoseComponentBuilder *builder)
{
	if (builder->footer_in_leaf)
		return ROSE_COMPONENT_VERSION;
	if (builder->filter != NULL && builder->filter->nparts > 1)
		return ROSE_COMPONENT_VERSION_FILTER_PARTS;
	if (builder->has_narrow)
		return ROSE_COMPONENT_VERSION_NARROW;
	return builder->nowners > 1 ? ROSE_COMPONENT_VERSION_OWNERS : ROSE_COMPONENT_VERSION_ONE_OWNER;
}

/* The footer as a stream of bytes. */
static void
make_footer(RoseComponentBuilder *builder, StringInfo stream)
{
	const RoseSchema *schema = builder->schema;
	RoseFooterDisk *footer = &builder->footer;
	RoseFooterSectionDisk sections[ROSE_FOOTER_SECTIONS] = {{0}};

	/* room for what is known last */
	appendBinaryStringInfo(stream, (char *) footer, sizeof(*footer));
	appendBinaryStringInfo(stream, (char *) sections, sizeof(sections));
	footer->nsections = add_sections(builder, stream, sections);

	footer->magic = ROSE_FOOTER_MAGIC;
	footer->version = footer_version(builder);
	footer->header_bytes = sizeof(*footer);
	footer->component_id = builder->owner;
	if (stream->len > ROSE_FOOTER_MAX_BYTES)
		elog(ERROR, "footer of %d bytes is too long", stream->len);
	footer->total_bytes = stream->len;
	footer->natts = schema->natts;
	footer->nkeys = schema->nkeys;
	footer->nsyscols = ROSE_SYSCOLS;
	footer->ngroups = 1;
	footer->hashed_keys = rose_filter_ask_hashed_keys(schema);
	footer->hash_sample = rose_filter_ask_hash_sample(schema, builder->min_key.key,
													  builder->last_key.key);
	memcpy(stream->data, footer, sizeof(*footer));
	memcpy(stream->data + sizeof(*footer), sections, sizeof(sections));
}

/* The first block. */
static BlockNumber
write_footer_pages(RoseComponentBuilder *builder, const StringInfoData *stream)
{
	BlockNumber first = rose_blockwriter_reserve(builder->writer);
	BlockNumber block = first;
	BlockNumber previous = InvalidBlockNumber;
	int			size = rose_blockwriter_page_end(builder->writer) - (int) ROSE_PAGE_BODY;

	for (int at = 0; at < stream->len; at += size)
	{
		int			n = Min(stream->len - at, size);
		bool		last = at + n == stream->len;
		BlockNumber next = last ? InvalidBlockNumber : rose_blockwriter_reserve(builder->writer);

		rose_component_init_page(builder->page, builder->owner, ROSE_PAGE_FOOTER);
		memcpy(builder->page + ROSE_PAGE_BODY, stream->data + at, n);
		rose_component_set_page_end(builder->page, ROSE_PAGE_BODY + n);
		rose_page_header(builder->page)->prev = previous;
		rose_page_header(builder->page)->next = next;
		rose_blockwriter_write(builder->writer, block, builder->page);
		previous = block;
		block = next;
	}
	return first;
}

/*
 * Returns the first block of the footer.  The page at hand is that of the last leaf; if
 * it is the only one, it is written again with the footer.
 */
static BlockNumber
write_footer(RoseComponentBuilder *builder)
{
	StringInfoData stream;

	initStringInfo(&stream);
	builder->footer_in_leaf = builder->group.nleaves == 1;
	make_footer(builder, &stream);
	if (builder->footer_in_leaf &&
		rose_page_add_extra(builder->page, stream.data, stream.len,
							rose_blockwriter_page_end(builder->writer)))
	{
		rose_blockwriter_write(builder->writer, builder->group.first_leaf, builder->page);
		return builder->group.first_leaf;
	}
	if (builder->footer_in_leaf)
	{
		builder->footer_in_leaf = false;
		((RoseFooterDisk *) stream.data)->version = footer_version(builder);
	}
	return write_footer_pages(builder, &stream);
}

static void
fill_entry(const RoseComponentBuilder *builder, BlockNumber footer_block,
		   RoseComponentEntryDisk *entry)
{
	const RoseFooterDisk *footer = &builder->footer;

	memset(entry, 0, sizeof(*entry));
	entry->id = builder->owner;
	entry->footer_block = footer_block;
	entry->flags = (builder->private_run ? ROSE_COMPONENT_PRIVATE : 0) |
		(builder->nowners > 1 ? ROSE_COMPONENT_OWNERS : 0) |
		(builder->unique_keys ? ROSE_COMPONENT_UNIQUE_KEYS : 0) |
		(builder->has_locks ? 0 : ROSE_COMPONENT_NO_LOCKS) |
		(footer->overflow_values == 0 ? ROSE_COMPONENT_SHRINKS : 0) |
		(footer->ntombstones + footer->npartials == 0 && footer->nwriters == 0 ?
		 ROSE_COMPONENT_ONLY_PUTS : 0);
	entry->nrows = footer->nrows;
	entry->min_seq = footer->min_seq;
	entry->max_seq = footer->max_seq;
	entry->nblocks = rose_blockwriter_nblocks(builder->writer);
	entry->ntombstones = footer->ntombstones;
	entry->raw_bytes = footer->raw_bytes;
	entry->max_xid = footer->max_xid;
	if (builder->private_run)
		entry->owner_xid = builder->owners[0];
}

void
rose_component_builder_finish(RoseComponentBuilder *builder, RoseComponentEntryDisk *entry)
{
	MemoryContext old = MemoryContextSwitchTo(builder->context);
	BlockNumber footer_block;

	if (builder->footer.nrows == 0)
		elog(ERROR, "component without rows");
	flush_leaf(builder, InvalidBlockNumber);
	rose_tree_builder_finish(builder->tree, &builder->group);
	builder->group.ncolumns = builder->ncols;
	if (builder->overflow != NULL)
		rose_overflow_finish(builder->overflow, &builder->footer.overflow_pages);
	finish_filter(builder);
	footer_block = write_footer(builder);
	rose_blockwriter_finish(builder->writer);
	fill_entry(builder, footer_block, entry);
	MemoryContextSwitchTo(old);
}
