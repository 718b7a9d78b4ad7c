/*-------------------------------------------------------------------------
 *
 * rose_node_filter.c
 *	  Conditions of a plan as trees of filters on columns.
 *
 * An operator is known by what it is in the btree family of the column's type, so it may be any of its cross-type
 * ones whose right side has an exact place in the order of the column's words.  Types:
 * - integers, bool, date, time, timestamps, money: the words' order is the type's; days are those that begin at a timestamp;
 * - floats, by rose_vec_float8_word: NaN is equal to itself and the greatest, -0 is equal to 0;
 * - numeric, by integers where values are some (rose_node_filter_numeric.c);
 * - oid, "char", enums: other orders, so for equality only.
 *
 * Texts have no words: what is done with them is known by its function (rose_node_filter_text.c).
 *
 * In the place of a column may be what is made of columns, of many rows at a time (rose_node_kernel.h).  A condition that is made so as a whole, such as
 * a comparison of two columns, is one that compares what is made with true.
 *
 * Backend-local; the catalog is read while planning and at the start, under the statement's locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "vector/rose_vec_kernels.h"
#include "scan/rose_node_expr.h"
#include "scan/rose_node_filter.h"
#include "scan/rose_node_kernel.h"

typedef struct Compiling
{
	Index		relid;
	PlanState  *planstate;		/* NULL: it is only asked */
} Compiling;

static RoseNodeFilter *compile(Node *node, const Compiling *to);

/* ---- columns ---- */

static RoseNodeFilter *
make_filter(RoseNodeFilterType type, List *args)
{
	RoseNodeFilter *filter = palloc0(sizeof(RoseNodeFilter));

	filter->type = type;
	filter->args = args;
	return filter;
}

/* The user column that this is, maybe as a binary-compatible type. */
static Var *
column_of(Node *node, const Compiling *to)
{
	Var		   *var;

	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	var = (Var *) node;
	if (var == NULL || !IsA(var, Var) || var->varno != to->relid || var->varlevelsup != 0 ||
		var->varattno <= 0)
		return NULL;
	return var;
}

static RoseNodeFilter *
filter_of_column(RoseNodeFilterType type, const Var *var)
{
	RoseNodeFilter *filter = make_filter(type, NIL);

	filter->attno = var->varattno;
	filter->length = get_typbyval(var->vartype) ? get_typlen(var->vartype) : -1;
	return filter;
}

/* Is it made of the table's columns, of many rows at a time? */
static bool
is_made(const Node *node, const Compiling *to)
{
	ListCell   *cell;

	if (!rose_node_expr_takes(node) || !rose_node_kernel_takes(node))
		return false;
	foreach(cell, rose_node_expr_columns(node))
	{
		if (lfirst_node(Var, cell)->varno != to->relid)
			return false;
	}
	return true;
}

/* ---- which comparisons ---- */

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
is_float(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/* May a column of type left be compared with words of type right? */
static bool
has_word(Oid left, Oid right)
{
	if (is_integer(left))
		return is_integer(right);
	if (is_float(left))
		return is_float(right);
	if (left == TIMESTAMPTZOID)
		return right == TIMESTAMPTZOID || right == TIMESTAMPOID || right == DATEOID;
	if (left == TIMESTAMPOID)
		return right == TIMESTAMPOID || right == DATEOID;
	if (left == DATEOID && right == TIMESTAMPOID)
		return true;
	return left == right && (left == BOOLOID || left == DATEOID || left == TIMEOID || left == CASHOID ||
							 left == NUMERICOID);
}

static bool
has_equality(Oid left, Oid right)
{
	return left == right && (left == OIDOID || left == CHAROID || left == ANYENUMOID);
}

/* The operator in terms of the type's btree family: strategy, or 0; *negated: it is <>. */
static int
strategy_of(Oid opno, Oid type, Oid *right, bool *negated)
{
	TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY);
	Oid			op = opno;
	int			strategy;
	Oid			left;

	if (!OidIsValid(cache->btree_opf))
		return 0;
	*negated = !op_in_opfamily(op, cache->btree_opf);
	if (*negated)
		op = get_negator(op);
	if (!OidIsValid(op) || !op_in_opfamily(op, cache->btree_opf))
		return 0;
	get_op_opfamily_properties(op, cache->btree_opf, false, &strategy, &left, right);
	if (*negated && strategy != BTEqualStrategyNumber)
		return 0;
	if (left != (type_is_enum(type) ? ANYENUMOID : type))
		return 0;
	if (has_word(left, *right) ||
		(has_equality(left, *right) && strategy == BTEqualStrategyNumber))
		return strategy;
	return 0;
}

/* May a column be compared with this, once for all rows? */
static bool
is_for_all_rows(Node *with)
{
	return !contain_var_clause(with) && !contain_volatile_functions(with) && !contain_subplans(with);
}

static void
compare_with(RoseNodeFilter *filter, Node *with, const Compiling *to)
{
	filter->evaluates |= !IsA(with, Const) &&
		!(IsA(with, Param) && ((Param *) with)->paramkind == PARAM_EXTERN);
	if (to->planstate != NULL)
		filter->state = ExecInitExpr((Expr *) with, to->planstate);
}

/* Are the values of the column, seen as this type, words, or numerics?  NULL: it is no column. */
static bool
takes_values(const Var *var, Oid type)
{
	if (var == NULL)
		return type == NUMERICOID || get_typbyval(type);
	if (type == NUMERICOID)
		return getBaseType(var->vartype) == NUMERICOID;
	return get_typbyval(var->vartype) && get_typlen(var->vartype) == get_typlen(type);
}

/* Of a column, or of what is made in its place. */
static RoseNodeFilter *
filter_of(const Var *var, const Node *made, Oid type)
{
	RoseNodeFilter *filter;

	if (var != NULL)
		filter = filter_of_column(ROSE_FILTER_COMPARE, var);
	else
	{
		filter = make_filter(ROSE_FILTER_COMPARE, NIL);
		filter->expr = made;
	}
	filter->kind = type == FLOAT4OID ? ROSE_WORDS_FLOAT4 :
		type == FLOAT8OID ? ROSE_WORDS_FLOAT8 :
		type == NUMERICOID ? ROSE_WORDS_NUMERIC : ROSE_WORDS_PLAIN;
	filter->left = type;
	return filter;
}

/* A filter that compares the column, or what is made, with what the expression says; NULL: it cannot be one. */
static RoseNodeFilter *
compare(Node *left, Oid opno, Node *with, bool is_array, bool *negated, const Compiling *to)
{
	Var		   *var = column_of(left, to);
	Oid			type = exprType(left);
	RoseNodeFilter *filter;
	int			strategy;
	Oid			right;

	if (!is_for_all_rows(with) || (var == NULL && !is_made(left, to)))
		return NULL;
	strategy = strategy_of(opno, type, &right, negated);
	if (strategy == 0 || !takes_values(var, type))
		return NULL;
	filter = filter_of(var, left, type);
	filter->strategy = strategy;
	filter->right = right;
	filter->is_array = is_array;
	compare_with(filter, with, to);
	return filter;
}

/* One of texts. */
static RoseNodeFilter *
compile_text(const OpExpr *op, const Compiling *to)
{
	int			column = column_of(linitial(op->args), to) != NULL ? 0 : 1;
	Var		   *var = column_of(list_nth(op->args, column), to);
	Node	   *with = list_nth(op->args, 1 - column);
	RoseNodeFilter *filter;
	bool		not_first;

	if (var == NULL || get_typlen(var->vartype) != -1 || !rose_node_filter_text_takes(op, column, &not_first) ||
		!is_for_all_rows(with))
		return NULL;
	filter = filter_of_column(ROSE_FILTER_TEXT, var);
	filter->evaluates = not_first;
	compare_with(filter, with, to);
	if (to->planstate != NULL)
		filter->text = rose_node_filter_text_create(op, column);
	return filter;
}

/* Equal to true: a bool column, or a condition that is made as a whole. */
static RoseNodeFilter *
is_true(const Var *var, const Node *made)
{
	RoseNodeFilter *filter = filter_of(var, made, BOOLOID);

	filter->strategy = BTEqualStrategyNumber;
	filter->right = BOOLOID;
	return filter;
}

static RoseNodeFilter *
compile_made(const Node *node, const Compiling *to)
{
	return exprType(node) == BOOLOID && is_made(node, to) ? is_true(NULL, node) : NULL;
}

static RoseNodeFilter *
compile_operator(const OpExpr *op, const Compiling *to)
{
	RoseNodeFilter *filter;
	bool		negated;
	Oid			opno = get_commutator(op->opno);

	if (list_length(op->args) != 2)
		return NULL;
	filter = compare(linitial(op->args), op->opno, lsecond(op->args), false, &negated, to);
	if (filter == NULL && OidIsValid(opno))
		filter = compare(lsecond(op->args), opno, linitial(op->args), false, &negated, to);
	if (filter == NULL)
	{
		filter = compile_text(op, to);
		return filter != NULL ? filter : compile_made((const Node *) op, to);
	}
	return negated ? make_filter(ROSE_FILTER_NOT, list_make1(filter)) : filter;
}

/* = ANY, < ANY ...; <> ALL. */
static RoseNodeFilter *
compile_array(const ScalarArrayOpExpr *op, const Compiling *to)
{
	bool		negated;
	RoseNodeFilter *filter = compare(linitial(op->args), op->opno, lsecond(op->args), true,
									 &negated, to);

	if (filter == NULL || negated == op->useOr)
		return NULL;
	return negated ? make_filter(ROSE_FILTER_NOT, list_make1(filter)) : filter;
}

/* A bool column alone. */
static RoseNodeFilter *
compile_bool(const Var *var)
{
	return var != NULL && var->vartype == BOOLOID ? is_true(var, NULL) : NULL;
}

/* ---- what is made of other conditions ---- */

static RoseNodeFilter *
negate(RoseNodeFilter *filter)
{
	return filter == NULL ? NULL : make_filter(ROSE_FILTER_NOT, list_make1(filter));
}

static RoseNodeFilter *
compile_bool_expr(const BoolExpr *expr, const Compiling *to)
{
	List	   *args = NIL;
	ListCell   *cell;

	foreach(cell, expr->args)
	{
		RoseNodeFilter *arg = compile(lfirst(cell), to);

		if (arg == NULL)
			return NULL;
		args = lappend(args, arg);
	}
	return make_filter(expr->boolop == AND_EXPR ? ROSE_FILTER_AND :
					   expr->boolop == OR_EXPR ? ROSE_FILTER_OR : ROSE_FILTER_NOT, args);
}

static RoseNodeFilter *
compile_null_test(const NullTest *test, const Compiling *to)
{
	Var		   *var = column_of((Node *) test->arg, to);
	RoseNodeFilter *filter;

	if (test->argisrow)
		return NULL;
	if (var == NULL)
		return compile_made((const Node *) test, to);
	filter = filter_of_column(ROSE_FILTER_IS_NULL, var);
	return test->nulltesttype == IS_NULL ? filter : negate(filter);
}

static RoseNodeFilter *
compile_boolean_test(const BooleanTest *test, const Compiling *to)
{
	RoseNodeFilter *arg = compile((Node *) test->arg, to);
	List	   *args;

	if (arg == NULL)
		return NULL;
	args = list_make1(arg);
	switch (test->booltesttype)
	{
		case IS_TRUE:
			return make_filter(ROSE_FILTER_IS_TRUE, args);
		case IS_NOT_TRUE:
			return negate(make_filter(ROSE_FILTER_IS_TRUE, args));
		case IS_FALSE:
			return make_filter(ROSE_FILTER_IS_FALSE, args);
		case IS_NOT_FALSE:
			return negate(make_filter(ROSE_FILTER_IS_FALSE, args));
		case IS_UNKNOWN:
			return make_filter(ROSE_FILTER_IS_UNKNOWN, args);
		case IS_NOT_UNKNOWN:
			return negate(make_filter(ROSE_FILTER_IS_UNKNOWN, args));
	}
	return NULL;
}

static RoseNodeFilter *
compile(Node *node, const Compiling *to)
{
	check_stack_depth();
	switch (nodeTag(node))
	{
		case T_OpExpr:
			return compile_operator((OpExpr *) node, to);
		case T_ScalarArrayOpExpr:
			return compile_array((ScalarArrayOpExpr *) node, to);
		case T_BoolExpr:
			return compile_bool_expr((BoolExpr *) node, to);
		case T_NullTest:
			return compile_null_test((NullTest *) node, to);
		case T_BooleanTest:
			return compile_boolean_test((BooleanTest *) node, to);
		case T_Var:
			return compile_bool(column_of(node, to));
		case T_CaseExpr:
		case T_CoalesceExpr:
			return compile_made(node, to);
		default:
			return NULL;
	}
}

RoseNodeFilter *
rose_node_filter_compile(Node *clause, Index relid, PlanState *planstate)
{
	Compiling	to = {relid, planstate};

	return compile(clause, &to);
}

/* ---- what columns are compared with ---- */

/* An overflown date is next to infinity, where no finite timestamp is. */
static int64
word_of_time(int64 value, int overflow)
{
	return overflow > 0 ? PG_INT64_MAX - 1 : overflow < 0 ? PG_INT64_MIN + 1 : value;
}

static int64
word_of_zoned(Oid right, Datum value)
{
	int			overflow = 0;
	int64		word;

	if (right == DATEOID)
		word = date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow);
	else
		word = timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value), &overflow);
	return word_of_time(word, overflow);
}

/* The days that begin at the timestamp: one, or, between two days, none, which is an empty range between these. */
static RoseWordRange
days_of(Timestamp value)
{
	int64		day = value / USECS_PER_DAY;
	int64		rest = value % USECS_PER_DAY;

	if (TIMESTAMP_NOT_FINITE(value))
		day = TIMESTAMP_IS_NOEND(value) ? DATEVAL_NOEND : DATEVAL_NOBEGIN;
	else if (rest < 0)
		day--;
	return (RoseWordRange) {TIMESTAMP_NOT_FINITE(value) || rest == 0 ? day : day + 1, day};
}

/* The words that are equal to the value: a range. */
static RoseWordRange
words_of(const RoseNodeFilter *filter, Oid left, Datum value)
{
	int			overflow = 0;
	int64		word;
	double		number;

	switch (filter->right)
	{
		case FLOAT4OID:
		case FLOAT8OID:
			number = filter->right == FLOAT4OID ? (double) DatumGetFloat4(value) : DatumGetFloat8(value);
			if (number == 0)
				return (RoseWordRange) {rose_vec_float8_word(-0.0), rose_vec_float8_word(0.0)};
			word = rose_vec_float8_word(number);
			break;
		case INT2OID:
			word = DatumGetInt16(value);
			break;
		case BOOLOID:
			word = DatumGetBool(value) ? 1 : 0;
			break;
		case CHAROID:
			word = (signed char) DatumGetChar(value);
			break;
		case INT8OID:
		case TIMEOID:
		case CASHOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case DATEOID:
			if (left == DATEOID && filter->right == TIMESTAMPOID)
				return days_of(DatumGetTimestamp(value));
			if (filter->right == left || filter->right == INT8OID)
				word = left == DATEOID ? DatumGetDateADT(value) : DatumGetInt64(value);
			else if (left == TIMESTAMPTZOID)
				word = word_of_zoned(filter->right, value);
			else
			{
				word = date2timestamp_opt_overflow(DatumGetDateADT(value), &overflow);
				word = word_of_time(word, overflow);
			}
			break;
		default:				/* int4, oid, enums */
			word = DatumGetInt32(value);
			break;
	}
	return (RoseWordRange) {word, word};
}

/* What the operator leaves of the words; false: none. */
static bool
range_of(int strategy, RoseWordRange equal, RoseWordRange *range)
{
	*range = (RoseWordRange) {PG_INT64_MIN, PG_INT64_MAX};
	switch (strategy)
	{
		case BTLessStrategyNumber:
			if (equal.low == PG_INT64_MIN)
				return false;
			range->high = equal.low - 1;
			break;
		case BTLessEqualStrategyNumber:
			range->high = equal.high;
			break;
		case BTEqualStrategyNumber:
			*range = equal;
			return equal.low <= equal.high;
		case BTGreaterEqualStrategyNumber:
			range->low = equal.low;
			break;
		default:
			if (equal.high == PG_INT64_MAX)
				return false;
			range->low = equal.high + 1;
			break;
	}
	return true;
}

/* Numerics are kept as they are. */
static void
keep_constants(RoseNodeFilter *filter, const Datum *values, const bool *nulls, int n)
{
	filter->nconstants = 0;
	filter->constants = palloc(Max(n, 1) * sizeof(Datum));
	filter->ranges = palloc(Max(n, 1) * sizeof(RoseWordRange));
	filter->scale = -1;
	for (int i = 0; i < n; i++)
	{
		if (nulls == NULL || !nulls[i])
			filter->constants[filter->nconstants++] = PointerGetDatum(PG_DETOAST_DATUM_COPY(values[i]));
	}
}

static void
evaluate_array(RoseNodeFilter *filter, ArrayType *array)
{
	int16		len;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			nranges = 0;
	RoseWordRange *ranges;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, &values, &nulls, &n);
	ranges = palloc(Max(n, 1) * sizeof(RoseWordRange));
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			filter->else_unknown = true;
		else if (filter->kind != ROSE_WORDS_NUMERIC &&
				 range_of(filter->strategy, words_of(filter, filter->left, values[i]),
						  &ranges[nranges]))
			nranges++;
	}
	filter->outcome = n == 0 ? ROSE_FILTER_NEVER : ROSE_FILTER_SET;
	if (filter->kind == ROSE_WORDS_NUMERIC)
		keep_constants(filter, values, nulls, n);
	else
		rose_wordset_make(&filter->set, ranges, nranges);
}

static void
evaluate_value(RoseNodeFilter *filter, Datum value)
{
	RoseWordRange *range;
	bool		any;

	filter->outcome = ROSE_FILTER_SET;
	if (filter->kind == ROSE_WORDS_NUMERIC)
	{
		keep_constants(filter, &value, NULL, 1);
		return;
	}
	range = palloc(sizeof(RoseWordRange));
	any = range_of(filter->strategy, words_of(filter, filter->left, value), range);
	rose_wordset_make(&filter->set, range, any ? 1 : 0);
}

void
rose_node_filter_evaluate(RoseNodeFilter *filter, ExprContext *econtext, MemoryContext context)
{
	Datum		value = BoolGetDatum(true);
	bool		isnull = false;
	MemoryContext old;

	if (filter->state != NULL)
		value = ExecEvalExprSwitchContext(filter->state, econtext, &isnull);
	old = MemoryContextSwitchTo(context);
	filter->else_unknown = false;
	if (isnull)
		filter->outcome = ROSE_FILTER_UNKNOWN;
	else if (filter->type == ROSE_FILTER_TEXT)
	{
		rose_node_filter_text_start(filter->text, value, context);
		filter->outcome = ROSE_FILTER_SET;
	}
	else if (filter->is_array)
		evaluate_array(filter, DatumGetArrayTypeP(value));
	else
		evaluate_value(filter, value);
	MemoryContextSwitchTo(old);
	filter->ready = true;
}

void
rose_node_filter_reset(RoseNodeFilter *filter)
{
	ListCell   *cell;

	foreach(cell, filter->args)
		rose_node_filter_reset(lfirst(cell));
	foreach(cell, filter->joined)
		rose_node_filter_reset(lfirst(cell));
	filter->ready = false;
}
