/*-------------------------------------------------------------------------
 *
 * rose_node_kernel.c
 *	  Arithmetic, comparisons and choices among columns, of all selected rows at once.
 *
 * Expressions of integers, floats and constants become a tree of loops over arrays (vector/rose_vec_expr.c), whose branches are shared by those
 * that have the same ones.  What comes of them is what core's functions make of the values, to the bit.  Values of other types are
 * compared if words say how, and chosen among.
 *
 * No error is raised here.  Where there is one, or may be, the rows at hand are said to fail, and who asks has core's expressions make their values,
 * row by row: these raise the error, of the row and the expression that have it first, or find that nobody wants the value.
 *
 * Functions are known by their OIDs, never by names.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "scan/rose_node_agg_float.h"
#include "scan/rose_node_expr.h"
#include "scan/rose_node_kernel_parts.h"

typedef struct KnownFunction
{
	Oid			function;
	RoseNodeKernelKind kind;
	RoseVecOp	op;
	int			bytes;
	bool		a_is_float4;
	bool		b_is_float4;
} KnownFunction;

#define INTEGERS(op, bytes)	ROSE_KERNEL_INTEGERS, ROSE_VEC_##op, bytes, false, false
#define DOUBLES(op)			ROSE_KERNEL_DOUBLES, ROSE_VEC_##op, 8, false, false

static const KnownFunction known[] = {
	{F_INT2PL, INTEGERS(ADD, 2)},
	{F_INT4PL, INTEGERS(ADD, 4)},
	{F_INT24PL, INTEGERS(ADD, 4)},
	{F_INT42PL, INTEGERS(ADD, 4)},
	{F_INT8PL, INTEGERS(ADD, 8)},
	{F_INT28PL, INTEGERS(ADD, 8)},
	{F_INT82PL, INTEGERS(ADD, 8)},
	{F_INT48PL, INTEGERS(ADD, 8)},
	{F_INT84PL, INTEGERS(ADD, 8)},
	{F_INT2MI, INTEGERS(SUBTRACT, 2)},
	{F_INT4MI, INTEGERS(SUBTRACT, 4)},
	{F_INT24MI, INTEGERS(SUBTRACT, 4)},
	{F_INT42MI, INTEGERS(SUBTRACT, 4)},
	{F_INT8MI, INTEGERS(SUBTRACT, 8)},
	{F_INT28MI, INTEGERS(SUBTRACT, 8)},
	{F_INT82MI, INTEGERS(SUBTRACT, 8)},
	{F_INT48MI, INTEGERS(SUBTRACT, 8)},
	{F_INT84MI, INTEGERS(SUBTRACT, 8)},
	{F_INT2MUL, INTEGERS(MULTIPLY, 2)},
	{F_INT4MUL, INTEGERS(MULTIPLY, 4)},
	{F_INT24MUL, INTEGERS(MULTIPLY, 4)},
	{F_INT42MUL, INTEGERS(MULTIPLY, 4)},
	{F_INT8MUL, INTEGERS(MULTIPLY, 8)},
	{F_INT28MUL, INTEGERS(MULTIPLY, 8)},
	{F_INT82MUL, INTEGERS(MULTIPLY, 8)},
	{F_INT48MUL, INTEGERS(MULTIPLY, 8)},
	{F_INT84MUL, INTEGERS(MULTIPLY, 8)},
	{F_INT2DIV, INTEGERS(DIVIDE, 2)},
	{F_INT4DIV, INTEGERS(DIVIDE, 4)},
	{F_INT24DIV, INTEGERS(DIVIDE, 4)},
	{F_INT42DIV, INTEGERS(DIVIDE, 4)},
	{F_INT8DIV, INTEGERS(DIVIDE, 8)},
	{F_INT28DIV, INTEGERS(DIVIDE, 8)},
	{F_INT82DIV, INTEGERS(DIVIDE, 8)},
	{F_INT48DIV, INTEGERS(DIVIDE, 8)},
	{F_INT84DIV, INTEGERS(DIVIDE, 8)},
	{F_INT2MOD, INTEGERS(REMAINDER, 2)},
	{F_INT4MOD, INTEGERS(REMAINDER, 4)},
	{F_INT8MOD, INTEGERS(REMAINDER, 8)},
	{F_FLOAT8PL, DOUBLES(ADD)},
	{F_FLOAT8MI, DOUBLES(SUBTRACT)},
	{F_FLOAT8MUL, DOUBLES(MULTIPLY)},
	{F_FLOAT8DIV, DOUBLES(DIVIDE)},
	{F_FLOAT48PL, ROSE_KERNEL_DOUBLES, ROSE_VEC_ADD, 8, true, false},
	{F_FLOAT48MI, ROSE_KERNEL_DOUBLES, ROSE_VEC_SUBTRACT, 8, true, false},
	{F_FLOAT48MUL, ROSE_KERNEL_DOUBLES, ROSE_VEC_MULTIPLY, 8, true, false},
	{F_FLOAT48DIV, ROSE_KERNEL_DOUBLES, ROSE_VEC_DIVIDE, 8, true, false},
	{F_FLOAT84PL, ROSE_KERNEL_DOUBLES, ROSE_VEC_ADD, 8, false, true},
	{F_FLOAT84MI, ROSE_KERNEL_DOUBLES, ROSE_VEC_SUBTRACT, 8, false, true},
	{F_FLOAT84MUL, ROSE_KERNEL_DOUBLES, ROSE_VEC_MULTIPLY, 8, false, true},
	{F_FLOAT84DIV, ROSE_KERNEL_DOUBLES, ROSE_VEC_DIVIDE, 8, false, true},
	{F_FLOAT8_INT2, ROSE_KERNEL_FLOAT8, 0, 8, false, false},
	{F_FLOAT8_INT4, ROSE_KERNEL_FLOAT8, 0, 8, false, false},
	{F_FLOAT8_INT8, ROSE_KERNEL_FLOAT8, 0, 8, false, false},
	{F_FLOAT8_FLOAT4, ROSE_KERNEL_WIDE_FLOAT, 0, 8, false, false},
	{F_INT4_INT2, ROSE_KERNEL_NARROW, 0, 4, false, false},
	{F_INT8_INT2, ROSE_KERNEL_NARROW, 0, 8, false, false},
	{F_INT8_INT4, ROSE_KERNEL_NARROW, 0, 8, false, false},
	{F_INT2_INT4, ROSE_KERNEL_NARROW, 0, 2, false, false},
	{F_INT2_INT8, ROSE_KERNEL_NARROW, 0, 2, false, false},
	{F_INT4_INT8, ROSE_KERNEL_NARROW, 0, 4, false, false},
	{F_LENGTH_TEXT, ROSE_KERNEL_LENGTH, 0, 4, false, false},
	{F_CHAR_LENGTH_TEXT, ROSE_KERNEL_LENGTH, 0, 4, false, false},
	{F_CHARACTER_LENGTH_TEXT, ROSE_KERNEL_LENGTH, 0, 4, false, false},
};

static RoseNodeKernel *compile(RoseNodeKernels *kernels, const Node *expr);

/* ---- compiling ---- */

static RoseNodeKernel *
compile_constant(const Const *constant)
{
	RoseNodeKernel *kernel = rose_node_kernel_make(ROSE_KERNEL_CONSTANT, (const Node *) constant);

	kernel->is_null = constant->constisnull;
	kernel->constant = constant->constisnull ? 0 : (int64) constant->constvalue;
	if (constant->constbyval)
		rose_node_column_words_of_datums(&kernel->constant, 1, constant->constlen);
	return kernel;
}

static RoseNodeKernel *
compile_column(const Var *column)
{
	RoseNodeKernel *kernel = rose_node_kernel_make(ROSE_KERNEL_COLUMN, (const Node *) column);

	kernel->attno = column->varattno;
	kernel->bytes = get_typbyval(column->vartype) ? get_typlen(column->vartype) : -1;
	return kernel;
}

static const KnownFunction *
find_function(Oid function)
{
	for (int i = 0; i < lengthof(known); i++)
	{
		if (known[i].function == function)
			return &known[i];
	}
	return NULL;
}

/* The word of a float8, of that of a float4. */
static inline int64
wide_word(int64 word)
{
	float8		value = rose_node_float4_of(word);
	int64		wide;

	memcpy(&wide, &value, sizeof(wide));
	return wide;
}

static RoseNodeKernel *
widen(RoseNodeKernel *a)
{
	RoseNodeKernel *kernel;

	if (a->kind == ROSE_KERNEL_CONSTANT)
	{
		kernel = rose_node_kernel_make(ROSE_KERNEL_CONSTANT, NULL);
		kernel->constant = wide_word(a->constant);
		return kernel;
	}
	kernel = rose_node_kernel_make(ROSE_KERNEL_WIDE_FLOAT, NULL);
	kernel->a = a;
	return kernel;
}

static inline bool
is_constant(const RoseNodeKernel *kernel)
{
	return kernel->kind == ROSE_KERNEL_CONSTANT;
}

/* Operands of which one is an array, and none NULL. */
static bool
may_be_operands(const RoseNodeKernel *a, const RoseNodeKernel *b)
{
	return a != NULL && b != NULL && !a->is_null && !b->is_null && !(is_constant(a) && is_constant(b));
}

static RoseNodeKernel *
compile_call(RoseNodeKernels *kernels, const Node *expr, Oid function, List *args)
{
	const KnownFunction *found = find_function(function);
	RoseNodeKernel *kernel;

	if (found == NULL)
		return NULL;
	kernel = rose_node_kernel_make(found->kind, expr);
	kernel->op = found->op;
	kernel->bytes = found->bytes;
	kernel->a = compile(kernels, linitial(args));
	if (kernel->a == NULL || list_length(args) > 2)
		return NULL;
	if (list_length(args) == 1)
		return is_constant(kernel->a) ? NULL : kernel;
	kernel->b = compile(kernels, lsecond(args));
	if (!may_be_operands(kernel->a, kernel->b))
		return NULL;
	if (found->a_is_float4)
		kernel->a = widen(kernel->a);
	if (found->b_is_float4)
		kernel->b = widen(kernel->b);
	return kernel;
}

static inline bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Do words say how values of these types compare, or doubles? */
static bool
find_kind_of_comparison(Oid left, Oid right, RoseNodeKernelKind *kind)
{
	*kind = left == FLOAT8OID ? ROSE_KERNEL_COMPARE_DOUBLES : ROSE_KERNEL_COMPARE;
	if (is_integer(left))
		return is_integer(right);
	if (left == NUMERICOID && right == NUMERICOID)
		*kind = ROSE_KERNEL_COMPARE_DECIMALS;
	return left == right && (left == DATEOID || left == TIMESTAMPOID || left == TIMESTAMPTZOID || left == TIMEOID ||
							 left == FLOAT8OID || left == NUMERICOID);
}

static bool
find_comparison(Oid operator, RoseNodeKernel *kernel)
{
	static const RoseVecComparison comparisons[] = {
		[BTLessStrategyNumber] = ROSE_VEC_LESS,
		[BTLessEqualStrategyNumber] = ROSE_VEC_LESS_EQUAL,
		[BTEqualStrategyNumber] = ROSE_VEC_EQUAL,
		[BTGreaterEqualStrategyNumber] = ROSE_VEC_GREATER_EQUAL,
		[BTGreaterStrategyNumber] = ROSE_VEC_GREATER,
	};
	Oid			left;
	Oid			right;
	Oid			family;
	int			strategy;

	op_input_types(operator, &left, &right);
	if (!find_kind_of_comparison(left, right, &kernel->kind))
		return false;
	family = lookup_type_cache(left, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	strategy = get_op_opfamily_strategy(operator, family);
	kernel->comparison = comparisons[strategy];
	if (strategy != 0)
		return true;
	operator = get_negator(operator);
	kernel->comparison = ROSE_VEC_NOT_EQUAL;
	return OidIsValid(operator) && get_op_opfamily_strategy(operator, family) == BTEqualStrategyNumber;
}

static RoseNodeKernel *
compile_operator(RoseNodeKernels *kernels, const OpExpr *op)
{
	RoseNodeKernel *kernel = compile_call(kernels, (const Node *) op, get_opcode(op->opno), op->args);

	if (kernel != NULL || op->opresulttype != BOOLOID || list_length(op->args) != 2)
		return kernel;
	kernel = rose_node_kernel_make(ROSE_KERNEL_COMPARE, (const Node *) op);
	if (!find_comparison(op->opno, kernel))
		return NULL;
	if (kernel->kind == ROSE_KERNEL_COMPARE_DECIMALS)
	{
		kernel->a = rose_node_kernel_decimal_compile(kernels, linitial(op->args));
		kernel->b = rose_node_kernel_decimal_compile(kernels, lsecond(op->args));
	}
	else
	{
		kernel->a = compile(kernels, linitial(op->args));
		kernel->b = compile(kernels, lsecond(op->args));
	}
	return may_be_operands(kernel->a, kernel->b) ? kernel : NULL;
}

/* ---- compiling conditions and choices ---- */

/* One more argument; false: it is not known. */
static bool
add_arg(RoseNodeKernels *kernels, RoseNodeKernel *kernel, const Node *expr)
{
	RoseNodeKernel *arg = compile(kernels, expr);

	kernel->args = lappend(kernel->args, arg);
	return arg != NULL;
}

static RoseNodeKernel *
compile_args(RoseNodeKernels *kernels, RoseNodeKernelKind kind, const Node *expr, List *args)
{
	RoseNodeKernel *kernel = rose_node_kernel_make(kind, expr);
	ListCell   *cell;

	foreach(cell, args)
	{
		if (!add_arg(kernels, kernel, lfirst(cell)))
			return NULL;
	}
	return kernel;
}

/* Of one argument, which is an array. */
static RoseNodeKernel *
compile_one(RoseNodeKernels *kernels, RoseNodeKernelKind kind, const Node *expr, const Node *arg)
{
	RoseNodeKernel *kernel = rose_node_kernel_make(kind, expr);

	kernel->a = compile(kernels, arg);
	return kernel->a == NULL || is_constant(kernel->a) ? NULL : kernel;
}

static RoseNodeKernel *
compile_condition(RoseNodeKernels *kernels, const BoolExpr *expr)
{
	if (expr->boolop == NOT_EXPR)
		return compile_one(kernels, ROSE_KERNEL_NOT, (const Node *) expr, linitial(expr->args));
	return compile_args(kernels, expr->boolop == AND_EXPR ? ROSE_KERNEL_AND : ROSE_KERNEL_OR, (const Node *) expr,
						expr->args);
}

static RoseNodeKernel *
compile_case(RoseNodeKernels *kernels, const CaseExpr *expr)
{
	RoseNodeKernel *kernel = rose_node_kernel_make(ROSE_KERNEL_CASE, (const Node *) expr);
	ListCell   *cell;

	if (expr->arg != NULL || expr->defresult == NULL)
		return NULL;
	foreach(cell, expr->args)
	{
		const CaseWhen *when = lfirst_node(CaseWhen, cell);

		if (!add_arg(kernels, kernel, (const Node *) when->expr) ||
			!add_arg(kernels, kernel, (const Node *) when->result))
			return NULL;
	}
	return add_arg(kernels, kernel, (const Node *) expr->defresult) ? kernel : NULL;
}

static RoseNodeKernel *
compile_new(RoseNodeKernels *kernels, const Node *expr)
{
	const Var  *column = rose_node_expr_column(expr);
	const NullTest *test = (const NullTest *) expr;

	if (column != NULL)
		return compile_column(column);
	switch (nodeTag(expr))
	{
		case T_Const:
			return compile_constant((const Const *) expr);
		case T_OpExpr:
			return compile_operator(kernels, (const OpExpr *) expr);
		case T_BoolExpr:
			return compile_condition(kernels, (const BoolExpr *) expr);
		case T_CaseExpr:
			return compile_case(kernels, (const CaseExpr *) expr);
		case T_CoalesceExpr:
			return compile_args(kernels, ROSE_KERNEL_COALESCE, expr, ((const CoalesceExpr *) expr)->args);
		case T_NullTest:
			return test->argisrow ? NULL :
				compile_one(kernels, test->nulltesttype == IS_NULL ? ROSE_KERNEL_IS_NULL : ROSE_KERNEL_IS_NOT_NULL, expr,
							(const Node *) test->arg);
		case T_FuncExpr:
			return compile_call(kernels, expr, ((const FuncExpr *) expr)->funcid, ((const FuncExpr *) expr)->args);
		default:
			return NULL;
	}
}

static RoseNodeKernel *
compile(RoseNodeKernels *kernels, const Node *expr)
{
	RoseNodeKernel *kernel = rose_node_kernel_find(kernels, expr, false);

	if (kernel != NULL)
		return kernel;
	kernel = compile_new(kernels, expr);
	if (kernel == NULL)
		return NULL;
	kernel->expr = expr;
	kernels->all = lappend(kernels->all, kernel);
	return kernel;
}

/* Arrays for it and what it is made of, if they are not there. */
static void
make_room(RoseNodeKernel *kernel)
{
	ListCell   *cell;

	if (kernel == NULL || kernel->kind == ROSE_KERNEL_CONSTANT || kernel->values != NULL)
		return;
	kernel->values = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	kernel->nulls = palloc0(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	if (kernel->is_decimal)
		kernel->scales = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint8));
	make_room(kernel->a);
	make_room(kernel->b);
	foreach(cell, kernel->args)
		make_room(lfirst(cell));
}

RoseNodeKernel *
rose_node_kernel_compile(RoseNodeKernels *kernels, const Node *expr)
{
	RoseNodeKernel *kernel;

	kernels->compile = compile;
	kernel = FLOAT8PASSBYVAL ? compile(kernels, expr) : NULL;
	if (kernel == NULL || kernel->kind == ROSE_KERNEL_COLUMN || kernel->kind == ROSE_KERNEL_CONSTANT)
		return NULL;
	make_room(kernel);
	return kernel;
}

RoseNodeKernel *
rose_node_kernel_compile_decimal(RoseNodeKernels *kernels, const Node *expr)
{
	RoseNodeKernel *kernel;

	kernels->compile = compile;
	kernel = FLOAT8PASSBYVAL ? rose_node_kernel_decimal_compile(kernels, expr) : NULL;
	if (kernel == NULL || kernel->kind == ROSE_KERNEL_CONSTANT)
		return NULL;
	make_room(kernel);
	return kernel;
}

bool
rose_node_kernel_takes(const Node *expr)
{
	RoseNodeKernels kernels = {.compile = compile};
	const RoseNodeKernel *kernel;

	if (!FLOAT8PASSBYVAL)
		return false;
	kernel = exprType(expr) == NUMERICOID ? rose_node_kernel_decimal_compile(&kernels, expr) : compile(&kernels, expr);
	return kernel != NULL && kernel->kind != ROSE_KERNEL_COLUMN && kernel->kind != ROSE_KERNEL_DECIMAL_COLUMN &&
		kernel->kind != ROSE_KERNEL_CONSTANT;
}

/* ---- running ---- */

void
rose_node_kernels_start(RoseNodeKernels *kernels, const RoseNodeRows *rows)
{
	kernels->rows = rows;
	kernels->stamp++;
}

/* It is NULL where one of these is, and there is a 0. */
static void
join_nulls(RoseNodeKernel *kernel, int n)
{
	const RoseNodeKernel *with[] = {kernel->a, kernel->b};

	/* who evaluates rows may have written there */
	memset(kernel->nulls, false, n * sizeof(bool));
	kernel->any_null = false;
	for (int w = 0; w < lengthof(with); w++)
	{
		if (with[w] == NULL || !with[w]->any_null)
			continue;
		kernel->any_null = true;
		for (int i = 0; i < n; i++)
			kernel->nulls[i] |= with[w]->nulls[i];
	}
	if (!kernel->any_null)
		return;
	for (int i = 0; i < n; i++)
		kernel->values[i] = kernel->nulls[i] ? 0 : kernel->values[i];
}

static bool
load(RoseNodeKernel *kernel, const RoseNodeRows *rows)
{
	bool		null = rose_node_column_words(rows, kernel->attno, kernel->bytes, kernel->values, kernel->nulls);

	kernel->any_null = null && memchr(kernel->nulls, true, rows->n) != NULL;
	for (int i = 0; i < rows->n && kernel->any_null; i++)
		kernel->values[i] = kernel->nulls[i] ? 0 : kernel->values[i];
	return true;
}

static inline bool
divides(const RoseNodeKernel *kernel)
{
	return kernel->op == ROSE_VEC_DIVIDE || kernel->op == ROSE_VEC_REMAINDER;
}

/* What NULLs are in the place of 0, by which nothing is divided. */
static RoseVecOperand
divisor_of(RoseNodeKernel *kernel, int n)
{
	RoseVecOperand divisor = rose_node_kernel_operand(kernel->b);
	float8		real_one = 1;
	int64		one = 1;

	if (!kernel->b->any_null)
		return divisor;
	if (kernel->kind == ROSE_KERNEL_DOUBLES)
		memcpy(&one, &real_one, sizeof(one));
	for (int i = 0; i < n; i++)
		kernel->values[i] = kernel->b->nulls[i] ? one : divisor.x[i];
	divisor.x = kernel->values;
	return divisor;
}

static bool
run_operator(RoseNodeKernel *kernel, int n)
{
	RoseVecOperand b = divides(kernel) ? divisor_of(kernel, n) : rose_node_kernel_operand(kernel->b);

	if (kernel->kind == ROSE_KERNEL_DOUBLES)
		return rose_vec_doubles(kernel->op, rose_node_kernel_operand(kernel->a), b, n, kernel->values);
	return rose_vec_integers(kernel->op, kernel->bytes, rose_node_kernel_operand(kernel->a), b, n, kernel->values);
}

/* Of what it is made of there are values. */
static bool
run_one(RoseNodeKernels *kernels, RoseNodeKernel *kernel)
{
	const RoseNodeRows *rows = kernels->rows;
	int			n = rows->n;

	switch (kernel->kind)
	{
		case ROSE_KERNEL_COLUMN:
			return load(kernel, rows);
		case ROSE_KERNEL_INTEGERS:
		case ROSE_KERNEL_DOUBLES:
			return run_operator(kernel, n);
		case ROSE_KERNEL_FLOAT8:
			memcpy(kernel->values, kernel->a->values, n * sizeof(int64));
			rose_vec_to_doubles(kernel->values, n);
			return true;
		case ROSE_KERNEL_WIDE_FLOAT:
			for (int i = 0; i < n; i++)
				kernel->values[i] = wide_word(kernel->a->values[i]);
			return true;
		case ROSE_KERNEL_NARROW:
			memcpy(kernel->values, kernel->a->values, n * sizeof(int64));
			return kernel->bytes == 8 || rose_vec_narrow(kernel->values, kernel->bytes, n);
		case ROSE_KERNEL_LENGTH:
			rose_node_kernel_text_lengths(kernel->a->values, kernel->a->any_null ? kernel->a->nulls : NULL, n,
										  kernel->values);
			return true;
		case ROSE_KERNEL_COMPARE:
			rose_vec_compare(kernel->comparison, rose_node_kernel_operand(kernel->a), rose_node_kernel_operand(kernel->b), n, kernel->values);
			return true;
		case ROSE_KERNEL_COMPARE_DOUBLES:
			return rose_vec_compare_doubles(kernel->comparison, rose_node_kernel_operand(kernel->a), rose_node_kernel_operand(kernel->b), n,
											kernel->values);
		case ROSE_KERNEL_DECIMAL_COLUMN:
		case ROSE_KERNEL_DECIMALS:
		case ROSE_KERNEL_DECIMAL:
		case ROSE_KERNEL_COMPARE_DECIMALS:
			return rose_node_kernel_decimal_run(kernels, kernel);
		default:
			if (kernel->is_decimal)
				return rose_node_kernel_decimal_run(kernels, kernel);
			rose_node_kernel_logic_run(kernel, n);
			return true;
	}
}

/* Is it NULL where what it is made of is? */
static bool
is_strict(const RoseNodeKernel *kernel)
{
	return kernel->kind > ROSE_KERNEL_DECIMAL_COLUMN && kernel->kind <= ROSE_KERNEL_COMPARE_DECIMALS;
}

bool
rose_node_kernel_run(RoseNodeKernels *kernels, RoseNodeKernel *kernel)
{
	ListCell   *cell;

	if (kernel->kind == ROSE_KERNEL_CONSTANT || kernel->stamp == kernels->stamp)
		return !kernel->fails;
	kernel->stamp = kernels->stamp;
	kernel->fails = true;
	if (kernel->a != NULL && !rose_node_kernel_run(kernels, kernel->a))
		return false;
	if (kernel->b != NULL && !rose_node_kernel_run(kernels, kernel->b))
		return false;
	foreach(cell, kernel->args)
	{
		if (!rose_node_kernel_run(kernels, lfirst(cell)))
			return false;
	}
	if (!run_one(kernels, kernel))
		return false;
	if (is_strict(kernel))
		join_nulls(kernel, kernels->rows->n);
	kernel->fails = false;
	return true;
}
