/*-------------------------------------------------------------------------
 *
 * rose_node_group_kinds.c
 *	  By which columns and expressions a Rose Aggregate can group.
 *
 * It compares words and bytes, not by functions of types: values with the same bytes are equal, whatever the type and its collation.
 * Values that are equal may have different bytes.  Then a group comes in several parts, which core puts together, as it does with those of
 * a table that was given out before: it compares by the type's own function.  Where it is known how to make such values the same, it is
 * done, to have fewer of them; the functions that compare them say so, never names.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "compat/rose_compat_plan.h"
#include "scan/rose_node_group.h"

typedef struct KnownEquality
{
	Oid			function;
	RoseNodeKeyKind kind;
} KnownEquality;

static const KnownEquality known[] = {
	{F_FLOAT4EQ, ROSE_KEY_FLOAT4},
	{F_FLOAT8EQ, ROSE_KEY_FLOAT8},
	{F_BPCHAREQ, ROSE_KEY_BPCHAR},
	{F_NUMERIC_EQ, ROSE_KEY_NUMERIC},
};

static RoseNodeKeyKind
kind_of_function(Oid function)
{
	for (int i = 0; i < lengthof(known); i++)
	{
		if (known[i].function == function)
			return known[i].kind;
	}
	return ROSE_KEY_NONE;
}

/* A column, or an expression that can be evaluated; rows that are made have more in them than their bytes. */
static const Node *
key_of(const Node *expr)
{
	const Node *column = (const Node *) rose_node_expr_column(expr);

	if (column != NULL)
		return column;
	return rose_node_expr_takes(expr) && !type_is_rowtype(exprType(expr)) ? expr : NULL;
}

RoseNodeKeyKind
rose_node_group_key_kind(const Node *expr, Oid equality, const Node **key)
{
	TypeCacheEntry *entry = lookup_type_cache(exprType(expr), TYPECACHE_EQ_OPR);
	RoseNodeKeyKind kind;
	int16		length;
	bool		by_value;
	bool		by_word;

	*key = key_of(expr);
	if (*key == NULL || !OidIsValid(entry->eq_opr) ||
		(OidIsValid(equality) && equality != entry->eq_opr))
		return ROSE_KEY_NONE;
	get_typlenbyval(exprType(*key), &length, &by_value);
	kind = kind_of_function(get_opcode(entry->eq_opr));
	if (kind == ROSE_KEY_NONE)
		kind = by_value ? ROSE_KEY_WORD : ROSE_KEY_BYTES;
	by_word = kind == ROSE_KEY_WORD || kind == ROSE_KEY_FLOAT4 || kind == ROSE_KEY_FLOAT8;
	return by_value == by_word && length >= -1 ? kind : ROSE_KEY_NONE;
}

/* Types that are told apart by their bytes, or by what this node makes of them; texts by some collations are not. */
static bool
is_bytewise(Oid function, Oid collation)
{
	switch (function)
	{
		case F_INT2EQ:
		case F_INT4EQ:
		case F_INT8EQ:
		case F_OIDEQ:
		case F_BOOLEQ:
		case F_CHAREQ:
		case F_CASH_EQ:
		case F_DATE_EQ:
		case F_TIME_EQ:
		case F_TIMESTAMP_EQ:
		case F_TIMESTAMPTZ_EQ:
		case F_ENUM_EQ:
		case F_FLOAT4EQ:
		case F_FLOAT8EQ:
		case F_NUMERIC_EQ:
		case F_BYTEAEQ:
		case F_UUID_EQ:
			return true;
		case F_TEXTEQ:
		case F_BPCHAREQ:
			return OidIsValid(collation) && get_collation_isdeterministic(collation);
		default:
			return false;
	}
}

static bool
is_exact(const Node *expr)
{
	TypeCacheEntry *entry = lookup_type_cache(exprType(expr), TYPECACHE_EQ_OPR);
	const Node *key;

	return rose_node_group_key_kind(expr, InvalidOid, &key) != ROSE_KEY_NONE &&
		is_bytewise(get_opcode(entry->eq_opr), exprCollation(expr));
}

bool
rose_node_group_keys_are_exact(List *exprs)
{
	ListCell   *cell;

	foreach(cell, exprs)
	{
		if (!is_exact(lfirst(cell)))
			return false;
	}
	return true;
}

bool
rose_node_group_is_key(PlannerInfo *root, const PathTarget *target, int i, Oid *equality)
{
	Index		reference = get_pathtarget_sortgroupref(target, i);
	SortGroupClause *clause;

	if (reference == 0)
		return false;
	clause = get_sortgroupref_clause_noerr(reference, rose_group_clause(root));
	if (clause == NULL)
		return false;
	*equality = clause->eqop;
	return true;
}
