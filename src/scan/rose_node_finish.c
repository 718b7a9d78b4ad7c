/*-------------------------------------------------------------------------
 *
 * rose_node_finish.c
 *	  Groups of a Rose Aggregate that are whole: their results, without core's Finalize Aggregate.
 *
 * Core's node looks up each partial state's group in a table of its own, and puts states of a group together.  Where each group comes once,
 * there is nothing to look up, and what it would come to is what the only state says.  So its final functions, HAVING and target list are taken from
 * core's node and evaluated here, for one row of the Rose Aggregate after the other.  With many groups of few rows most of the work was that table's.
 *
 * A state that core would pass as "internal" is serialized, and is read by the aggregate's own function.  Functions that ask who calls them are told an
 * Agg node, of which they see the memory alone.
 *
 * Core's node has been initialized, so it is known that the aggregates may be executed.  It has no rows before it is run, and it is not run.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/syscache.h"

#include "scan/rose_node_finish.h"

/* A function of a state. */
typedef struct StateFunction
{
	FmgrInfo   *info;			/* NULL: there is none */
	FunctionCallInfo call;
} StateFunction;

/* An aggregate of the result. */
typedef struct Finished
{
	const Aggref *aggref;
	int			column;			/* of the rows below, from 0: its state */
	StateFunction read;			/* from its serialized form */
	StateFunction final;
} Finished;

struct RoseNodeFinish
{
	PlanState  *parent;
	PlanState  *below;
	AggState   *place;			/* in which functions are told that they are called */
	ExprContext *econtext;
	bool		failed;			/* something is not known */
	int			n;
	Finished   *aggs;
	TupleTableSlot *values;		/* of aggs */
	ExprState  *having;			/* or NULL */
	ProjectionInfo *result;
};

/* ---- begin ---- */

/* The second argument is for read functions alone, and nothing to them. */
static void
make_function(const RoseNodeFinish *finish, StateFunction *function, Oid oid, int nargs, Oid collation)
{
	if (!OidIsValid(oid))
		return;
	function->info = palloc(sizeof(FmgrInfo));
	fmgr_info(oid, function->info);
	function->call = palloc0(SizeForFunctionCallInfo(nargs));
	InitFunctionCallInfoData(*function->call, function->info, nargs, collation, (Node *) finish->place, NULL);
}

/* False: it is none of those whose results are known to be made so. */
static bool
add_functions(RoseNodeFinish *finish, Finished *agg)
{
	const Aggref *aggref = agg->aggref;
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	bool		known;
	Form_pg_aggregate form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	known = !form->aggfinalextra && (aggref->aggtranstype != INTERNALOID || OidIsValid(form->aggdeserialfn));
	if (known)
	{
		make_function(finish, &agg->final, form->aggfinalfn, 1, aggref->inputcollid);
		make_function(finish, &agg->read, aggref->aggtranstype == INTERNALOID ? form->aggdeserialfn : InvalidOid, 2,
					  aggref->inputcollid);
	}
	ReleaseSysCache(tuple);
	return known;
}

/* Which one it is of those that are finished; -1: it cannot be. */
static int
number_of(RoseNodeFinish *finish, const Aggref *aggref)
{
	const Var  *state;
	Finished   *agg;

	for (int i = 0; i < finish->n; i++)
	{
		if (finish->aggs[i].aggref->aggno == aggref->aggno)
			return i;
	}
	if (list_length(aggref->args) != 1 || aggref->aggdirectargs != NIL || aggref->aggdistinct != NIL)
		return -1;
	state = (const Var *) linitial_node(TargetEntry, aggref->args)->expr;
	if (!IsA(state, Var) || state->varno != OUTER_VAR)
		return -1;
	finish->aggs = finish->aggs == NULL ? palloc(sizeof(Finished)) :
		repalloc(finish->aggs, (finish->n + 1) * sizeof(Finished));
	agg = &finish->aggs[finish->n];
	MemSet(agg, 0, sizeof(Finished));
	agg->aggref = aggref;
	agg->column = state->varattno - 1;
	return add_functions(finish, agg) ? finish->n++ : -1;
}

/* The same expression, with columns of finish->values in the place of aggregates. */
static Node *
replace(Node *node, RoseNodeFinish *finish)
{
	const Aggref *aggref = (const Aggref *) node;
	int			number;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Aggref))
		return expression_tree_mutator(node, replace, finish);
	number = number_of(finish, aggref);
	finish->failed |= number < 0;
	return (Node *) makeVar(INNER_VAR, (AttrNumber) (number + 1), aggref->aggtype, -1, aggref->aggcollid, 0);
}

static TupleTableSlot *
make_values(const RoseNodeFinish *finish)
{
	TupleDesc	desc = CreateTemplateTupleDesc(finish->n);

	for (int i = 0; i < finish->n; i++)
	{
		const Aggref *aggref = finish->aggs[i].aggref;

		TupleDescInitEntry(desc, (AttrNumber) (i + 1), NULL, aggref->aggtype, -1, 0);
		TupleDescInitEntryCollation(desc, (AttrNumber) (i + 1), aggref->aggcollid);
	}
	return ExecInitExtraTupleSlot(finish->parent->state, desc, &TTSOpsVirtual);
}

RoseNodeFinish *
rose_node_finish_create(PlanState *parent, PlanState *agg)
{
	RoseNodeFinish *finish = palloc0(sizeof(RoseNodeFinish));
	EState	   *estate = parent->state;
	List	   *target;
	List	   *having;

	finish->parent = parent;
	finish->below = outerPlanState(agg);
	finish->econtext = CreateExprContext(estate);
	finish->place = makeNode(AggState);
	finish->place->curaggcontext = finish->econtext;
	target = (List *) replace((Node *) agg->plan->targetlist, finish);
	having = (List *) replace((Node *) agg->plan->qual, finish);
	if (finish->failed)
		return NULL;
	finish->values = make_values(finish);
	finish->having = ExecInitQual(having, parent);
	finish->result = ExecBuildProjectionInfo(target, finish->econtext,
											 ExecInitExtraTupleSlot(estate, ExecTypeFromTL(target), &TTSOpsVirtual),
											 parent, NULL);
	return finish;
}

/* ---- results ---- */

static Datum
call(StateFunction *function, Datum value, bool *isnull)
{
	FunctionCallInfo fcinfo = function->call;
	Datum		result;

	if (*isnull && function->info->fn_strict)
		return (Datum) 0;
	fcinfo->args[0].value = value;
	fcinfo->args[0].isnull = *isnull;
	fcinfo->isnull = false;
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

static void
make_aggregates(RoseNodeFinish *finish, const TupleTableSlot *row)
{
	TupleTableSlot *values = finish->values;
	MemoryContext old = MemoryContextSwitchTo(finish->econtext->ecxt_per_tuple_memory);

	ExecClearTuple(values);
	for (int i = 0; i < finish->n; i++)
	{
		Finished   *agg = &finish->aggs[i];
		Datum		value = row->tts_values[agg->column];
		bool		isnull = row->tts_isnull[agg->column];

		if (agg->read.info != NULL)
			value = call(&agg->read, value, &isnull);
		if (agg->final.info != NULL)
			value = call(&agg->final, value, &isnull);
		values->tts_values[i] = value;
		values->tts_isnull[i] = isnull;
	}
	ExecStoreVirtualTuple(values);
	MemoryContextSwitchTo(old);
}

TupleTableSlot *
rose_node_finish_next(RoseNodeFinish *finish)
{
	ExprContext *econtext = finish->econtext;

	for (;;)
	{
		TupleTableSlot *row = ExecProcNode(finish->below);

		if (TupIsNull(row))
			return NULL;
		ResetExprContext(econtext);
		make_aggregates(finish, row);
		econtext->ecxt_outertuple = row;
		econtext->ecxt_innertuple = finish->values;
		if (ExecQual(finish->having, econtext))
			return ExecProject(finish->result);
	}
}
