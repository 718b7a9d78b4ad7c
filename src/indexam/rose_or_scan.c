/*-------------------------------------------------------------------------
 *
 * rose_or_scan.c
 *	  Conditions joined by OR: the rows of each arm, through an index of its own.
 *
 * The children are index scans of one table, with one snapshot, one for each arm of the OR.
 * They are read one after the other, and a row of a later one is left out if an arm before it
 * is true of it as well: then it was there already.  Nothing is remembered, so the first row
 * comes as fast as from one index.
 *
 * A child checks all conditions on the table beside its arm, so there are none to be checked
 * here, unless READ COMMITTED asks about another version of the row
 * (EvalPlanQual): that version has been found by no child.
 *
 * A child's scan slot, not what it projects, is the row; it is the slot of this scan, too,
 * so that WHERE CURRENT OF finds it.
 *
 * Backend-local; the children see to locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "utils/rel.h"

#include "indexam/rose_or.h"

typedef struct OrScanState
{
	CustomScanState css;		/* first; children are custom_ps */
	int			current;		/* child that is read */
	List	   *arms;			/* ExprStates, as the children */
	ExprState  *conditions;		/* all there are */
} OrScanState;

static const CustomExecMethods or_exec_methods;

static Node *
or_scan_create(CustomScan *scan)
{
	OrScanState *state = palloc0(sizeof(OrScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &or_exec_methods;
	return (Node *) state;
}

/*
 * Core has set up expressions for virtual rows; ours are a child's, which take their columns
 * from storage when they are asked for.
 */
static void
or_scan_take_any_slot(OrScanState *state)
{
	ScanState  *ss = &state->css.ss;

	ss->ps.scanopsset = true;
	ss->ps.scanopsfixed = false;
	ss->ps.scanops = NULL;
	ExecAssignScanProjectionInfo(ss);
}

static void
or_scan_begin(CustomScanState *css, EState *estate, int eflags)
{
	OrScanState *state = (OrScanState *) css;
	CustomScan *scan = castNode(CustomScan, css->ss.ps.plan);
	ListCell   *cell;

	foreach(cell, scan->custom_plans)
		css->custom_ps = lappend(css->custom_ps, ExecInitNode(lfirst(cell), estate, eflags));
	or_scan_take_any_slot(state);
	foreach(cell, linitial_node(List, scan->custom_exprs))
		state->arms = lappend(state->arms, ExecInitExpr(lfirst(cell), &css->ss.ps));
	state->conditions = ExecInitQual(lsecond_node(List, scan->custom_exprs), &css->ss.ps);
}

/* Has a child before the current one given this row? */
static bool
is_of_earlier_arm(OrScanState *state, TupleTableSlot *slot)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	for (int i = 0; i < state->current; i++)
	{
		bool		isnull;
		Datum		holds;

		ResetExprContext(econtext);
		holds = ExecEvalExprSwitchContext(list_nth(state->arms, i), econtext, &isnull);
		if (!isnull && DatumGetBool(holds))
			return true;
	}
	return false;
}

/* The next row of the current child that is new; or NULL. */
static TupleTableSlot *
next_of_child(OrScanState *state)
{
	PlanState  *child = list_nth(state->css.custom_ps, state->current);

	for (;;)
	{
		TupleTableSlot *result = ExecProcNode(child);
		TupleTableSlot *slot = ((ScanState *) child)->ss_ScanTupleSlot;

		if (TupIsNull(result))
			return NULL;
		if (!is_of_earlier_arm(state, slot))
			return slot;
		CHECK_FOR_INTERRUPTS();
	}
}

static TupleTableSlot *
or_scan_next(ScanState *ss)
{
	OrScanState *state = (OrScanState *) ss;

	for (; state->current < list_length(state->css.custom_ps); state->current++)
	{
		TupleTableSlot *slot = next_of_child(state);

		if (slot != NULL)
		{
			ss->ss_ScanTupleSlot = slot;
			return slot;
		}
	}
	return NULL;
}

static bool
or_scan_recheck(ScanState *ss, TupleTableSlot *slot)
{
	ExprContext *econtext = ss->ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQualAndReset(((OrScanState *) ss)->conditions, econtext);
}

static TupleTableSlot *
or_scan_exec(CustomScanState *css)
{
	return ExecScan(&css->ss, or_scan_next, or_scan_recheck);
}

static void
or_scan_rescan(CustomScanState *css)
{
	OrScanState *state = (OrScanState *) css;
	ListCell   *cell;

	foreach(cell, css->custom_ps)
	{
		PlanState  *child = lfirst(cell);

		if (css->ss.ps.chgParam != NULL)
			UpdateChangedParamSet(child, css->ss.ps.chgParam);
		ExecReScan(child);
	}
	state->current = 0;
	ExecScanReScan(&css->ss);
}

static void
or_scan_end(CustomScanState *css)
{
	ListCell   *cell;

	foreach(cell, css->custom_ps)
		ExecEndNode(lfirst(cell));
}

static const CustomExecMethods or_exec_methods = {
	.CustomName = "Rose Or Scan",
	.BeginCustomScan = or_scan_begin,
	.ExecCustomScan = or_scan_exec,
	.EndCustomScan = or_scan_end,
	.ReScanCustomScan = or_scan_rescan,
};

const CustomScanMethods rose_or_scan_methods = {
	.CustomName = "Rose Or Scan",
	.CreateCustomScanState = or_scan_create,
};

void
rose_or_register(void)
{
	RegisterCustomScanMethods(&rose_or_scan_methods);
}
