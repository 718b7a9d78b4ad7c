/*-------------------------------------------------------------------------
 *
 * rose_node_kernel.h
 *	  Arithmetic, comparisons and choices among columns, of all selected rows at once.
 *
 * For rose_node_expr.c and the filters only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_KERNEL_H
#define ROSE_NODE_KERNEL_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/pg_list.h"
#include "nodes/primnodes.h"

#include "vector/rose_vec_expr.h"
#include "scan/rose_node_column.h"
#include "scan/rose_node_decimal.h"

typedef enum RoseNodeKernelKind
{
	ROSE_KERNEL_CONSTANT,
	ROSE_KERNEL_COLUMN,
	ROSE_KERNEL_DECIMAL_COLUMN, /* of numerics */
	ROSE_KERNEL_INTEGERS,		/* a op b */
	ROSE_KERNEL_DOUBLES,
	ROSE_KERNEL_DECIMALS,
	ROSE_KERNEL_DECIMAL,		/* of a, an integer */
	ROSE_KERNEL_FLOAT8,			/* of a, an integer, ... */
	ROSE_KERNEL_WIDE_FLOAT,		/* ... or a float4 */
	ROSE_KERNEL_NARROW,			/* a, which is to fit so many bytes */
	ROSE_KERNEL_LENGTH,			/* of a, a text */
	ROSE_KERNEL_COMPARE,		/* a with b, words */
	ROSE_KERNEL_COMPARE_DOUBLES,
	ROSE_KERNEL_COMPARE_DECIMALS,
	ROSE_KERNEL_AND,			/* args */
	ROSE_KERNEL_OR,
	ROSE_KERNEL_NOT,			/* a */
	ROSE_KERNEL_IS_NULL,
	ROSE_KERNEL_IS_NOT_NULL,
	ROSE_KERNEL_CASE,			/* args: a condition, what it is then, ..., what it is else */
	ROSE_KERNEL_COALESCE		/* args */
} RoseNodeKernelKind;

typedef struct RoseNodeKernel
{
	RoseNodeKernelKind kind;
	RoseVecOp	op;
	RoseVecComparison comparison;
	int			bytes;			/* of the result; of a column's value, -1: it is by reference */
	struct RoseNodeKernel *a;
	struct RoseNodeKernel *b;
	List	   *args;
	int64		constant;		/* a word, or a Datum ... */
	bool		is_null;		/* ... or NULL, which is only there among args */
	AttrNumber	attno;
	bool		is_decimal;		/* values are integers in the place of numerics, which ... */
	RoseNodeDecimals decimals;	/* ... are these; of a constant, too */
	uint8	   *scales;			/* room for those of decimals */
	const Node *expr;

	/* of the rows at hand */
	uint64		stamp;			/* ... if it is theirs */
	bool		fails;			/* there is, or may be, an error */
	int			failures;		/* so often more than not */
	int64	   *values;			/* words, or Datums; of NULLs 0 */
	bool	   *nulls;
	bool		any_null;
} RoseNodeKernel;

/* Those of a node: what is alike is there once. */
typedef struct RoseNodeKernels
{
	List	   *all;
	RoseNodeKernel *(*compile) (struct RoseNodeKernels *kernels, const Node *expr); /* words, for who has them below numerics; without arrays */
	const RoseNodeRows *rows;
	uint64		stamp;			/* counts rows at hand */
	Datum	   *datums;			/* room for a column's; NULL: there is none yet */
	uint16	   *codes;			/* the same */
} RoseNodeKernels;

/* In the current context; NULL: it is not all of what is known here, or nothing but a column or a constant. */
extern RoseNodeKernel *rose_node_kernel_compile(RoseNodeKernels *kernels, const Node *expr);

/* The same of a numeric, whose values are to be integers (decimals), and which may be a column. */
extern RoseNodeKernel *rose_node_kernel_compile_decimal(RoseNodeKernels *kernels, const Node *expr);

/* Is this one of the two, and no column?  For the planner. */
extern bool rose_node_kernel_takes(const Node *expr);

/* There are other rows at hand. */
extern void rose_node_kernels_start(RoseNodeKernels *kernels, const RoseNodeRows *rows);

/* Make its values; false: there may be an error in one of them. */
extern bool rose_node_kernel_run(RoseNodeKernels *kernels, RoseNodeKernel *kernel);

/* --- numerics (rose_node_kernel_decimal.c) --- */

/* One whose values are integers in the place of numerics, if it is not there; without arrays; NULL: it is not known. */
extern RoseNodeKernel *rose_node_kernel_decimal_compile(RoseNodeKernels *kernels, const Node *expr);

/* Of what it is made of there are values; false: they are no integers, or there may be an error. */
extern bool rose_node_kernel_decimal_run(RoseNodeKernels *kernels, RoseNodeKernel *kernel);

/* A column's that are not: the rows have its Datums. */
extern void rose_node_kernel_take_datums(RoseNodeKernels *kernels, RoseNodeKernel *kernel);

/* --- what has args, and tests for NULL (rose_node_kernel_logic.c) --- */

/* Of what it is made of there are values. */
extern void rose_node_kernel_logic_run(RoseNodeKernel *kernel, int n);

/* --- texts (rose_node_kernel_text.c) --- */

/* How many characters the texts (Datums) have; of NULLs (nulls: NULL, there are none) 0. */
extern void rose_node_kernel_text_lengths(const int64 *values, const bool *nulls, int n, int64 *result);

#endif							/* ROSE_NODE_KERNEL_H */
