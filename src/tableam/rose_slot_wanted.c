/*-------------------------------------------------------------------------
 *
 * rose_slot_wanted.c
 *	  Which columns the plan of an index scan reads of the rows in its slot.
 *
 * The executor asks a slot for its first n columns, as heap's tuples are taken apart.  Rows of leaves
 * are in columns, and those before the n-th that no expression names would be decoded for
 * nobody.  What reads the slot of an index scan is its plan's target list and its conditions:
 * who has the row otherwise (a trigger, a row lock, EvalPlanQual) has it from another slot, and
 * without a projection the target list names all columns.  An aggregate without groups takes the row as it is, and
 * its expressions say what it reads.  So when the executor has started, the slots of its
 * index scans of rose tables are told their plans.  Not those below a node that is not core's: it may read its
 * children's slots itself, as a scan of conditions joined by OR does (indexam/rose_or_scan.c), and any column of them.
 *
 * Which columns that are is found out when a row of several columns is asked for, once for each
 * execution; for a row with a column or two it would cost more than it saves.
 *
 * Whoever asks the slot for more columns than the plan reads gets all of them; so does who copies the row as a whole
 * (rose_slot.c).
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/sysattr.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"

#include "tableam/rose_slot.h"

/* The slot of an index scan of a rose table, or NULL. */
static RoseTupleSlot *
slot_of_scan(PlanState *state)
{
	TupleTableSlot *slot;

	if (state == NULL || !IsA(state, IndexScanState))
		return NULL;
	slot = ((ScanState *) state)->ss_ScanTupleSlot;
	return ROSE_SLOT_IS(slot) ? (RoseTupleSlot *) slot : NULL;
}

static bool
is_without_groups(const Agg *agg)
{
	return agg->aggstrategy == AGG_PLAIN && agg->numCols == 0 && agg->chain == NIL;
}

/* What reads their slots is not in their plans. */
static void
forget_children(CustomScanState *state)
{
	ListCell   *cell;

	foreach(cell, state->custom_ps)
	{
		RoseTupleSlot *rslot = slot_of_scan(lfirst(cell));

		if (rslot != NULL)
			rslot->plan = NULL;
	}
}

/* Before its children. */
static bool
note_plan(PlanState *state, void *context)
{
	RoseTupleSlot *rslot = slot_of_scan(state);

	if (rslot != NULL)
		rslot->plan = (const Scan *) state->plan;
	else if (IsA(state, AggState) && is_without_groups((const Agg *) state->plan))
	{
		rslot = slot_of_scan(outerPlanState(state));
		if (rslot != NULL && outerPlanState(state)->ps_ProjInfo == NULL)
			rslot->reader = state->plan;
	}
	(void) planstate_tree_walker(state, note_plan, context);
	if (IsA(state, CustomScanState))
		forget_children((CustomScanState *) state);
	return false;
}

void
rose_slot_note_plans(PlanState *state)
{
	if (state != NULL)
		(void) note_plan(state, NULL);
}

/* NULL: all up to the last one, or the row as a whole. */
static RoseWanted *
wanted_of(const Bitmapset *read, MemoryContext context)
{
	RoseWanted *wanted;
	int			member = -1;

	if (bms_is_empty(read) || bms_is_member(-FirstLowInvalidHeapAttributeNumber, read))
		return NULL;
	wanted = MemoryContextAlloc(context, offsetof(RoseWanted, attnos) +
								bms_num_members(read) * sizeof(AttrNumber));
	wanted->n = 0;
	wanted->last = 0;
	while ((member = bms_next_member(read, member)) >= 0)
	{
		AttrNumber	attno = (AttrNumber) (member + FirstLowInvalidHeapAttributeNumber);

		if (attno > 0)
			wanted->attnos[wanted->n++] = wanted->last = attno;
	}
	if (wanted->n > 0 && wanted->n < wanted->last)
		return wanted;
	pfree(wanted);
	return NULL;
}

const RoseWanted *
rose_slot_find_wanted(RoseTupleSlot *rslot)
{
	const Scan *plan = rslot->plan;
	MemoryContext context = rslot->base.base.tts_mcxt;
	MemoryContext old = MemoryContextSwitchTo(context);
	Bitmapset  *read = NULL;

	Assert(plan != NULL);
	rslot->plan = NULL;
	if (rslot->reader != NULL)
	{
		pull_varattnos((Node *) rslot->reader->targetlist, OUTER_VAR, &read);
		pull_varattnos((Node *) rslot->reader->qual, OUTER_VAR, &read);
	}
	else
		pull_varattnos((Node *) plan->plan.targetlist, plan->scanrelid, &read);
	pull_varattnos((Node *) plan->plan.qual, plan->scanrelid, &read);
	rslot->wanted = wanted_of(read, context);
	bms_free(read);
	MemoryContextSwitchTo(old);
	return rslot->wanted;
}
