/*-------------------------------------------------------------------------
 *
 * rose_rules.c
 *	  What a local table demands of its rows, and computes in them.
 *
 * NOT NULL, CHECK constraints, the bounds of a partition, stored generated columns.  The
 * upstream may have other ones, or none; what reads the table relies on its own.  (Types
 * of columns, domains too, are the business of whoever made the values; keys that of
 * who writes them.)
 *
 * NOT NULL is looked at right here.  Expressions are evaluated by the executor, as the
 * table's owner; what that needs is made when the first row comes.
 *
 * State is kept with the table's entry of rose_relmap.c; locks are the batch's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/partition.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "nodes/bitmapset.h"
#include "nodes/nodes.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "util/rose_version.h"
#include "repl/rose_rights.h"
#include "repl/rose_rules.h"

struct RoseRules
{
	MemoryContext context;
	Relation	rel;
	int			nnotnull;
	AttrNumber *notnull;		/* columns that must not be null, but those of the key and
								 * those that are not stored */
	bool		checks;
	bool		generated;		/* there are stored generated columns */
	bool		computed_notnull;	/* there are columns that are not stored and must not be null */
	bool		bounds;			/* it is a partition */
	bool		seen_known;		/* 'seen' is valid */
	Bitmapset  *seen;			/* columns that expressions look at, as pull_varattnos() has them */

	/* to evaluate expressions; NULL before the first row */
	EState	   *estate;
	ResultRelInfo *result;
	TupleTableSlot *slot;
	Relation	unknown_rel;	/* rel as one whose columns may all be null; NULL until needed */
};

RoseRules *
rose_rules_create(Relation rel, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "rose rules of a table",
												  ALLOCSET_SMALL_SIZES);
	RoseRules  *rules = MemoryContextAllocZero(context, sizeof(RoseRules));
	TupleDesc	desc = RelationGetDescr(rel);
	const TupleConstr *constr = desc->constr;
	Bitmapset  *key = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_PRIMARY_KEY);

	rules->context = context;
	rules->rel = rel;
	rules->notnull = MemoryContextAlloc(context, sizeof(AttrNumber) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attnotnull || att->attisdropped ||
			bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, key))
			continue;
		if (att->attgenerated && att->attgenerated != ATTRIBUTE_GENERATED_STORED)
			rules->checks = rules->computed_notnull = true; /* the executor computes it to look at it */
		else
			rules->notnull[rules->nnotnull++] = att->attnum;
	}
	bms_free(key);
	rules->checks |= constr != NULL && constr->num_check > 0;
	rules->generated = constr != NULL && constr->has_generated_stored;
	rules->bounds = rel->rd_rel->relispartition;
	return rules;
}

void
rose_rules_free(RoseRules *rules)
{
	if (rules->estate != NULL)
	{
		ExecDropSingleTupleTableSlot(rules->slot);
		FreeExecutorState(rules->estate);
	}
	MemoryContextDelete(rules->context);
}

void
rose_rules_trust_bounds(RoseRules *rules)
{
	rules->bounds = false;
}

/* ---- NOT NULL ---- */

static void
require_values(const RoseRules *rules, const bool *nulls, const bits8 *present)
{
	for (int i = 0; i < rules->nnotnull; i++)
	{
		AttrNumber	attno = rules->notnull[i];

		if (!nulls[attno - 1] || (present != NULL && !rose_present_test(present, attno)))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("null value in column \"%s\" of relation \"%s\" violates not-null constraint",
						NameStr(TupleDescAttr(RelationGetDescr(rules->rel), attno - 1)->attname),
						RelationGetRelationName(rules->rel)),
				 errtablecol(rules->rel, attno)));
	}
}

/* ---- expressions ---- */

static bool
has_expressions(const RoseRules *rules)
{
	return rules->checks || rules->generated || rules->bounds;
}

static void
prepare(RoseRules *rules)
{
	MemoryContext old = MemoryContextSwitchTo(rules->context);

	rules->slot = MakeSingleTupleTableSlot(RelationGetDescr(rules->rel), &TTSOpsVirtual);
	rules->slot->tts_tableOid = RelationGetRelid(rules->rel);
	rules->estate = CreateExecutorState();
	MemoryContextSwitchTo(rules->estate->es_query_cxt);
	rules->result = makeNode(ResultRelInfo);
	InitResultRelInfo(rules->result, rules->rel, 0, NULL, 0);
	MemoryContextSwitchTo(old);
}

/*
 * The executor looks at NOT NULL together with CHECK.  A column that is not known is as
 * good as null there, and must not be refused.
 */
static Relation
relation_with_unknown(RoseRules *rules)
{
	if (rules->unknown_rel == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(rules->context);
		Relation	copy = palloc(sizeof(RelationData));

		*copy = *rules->rel;
		copy->rd_att = CreateTupleDescCopyConstr(RelationGetDescr(rules->rel));
		copy->rd_att->constr->has_not_null = false;
		rules->unknown_rel = copy;
		MemoryContextSwitchTo(old);
	}
	return rules->unknown_rel;
}

/* In the order in which a local INSERT does it, as the table's owner.  whole: all columns are known. */
static void
evaluate(RoseRules *rules, Datum *values, bool *nulls, bool whole)
{
	int			natts = RelationGetDescr(rules->rel)->natts;
	TupleTableSlot *slot;
	RoseRights	before;

	rose_rights_take(rules->rel->rd_rel->relowner, &before);
	if (rules->estate == NULL)
		prepare(rules);
	slot = rules->slot;
	ResetPerTupleExprContext(rules->estate);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, nulls, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	if (rules->generated)
	{
		ExecComputeStoredGenerated(rules->result, rules->estate, slot, CMD_INSERT);
		memcpy(values, slot->tts_values, natts * sizeof(Datum));
		memcpy(nulls, slot->tts_isnull, natts * sizeof(bool));
		if (whole)
			require_values(rules, nulls, NULL);
	}
	if (rules->checks)
	{
		rules->result->ri_RelationDesc = whole ? rules->rel : relation_with_unknown(rules);
		ExecConstraints(rules->result, slot, rules->estate);
		rules->result->ri_RelationDesc = rules->rel;
	}
	if (rules->bounds)
		(void) ExecPartitionCheck(rules->result, slot, rules->estate, true);
	rose_rights_give_back(&before);
}

void
rose_rules_apply(RoseRules *rules, Datum *values, bool *nulls)
{
	if (!rules->generated)
		require_values(rules, nulls, NULL);
	if (has_expressions(rules))
		evaluate(rules, values, nulls, true);
}

/* ---- rows that are not known as a whole ---- */

static void
find_seen(RoseRules *rules)
{
	const TupleConstr *constr = RelationGetDescr(rules->rel)->constr;
	MemoryContext old = MemoryContextSwitchTo(rules->context);
	RoseRights	before;

	for (int i = 0; rules->checks && i < constr->num_check; i++)
		pull_varattnos(stringToNode(constr->check[i].ccbin), 1, &rules->seen);
	/* those that are not stored are computed where a CHECK looks at them */
	for (int i = 0; (rules->generated || rules->checks) && i < constr->num_defval; i++)
	{
		AttrNumber	attno = constr->defval[i].adnum;

		if (TupleDescAttr(RelationGetDescr(rules->rel), attno - 1)->attgenerated)
			pull_varattnos(stringToNode(constr->defval[i].adbin), 1, &rules->seen);
	}
	if (rules->bounds)
	{
		/* the cache gets the key of what it is a partition of, and may call functions for that */
		rose_rights_take(rules->rel->rd_rel->relowner, &before);
		pull_varattnos((Node *) RelationGetPartitionQual(rules->rel), 1, &rules->seen);
		rose_rights_give_back(&before);
	}
	rules->seen_known = true;
	MemoryContextSwitchTo(old);
}

/* Are all columns that expressions look at among those that are present? */
static bool
sees_enough(RoseRules *rules, const bits8 *present)
{
	TupleDesc	desc = RelationGetDescr(rules->rel);

	if (!rules->seen_known)
		find_seen(rules);
	if (rules->computed_notnull)
		return false;			/* it is looked at together with the others (relation_with_unknown) */
	/* the whole row */
	if (bms_is_member(InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber, rules->seen))
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		AttrNumber	attno = TupleDescAttr(desc, i)->attnum;

		if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, rules->seen) &&
			!rose_present_test(present, attno))
			return false;
	}
	return true;
}

/* What is computed from values that are not known is not known. */
static void
forget_generated(const RoseRules *rules, bits8 *present)
{
	TupleDesc	desc = RelationGetDescr(rules->rel);

	for (int i = 0; rules->generated && i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attgenerated)
			rose_present_clear(present, i + 1);
	}
}

bool
rose_rules_apply_partial(RoseRules *rules, Datum *values, bool *nulls, bits8 *present)
{
	bool		enough = !has_expressions(rules) || sees_enough(rules, present);

	if (!enough)
		forget_generated(rules, present);
	else if (has_expressions(rules))
		evaluate(rules, values, nulls, false);
	require_values(rules, nulls, present);
	return enough;
}
