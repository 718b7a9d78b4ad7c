/*-------------------------------------------------------------------------
 *
 * rose_node_group_kinds.c
 *	  By which columns a Rose Aggregate can group.
 *
 * It compares words and bytes, not by functions of types.  So equal values must have equal bytes, or have to be made so in a way
 * that is known here: by the functions that compare them, never by names.  Texts whose collation calls different bytes equal
 * are left to core, as are types that are not here.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "scan/rose_node_group.h"

typedef struct KnownEquality
{
	Oid			function;
	RoseNodeKeyKind kind;
} KnownEquality;

static const KnownEquality known[] = {
	{F_BOOLEQ, ROSE_KEY_WORD},
	{F_CHAREQ, ROSE_KEY_WORD},
	{F_INT2EQ, ROSE_KEY_WORD},
	{F_INT4EQ, ROSE_KEY_WORD},
	{F_INT8EQ, ROSE_KEY_WORD},
	{F_OIDEQ, ROSE_KEY_WORD},
	{F_DATE_EQ, ROSE_KEY_WORD},
	{F_TIME_EQ, ROSE_KEY_WORD},
	{F_TIMESTAMP_EQ, ROSE_KEY_WORD},
	{F_TIMESTAMPTZ_EQ, ROSE_KEY_WORD},
	{F_CASH_EQ, ROSE_KEY_WORD},
	{F_ENUM_EQ, ROSE_KEY_WORD},
	{F_PG_LSN_EQ, ROSE_KEY_WORD},
	{F_FLOAT4EQ, ROSE_KEY_FLOAT4},
	{F_FLOAT8EQ, ROSE_KEY_FLOAT8},
	{F_TEXTEQ, ROSE_KEY_BYTES},
	{F_UUID_EQ, ROSE_KEY_BYTES},
	{F_BYTEAEQ, ROSE_KEY_BYTES},
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

/* A column, perhaps seen as another type that has the same values; else NULL. */
static const Var *
column_of(const Node *expr)
{
	const Var  *var;

	while (IsA(expr, RelabelType))
		expr = (const Node *) ((const RelabelType *) expr)->arg;
	var = (const Var *) expr;
	if (!IsA(var, Var) || var->varlevelsup > 0 || var->varattno <= 0)
		return NULL;
	return var;
}

/* Are values that are equal in this collation the same? */
static bool
collation_is_fit(Oid type, Oid collation)
{
	if (!type_is_collatable(type))
		return true;
	return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

RoseNodeKeyKind
rose_node_group_key_kind(const Node *expr, Oid equality, const Var **column)
{
	Oid			type = exprType(expr);
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR);
	RoseNodeKeyKind kind;
	bool		by_word;

	*column = column_of(expr);
	if (*column == NULL || !OidIsValid(entry->eq_opr) ||
		(OidIsValid(equality) && equality != entry->eq_opr))
		return ROSE_KEY_NONE;
	kind = kind_of_function(get_opcode(entry->eq_opr));
	by_word = kind == ROSE_KEY_WORD || kind == ROSE_KEY_FLOAT4 || kind == ROSE_KEY_FLOAT8;
	if (kind == ROSE_KEY_NONE || get_typbyval((*column)->vartype) != by_word)
		return ROSE_KEY_NONE;
	return collation_is_fit(type, exprCollation(expr)) ? kind : ROSE_KEY_NONE;
}
