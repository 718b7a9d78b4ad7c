/*-------------------------------------------------------------------------
 *
 * rose_index_expr.c
 *	  Expressions and the predicate of an index, as they were given.  See
 *	  rose_index_expr.h.
 *
 * What lasts.  Core asks of functions in an index that they are declared immutable; what a
 * user declares need not be so, and CREATE OR REPLACE makes another function of it.  So only
 * what core brings with it is taken to give the same for ever, on types that core brings with
 * it, domains of these, or enums: functions of arrays and rows call those of the types inside.  Of these, too, some
 * follow what is not in the database (names of time zones) or what users can alter
 * (configurations of text search).  Functions that fold case follow the collation, whose
 * versions the file knows.  Those that follow settings, though core says that they are immutable, are
 * called with the same settings always (indexam/rose_index_settings.c).  The names of WAL files have the server's timeline in them.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/xml.h"

#include "util/rose_index_expr.h"

/* A column of the index's row in the catalog, or NULL. */
static Node *
read_tree(HeapTuple pg_index, AttrNumber attno)
{
	bool		isnull;
	Datum		tree = SysCacheGetAttr(INDEXRELID, pg_index, attno, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(tree));
}

static bool
has_tree(Relation index, AttrNumber attno)
{
	return !heap_attisnull(index->rd_indextuple, attno, NULL);
}

bool
rose_index_expr_is_any(Relation index)
{
	return has_tree(index, Anum_pg_index_indexprs) || has_tree(index, Anum_pg_index_indpred);
}

void
rose_index_expr_read_tuple(HeapTuple pg_index, RoseIndexExpr *expr)
{
	expr->columns = (List *) read_tree(pg_index, Anum_pg_index_indexprs);
	expr->predicate = make_ands_implicit((Expr *) read_tree(pg_index, Anum_pg_index_indpred));
}

void
rose_index_expr_read(Relation index, RoseIndexExpr *expr)
{
	rose_index_expr_read_tuple(index->rd_indextuple, expr);
}

/* ---- what they depend on ---- */

Bitmapset *
rose_index_expr_depends(const RoseIndexExpr *expr, int natts)
{
	Bitmapset  *offset = NULL;
	Bitmapset  *depends = NULL;
	int			i = -1;

	pull_varattnos((Node *) expr->columns, 1, &offset);
	pull_varattnos((Node *) expr->predicate, 1, &offset);
	while ((i = bms_next_member(offset, i)) >= 0)
	{
		int			attno = i + FirstLowInvalidHeapAttributeNumber;

		/* the row as a whole; core allows no system columns */
		if (attno == 0)
			depends = bms_add_range(depends, 1, natts);
		else if (attno > 0)
			depends = bms_add_member(depends, attno);
	}
	bms_free(offset);
	return depends;
}

/* ---- what lasts ---- */

/* A name of a zone is looked for among abbreviations, which are a setting, and in files. */
static bool
reads_zone(Oid function)
{
	switch (function)
	{
		case F_TIMEZONE_TEXT_TIMESTAMP:
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
		case F_TIMEZONE_TEXT_TIMETZ:
#ifdef F_DATE_ADD_TIMESTAMPTZ_INTERVAL_TEXT
		case F_DATE_ADD_TIMESTAMPTZ_INTERVAL_TEXT:
		case F_DATE_SUBTRACT_TIMESTAMPTZ_INTERVAL_TEXT:
#endif
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
			return true;
		default:
			return false;
	}
}

static bool
function_may_change(Oid function, void *context)
{
	return reads_zone(function) || function == F_PG_WALFILE_NAME || function == F_PG_WALFILE_NAME_OFFSET ||
		function >= FirstGenbkiObjectId;
}

static int
followed_by(Oid function)
{
	switch (function)
	{
		case F_FLOAT4OUT:
		case F_FLOAT8OUT:
		case F_POINT_OUT:
		case F_LSEG_OUT:
		case F_PATH_OUT:
		case F_BOX_OUT:
		case F_LINE_OUT:
		case F_POLY_OUT:
		case F_CIRCLE_OUT:
			return ROSE_FOLLOWS_FLOAT_DIGITS;
		case F_BYTEAOUT:
			return ROSE_FOLLOWS_BYTEA_OUTPUT;
		case F_QUOTE_IDENT:
			return ROSE_FOLLOWS_QUOTE_ALL;
		case F_AGE_TIMESTAMPTZ_TIMESTAMPTZ:
			return ROSE_FOLLOWS_TIMEZONE;
		default:
			return reads_zone(function) ? ROSE_FOLLOWS_ABBREVIATIONS : 0;
	}
}

static bool
add_followed(Oid function, void *context)
{
	*(int *) context |= followed_by(function);
	return false;
}

/* What core writes in SQL, with casts of values of any type to text in it, which the catalog does not show. */
static bool
writes_any(Oid function, void *context)
{
	return function == F_TEXTANYCAT || function == F_ANYTEXTCAT ||
		function == F_QUOTE_LITERAL_ANYELEMENT || function == F_QUOTE_NULLABLE_ANYELEMENT;
}

static void
add_followed_by_text_of(List *args, int *follows)
{
	ListCell   *cell;

	foreach(cell, args)
	{
		Oid			output;
		bool		is_varlena;

		getTypeOutputInfo(getBaseType(exprType(lfirst(cell))), &output, &is_varlena);
		*follows |= followed_by(output);
	}
}

static bool
find_followed(Node *node, void *context)
{
	if (node == NULL)
		return false;
	(void) check_functions_in_node(node, add_followed, context);
	if (IsA(node, FuncExpr) && writes_any(((FuncExpr *) node)->funcid, NULL))
		add_followed_by_text_of(((FuncExpr *) node)->args, context);
	else if (IsA(node, OpExpr) && check_functions_in_node(node, writes_any, NULL))
		add_followed_by_text_of(((OpExpr *) node)->args, context);
	else if (rose_compat_is_json_constructor(node))
		*(int *) context |= ROSE_FOLLOWS_FLOAT_DIGITS | ROSE_FOLLOWS_BYTEA_OUTPUT;
	else if (IsA(node, XmlExpr))
		*(int *) context |= ROSE_FOLLOWS_TEXT | ROSE_FOLLOWS_TIMEZONE | ROSE_FOLLOWS_INTERVALSTYLE | ROSE_FOLLOWS_XMLBINARY;
	return expression_tree_walker(node, find_followed, context);
}

/*
 * Labels of enums are renamed and added, but those that there are keep their order.  Values of
 * domains are those of their base types; the conditions are asked when a value becomes one.
 */
static bool
type_may_change(Oid type)
{
	Oid			element;

	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		type = getBaseType(element);
	return (type >= FirstGenbkiObjectId && !type_is_enum(type)) || type == RECORDOID ||
		type == REGCONFIGOID || type == REGDICTIONARYOID;
}

static bool
may_change(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_CaseWhen:
			break;
		case T_Var:
		case T_Const:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseTestExpr:
		case T_ArrayExpr:
		case T_RowCompareExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_SubscriptingRef:
			if (type_may_change(exprType(node)) ||
				check_functions_in_node(node, function_may_change, context))
				return true;
			break;
		default:
			return true;		/* domains' conditions, and what is rare */
	}
	return expression_tree_walker(node, may_change, context);
}

bool
rose_index_expr_is_lasting(const RoseIndexExpr *expr)
{
	return !may_change((Node *) expr->columns, NULL) && !may_change((Node *) expr->predicate, NULL);
}

int
rose_index_expr_follows(const RoseIndexExpr *expr)
{
	int			follows = 0;

	(void) find_followed((Node *) expr->columns, &follows);
	(void) find_followed((Node *) expr->predicate, &follows);
	return follows;
}

/* Of digits all above 0 are one: the shortest text that is exact.  Of time zones those that are GMT by another name. */
int
rose_index_expr_deviates(int follows)
{
	int			result = 0;
	long		offset;

	if (extra_float_digits <= 0)
		result |= ROSE_FOLLOWS_FLOAT_DIGITS;
	if (bytea_output != BYTEA_OUTPUT_HEX)
		result |= ROSE_FOLLOWS_BYTEA_OUTPUT;
	if (quote_all_identifiers)
		result |= ROSE_FOLLOWS_QUOTE_ALL;
	if ((follows & ROSE_FOLLOWS_TIMEZONE) && !(pg_get_timezone_offset(session_timezone, &offset) && offset == 0))
		result |= ROSE_FOLLOWS_TIMEZONE;
	if (DateStyle != USE_ISO_DATES || DateOrder != DATEORDER_MDY)
		result |= ROSE_FOLLOWS_DATESTYLE;
	if (IntervalStyle != INTSTYLE_POSTGRES)
		result |= ROSE_FOLLOWS_INTERVALSTYLE;
	if ((follows & ROSE_FOLLOWS_ABBREVIATIONS) && strcmp(GetConfigOption("timezone_abbreviations", false, false), "Default") != 0)
		result |= ROSE_FOLLOWS_ABBREVIATIONS;
	if (xmlbinary != XMLBINARY_BASE64)
		result |= ROSE_FOLLOWS_XMLBINARY;
	return result & follows;
}
