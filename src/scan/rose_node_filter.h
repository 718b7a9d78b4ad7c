/*-------------------------------------------------------------------------
 *
 * rose_node_filter.h
 *	  Conditions of a plan as trees of filters on columns.
 *
 * For rose_node_quals.c only, which asks the filters for many rows at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_FILTER_H
#define ROSE_NODE_FILTER_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"

#include "util/rose_wordset.h"
#include "scan/rose_node_filter_text.h"

typedef enum RoseNodeFilterType
{
	ROSE_FILTER_COMPARE,		/* is the column's word in the set? */
	ROSE_FILTER_TEXT,			/* is what a function says of the column's value true? */
	ROSE_FILTER_IS_NULL,
	ROSE_FILTER_AND,
	ROSE_FILTER_OR,
	ROSE_FILTER_NOT,
	ROSE_FILTER_IS_TRUE,
	ROSE_FILTER_IS_FALSE,
	ROSE_FILTER_IS_UNKNOWN
} RoseNodeFilterType;

/* How a column becomes words in order (rose_vec_kernels.h). */
typedef enum RoseNodeWords
{
	ROSE_WORDS_PLAIN,
	ROSE_WORDS_FLOAT4,
	ROSE_WORDS_FLOAT8,
	ROSE_WORDS_NUMERIC			/* no words, but integers that are theirs (rose_node_filter_numeric.c) */
} RoseNodeWords;

typedef enum RoseNodeOutcome
{
	ROSE_FILTER_SET,			/* as the set says, or a function; NULL for NULLs */
	ROSE_FILTER_UNKNOWN,		/* NULL for every row */
	ROSE_FILTER_NEVER			/* false for every row, NULLs too */
} RoseNodeOutcome;

typedef struct RoseNodeFilter
{
	RoseNodeFilterType type;
	List	   *args;			/* RoseNodeFilters */

	/* of a column */
	AttrNumber	attno;			/* 0: of none */
	const Node *expr;			/* in its place, what is made of columns (rose_node_kernel.h); or NULL */
	int			column;			/* rose_node_quals.c's number of it */
	int			length;			/* of the column's values; -1: they are by reference */
	RoseNodeWords kind;

	/* of a comparison */
	int			strategy;		/* a btree's */
	Oid			left;			/* type as which the column is compared */
	Oid			right;			/* type of what it is compared with, or of the array's elements */
	bool		is_array;		/* = ANY and the like */
	bool		evaluates;		/* what it is compared with is no constant or parameter from outside, or it asks a locale: it may fail */
	ExprState  *state;			/* what it is compared with; NULL: it is there already */
	RoseNodeFilterText *text;	/* of texts */
	List	   *joined;			/* others of the column, each of which leaves a range or nothing, that must be true, too */

	/* what became of it in this (re)scan */
	bool		ready;
	RoseNodeOutcome outcome;
	bool		else_unknown;	/* who is not in the set: NULL, not false */
	RoseWordSet set;

	/* the same of numerics: what they are compared with, and the scale of the integers in the set, -1: there is none */
	int			nconstants;
	Datum	   *constants;
	RoseWordRange *ranges;		/* of the set */
	int			scale;
} RoseNodeFilter;

/* NULL: it cannot be a filter.  planstate: where it is evaluated; NULL: it is only asked whether it can. */
extern RoseNodeFilter *rose_node_filter_compile(Node *clause, Index relid, PlanState *planstate);

/* Evaluate what a comparison compares with; the set is made in context. */
extern void rose_node_filter_evaluate(RoseNodeFilter *filter, ExprContext *econtext,
									  MemoryContext context);

/* Forget what was evaluated, in the whole tree. */
extern void rose_node_filter_reset(RoseNodeFilter *filter);

/* --- numerics (rose_node_filter_numeric.c); the outcome is ROSE_FILTER_SET --- */

/* The integers that are left, which count parts of 10 to this power. */
extern const RoseWordSet *rose_node_filter_numeric_set(RoseNodeFilter *filter, int scale);

/* Is this numeric left?  In a context that is reset sometimes. */
extern bool rose_node_filter_numeric_has(const RoseNodeFilter *filter, Datum value);

#endif							/* ROSE_NODE_FILTER_H */
