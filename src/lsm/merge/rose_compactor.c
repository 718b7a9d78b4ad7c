/*-------------------------------------------------------------------------
 *
 * rose_compactor.c
 *	  Sorted versions in, a component without garbage out.  See
 *	  rose_compactor.h.
 *
 * Versions of one key come newest first; rose_gc.c decides on each, and what is kept is
 * written in order, as a row or, when many come in columns, as a batch.  Backend-local;
 * no locks.  Where versions come from, and what becomes of the component, is for spills
 * and merges.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lsm/component/rose_key_buffer.h"
#include "lsm/component/rose_partial.h"
#include "lsm/merge/rose_compactor.h"
#include "lsm/merge/rose_gc.h"

/* Rows of memtables that go to the builder together. */
#define STAGE_ROWS			256

/*
 * Whole rows in memory that stays (a memtable's), of different keys, on their way to the
 * builder as a batch.
 */
typedef struct RowStage
{
	RoseRowBatch batch;			/* with n == 0: nothing is staged */
	Datum	   *values;			/* [natts + 3][STAGE_ROWS] */
	bool	   *nulls;			/* [natts][STAGE_ROWS] */
	int		   *nnulls;			/* [natts] */
	Datum	   *row_values;		/* [natts] */
	bool	   *row_nulls;
} RowStage;

struct RoseCompactor
{
	MemoryContext context;
	Relation	rel;
	RoseStoreShared *store;
	const RoseSchema *schema;
	uint64		expected_rows;
	int			options;
	bool		key_exact;
	RoseGc		gc;
	RosePartial held;			/* the PARTIAL, or PUT, that gc holds back */
	FullTransactionId forget_xid;	/* stands for what is forgotten; invalid = nothing is */
	uint64		kept_xid;		/* of the version of this key that was kept last */
	uint64		tokens;			/* greater than xids of older versions that were left out
								 * and greater than what was kept */
	uint64		nmissing;		/* PARTIALs left out that were no row */
	RoseKeyBuffer last_key;
	bool		key_written;	/* a version of this key was */
	RowStage   *stage;			/* NULL until needed */
	RoseComponentBuilder *builder;	/* NULL: nothing kept yet */
};

RoseCompactor *
rose_compactor_create(Relation rel, RoseStoreShared *store, const RoseSchema *schema,
					  uint64 expected_rows, int options, const RoseHorizon *horizon,
					  bool bottom, MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose compactor",
											  ALLOCSET_SMALL_SIZES);
	RoseCompactor *compactor = MemoryContextAllocZero(own, sizeof(RoseCompactor));

	compactor->context = own;
	compactor->rel = rel;
	compactor->store = store;
	compactor->schema = schema;
	compactor->expected_rows = expected_rows;
	compactor->options = options;
	compactor->key_exact = rose_key_prefix_exact(schema);
	rose_gc_init(&compactor->gc, horizon, bottom);
	rose_partial_init(&compactor->held, schema, own);
	rose_key_buffer_init(&compactor->last_key, own);
	return compactor;
}

void
rose_compactor_forget(RoseCompactor *compactor, FullTransactionId xid)
{
	compactor->forget_xid = xid;
}

void
rose_compactor_free(RoseCompactor *compactor)
{
	if (compactor->builder)
		rose_component_builder_free(compactor->builder);
	MemoryContextDelete(compactor->context);
}

void
rose_compactor_rebind(RoseCompactor *compactor, Relation rel)
{
	compactor->rel = rel;
	if (compactor->builder)
		rose_component_builder_rebind(compactor->builder, rel);
}

static RoseComponentBuilder *
builder_of(RoseCompactor *compactor)
{
	if (compactor->builder == NULL)
		compactor->builder = rose_component_builder_create(compactor->rel, compactor->store,
														   compactor->schema,
														   compactor->expected_rows,
														   compactor->options,
														   compactor->context);
	return compactor->builder;
}

/*
 * Nobody comes any more from the key that the row was moved from: then it is a row like
 * others, which merges can take in batches.
 */
static void
forget_move(RoseVersion *version, bool seen_by_all)
{
	if (seen_by_all && version->moved_to == ROSE_MOVED_HERE)
		version->moved_to = 0;
}

/* Forget who wrote a whole row, and when, if that may be. */
static void
forget(const RoseCompactor *compactor, RoseVersion *version)
{
	if (!FullTransactionIdIsValid(compactor->forget_xid) || version->op != ROSE_OP_PUT)
		return;
	version->seq = ROSE_SEQ_OLDEST;
	version->xid = compactor->forget_xid;
}

/* ---- rows that wait for others ---- */

static RowStage *
create_stage(RoseCompactor *compactor)
{
	MemoryContext old = MemoryContextSwitchTo(compactor->context);
	RowStage   *stage = palloc0(sizeof(RowStage));
	int			natts = compactor->schema->natts;

	stage->values = palloc((natts + 3) * STAGE_ROWS * sizeof(Datum));
	stage->nulls = palloc((natts + 1) * STAGE_ROWS * sizeof(bool));
	stage->nnulls = palloc0((natts + 1) * sizeof(int));
	stage->row_values = palloc((natts + 1) * sizeof(Datum));
	stage->row_nulls = palloc((natts + 1) * sizeof(bool));
	stage->batch.values = palloc((natts + 1) * sizeof(Datum *));
	stage->batch.nulls = palloc((natts + 1) * sizeof(bool *));
	stage->batch.seq = stage->values + natts * STAGE_ROWS;
	stage->batch.xid = stage->batch.seq + STAGE_ROWS;
	if (compactor->schema->nkeys == 0)
		stage->batch.rowid = stage->batch.xid + STAGE_ROWS;
	MemoryContextSwitchTo(old);
	return stage;
}

/* Hand them over; always before anything else goes to the builder. */
static void
flush_stage(RoseCompactor *compactor)
{
	RowStage   *stage = compactor->stage;
	RoseRowBatch *batch;

	if (stage == NULL || stage->batch.n == 0)
		return;
	batch = &stage->batch;
	for (int a = 0; a < compactor->schema->natts; a++)
	{
		int			nnulls = stage->nnulls[a];

		batch->values[a] = nnulls == batch->n ? NULL : stage->values + a * STAGE_ROWS;
		batch->nulls[a] = nnulls == batch->n || nnulls == 0 ? NULL : stage->nulls + a * STAGE_ROWS;
		stage->nnulls[a] = 0;
	}
	rose_component_builder_add_batch(builder_of(compactor), batch);
	batch->n = 0;
}

/* May the row wait, as the only one of its key, so far? */
static bool
can_stage(const RoseCompactor *compactor, const RoseRow *row)
{
	return row->tuple != NULL && row->version.op == ROSE_OP_PUT && row->version.moved_to == 0 &&
		!compactor->key_written && compactor->schema->natts <= ROSE_BATCH_MAX_COLUMNS;
}

static void
stage_row(RoseCompactor *compactor, const RoseRow *row)
{
	const RoseSchema *schema = compactor->schema;
	RowStage   *stage;
	int			i;

	if (compactor->stage == NULL)
		compactor->stage = create_stage(compactor);
	stage = compactor->stage;
	i = stage->batch.n++;
	rose_row_deform(row, schema, 1, schema->natts, stage->row_values, stage->row_nulls);
	for (int a = 0; a < schema->natts; a++)
	{
		stage->values[a * STAGE_ROWS + i] = stage->row_values[a];
		stage->nulls[a * STAGE_ROWS + i] = stage->row_nulls[a];
		stage->nnulls[a] += stage->row_nulls[a];
	}
	stage->values[schema->natts * STAGE_ROWS + i] = Int64GetDatum((int64) row->version.seq);
	stage->values[(schema->natts + 1) * STAGE_ROWS + i] =
		Int64GetDatum((int64) U64FromFullTransactionId(row->version.xid));
	stage->values[(schema->natts + 2) * STAGE_ROWS + i] = Int64GetDatum(row->version.rowid);
	if (stage->batch.n == STAGE_ROWS)
		flush_stage(compactor);
}

/* ---- writing ---- */

/* Write what is held back, as far as it was folded. */
static void
write_held(RoseCompactor *compactor, bool complete)
{
	RosePartial *held = &compactor->held;
	RoseVersion version = held->version;

	flush_stage(compactor);
	version.op = complete ? ROSE_OP_PUT : ROSE_OP_PARTIAL;
	version.present = complete ? NULL : held->have;
	version.subxid = InvalidTransactionId;
	version.cid = 0;
	forget(compactor, &version);
	for (AttrNumber attno = 1; attno <= compactor->schema->natts; attno++)
		if (!rose_present_test(held->have, attno))
			held->nulls[attno - 1] = true;
	rose_component_builder_add_values(builder_of(compactor), &version, held->values,
									  held->nulls);
	held->active = false;
	compactor->key_written = true;
}

static void
write_row(RoseCompactor *compactor, const RoseRow *row, bool seen_by_all)
{
	RoseRow		stripped;

	if (can_stage(compactor, row) && !FullTransactionIdIsValid(compactor->forget_xid))
	{
		stage_row(compactor, row);
		compactor->key_written = true;
		return;
	}
	flush_stage(compactor);
	compactor->key_written = true;
	if (!TransactionIdIsValid(row->version.subxid) && row->version.cid == 0 &&
		row->version.moved_to == 0 && !FullTransactionIdIsValid(compactor->forget_xid))
	{
		rose_component_builder_add(builder_of(compactor), row);
		return;
	}
	stripped = *row;
	forget_move(&stripped.version, seen_by_all);
	stripped.version.subxid = InvalidTransactionId;
	stripped.version.cid = 0;
	forget(compactor, &stripped.version);
	rose_component_builder_add(builder_of(compactor), &stripped);
}

bool
rose_compactor_is_new_key(const RoseCompactor *compactor, const Datum *key)
{
	const RoseKeyBuffer *last = &compactor->last_key;

	return !last->valid ||
		rose_key_compare_prefixed(compactor->schema, compactor->key_exact,
								  last->prefix, last->key,
								  rose_key_prefix(compactor->schema, key), key) != 0;
}

/* What was held back has found nothing to be folded with. */
static void
settle_held(RoseCompactor *compactor, RoseGcHeld what)
{
	RosePartial *held = &compactor->held;

	if (what == ROSE_GC_WRITE_HELD)
		write_held(compactor, held->version.op == ROSE_OP_PUT);
	else if (what == ROSE_GC_SKIP_HELD)
	{
		compactor->tokens = Max(compactor->tokens,
								rose_gc_superseded(compactor->kept_xid,
												   U64FromFullTransactionId(held->version.xid)));
		held->active = false;
	}
	else if (what == ROSE_GC_DROP_HELD)
	{
		/* as of older versions that are left out: see rose_gc_superseded() */
		compactor->tokens = Max(compactor->tokens,
								U64FromFullTransactionId(held->version.xid) + 1);
		held->active = false;
		compactor->nmissing++;
	}
}

static void
note_key(RoseCompactor *compactor, const Datum *key)
{
	if (!rose_compactor_is_new_key(compactor, key))
		return;
	settle_held(compactor, rose_gc_next_key(&compactor->gc));
	rose_key_buffer_set(&compactor->last_key, compactor->schema, key);
	compactor->kept_xid = PG_UINT64_MAX;
	compactor->key_written = false;
}

void
rose_compactor_pass_over(RoseCompactor *compactor, const Datum *key)
{
	note_key(compactor, key);
}

static void
note_token(RoseCompactor *compactor, const RoseVersion *version, RoseGcAction action)
{
	uint64		xid = U64FromFullTransactionId(version->xid);

	if (action == ROSE_GC_KEEP || action == ROSE_GC_HOLD)
		compactor->kept_xid = xid;
	else if (version->op != ROSE_OP_LOCK)
		compactor->tokens = Max(compactor->tokens, rose_gc_superseded(compactor->kept_xid, xid));
}

void
rose_compactor_add(RoseCompactor *compactor, const RoseRow *row)
{
	RoseGcDecision decision;

	note_key(compactor, row->key);
	decision = rose_gc_next(&compactor->gc, row->version.seq, row->version.xid,
							row->version.op, row->version.moved_to == ROSE_MOVED_HERE);
	settle_held(compactor, decision.held);
	note_token(compactor, &row->version, decision.action);
	switch (decision.action)
	{
		case ROSE_GC_DROP:
			break;
		case ROSE_GC_KEEP:
			write_row(compactor, row, decision.seen_by_all);
			break;
		case ROSE_GC_HOLD:
		case ROSE_GC_ASIDE:
			rose_partial_start(&compactor->held, row);
			break;
		case ROSE_GC_FOLD:
			(void) rose_partial_add(&compactor->held, row);
			break;
		case ROSE_GC_FOLD_LAST:
			(void) rose_partial_add(&compactor->held, row);
			write_held(compactor, true);
			break;
	}
}

FullTransactionId
rose_compactor_oldest(const RoseCompactor *compactor)
{
	return FullTransactionIdFromU64(compactor->gc.horizon->oldest);
}

/* The same rows without who wrote them, and when. */
static void
write_forgotten(RoseCompactor *compactor, const RoseRowBatch *batch)
{
	RoseRowBatch forgotten = *batch;
	Datum	   *seq = palloc(batch->n * sizeof(Datum));
	Datum	   *xid = palloc(batch->n * sizeof(Datum));

	for (int i = 0; i < batch->n; i++)
	{
		seq[i] = Int64GetDatum((int64) ROSE_SEQ_OLDEST);
		xid[i] = Int64GetDatum((int64) U64FromFullTransactionId(compactor->forget_xid));
	}
	forgotten.seq = seq;
	forgotten.xid = xid;
	rose_component_builder_add_batch(builder_of(compactor), &forgotten);
	pfree(seq);
	pfree(xid);
}

/* Older versions of the last key may follow, so the filter gets to know that one. */
void
rose_compactor_add_batch(RoseCompactor *compactor, const RoseRowBatch *batch, uint64 tokens)
{
	int			last = batch->n - 1;
	uint64		xid = (uint64) DatumGetInt64(batch->xid[last]);
	Datum		key[INDEX_MAX_KEYS];
	RoseGcDecision decision PG_USED_FOR_ASSERTS_ONLY;

	settle_held(compactor, rose_gc_next_key(&compactor->gc));
	decision = rose_gc_next(&compactor->gc, (uint64) DatumGetInt64(batch->seq[last]),
							FullTransactionIdFromU64(xid), ROSE_OP_PUT, false);
	Assert(decision.action == ROSE_GC_KEEP && decision.held == ROSE_GC_NOT_HELD);
	rose_row_batch_key(compactor->schema, batch, last, key);
	rose_key_buffer_set(&compactor->last_key, compactor->schema, key);
	compactor->kept_xid = xid;
	compactor->key_written = true;
	compactor->tokens = Max(compactor->tokens, tokens);
	flush_stage(compactor);
	if (FullTransactionIdIsValid(compactor->forget_xid))
		write_forgotten(compactor, batch);
	else
		rose_component_builder_add_batch(builder_of(compactor), batch);
}

uint64
rose_compactor_missing(const RoseCompactor *compactor)
{
	return compactor->nmissing;
}

bool
rose_compactor_finish(RoseCompactor *compactor, RoseComponentEntryDisk *entry)
{
	settle_held(compactor, rose_gc_next_key(&compactor->gc));
	flush_stage(compactor);
	if (compactor->builder == NULL)
		return false;
	rose_component_builder_finish(compactor->builder, entry);
	entry->max_xid = Max(entry->max_xid, compactor->tokens);
	return true;
}
