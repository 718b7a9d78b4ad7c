/*-------------------------------------------------------------------------
 *
 * rose_node_quals_parts.h
 *	  What the files of conditions share: rose_node_quals.c, rose_node_quals_column.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_QUALS_PARTS_H
#define ROSE_NODE_QUALS_PARTS_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"

#include "util/rose_mask.h"
#include "scan/rose_node_decimal.h"
#include "scan/rose_node_filter.h"
#include "scan/rose_node_kernel.h"
#include "scan/rose_node_quals.h"
#include "scan/rose_node_scan.h"

#define ROSE_NODE_QUALS_WORDS	ROSE_MASK_WORDS(ROSE_NODE_VECTOR_ROWS)

/* A column of the rows at hand. */
typedef struct RoseNodeQualsColumn
{
	AttrNumber	attno;
	int			length;			/* of a value; -1: it is by reference */
	bool		loaded;			/* for all rows, or of an expression for those that are made */
	uint64		made[ROSE_NODE_QUALS_WORDS];	/* expressions, picked values: of these rows */
	int64	   *words;			/* by reference: Datums */
	uint64		nulls[ROSE_NODE_QUALS_WORDS];

	/* no column, but what is made of some */
	const Node *expr;
	RoseNodeKernel *kernel;

	/* values of few rows, one after the other, while it is not loaded */
	int			npicked;		/* 0: there are none */
	uint16	   *picked;			/* numbers of the rows among those at hand */

	/* numerics */
	bool		is_numeric;		/* words are integers (decimals) or, if there is one that is none, Datums */
	bool		is_decimal;
	RoseNodeDecimals decimals;
	uint8	   *scales;			/* room for theirs */
	int			nentries;		/* not 0: there are no words, but the number of each row's among these */
	int64	   *entries;
	uint16	   *codes;
} RoseNodeQualsColumn;

struct RoseNodeQuals
{
	int			nfilters;
	RoseNodeFilter **filters;	/* all must be true */
	ExprState **asked;			/* the same as expressions, from the first one on that may fail; before it NULL */
	int			open;			/* from this one on filters are to be asked of each row that is left */
	ExprContext *econtext;
	MemoryContext context;		/* of the sets */
	int			ncolumns;
	RoseNodeQualsColumn *columns;
	Datum	   *values;			/* scratch, a vector long */
	bool	   *nulls;
	uint16	   *rows;			/* the same, of rows that are picked */
	bool	   *keep;
	RoseNodeKernels kernels;
	RoseNodeRows *chosen;		/* of which something is made; NULL: there is nothing to make */

	/* rows at hand */
	RoseBatch  *batch;
	int			first;
	int			n;
	int			lead;			/* the first of them that is left: somebody has come to it */
	bool		failed;			/* so answers of the condition at hand are nothing */
};

/* --- rose_node_quals_column.c --- */

/* Find, or add, the columns that the filters of a tree look at. */
extern void rose_node_quals_column_add_all(RoseNodeQuals *quals, RoseNodeFilter *filter);

/* There are other rows at hand. */
extern void rose_node_quals_column_forget(RoseNodeQuals *quals);

/* A column that is one, of all rows at hand. */
extern RoseNodeQualsColumn *rose_node_quals_column_load(RoseNodeQuals *quals, int number);

/*
 * Of a comparison that is ready, and those joined to it: set the bits, which were clear, of rows that are left.  Of rows that are not needed, and of NULLs, nothing
 * is said.  The column, of which NULLs are known; NULL: it may fail.
 */
extern const RoseNodeQualsColumn *rose_node_quals_column_select(RoseNodeQuals *quals, RoseNodeFilter *filter, const uint64 *needed,
																uint64 *yes);

#endif							/* ROSE_NODE_QUALS_PARTS_H */
