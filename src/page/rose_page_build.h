/*-------------------------------------------------------------------------
 *
 * rose_page_build.h
 *	  The builder's inside, shared by building and planning; for page/ only.
 *
 * Backend-local.  Upper layers know rose_page.h only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PAGE_BUILD_H
#define ROSE_PAGE_BUILD_H

#include "codec/rose_packed.h"
#include "page/rose_page_format.h"

typedef struct BuilderColumn
{
	/*
	 * What each row needs, together.  While a column has no value it counts
	 * nothing and sets no bit, because most system columns never have one; see
	 * rose_page_build.c.
	 */
	bool		in_row_bits;	/* see row_bits */
	int			unusual_bits;	/* what an unusual word adds to row_bits, if any is told */
	RoseAnchorsAhead ahead;		/* for the codec's reach() */
	int			nnulls;
	uint8	   *isnull;			/* one bit a row, low bits first */
	RoseColumnBuffer buffer;

	RosePlan	saved;			/* before the row being tried */

	/* what the pages before have taught */
	RosePlan	learned;		/* how the last one was written; no codec: nothing yet */
	int			rate;			/* bytes for 1024 values that a full choice led to */
	bool		chosen;			/* this page's plan comes from a full choice */
} BuilderColumn;

/* Where a column's words go, and which of them are usual. */
typedef struct RoseWordTarget
{
	int64	   *words;
	int			column;
	int			unused_bits;	/* of a Datum that holds one */
	int			unusual_bits;	/* the column's */
	bool		simple;			/* what follows tells which are usual */
	int64		previous_mask;	/* -1 if differences decide, else 0 */
	int64		base;
	uint64		top;
} RoseWordTarget;

struct RosePageBuilder
{
	MemoryContext context;
	int			ncols;
	int			available;		/* bytes for all segments of a page */
	int			max_rows;
	RoseEffort	effort;
	BuilderColumn *columns;
	RosePackScratch scratch;
	char	   *workspace;

	int			nrows;
	int			row_capacity;
	int64		item_bytes;		/* in the buffers of all columns */
	int64		last_item_bytes;	/* of the last row */

	/* budget of the rows not settled yet */
	int			npending;
	int			pending_limit;	/* as far as the plans are known to reach */
	int			pending_most;	/* what pending_limit may be raised to */
	int64		pending_bits;	/* the most they take, but for reach_bits */
	int64		reach_bits;		/* what the codecs' reach() told to add */
	int64		budget_bits;
	int64		row_bits;		/* the most a row of usual words adds to columns that
								 * have values, but for items' bytes and first NULLs */
	int64		unusual_bits;	/* what it adds besides if all its words are unusual */
	int64		expected_bits;	/* what rows in columns have added on average; 0: not known */
	int64		pending_item_bytes;
	int64		headroom;		/* item bytes that the plans are still prepared for */

	/*
	 * While 'dense', columns have either no value or no NULL, and the buffers of words
	 * may have got rows that their nvalues do not count yet.  The words of rows
	 * from 'nlooked' on were not looked at, and all count as unusual.  When space becomes
	 * scarce all are looked at as they come ('watchful').
	 */
	bool		dense;
	bool		watchful;
	int			nlooked;
	bool	   *usual_nulls;	/* the columns without a value */
	int			nword_targets;
	RoseWordTarget *word_targets;	/* the columns of words that have values */
	int			nitem_columns;
	int		   *item_columns;	/* the columns of items that have values */
	Datum	   *row_values;		/* a row out of columns */
	bool	   *row_nulls;

	/* state of the plans */
	int			planned_rows;	/* rows when all plans were last made */
	int			tight_rows;		/* rows when they were last made tight, or 0 */

	/* learning; see rose_page_plan.c */
	int			explore_in;		/* pages until one is explored */
	int			explore_interval;
	bool		exploring;
};

static inline int
rose_builder_nullmap_size(const RosePageBuilder *builder, const BuilderColumn *column)
{
	return column->buffer.nvalues == 0 ? 0 :
		rose_nullmap_size(builder->nrows, column->nnulls);
}

/* ---- rose_page_append.c ---- */

/* Let the buffers' nvalues count all rows. */
extern void rose_builder_count_rows(RosePageBuilder *builder);

/* Rows are dense from here on, under a new budget: gather the columns that have values. */
extern void rose_builder_begin_dense(RosePageBuilder *builder);


/* ---- rose_page_build.c ---- */

/* Make room for so many rows. */
extern void rose_builder_reserve_rows(RosePageBuilder *builder, int capacity);

/* What array grows to; NULL: begin one. */
extern void *rose_builder_grow_array(MemoryContext context, void *array, Size size);


/* ---- rose_page_plan.c ---- */

/* What all columns take, as far as the plans have followed. */
extern int	rose_builder_total_size(const RosePageBuilder *builder);

/* Give out what the settled rows, which take 'total' bytes, leave free. */
extern void rose_builder_renew_budget(RosePageBuilder *builder, int total);

/* Let the plans follow all rows or, if last_nulls is given, all but the last one. */
extern void rose_builder_settle(RosePageBuilder *builder, const bool *last_nulls);

/*
 * The last row is beyond the budget: see what all rows really take.  False if the row
 * does not fit; then the plans are as before it, and the caller takes it back.
 */
extern bool rose_builder_settle_last_row(RosePageBuilder *builder, const bool *nulls);

/* All rows are there: make the plans better if that was not done lately. */
extern void rose_builder_finish_plans(RosePageBuilder *builder);

/* Remember how the page was written. */
extern void rose_builder_learn(RosePageBuilder *builder);

/* A new page begins. */
extern void rose_builder_reset_plans(RosePageBuilder *builder);

#endif							/* ROSE_PAGE_BUILD_H */
