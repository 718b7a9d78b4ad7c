/*-------------------------------------------------------------------------
 *
 * rose_node_expr.h
 *	  Expressions of a table's columns, for many rows at a time.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_EXPR_H
#define ROSE_NODE_EXPR_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"
#include "nodes/primnodes.h"
#include "utils/relcache.h"

#include "scan/rose_node_column.h"
#include "scan/rose_node_decimal.h"
#include "scan/rose_node_time.h"

/* What was made of one for a value of its only column, or what stands for it. */
typedef struct RoseNodeExprMemo
{
	Datum		value;
	Datum		result;
	uint32		stamp;			/* of the expression: else there is nothing here */
	bool		null;
} RoseNodeExprMemo;

typedef struct RoseNodeExpr
{
	const Node *expr;
	struct RoseNodeExpr *filter;	/* for rows that this leaves out it is NULL, and not evaluated; or NULL */
	bool		is_filter;		/* a condition: of rows that it leaves out nulls is true, and there are no values */
	ExprState  *state;
	struct RoseNodeKernel *kernel;	/* makes all values at once; or NULL */
	bool		done;			/* of the rows at hand */
	bool		takes_decimals; /* values may be integers in the place of numerics ... */
	const RoseNodeDecimals *decimals;	/* ... which they are then; NULL: they are not */
	int16		typlen;
	bool		by_value;
	bool		wants_values;	/* the caller's: else it is only asked which are NULL, and values are nothing */

	/* of the selected rows at hand, one after the other; values of NULLs are 0 */
	int64	   *values;			/* words as rose_batch_words has them, or Datums; or see decimals */
	bool	   *nulls;
	bool		any_null;

	/* evaluated once for values that come again */
	AttrNumber	only;			/* its only column; 0: it has several, or, if there is a memo, none */
	bool		keeps;			/* what is remembered holds for the next rows, too */
	RoseNodeTimeGrain grain;	/* if it is one of times: those that it does not tell apart */
	MemoryContext kept;			/* of what is kept and is by reference; or NULL */
	RoseNodeExprMemo *memo;		/* NULL: nothing is remembered */
	uint32		stamp;
	uint32		asked;			/* of the rows at hand ... */
	uint32		known;			/* ... and so often it was there */
	uint32		idle;			/* for so many times rows it is not asked */
} RoseNodeExpr;

/* Those of a node. */
typedef struct RoseNodeExprSet
{
	MemoryContext context;		/* where they are */
	MemoryContext results;		/* by reference, of the rows at hand */
	PlanState  *parent;
	ExprContext *econtext;
	TupleTableSlot *slot;		/* of the table's rows; what no expression looks at is NULL */
	Bitmapset  *attnos;
	RoseNodeColumns *columns;	/* NULL before the first rows */
	struct RoseNodeKernels *kernels;
	int			nexprs;
	RoseNodeExpr **exprs;		/* in the order in which they are evaluated */
} RoseNodeExprSet;

/* --- which ones (rose_node_expr_kinds.c) --- */

/* A column, perhaps seen as another type that has the same values; else NULL. */
extern const Var *rose_node_expr_column(const Node *expr);

/* Can it be evaluated here?  Which columns (Vars) does it look at? */
extern bool rose_node_expr_takes(const Node *expr);
extern List *rose_node_expr_columns(const Node *expr);

/* --- execution (rose_node_expr.c) --- */

/* In the current context; none is there yet. */
extern RoseNodeExprSet *rose_node_exprs_create(PlanState *parent, Relation rel);

/*
 * The one that is equal, or a new one.  For each row they are evaluated in the order in which they were added, for those rows only that the
 * filter leaves (NULL: all).  Of no FILTER, NULL, there is none.
 */
extern RoseNodeExpr *rose_node_exprs_add(RoseNodeExprSet *exprs, const Node *expr, RoseNodeExpr *filter);

/* The same of a numeric, or a numeric column, whose values may be integers; which may differ from rows to rows. */
extern RoseNodeExpr *rose_node_exprs_add_decimals(RoseNodeExprSet *exprs, const Node *expr, RoseNodeExpr *filter);
extern RoseNodeExpr *rose_node_exprs_add_filter(RoseNodeExprSet *exprs, const Expr *filter);

/* There are other rows at hand; values of earlier ones that are by reference are gone. */
extern void rose_node_exprs_evaluate(RoseNodeExprSet *exprs, const RoseNodeRows *rows);

/* The scan begins anew: parameters may have changed. */
extern void rose_node_exprs_reset(RoseNodeExprSet *exprs);

#endif							/* ROSE_NODE_EXPR_H */
