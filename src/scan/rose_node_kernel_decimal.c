/*-------------------------------------------------------------------------
 *
 * rose_node_kernel_decimal.c
 *	  Arithmetic and comparisons of numerics, of all selected rows at once.
 *
 * Numerics are made integers (rose_node_decimal.h), if all of the rows at hand can be; else, and where an integer might become too large, the
 * rows are said to fail, and core's functions make their values.  What integers count, how large they are at most, and the digits that each
 * shows follow from those of the operands by core's rules: a sum shows what one of both shows, a product what both do.
 *
 * Functions are known by their OIDs, never by names.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "scan/rose_node_expr.h"
#include "scan/rose_node_kernel_parts.h"

/* Beyond this an integer is not let grow.  What is next to ROSE_NODE_DECIMAL_FAR may be taken for it, in constants that it is compared with. */
#define MAX_BOUND	((uint64) ROSE_NODE_DECIMAL_FAR / 2)

/* ---- compiling ---- */

static RoseNodeKernel *
make(RoseNodeKernelKind kind, const Node *expr)
{
	RoseNodeKernel *kernel = rose_node_kernel_make(kind, expr);

	kernel->is_decimal = true;
	return kernel;
}

static RoseNodeKernel *
compile_constant(const Const *constant)
{
	RoseNodeKernel *kernel = make(ROSE_KERNEL_CONSTANT, (const Node *) constant);

	if (constant->constisnull ||
		!rose_node_decimal_make(&constant->constvalue, NULL, 1, &kernel->constant, NULL, &kernel->decimals))
		return NULL;
	return kernel;
}

static RoseNodeKernel *
compile_column(RoseNodeKernels *kernels, const Var *column)
{
	RoseNodeKernel *kernel = make(ROSE_KERNEL_DECIMAL_COLUMN, (const Node *) column);

	if (kernels->datums == NULL)
	{
		kernels->datums = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(Datum));
		kernels->codes = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint16));
	}
	kernel->attno = column->varattno;
	return kernel;
}

static inline bool
is_constant(const RoseNodeKernel *kernel)
{
	return kernel->kind == ROSE_KERNEL_CONSTANT;
}

static RoseNodeKernel *
compile_operator(RoseNodeKernels *kernels, const Node *expr, RoseVecOp op, const List *args)
{
	RoseNodeKernel *kernel = make(ROSE_KERNEL_DECIMALS, expr);

	kernel->op = op;
	kernel->a = rose_node_kernel_decimal_compile(kernels, linitial(args));
	kernel->b = rose_node_kernel_decimal_compile(kernels, lsecond(args));
	if (kernel->a == NULL || kernel->b == NULL || (is_constant(kernel->a) && is_constant(kernel->b)))
		return NULL;
	return kernel;
}

/* 0 - a */
static RoseNodeKernel *
compile_minus(RoseNodeKernels *kernels, const Node *expr, const List *args)
{
	RoseNodeKernel *kernel = make(ROSE_KERNEL_DECIMALS, expr);

	kernel->op = ROSE_VEC_SUBTRACT;
	kernel->a = make(ROSE_KERNEL_CONSTANT, NULL);
	kernel->b = rose_node_kernel_decimal_compile(kernels, linitial(args));
	return kernel->b == NULL || is_constant(kernel->b) ? NULL : kernel;
}

static RoseNodeKernel *
compile_of_integer(RoseNodeKernels *kernels, const Node *expr, const List *args)
{
	RoseNodeKernel *kernel = make(ROSE_KERNEL_DECIMAL, expr);

	kernel->a = kernels->compile(kernels, linitial(args));
	return kernel->a == NULL || is_constant(kernel->a) ? NULL : kernel;
}

static RoseNodeKernel *
compile_call(RoseNodeKernels *kernels, const Node *expr, Oid function, const List *args)
{
	switch (function)
	{
		case F_NUMERIC_ADD:
			return compile_operator(kernels, expr, ROSE_VEC_ADD, args);
		case F_NUMERIC_SUB:
			return compile_operator(kernels, expr, ROSE_VEC_SUBTRACT, args);
		case F_NUMERIC_MUL:
			return compile_operator(kernels, expr, ROSE_VEC_MULTIPLY, args);
		case F_NUMERIC_UMINUS:
			return compile_minus(kernels, expr, args);
		case F_NUMERIC_INT2:
		case F_NUMERIC_INT4:
		case F_NUMERIC_INT8:
			return compile_of_integer(kernels, expr, args);
		default:
			return NULL;
	}
}

/* One more that is chosen among; NULLs may be. */
static bool
add_choice(RoseNodeKernels *kernels, RoseNodeKernel *kernel, const Node *expr)
{
	RoseNodeKernel *arg;

	if (IsA(expr, Const) && ((const Const *) expr)->constisnull)
	{
		arg = make(ROSE_KERNEL_CONSTANT, expr);
		arg->is_null = true;
	}
	else
		arg = rose_node_kernel_decimal_compile(kernels, expr);
	kernel->args = lappend(kernel->args, arg);
	return arg != NULL;
}

static RoseNodeKernel *
compile_case(RoseNodeKernels *kernels, const CaseExpr *expr)
{
	RoseNodeKernel *kernel = make(ROSE_KERNEL_CASE, (const Node *) expr);
	ListCell   *cell;

	if (expr->arg != NULL || expr->defresult == NULL)
		return NULL;
	foreach(cell, expr->args)
	{
		const CaseWhen *when = lfirst_node(CaseWhen, cell);
		RoseNodeKernel *condition = kernels->compile(kernels, (const Node *) when->expr);

		if (condition == NULL)
			return NULL;
		kernel->args = lappend(kernel->args, condition);
		if (!add_choice(kernels, kernel, (const Node *) when->result))
			return NULL;
	}
	return add_choice(kernels, kernel, (const Node *) expr->defresult) ? kernel : NULL;
}

static RoseNodeKernel *
compile_coalesce(RoseNodeKernels *kernels, const CoalesceExpr *expr)
{
	RoseNodeKernel *kernel = make(ROSE_KERNEL_COALESCE, (const Node *) expr);
	ListCell   *cell;

	foreach(cell, expr->args)
	{
		if (!add_choice(kernels, kernel, lfirst(cell)))
			return NULL;
	}
	return kernel;
}

static RoseNodeKernel *
compile_new(RoseNodeKernels *kernels, const Node *expr)
{
	const Var  *column = rose_node_expr_column(expr);

	if (getBaseType(exprType(expr)) != NUMERICOID)
		return NULL;
	if (column != NULL)
		return compile_column(kernels, column);
	switch (nodeTag(expr))
	{
		case T_Const:
			return compile_constant((const Const *) expr);
		case T_OpExpr:
			return compile_call(kernels, expr, get_opcode(((const OpExpr *) expr)->opno), ((const OpExpr *) expr)->args);
		case T_CaseExpr:
			return compile_case(kernels, (const CaseExpr *) expr);
		case T_CoalesceExpr:
			return compile_coalesce(kernels, (const CoalesceExpr *) expr);
		case T_FuncExpr:
			return compile_call(kernels, expr, ((const FuncExpr *) expr)->funcid, ((const FuncExpr *) expr)->args);
		default:
			return NULL;
	}
}

RoseNodeKernel *
rose_node_kernel_decimal_compile(RoseNodeKernels *kernels, const Node *expr)
{
	RoseNodeKernel *kernel = rose_node_kernel_find(kernels, expr, true);

	if (kernel != NULL)
		return kernel;
	kernel = compile_new(kernels, expr);
	if (kernel == NULL)
		return NULL;
	kernel->expr = expr;
	kernels->all = lappend(kernels->all, kernel);
	return kernel;
}

/* ---- running ---- */

static bool
load(RoseNodeKernels *kernels, RoseNodeKernel *kernel)
{
	const RoseNodeRows *rows = kernels->rows;
	int			nentries;
	const Datum *entries = rose_node_column_codes(rows, kernel->attno, kernels->codes, &nentries);
	bool		null;

	kernel->any_null = false;
	if (entries != NULL &&
		rose_node_decimal_make_coded(entries, nentries, kernels->codes, rows->n, kernel->values, kernel->scales, &kernel->decimals))
		return true;
	null = rose_node_column_words(rows, kernel->attno, -1, (int64 *) kernels->datums, kernel->nulls);
	kernel->any_null = null && memchr(kernel->nulls, true, rows->n) != NULL;
	return rose_node_decimal_make(kernels->datums, kernel->any_null ? kernel->nulls : NULL, rows->n, kernel->values,
								  kernel->scales, &kernel->decimals);
}

void
rose_node_kernel_take_datums(RoseNodeKernels *kernels, RoseNodeKernel *kernel)
{
	const RoseNodeRows *rows = kernels->rows;
	bool		null = rose_node_column_words(rows, kernel->attno, -1, kernel->values, kernel->nulls);

	kernel->any_null = null && memchr(kernel->nulls, true, rows->n) != NULL;
	for (int i = 0; i < rows->n && kernel->any_null; i++)
		kernel->values[i] = kernel->nulls[i] ? 0 : kernel->values[i];
}

/* What it shows is what the operands show, joined by the function. */
static void
join_scales(RoseNodeKernel *kernel, int n)
{
	const RoseNodeDecimals *a = &kernel->a->decimals;
	const RoseNodeDecimals *b = &kernel->b->decimals;
	bool		adds = kernel->op == ROSE_VEC_MULTIPLY;

	kernel->decimals.scales = NULL;
	if (a->scales == NULL && b->scales == NULL)
		return;
	kernel->decimals.scales = kernel->scales;
	for (int i = 0; i < n; i++)
	{
		int			x = rose_node_decimal_shown(a, i);
		int			y = rose_node_decimal_shown(b, i);

		kernel->scales[i] = (uint8) (adds ? x + y : Max(x, y));
	}
}

/* A bound of products; false: one may be too large. */
static inline bool
bound_of_product(uint64 a, uint64 b, uint64 *result)
{
	return !__builtin_mul_overflow(a, b, result) && *result <= MAX_BOUND;
}

static bool
multiply(RoseNodeKernel *kernel, int n)
{
	const RoseNodeDecimals *a = &kernel->a->decimals;
	const RoseNodeDecimals *b = &kernel->b->decimals;

	kernel->decimals.scale = a->scale + b->scale;
	if (kernel->decimals.scale > ROSE_NODE_DECIMAL_MAX_SCALE || !bound_of_product(a->bound, b->bound, &kernel->decimals.bound))
		return false;
	rose_vec_multiply(rose_node_kernel_operand(kernel->a), rose_node_kernel_operand(kernel->b),
					  a->bound <= PG_INT32_MAX && b->bound <= PG_INT32_MAX, n, kernel->values);
	join_scales(kernel, n);
	return true;
}

/* An operand as integers of a scale that is not smaller than its own; they go to room, if it is another one. */
static bool
rescale(const RoseNodeKernel *from, int scale, int n, int64 *room, RoseVecOperand *operand, uint64 *bound)
{
	int64		power = rose_node_decimal_power[scale - from->decimals.scale];

	*operand = rose_node_kernel_operand(from);
	if (!bound_of_product(from->decimals.bound, (uint64) power, bound))
		return false;
	if (power == 1)
		return true;
	operand->value *= power;
	if (operand->x == NULL)
		return true;
	rose_vec_multiply(*operand, (RoseVecOperand) {NULL, power}, from->decimals.bound <= PG_INT32_MAX && power <= PG_INT32_MAX,
					  n, room);
	operand->x = room;
	return true;
}

/* Both operands, of one scale, which kernel gets; one of both may be in its values. */
static bool
make_alike(RoseNodeKernel *kernel, int n, RoseVecOperand *a, RoseVecOperand *b)
{
	RoseNodeDecimals *decimals = &kernel->decimals;
	uint64		a_bound;
	uint64		b_bound;

	decimals->scale = Max(kernel->a->decimals.scale, kernel->b->decimals.scale);
	if (!rescale(kernel->a, decimals->scale, n, kernel->values, a, &a_bound) ||
		!rescale(kernel->b, decimals->scale, n, kernel->values, b, &b_bound))
		return false;
	decimals->bound = a_bound + b_bound;
	return decimals->bound <= MAX_BOUND;
}

static bool
add(RoseNodeKernel *kernel, int n)
{
	RoseVecOperand a;
	RoseVecOperand b;

	if (!make_alike(kernel, n, &a, &b) || !rose_vec_integers(kernel->op, sizeof(int64), a, b, n, kernel->values))
		return false;
	join_scales(kernel, n);
	return true;
}

static bool
take_integers(RoseNodeKernel *kernel, int n)
{
	uint64		all = 0;

	for (int i = 0; i < n; i++)
	{
		int64		value = kernel->a->values[i];

		kernel->values[i] = value;
		all |= value < 0 ? -(uint64) value : (uint64) value;
	}
	kernel->decimals = (RoseNodeDecimals) {.bound = all};
	return all <= MAX_BOUND;
}

static bool
compare(RoseNodeKernel *kernel, int n)
{
	RoseVecOperand a;
	RoseVecOperand b;

	if (!make_alike(kernel, n, &a, &b))
		return false;
	rose_vec_compare(kernel->comparison, a, b, n, kernel->values);
	return true;
}

/* What a row gets is that of another one, with another scale. */
static inline void
choose(RoseNodeKernel *kernel, const RoseNodeKernel *from, int i)
{
	bool		is_constant_from = is_constant(from);
	bool		null = is_constant_from ? from->is_null : from->any_null && from->nulls[i];

	kernel->nulls[i] = null;
	kernel->any_null |= null;
	kernel->values[i] = null ? 0 : (is_constant_from ? from->constant : from->values[i]) *
		rose_node_decimal_power[kernel->decimals.scale - from->decimals.scale];
	kernel->scales[i] = (uint8) rose_node_decimal_shown(&from->decimals, i);
}

/* Its scale and bound are the greatest of the args; step: one of so many is chosen, the last one too. */
static bool
join_choices(RoseNodeKernel *kernel, int step)
{
	RoseNodeDecimals *decimals = &kernel->decimals;
	int			n = list_length(kernel->args);
	bool		same = true;

	*decimals = (RoseNodeDecimals) {0};
	for (int i = step - 1; i < n + step - 1; i += step)
	{
		const RoseNodeKernel *arg = list_nth(kernel->args, Min(i, n - 1));

		same &= arg->decimals.scales == NULL && (i == step - 1 || arg->decimals.scale == decimals->scale);
		decimals->scale = Max(decimals->scale, arg->decimals.scale);
	}
	for (int i = step - 1; i < n + step - 1; i += step)
	{
		const RoseNodeKernel *arg = list_nth(kernel->args, Min(i, n - 1));
		uint64		bound;

		if (!bound_of_product(arg->decimals.bound, (uint64) rose_node_decimal_power[decimals->scale - arg->decimals.scale], &bound))
			return false;
		decimals->bound = Max(decimals->bound, bound);
	}
	if (!same)
		decimals->scales = kernel->scales;
	return true;
}

static bool
run_case(RoseNodeKernel *kernel, int n)
{
	int			nwhens = list_length(kernel->args) / 2;

	if (!join_choices(kernel, 2))
		return false;
	kernel->any_null = false;
	for (int i = 0; i < n; i++)
	{
		int			when = 0;

		for (; when < nwhens; when++)
		{
			const RoseNodeKernel *condition = list_nth(kernel->args, 2 * when);

			if ((is_constant(condition) ? condition->constant : condition->values[i]) != 0)
				break;
		}
		choose(kernel, list_nth(kernel->args, when < nwhens ? 2 * when + 1 : 2 * nwhens), i);
	}
	return true;
}

/* The first one that is not NULL, or the last one. */
static bool
run_coalesce(RoseNodeKernel *kernel, int n)
{
	int			nargs = list_length(kernel->args);

	if (!join_choices(kernel, 1))
		return false;
	kernel->any_null = false;
	for (int i = 0; i < n; i++)
	{
		for (int at = 0; at < nargs; at++)
		{
			choose(kernel, list_nth(kernel->args, at), i);
			if (!kernel->nulls[i])
				break;
		}
	}
	kernel->any_null = memchr(kernel->nulls, true, n) != NULL;
	return true;
}

bool
rose_node_kernel_decimal_run(RoseNodeKernels *kernels, RoseNodeKernel *kernel)
{
	int			n = kernels->rows->n;

	switch (kernel->kind)
	{
		case ROSE_KERNEL_DECIMAL_COLUMN:
			return load(kernels, kernel);
		case ROSE_KERNEL_DECIMALS:
			return kernel->op == ROSE_VEC_MULTIPLY ? multiply(kernel, n) : add(kernel, n);
		case ROSE_KERNEL_DECIMAL:
			return take_integers(kernel, n);
		case ROSE_KERNEL_COMPARE_DECIMALS:
			return compare(kernel, n);
		case ROSE_KERNEL_CASE:
			return run_case(kernel, n);
		case ROSE_KERNEL_COALESCE:
			return run_coalesce(kernel, n);
		default:
			Assert(false);
			return false;
	}
}
