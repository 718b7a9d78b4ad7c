/*-------------------------------------------------------------------------
 *
 * rose_index_eval.c
 *	  Expressions and predicates of secondary indexes, evaluated for entries.
 *
 * Whoever makes entries of rows (lsm/tree/rose_entry.h) gets here by a hook, since lsm knows
 * nothing of the executor.
 *
 * As whom.  Of a row that is being written, functions run as the one who writes it, as core's
 * own insertion of index entries has them run.  Of a row that is there already nothing is
 * evaluated on heap, so nobody there needs the right to call a function, or has to
 * trust it, in order to read or to delete a row.  Therefore those run as the table's
 * owner, as in CREATE INDEX: restricted to what is safe in anybody's session, with a
 * search_path that nobody can have made for them, as core has it in maintenance from 17 on.
 * Who changes a row of his own table calls the same function for the new row anyway, and so does it as
 * himself for the old one: functions that plan queries would plan them anew for each search_path.
 *
 * Nor does a function that fails by now hinder anybody on heap from deleting the row.  So of a
 * row that goes, or is changed, it is called in a subtransaction, and no entry is found
 * if it fails.
 *
 * What is made ready is kept in TopTransactionContext, and no longer than functions, roles, the table and the index
 * stay what they are; with functions of users in it for the rest of the command, as core has it, for those may depend on
 * what a session sets between commands.
 * A function may itself change rows of the same table: then the inner evaluation has a
 * state of its own.  One that an error has left in the middle is thrown away.  Those of
 * many indexes make room for one another.
 *
 * Backend-local.  No LWLock may be held: functions do what they like.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/tupdesc.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "util/rose_index_expr.h"
#include "lsm/tree/rose_entry.h"
#include "indexam/rose_index_settings.h"
#include "indexam/rose_indexam.h"

/* The search_path of functions that run as the owner. */
#define SAFE_SEARCH_PATH	"pg_catalog, pg_temp"

typedef struct Expression
{
	ExprState  *state;
	bool		byval;
	int16		len;
} Expression;

typedef struct IndexEval
{
	dlist_node	node;
	MemoryContext context;		/* all of it */

	/* what it is for */
	Oid			indexid;
	Oid			heapid;
	RoseEntryUser user;
	Oid			userid;			/* who was the current user */
	CommandId	cid;
	int			made_at;		/* nesting level of the (sub)transaction that made it */
	bool		stale;			/* functions, roles or the table were altered */
	int			busy_at;		/* nesting level of the (sub)transaction that evaluates; 0: nobody does */

	Oid			owner;			/* of the table */
	bool		lasting;		/* there are no functions of users in it */
	bool		guarded;		/* functions are to be kept from harm */
	int			follows;		/* settings that not everybody has */
	EState	   *estate;
	ExprContext *econtext;
	TupleTableSlot *slot;		/* the row; columns that nobody reads are NULL */
	Bitmapset  *depends;		/* the others */
	int			nexpressions;
	Expression *expressions;
	ExprState  *predicate;		/* NULL: there is none */
} IndexEval;

/* In TopTransactionContext; those made last come first. */
static dlist_head kept = DLIST_STATIC_INIT(kept);
static int	nkept = 0;

/* So many are kept; one takes some 20 kB. */
#define KEPT_MAX	512

/* ---- as the owner ---- */

typedef struct AsOwner
{
	Oid			userid;
	int			security;
	int			guc_level;
} AsOwner;

static void
begin_as_owner(Oid owner, AsOwner *outer)
{
	GetUserIdAndSecContext(&outer->userid, &outer->security);
	SetUserIdAndSecContext(owner, outer->security | SECURITY_RESTRICTED_OPERATION);
	outer->guc_level = NewGUCNestLevel();
	(void) set_config_option("search_path", SAFE_SEARCH_PATH, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/* If an error is raised, the end of the (sub)transaction does it. */
static void
end_as_owner(const AsOwner *outer)
{
	AtEOXact_GUC(false, outer->guc_level);
	SetUserIdAndSecContext(outer->userid, outer->security);
}

/* The context of an error of a row that is there already: nobody expects an expression there. */
static void
describe_stored(void *arg)
{
	char	   *name = get_rel_name(*(Oid *) arg);

	errcontext("entry of a stored row in index \"%s\", computed as the owner of the table with search_path \"%s\"",
			   name != NULL ? name : "", SAFE_SEARCH_PATH);
}

/* ---- states ---- */

static void
drop_eval(IndexEval *eval, bool finished)
{
	dlist_delete(&eval->node);
	nkept--;
	if (finished)
	{
		ExecDropSingleTupleTableSlot(eval->slot);
		FreeExecutorState(eval->estate);
	}
	MemoryContextDelete(eval->context);
}

/* As the planner leaves an expression, and by which settings. */
static Node *
plan(IndexEval *eval, Node *node)
{
	Node	   *planned = (Node *) expression_planner((Expr *) node);
	RoseIndexExpr expr = {.columns = list_make1(planned)};

	eval->follows |= rose_index_expr_follows(&expr);
	return planned;
}

/* That calls functions of constants, and takes functions in SQL apart. */
static void
prepare_expressions(IndexEval *eval, const RoseIndexExpr *expr)
{
	int			level = rose_index_settings_begin(rose_index_settings_of_folding(eval->follows, eval->lasting));
	MemoryContext old = MemoryContextSwitchTo(eval->estate->es_query_cxt);
	ListCell   *cell;

	eval->expressions = palloc(list_length(expr->columns) * sizeof(Expression));
	foreach(cell, expr->columns)
	{
		Expression *expression = &eval->expressions[eval->nexpressions++];

		expression->state = ExecInitExpr((Expr *) plan(eval, lfirst(cell)), NULL);
		get_typlenbyval(exprType(lfirst(cell)), &expression->len, &expression->byval);
	}
	if (expr->predicate != NIL)
		eval->predicate = ExecInitQual((List *) plan(eval, (Node *) expr->predicate), NULL);
	MemoryContextSwitchTo(old);
	rose_index_settings_end(level);
}

static void
fill_eval(IndexEval *eval, Relation index)
{
	Relation	heap = RelationIdGetRelation(eval->heapid);
	RoseIndexExpr expr;
	int			natts;

	if (heap == NULL)
		elog(ERROR, "could not open the table of index %u", eval->indexid);
	rose_index_expr_read(index, &expr);
	natts = RelationGetNumberOfAttributes(heap);
	eval->owner = heap->rd_rel->relowner;
	eval->slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(heap)),
										  &TTSOpsVirtual);
	RelationClose(heap);
	memset(eval->slot->tts_isnull, true, natts * sizeof(bool));
	eval->depends = rose_index_expr_depends(&expr, natts);
	eval->lasting = rose_index_expr_is_lasting(&expr);
	eval->guarded = eval->user == ROSE_ENTRY_OF_OWNER && !eval->lasting;
	eval->follows = rose_index_expr_follows(&expr);
	eval->estate = CreateExecutorState();
	eval->econtext = CreateExprContext(eval->estate);
	eval->econtext->ecxt_scantuple = eval->slot;
	if (eval->user == ROSE_ENTRY_OF_OWNER)
	{
		AsOwner		outer;

		/* who may call a function is asked now, and functions in SQL are taken apart */
		begin_as_owner(eval->owner, &outer);
		prepare_expressions(eval, &expr);
		end_as_owner(&outer);
	}
	else
		prepare_expressions(eval, &expr);
}

/* The one that was made first and that nobody is in the middle of goes. */
static void
drop_oldest(void)
{
	dlist_node *node = dlist_tail_node(&kept);

	while (dlist_container(IndexEval, node, node)->busy_at != 0)
	{
		if (!dlist_has_prev(&kept, node))
			return;
		node = dlist_prev_node(&kept, node);
	}
	drop_eval(dlist_container(IndexEval, node, node), true);
}

static IndexEval *
make_eval(Relation index, RoseEntryUser user)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose index expressions",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	IndexEval  *eval = palloc0(sizeof(IndexEval));

	eval->context = context;
	eval->indexid = RelationGetRelid(index);
	eval->heapid = index->rd_index->indrelid;
	eval->user = user;
	eval->userid = GetUserId();
	eval->cid = GetCurrentCommandId(false);
	eval->made_at = GetCurrentTransactionNestLevel();
	fill_eval(eval, index);
	MemoryContextSwitchTo(old);
	/* an error before this leaves it to the caller's context */
	MemoryContextSetParent(context, TopTransactionContext);
	if (nkept >= KEPT_MAX)
		drop_oldest();
	dlist_push_head(&kept, &eval->node);
	nkept++;
	return eval;
}

/* One that nobody is in the middle of; those that hold no longer go. */
static IndexEval *
find_eval(Relation index, RoseEntryUser user)
{
	Oid			indexid = RelationGetRelid(index);
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &kept)
	{
		IndexEval  *eval = dlist_container(IndexEval, node, iter.cur);

		if (eval->indexid != indexid || eval->user != user || eval->busy_at != 0)
			continue;
		if (!eval->stale && eval->userid == GetUserId() && (eval->lasting || eval->cid == GetCurrentCommandId(false)))
			return eval;
		drop_eval(eval, true);
	}
	return make_eval(index, user);
}

/* ---- evaluation ---- */

static void
set_row(IndexEval *eval, const Datum *values, const bool *nulls)
{
	int			attno = -1;

	ExecClearTuple(eval->slot);
	while ((attno = bms_next_member(eval->depends, attno)) >= 0)
	{
		eval->slot->tts_values[attno - 1] = values[attno - 1];
		eval->slot->tts_isnull[attno - 1] = nulls[attno - 1];
	}
	ExecStoreVirtualTuple(eval->slot);
}

/* In the caller's context, and as it is stored. */
static Datum
copy_result(const Expression *expression, Datum value)
{
	if (expression->byval)
		return value;
	if (expression->len == -1)
		return PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	return datumCopy(value, false, expression->len);
}

static bool
compute(IndexEval *eval, Datum *results, bool *result_nulls)
{
	if (eval->predicate != NULL && !ExecQual(eval->predicate, eval->econtext))
		return false;
	for (int i = 0; i < eval->nexpressions; i++)
	{
		const Expression *expression = &eval->expressions[i];
		Datum		value = ExecEvalExprSwitchContext(expression->state, eval->econtext,
													  &result_nulls[i]);

		results[i] = result_nulls[i] ? (Datum) 0 : copy_result(expression, value);
	}
	return true;
}

static bool
compute_as_owner(IndexEval *eval, Datum *results, bool *result_nulls)
{
	AsOwner		outer;
	bool		exists;

	begin_as_owner(eval->owner, &outer);
	exists = compute(eval, results, result_nulls);
	end_as_owner(&outer);
	return exists;
}

static bool
compute_alike(IndexEval *eval, Datum *results, bool *result_nulls)
{
	int			level = rose_index_settings_begin(eval->follows);
	bool		exists = eval->guarded ? compute_as_owner(eval, results, result_nulls) : compute(eval, results, result_nulls);

	rose_index_settings_end(level);
	return exists;
}

static bool
evaluate(Relation index, RoseEntryUser user, const Datum *values, const bool *nulls,
		 Datum *results, bool *result_nulls)
{
	Oid			indexid = RelationGetRelid(index);
	ErrorContextCallback context = {error_context_stack, describe_stored, &indexid};
	IndexEval  *eval;
	bool		exists;

	Assert(user == ROSE_ENTRY_OF_WRITER || user == ROSE_ENTRY_OF_OWNER);
	if (user == ROSE_ENTRY_OF_OWNER)
		error_context_stack = &context;
	eval = find_eval(index, user);
	set_row(eval, values, nulls);
	eval->busy_at = GetCurrentTransactionNestLevel();
	exists = compute_alike(eval, results, result_nulls);
	ResetExprContext(eval->econtext);
	eval->busy_at = 0;
	error_context_stack = context.previous;
	return exists;
}

/* ---- rows that go ---- */

/* Is the current user the owner, in his own name?  Not in SECURITY DEFINER functions, nor for foreign keys. */
static bool
is_owner_himself(Relation index)
{
	Oid			userid;
	int			security;

	GetUserIdAndSecContext(&userid, &security);
	return security == 0 && userid == index->rd_rel->relowner;
}

/* Is the error what the function says of the row, and not that something else is to end? */
static bool
is_about_row(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INTERNAL_ERROR:
			return false;
		default:
			return true;
	}
}

static RoseEntryEval
evaluate_gone(Relation index, RoseEntryUser user, const Datum *values, const bool *nulls,
			  Datum *results, bool *result_nulls)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner resources = CurrentResourceOwner;
	volatile RoseEntryEval result = ROSE_EVAL_FAILED;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		result = evaluate(index, user, values, nulls, results, result_nulls) ? ROSE_EVAL_ROW : ROSE_EVAL_NO_ROW;
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = resources;
		if (!is_about_row(error))
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = resources;
	return result;
}

static RoseEntryEval
index_eval(Relation index, RoseEntryUser user, const Datum *values, const bool *nulls,
		   Datum *results, bool *result_nulls)
{
	switch (user)
	{
		case ROSE_ENTRY_OF_DELETED:
			return evaluate_gone(index, ROSE_ENTRY_OF_OWNER, values, nulls, results, result_nulls);
		case ROSE_ENTRY_OF_CHANGED:
			user = is_owner_himself(index) ? ROSE_ENTRY_OF_WRITER : ROSE_ENTRY_OF_OWNER;
			return evaluate_gone(index, user, values, nulls, results, result_nulls);
		default:
			return evaluate(index, user, values, nulls, results, result_nulls) ? ROSE_EVAL_ROW : ROSE_EVAL_NO_ROW;
	}
}

/* ---- what ends a state ---- */

/* Functions, roles or their members. */
static void
on_catalog_change(Datum arg, int cache, uint32 hash)
{
	dlist_iter	iter;

	dlist_foreach(iter, &kept)
		dlist_container(IndexEval, node, iter.cur)->stale = true;
}

/* A table, or an index; or (invalid) any. */
static void
on_relation_change(Datum arg, Oid relid)
{
	dlist_iter	iter;

	dlist_foreach(iter, &kept)
	{
		IndexEval  *eval = dlist_container(IndexEval, node, iter.cur);

		if (!OidIsValid(relid) || eval->indexid == relid || eval->heapid == relid)
			eval->stale = true;
	}
}

static void
on_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			dlist_init(&kept);
			nkept = 0;
			break;
		default:
			break;
	}
}

/*
 * Whoever was in the middle of one within what is rolled back will not come back to it.  Nor is the
 * table what it was there, while commands count on as before.
 */
static void
on_subtransaction_event(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
						void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_mutable_iter iter;

	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	dlist_foreach_modify(iter, &kept)
	{
		IndexEval  *eval = dlist_container(IndexEval, node, iter.cur);

		if (eval->busy_at >= level)
			drop_eval(eval, false);
		else if (eval->made_at >= level)
			eval->stale = true;
	}
}

void
rose_index_eval_define_callbacks(void)
{
	rose_entry_eval_hook = index_eval;
	RegisterXactCallback(on_transaction_event, NULL);
	RegisterSubXactCallback(on_subtransaction_event, NULL);
	CacheRegisterRelcacheCallback(on_relation_change, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, on_catalog_change, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, on_catalog_change, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, on_catalog_change, (Datum) 0);
}
