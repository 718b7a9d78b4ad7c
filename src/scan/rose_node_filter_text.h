/*-------------------------------------------------------------------------
 *
 * rose_node_filter_text.h
 *	  Comparisons of texts, and matching them, as filters: by core's functions, asked once for values that come again.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_FILTER_TEXT_H
#define ROSE_NODE_FILTER_TEXT_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/primnodes.h"

/* What is done with each value of a text column. */
typedef struct RoseNodeFilterText RoseNodeFilterText;

/*
 * Is it an operator that is known here, and that raises no error for any value?  column: which argument is the column, 0 or 1.
 * *not_first: it asks a locale of the system, so it is not asked of rows that it need not be.
 */
extern bool rose_node_filter_text_takes(const OpExpr *op, int column, bool *not_first);

/* In the current context; column: which argument is the column, 0 or 1. */
extern RoseNodeFilterText *rose_node_filter_text_create(const OpExpr *op, int column);

/* The column is compared with this value, which is copied to the context. */
extern void rose_node_filter_text_start(RoseNodeFilterText *match, Datum with, MemoryContext context);

/* There are other rows: values that were there are gone. */
extern void rose_node_filter_text_renew(RoseNodeFilterText *match);

/* For which values is it true?  None of them is NULL.  keep[i] is set to whether it is for values[i]. */
extern void rose_node_filter_text_ask(RoseNodeFilterText *match, const Datum *values, int n, bool *keep);

#endif							/* ROSE_NODE_FILTER_TEXT_H */
