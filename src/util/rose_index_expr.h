/*-------------------------------------------------------------------------
 *
 * rose_index_expr.h
 *	  Expressions and the predicate of an index, as they were given.
 *
 * Core's own copies in the relcache entry have functions of users inlined and folded, as
 * they were when that was made.  Here they are as the catalog has them: what they depend on,
 * and whose function runs, is not decided by who came first.
 *
 * Backend-local; no locks.  Does not evaluate them (indexam/rose_index_eval.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_EXPR_H
#define ROSE_INDEX_EXPR_H

#include "postgres.h"

#include "access/htup.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

/* Has it any, or a predicate? */
extern bool rose_index_expr_is_any(Relation index);

typedef struct RoseIndexExpr
{
	List	   *columns;		/* the expressions among the index's columns, in their order */
	List	   *predicate;		/* conditions, all of which have to hold; NIL: there is no predicate */
} RoseIndexExpr;

/* Made in the current context; of an index, or of its row of pg_index. */
extern void rose_index_expr_read(Relation index, RoseIndexExpr *expr);
extern void rose_index_expr_read_tuple(HeapTuple pg_index, RoseIndexExpr *expr);

/* Columns of the table, of which there are natts, that are read; made in the current context. */
extern Bitmapset *rose_index_expr_depends(const RoseIndexExpr *expr, int natts);

/*
 * Will they give the same for the same row for ever?  Not if they call what users can
 * replace, or what follows files that are replaced with the system's.
 */
extern bool rose_index_expr_is_lasting(const RoseIndexExpr *expr);

/*
 * Settings that core's functions among them follow, though they count as immutable: by which of them would they give something
 * else?  As bits; 0: by none.  Functions of users are seen only in what the planner has made of expressions.
 */
#define ROSE_FOLLOWS_FLOAT_DIGITS	0x01	/* extra_float_digits */
#define ROSE_FOLLOWS_BYTEA_OUTPUT	0x02
#define ROSE_FOLLOWS_QUOTE_ALL		0x04	/* quote_all_identifiers */
#define ROSE_FOLLOWS_TEXT			0x07	/* all of these, by which texts are written */
#define ROSE_FOLLOWS_TIMEZONE		0x08
#define ROSE_FOLLOWS_DATESTYLE		0x10	/* only how literals are read */
#define ROSE_FOLLOWS_INTERVALSTYLE	0x20	/* as before, and in XML */
#define ROSE_FOLLOWS_XMLBINARY		0x40
#define ROSE_FOLLOWS_ABBREVIATIONS	0x80	/* of time zones */

extern int	rose_index_expr_follows(const RoseIndexExpr *expr);

/* Those among them that the session has otherwise than by default, which is what entries are made by. */
extern int	rose_index_expr_deviates(int follows);

#endif							/* ROSE_INDEX_EXPR_H */
