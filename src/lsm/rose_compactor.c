/*-------------------------------------------------------------------------
 *
 * rose_compactor.c
 *	  Sorted versions in, a component without garbage out.  See
 *	  rose_compactor.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_compactor.h"

#include "lsm/rose_component_internal.h"
#include "lsm/rose_gc.h"
#include "lsm/rose_partial.h"
#include "utils/memutils.h"

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
	RosePartial held;			/* the PARTIAL that gc holds back */
	FullTransactionId forget_xid;	/* stands for what is forgotten; invalid = nothing is */
	uint64		kept_xid;		/* of the version of this key that was kept last */
	uint64		tokens;			/* greater than xids of older versions that were left out
								 * and greater than what was kept */
	RoseKeyBuffer last_key;
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

/* Forget who wrote a whole row, and when, if that may be. */
static void
forget(const RoseCompactor *compactor, RoseVersion *version)
{
	if (!FullTransactionIdIsValid(compactor->forget_xid) || version->op != ROSE_OP_PUT)
		return;
	version->seq = ROSE_SEQ_OLDEST;
	version->xid = compactor->forget_xid;
}

/* Write what is held back, as far as it was folded. */
static void
write_held(RoseCompactor *compactor, bool complete)
{
	RosePartial *held = &compactor->held;
	RoseVersion version = held->version;

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
}

static void
write_row(RoseCompactor *compactor, const RoseRow *row)
{
	RoseRow		stripped;

	if (!TransactionIdIsValid(row->version.subxid) && row->version.cid == 0 &&
		!FullTransactionIdIsValid(compactor->forget_xid))
	{
		rose_component_builder_add(builder_of(compactor), row);
		return;
	}
	stripped = *row;
	stripped.version.subxid = InvalidTransactionId;
	stripped.version.cid = 0;
	forget(compactor, &stripped.version);
	rose_component_builder_add(builder_of(compactor), &stripped);
}

bool
rose_compactor_is_new_key(const RoseCompactor *compactor, const RoseRow *row)
{
	const RoseKeyBuffer *last = &compactor->last_key;

	return !last->valid ||
		rose_key_compare_prefixed(compactor->schema, compactor->key_exact,
								  last->prefix, last->key,
								  rose_key_prefix(compactor->schema, row->key), row->key) != 0;
}

static void
note_key(RoseCompactor *compactor, const RoseRow *row)
{
	if (!rose_compactor_is_new_key(compactor, row))
		return;
	if (rose_gc_next_key(&compactor->gc))
		write_held(compactor, false);
	rose_key_buffer_set(&compactor->last_key, compactor->schema, row->key);
	compactor->kept_xid = PG_UINT64_MAX;
}

/*
 * An older version may have a greater xid than the one that is kept: it was a token of the row,
 * and must not become one again (rose_forget.h).
 */
static void
note_token(RoseCompactor *compactor, const RoseVersion *version, RoseGcAction action)
{
	uint64		xid = U64FromFullTransactionId(version->xid);

	if (action == ROSE_GC_KEEP || action == ROSE_GC_HOLD)
		compactor->kept_xid = xid;
	else if (xid > compactor->kept_xid && version->op != ROSE_OP_LOCK)
		compactor->tokens = Max(compactor->tokens, xid + 1);
}

void
rose_compactor_add(RoseCompactor *compactor, const RoseRow *row)
{
	RoseGcDecision decision;

	note_key(compactor, row);
	decision = rose_gc_next(&compactor->gc, row->version.seq, row->version.xid,
							row->version.op);
	if (decision.flush)
		write_held(compactor, false);
	note_token(compactor, &row->version, decision.action);
	switch (decision.action)
	{
		case ROSE_GC_DROP:
			break;
		case ROSE_GC_KEEP:
			write_row(compactor, row);
			break;
		case ROSE_GC_HOLD:
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

bool
rose_compactor_finish(RoseCompactor *compactor, RoseComponentEntryDisk *entry)
{
	if (rose_gc_next_key(&compactor->gc))
		write_held(compactor, false);
	if (compactor->builder == NULL)
		return false;
	rose_component_builder_finish(compactor->builder, entry);
	entry->max_xid = Max(entry->max_xid, compactor->tokens);
	return true;
}
