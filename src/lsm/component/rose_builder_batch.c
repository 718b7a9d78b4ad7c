/*-------------------------------------------------------------------------
 *
 * rose_builder_batch.c
 *	  Many rows at a time into a component, column by column.
 *
 * For merges and others, whose rows come from leaves that were decoded by columns anyway.  Only
 * whole rows of different keys come in batches.  What a batch saves is what the way of a
 * row (rose_component_builder_add_values) does again and again: setting system columns
 * that are constant, comparing keys that whoever merges has compared, looking for values
 * that are too large.  A batch with such values goes that way.
 *
 * Backend-local.  What versions belong into the component is for whoever brings them to
 * know.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "store/rose_block.h"
#include "lsm/component/rose_builder_internal.h"

void
rose_row_batch_key(const RoseSchema *schema, const RoseRowBatch *batch, int i, Datum *key)
{
	if (schema->nkeys == 0)
		key[0] = batch->rowid[i];
	for (int j = 0; j < schema->nkeys; j++)
	{
		const Datum *values = batch->values[schema->keys[j].def.attno - 1];

		key[j] = values == NULL || rose_key_is_null(schema, key, j) ? (Datum) 0 : values[i];
	}
}

/* ---- one by one ---- */

static void
add_row(RoseComponentBuilder *builder, const RoseRowBatch *batch, int i)
{
	RoseVersion version = {.seq = (uint64) DatumGetInt64(batch->seq[i]), .op = ROSE_OP_PUT};

	version.xid = FullTransactionIdFromU64((uint64) DatumGetInt64(batch->xid[i]));
	if (batch->rowid != NULL)
		version.rowid = DatumGetInt64(batch->rowid[i]);
	if (batch->subxid != NULL)
		version.subxid = (TransactionId) DatumGetInt32(batch->subxid[i]);
	if (batch->cid != NULL)
		version.cid = (CommandId) DatumGetInt32(batch->cid[i]);
	for (int a = 0; a < builder->schema->natts; a++)
	{
		builder->row_nulls[a] = batch->values[a] == NULL ||
			(batch->nulls[a] != NULL && batch->nulls[a][i]);
		builder->row_values[a] = builder->row_nulls[a] ? (Datum) 0 : batch->values[a][i];
	}
	rose_component_builder_add_values(builder, &version, builder->row_values,
									  builder->row_nulls);
}

/* ---- together ---- */

/* Bytes of a column's values; sizes gets what they add to rows, if they are not all alike. */
static Size
column_bytes(const RoseSchema *schema, const RoseRowBatch *batch, int a, Size *sizes,
			 bool *varies)
{
	Form_pg_attribute att = TupleDescAttr(schema->tupdesc, a);
	const bool *nulls = batch->nulls[a];
	Size		total = 0;

	if (batch->values[a] == NULL)
		return 0;
	if (att->attlen > 0 && nulls == NULL)
		return (Size) att->attlen * batch->n;
	for (int i = 0; i < batch->n; i++)
	{
		Size		size;

		if (nulls != NULL && nulls[i])
			continue;
		size = att->attlen > 0 ? (Size) att->attlen :
			datumGetSize(batch->values[a][i], att->attbyval, att->attlen);
		sizes[i] += size;
		total += size;
	}
	*varies = true;
	return total;
}

/* Bytes of all rows; 0: one of them may have values that overflow. */
static Size
batch_bytes(const RoseSchema *schema, const RoseRowBatch *batch)
{
	Size	   *sizes = palloc0(batch->n * sizeof(Size));
	Size		total = 0;
	Size		constant = 0;
	bool		varies = false;

	for (int a = 0; a < schema->natts; a++)
	{
		bool		column_varies = false;
		Size		bytes = column_bytes(schema, batch, a, sizes, &column_varies);

		total += bytes;
		varies |= column_varies;
		if (!column_varies)
			constant += bytes / batch->n;
	}
	for (int i = 0; i < (varies ? batch->n : 1); i++)
		if (constant + sizes[i] > ROSE_OVERFLOW_ROW_SIZE)
			return 0;
	return total;
}

/* Keys ascend, and these are the hashes of those from row 1 on. */
static inline void
assert_keys(const RoseSchema *schema, const RoseRowBatch *batch, const uint64 *hashes)
{
#ifdef USE_ASSERT_CHECKING
	Datum		a[INDEX_MAX_KEYS];
	Datum		b[INDEX_MAX_KEYS];

	for (int i = 1; i < batch->n; i++)
	{
		rose_row_batch_key(schema, batch, i - 1, a);
		rose_row_batch_key(schema, batch, i, b);
		Assert(rose_key_compare(schema, a, b, rose_schema_key_width(schema)) < 0);
		Assert(hashes == NULL || hashes[i - 1] == rose_key_hash(schema, b));
	}
#endif
}

/* The rows' keys, which are in order and new: row 0 was looked at. */
static void
note_keys(RoseComponentBuilder *builder, const RoseRowBatch *batch)
{
	const RoseSchema *schema = builder->schema;
	const Datum *columns[INDEX_MAX_KEYS];
	uint64	   *hashes;
	int			n = batch->n - 1;

	builder->footer.ndistinct += n;
	if (builder->filter == NULL || n == 0)
	{
		assert_keys(schema, batch, NULL);
		return;
	}
	for (int j = 0; j < schema->nkeys; j++)
	{
		columns[j] = batch->values[schema->keys[j].def.attno - 1];
		if (columns[j] != NULL) /* else all of them are NULL */
			columns[j]++;
	}
	hashes = palloc(n * sizeof(uint64));
	rose_key_hash_many(schema, columns, n, hashes);
	assert_keys(schema, batch, hashes);
	for (int i = 0; i < n; i++)
		rose_filter_builder_add(builder->filter, hashes[i]);
}

static void
count_rows(RoseComponentBuilder *builder, const RoseRowBatch *batch, Size bytes)
{
	RoseFooterDisk *footer = &builder->footer;

	footer->nrows += batch->n;
	footer->raw_bytes += bytes;
	if (batch->subxid != NULL)
		footer->nwriters += batch->n;
	for (int i = 0; i < batch->n; i++)
	{
		uint64		xid = (uint64) DatumGetInt64(batch->xid[i]);
		uint64		seq = (uint64) DatumGetInt64(batch->seq[i]);

		footer->min_xid = Min(footer->min_xid, xid);
		footer->max_xid = Max(footer->max_xid, xid);
		footer->min_seq = Min(footer->min_seq, seq);
		footer->max_seq = Max(footer->max_seq, seq);
		if (builder->private_run && xid != builder->last_owner)
			rose_component_note_owner(builder, xid);
	}
}

/* Row i is the last one so far. */
static void
note_last(RoseComponentBuilder *builder, const RoseRowBatch *batch, int i)
{
	Datum		key[INDEX_MAX_KEYS];

	rose_row_batch_key(builder->schema, batch, i, key);
	rose_key_buffer_set(&builder->last_key, builder->schema, key);
	builder->last_seq = (uint64) DatumGetInt64(batch->seq[i]);
}

/* The leaf's columns. */
static void
set_columns(const RoseComponentBuilder *builder, const RoseRowBatch *batch, const Datum *ops,
			RoseColumnValues *columns)
{
	memset(columns, 0, ROSE_SYSCOLS * sizeof(RoseColumnValues));
	columns[ROSE_SYSCOL_SEQ].values = batch->seq;
	columns[ROSE_SYSCOL_XID].values = batch->xid;
	columns[ROSE_SYSCOL_OP].values = ops;
	columns[ROSE_SYSCOL_ROWID].values = batch->rowid;
	columns[ROSE_SYSCOL_SUBXID].values = batch->subxid;
	columns[ROSE_SYSCOL_CID].values = batch->cid;
	for (int a = 0; a < builder->schema->natts; a++)
	{
		columns[ROSE_SYSCOLS + a].values = batch->values[a];
		columns[ROSE_SYSCOLS + a].nulls = batch->nulls[a];
	}
}

static void
append_rows(RoseComponentBuilder *builder, const RoseRowBatch *batch)
{
	RoseColumnValues *columns = palloc(builder->ncols * sizeof(RoseColumnValues));
	Datum	   *ops = palloc(batch->n * sizeof(Datum));
	Datum		key[INDEX_MAX_KEYS];
	int			done = 0;

	for (int i = 0; i < batch->n; i++)
		ops[i] = Int16GetDatum(ROSE_OP_PUT);
	set_columns(builder, batch, ops, columns);
	if (builder->leaf_block == InvalidBlockNumber)
		builder->leaf_block = rose_blockwriter_reserve(builder->writer);
	for (;;)
	{
		RoseAppendResult result;

		done += rose_page_builder_append_columns(builder->pages, columns, done,
												 batch->n - done, &result);
		if (done > 0)
			note_last(builder, batch, done - 1);
		if (builder->private_run)
			builder->leaf_flags |= ROSE_LEAF_HAS_WRITER;
		if (done == batch->n)
			return;
		if (result == ROSE_APPEND_TOO_LARGE)
			elog(ERROR, "row does not fit a page of component %u", builder->owner);
		rose_row_batch_key(builder->schema, batch, done, key);
		rose_component_next_leaf(builder, key, (uint64) DatumGetInt64(batch->seq[done]));
	}
}

void
rose_component_builder_add_batch(RoseComponentBuilder *builder, const RoseRowBatch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(builder->row_context);
	RoseVersion version = {.seq = (uint64) DatumGetInt64(batch->seq[0])};
	Datum		key[INDEX_MAX_KEYS];
	Size		bytes;

	Assert(batch->n > 0 && builder->private_run == (batch->cid != NULL));
	Assert(builder->schema->natts <= ROSE_BATCH_MAX_COLUMNS);
	Assert(builder->narrow == NULL);	/* it takes more columns */
	MemoryContextReset(builder->row_context);
	bytes = batch_bytes(builder->schema, batch);
	if (bytes == 0)
	{
		MemoryContextSwitchTo(old);
		for (int i = 0; i < batch->n; i++)
			add_row(builder, batch, i);
		return;
	}
	rose_row_batch_key(builder->schema, batch, 0, key);
	if (!rose_component_check_order(builder, &version, key))
		elog(ERROR, "version was given twice");
	note_keys(builder, batch);
	append_rows(builder, batch);
	count_rows(builder, batch, bytes);
	MemoryContextSwitchTo(old);
}
