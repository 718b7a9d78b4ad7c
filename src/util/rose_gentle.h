/*-------------------------------------------------------------------------
 *
 * rose_gentle.h
 *	  Long work of a background process that lets others have its core.
 *
 * A scheduler lets a process that computes go on for some milliseconds before another one
 * that woke up on the same core gets its turn.  A single write takes a few hundredths of
 * that, so with few cores the writes that meet a spill or a merge would be the slowest
 * ones by far.  A gentle process offers its core many times a millisecond: a waiting
 * process goes first, and with nobody waiting it costs nothing.  Whoever offers so often
 * gets less than his share of a core that is always in demand, so it must have time to
 * spare.
 *
 * State is the process' own; a process that never calls rose_gentle_begin is not
 * gentle.  Not for code that holds LWLocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_GENTLE_H
#define ROSE_GENTLE_H

#include "postgres.h"

/* Has this process time to spare?  Called often, so it must be cheap. */
typedef bool (*RoseGentleSlack) (void);

/* From now on this process is gentle while it has time to spare. */
extern void rose_gentle_begin(RoseGentleSlack has_slack);

/* Rows between two looks at the clock: a few hundredths of a millisecond of work. */
#define ROSE_GENTLE_ROWS	32

extern RoseGentleSlack rose_gentle_slack;	/* NULL: not gentle */
extern int	rose_gentle_rows;
extern void rose_gentle_look(void);

/* Once a row, in loops of spills and merges. */
static inline void
rose_gentle_row(void)
{
	if (rose_gentle_slack != NULL && ++rose_gentle_rows >= ROSE_GENTLE_ROWS)
		rose_gentle_look();
}

/* Once for n rows that were worked on together. */
static inline void
rose_gentle_many(int n)
{
	if (rose_gentle_slack != NULL && (rose_gentle_rows += n) >= ROSE_GENTLE_ROWS)
		rose_gentle_look();
}

#endif							/* ROSE_GENTLE_H */
