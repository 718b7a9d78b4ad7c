/*-------------------------------------------------------------------------
 *
 * rose_foreign.h
 *	  Functions of users that compare or hash keys.
 *
 * An operator class may name any function, and that may run any SQL.  Rose calls it
 * wherever it compares keys: in sections of C0, under key-partition locks, in the middle
 * of a lookup.  What it may do there:
 *
 *	  - read, rose tables too: who keeps something from call to call keeps it apart by rose_foreign_depth;
 *	  - not change rose tables, nor spill or merge them, which may wait for the very locks that its
 *		caller has: whatever does so calls rose_foreign_refuse_change first;
 *	  - be cancelled, even under LWLocks, for errors may come out of it anyway;
 *	  - catch an error, but only if its caller has no LWLocks to lose.
 *
 * Functions in C are trusted, but for those of arrays, rows and ranges, which call
 * functions of other types.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_FOREIGN_H
#define ROSE_FOREIGN_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/sortsupport.h"

/* Calls in one another. */
#define ROSE_FOREIGN_MAX_DEPTH	8

/* May this function run SQL?  Looks up catalogs. */
extern bool rose_foreign_is(Oid function);

/* Have them guarded from now on: what was made to compare, or to hash.  More memory is taken in the context. */
extern void rose_foreign_guard_sort(SortSupport ssup, MemoryContext context);
extern void rose_foreign_guard_hash(FmgrInfo *function, MemoryContext context);

/* How many guarded calls are going on in this process, in one another. */
extern bool rose_foreign_used;	/* was there ever one */
extern int	rose_foreign_count(void);

static inline int
rose_foreign_depth(void)
{
	return likely(!rose_foreign_used) ? 0 : rose_foreign_count();
}

/* Raise an error within such a call: this table is not to be changed there. */
extern void rose_foreign_refuse(const char *relname);

static inline void
rose_foreign_refuse_change(const char *relname)
{
	if (unlikely(rose_foreign_depth() > 0))
		rose_foreign_refuse(relname);
}

/* A subtransaction was rolled back, which lets go of all LWLocks. */
extern void rose_foreign_note_rollback(void);

#endif							/* ROSE_FOREIGN_H */
