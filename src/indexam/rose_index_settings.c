/*-------------------------------------------------------------------------
 *
 * rose_index_settings.c
 *	  Settings that expressions of indexes follow, though core takes them for immutable.  See
 *	  rose_index_settings.h.
 *
 * What an index is made of is read from the catalog, for in the relcache entry constants are folded already, by the settings of
 * whoever came first.  That is parsing, so the answer for most indexes, that nothing in them follows anything, is kept for the session.
 *
 * Backend-local; no locks.  Does not evaluate entries (rose_index_eval.c), nor say which functions follow
 * what (util/rose_index_expr.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/transam.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteManip.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "util/rose_index_expr.h"
#include "indexam/rose_index_settings.h"

/* ---- the same for everybody ---- */

static void
set_to_default(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Some functions of core's that count as immutable write text as the session wants it.  Who takes an entry out computes
 * it again, so all do that with the same settings, which are the defaults.  Returns what rose_index_settings_end wants.
 */
int
rose_index_settings_begin(int follows)
{
	int			deviates = rose_index_expr_deviates(follows);
	int			level;

	if (likely(deviates == 0))
		return 0;
	level = NewGUCNestLevel();
	if (deviates & ROSE_FOLLOWS_FLOAT_DIGITS)
		set_to_default("extra_float_digits", "1");
	if (deviates & ROSE_FOLLOWS_BYTEA_OUTPUT)
		set_to_default("bytea_output", "hex");
	if (deviates & ROSE_FOLLOWS_QUOTE_ALL)
		set_to_default("quote_all_identifiers", "off");
	if (deviates & ROSE_FOLLOWS_TIMEZONE)
		set_to_default("TimeZone", "GMT");
	return level;
}

void
rose_index_settings_end(int level)
{
	if (level != 0)
		AtEOXact_GUC(false, level);
}

/* ---- which indexes it is about ---- */

/* Of indexes that follow no settings, by OID, of this session; they leave it with their relcache entry. */
static HTAB *plain = NULL;

static void
forget_plain(Datum arg, Oid relid)
{
	if (OidIsValid(relid))
		(void) hash_search(plain, &relid, HASH_REMOVE, NULL);
	else if (hash_get_num_entries(plain) > 0)
	{
		HASH_SEQ_STATUS seq;
		Oid		   *indexid;

		hash_seq_init(&seq, plain);
		while ((indexid = hash_seq_search(&seq)) != NULL)
			(void) hash_search(plain, indexid, HASH_REMOVE, NULL);
	}
}

static void
make_plain(void)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid)};

	if (plain != NULL)
		return;
	plain = hash_create("rose indexes that follow no settings", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(forget_plain, (Datum) 0);
}

/*
 * Does it follow any, or have functions of users, in which nobody sees it?  If so, *expr is what the catalog has, and *follows the settings
 * that are known.  The index is locked, so it stays what it is.
 */
static bool
may_follow(Oid indexid, RoseIndexExpr *expr, int *follows)
{
	HeapTuple	tuple;

	make_plain();
	if (hash_search(plain, &indexid, HASH_FIND, NULL) != NULL)
		return false;
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	rose_index_expr_read_tuple(tuple, expr);
	ReleaseSysCache(tuple);
	*follows = rose_index_expr_follows(expr);
	if (*follows != 0 || !rose_index_expr_is_lasting(expr))
		return true;
	(void) hash_search(plain, &indexid, HASH_ENTER, NULL);
	return false;
}

/* ---- for the planner ---- */

/* An index's expressions and predicate as core has them in memory, which calls functions of constants, but with the settings that entries are made with. */
static void
fold_alike(RoseIndexExpr *expr, int relid, int follows)
{
	int			level = rose_index_settings_begin(ROSE_FOLLOWS_TEXT | follows);
	Node	   *predicate = eval_const_expressions(NULL, (Node *) make_ands_explicit(expr->predicate));

	expr->columns = (List *) eval_const_expressions(NULL, (Node *) expr->columns);
	expr->predicate = make_ands_implicit(expr->predicate == NIL ? NULL : canonicalize_qual((Expr *) predicate, false));
	rose_index_settings_end(level);
	fix_opfuncids((Node *) expr->columns);
	fix_opfuncids((Node *) expr->predicate);
	if (relid != 1)
	{
		ChangeVarNodes((Node *) expr->columns, 1, relid, 0);
		ChangeVarNodes((Node *) expr->predicate, 1, relid, 0);
	}
}

static bool
is_users(Oid function, void *context)
{
	return function >= FirstGenbkiObjectId;
}

/* Is a user's function called with nothing but constants?  From 18 on, one in SQL keeps what it was planned to with the settings of its first call. */
static bool
has_call_of_constants(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if ((IsA(node, FuncExpr) || IsA(node, OpExpr)) && check_functions_in_node(node, is_users, NULL) && !contain_var_clause(node))
		return true;
	return expression_tree_walker(node, has_call_of_constants, context);
}

/*
 * Constants that follow settings are not to be seen any more in what core has of an index: it may have been made by other settings, this
 * session's or those of before.
 */
static bool
is_folded_otherwise(const IndexOptInfo *info, RoseIndexExpr *expr, int follows)
{
	if (rose_index_expr_deviates(ROSE_FOLLOWS_TEXT) != 0 &&
		(has_call_of_constants((Node *) expr->columns, NULL) || has_call_of_constants((Node *) expr->predicate, NULL)))
		return true;
	fold_alike(expr, info->rel->relid, follows);
	return !equal(expr->columns, info->indexprs) || !equal(expr->predicate, info->indpred);
}

bool
rose_index_settings_differ(const IndexOptInfo *info)
{
	RoseIndexExpr core = {.columns = info->indexprs,.predicate = info->indpred};
	RoseIndexExpr expr;
	int			follows;

	/* one that somebody only thinks of is in no catalog */
	if (info->hypothetical || (core.columns == NIL && core.predicate == NIL))
		return false;
	return rose_index_expr_deviates(rose_index_expr_follows(&core)) != 0 ||
		(may_follow(info->indexoid, &expr, &follows) && is_folded_otherwise(info, &expr, follows));
}

/* ---- for ON CONFLICT ---- */

static char *
name_settings(int deviates)
{
	static const char *const names[] = {"extra_float_digits", "bytea_output", "quote_all_identifiers", "TimeZone"};
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(names); i++)
		if (deviates & (1 << i))
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", names[i]);
	return list.data;
}

void
rose_index_settings_check_arbiter(Relation index)
{
	RoseIndexExpr expr;
	int			follows;
	int			deviates;

	if (!index->rd_index->indisunique || !rose_index_expr_is_any(index) || !may_follow(RelationGetRelid(index), &expr, &follows))
		return;
	deviates = rose_index_expr_deviates(follows);
	if (deviates != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot look for conflicts in unique index \"%s\" with other settings than it has", RelationGetRelationName(index)),
				 errdetail("Its entries are written with the defaults of: %s.", name_settings(deviates)),
				 errhint("Set these to what they are by default for the command; better, drop the index, store its expression in a generated column and index that.")));
}
