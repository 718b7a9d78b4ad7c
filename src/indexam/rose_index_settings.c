/*-------------------------------------------------------------------------
 *
 * rose_index_settings.c
 *	  Settings that expressions of indexes follow, though core takes them for immutable.  See
 *	  rose_index_settings.h.
 *
 * What an index is made of is read from the catalog, for in the relcache entry constants are folded already, by the settings of
 * whoever came first.  That is parsing, and planning, so what comes of it is kept for the session, as long as the relcache entry is.
 *
 * Backend-local; no locks.  Does not evaluate entries (rose_index_eval.c), nor say which functions follow
 * what (util/rose_index_expr.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "util/rose_index_expr.h"
#include "indexam/rose_index_settings.h"

/* ---- the same for everybody ---- */

static const struct
{
	int			follows;
	const char *name;
	const char *value;			/* by default */
}			settings[] = {
	{ROSE_FOLLOWS_FLOAT_DIGITS, "extra_float_digits", "1"},
	{ROSE_FOLLOWS_BYTEA_OUTPUT, "bytea_output", "hex"},
	{ROSE_FOLLOWS_QUOTE_ALL, "quote_all_identifiers", "off"},
	{ROSE_FOLLOWS_TIMEZONE, "TimeZone", "GMT"},
	{ROSE_FOLLOWS_DATESTYLE, "DateStyle", "ISO, MDY"},
	{ROSE_FOLLOWS_INTERVALSTYLE, "IntervalStyle", "postgres"},
	{ROSE_FOLLOWS_XMLBINARY, "xmlbinary", "base64"},
	{ROSE_FOLLOWS_ABBREVIATIONS, "timezone_abbreviations", "Default"}
};

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
	for (int i = 0; i < lengthof(settings); i++)
		if (deviates & settings[i].follows)
			(void) set_config_option(settings[i].name, settings[i].value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

void
rose_index_settings_end(int level)
{
	if (level != 0)
		AtEOXact_GUC(false, level);
}

/* Literals in functions of users are read as these settings say when the functions are taken apart. */
int
rose_index_settings_of_folding(int follows, bool lasting)
{
	return ROSE_FOLLOWS_TEXT | follows | (lasting ? 0 : ROSE_FOLLOWS_TIMEZONE | ROSE_FOLLOWS_DATESTYLE | ROSE_FOLLOWS_INTERVALSTYLE);
}

/* ---- which indexes it is about ---- */

/* What is known of an index, in this session; it leaves with the relcache entry. */
typedef struct Known
{
	Oid			indexid;		/* hash key */
	bool		any;			/* it has expressions, or a predicate; else nothing follows */
	bool		lasting;		/* without functions of users */
	bool		compared;		/* what core has of it, as of then: */
	bool		folded_otherwise;
	int			follows;		/* settings */
} Known;

static HTAB *known_indexes = NULL;

static void
forget_known(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS seq;
	Known	   *known;

	if (OidIsValid(relid))
	{
		(void) hash_search(known_indexes, &relid, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&seq, known_indexes);
	while ((known = hash_seq_search(&seq)) != NULL)
		(void) hash_search(known_indexes, &known->indexid, HASH_REMOVE, NULL);
}

static void
make_known(void)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Known)};

	if (known_indexes != NULL)
		return;
	known_indexes = hash_create("rose settings of indexes", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(forget_known, (Datum) 0);
}

/* As the catalog has it.  The index is locked, so it stays what it is. */
static void
read_expr(Oid indexid, RoseIndexExpr *expr)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	rose_index_expr_read_tuple(tuple, expr);
	ReleaseSysCache(tuple);
}

static Known
get_known(Oid indexid)
{
	Known		known = {.indexid = indexid};
	Known	   *entry;
	RoseIndexExpr expr;

	make_known();
	entry = hash_search(known_indexes, &indexid, HASH_FIND, NULL);
	if (entry != NULL)
		return *entry;
	read_expr(indexid, &expr);
	known.any = expr.columns != NIL || expr.predicate != NIL;
	known.lasting = rose_index_expr_is_lasting(&expr);
	known.follows = rose_index_expr_follows(&expr);
	*(Known *) hash_search(known_indexes, &indexid, HASH_ENTER, NULL) = known;
	return known;
}

/* ---- for the planner ---- */

/* An index's expressions and predicate as core has them in memory, which calls functions of constants, but with the settings that entries are made with. */
static void
fold_alike(RoseIndexExpr *expr, int follows)
{
	int			level = rose_index_settings_begin(follows);
	Node	   *predicate = eval_const_expressions(NULL, (Node *) make_ands_explicit(expr->predicate));

	expr->columns = (List *) eval_const_expressions(NULL, (Node *) expr->columns);
	expr->predicate = make_ands_implicit(expr->predicate == NIL ? NULL : canonicalize_qual((Expr *) predicate, false));
	rose_index_settings_end(level);
	fix_opfuncids((Node *) expr->columns);
	fix_opfuncids((Node *) expr->predicate);
}

/*
 * Constants that follow settings are not to be seen any more in what core has of an index: it may have been made by other settings, this
 * session's or those of before.  Looked at once for what core has, as functions of users are called in it.
 */
static void
compare_with_core(Known *known)
{
	Relation	index = RelationIdGetRelation(known->indexid);
	RoseIndexExpr core;
	RoseIndexExpr expr;
	Known	   *entry;

	if (!RelationIsValid(index))
		elog(ERROR, "could not open index %u", known->indexid);
	known->compared = true;
	core.columns = RelationGetIndexExpressions(index);
	core.predicate = RelationGetIndexPredicate(index);
	known->follows |= rose_index_expr_follows(&core);
	if (known->follows != 0 || !known->lasting)
	{
		rose_index_expr_read(index, &expr);
		fold_alike(&expr, rose_index_settings_of_folding(known->follows, known->lasting));
		known->folded_otherwise = !equal(expr.columns, core.columns) || !equal(expr.predicate, core.predicate);
	}
	RelationClose(index);
	/* it may have left meanwhile */
	entry = hash_search(known_indexes, &known->indexid, HASH_FIND, NULL);
	if (entry != NULL)
		*entry = *known;
}

bool
rose_index_settings_differ(Oid indexid)
{
	Known		known;

	known = get_known(indexid);
	if (known.any && !known.compared)
		compare_with_core(&known);
	/* what functions of users follow is not to be seen; from 18 on, those in SQL even keep what they were planned to by the settings of their first call */
	return known.folded_otherwise || rose_index_expr_deviates(known.follows | (known.lasting ? 0 : ROSE_FOLLOWS_TEXT)) != 0;
}

/* ---- for ON CONFLICT ---- */

static char *
name_settings(int deviates)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(settings); i++)
		if (deviates & settings[i].follows)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", settings[i].name);
	return list.data;
}

void
rose_index_settings_check_arbiter(Relation index)
{
	int			deviates;

	if (!index->rd_index->indisunique || !rose_index_expr_is_any(index))
		return;
	deviates = rose_index_expr_deviates(get_known(RelationGetRelid(index)).follows);
	if (deviates != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot look for conflicts in unique index \"%s\" with other settings than it has", RelationGetRelationName(index)),
				 errdetail("Its entries are written with the defaults of: %s.", name_settings(deviates)),
				 errhint("Set these to what they are by default for the command; better, drop the index, store its expression in a generated column and index that.")));
}
