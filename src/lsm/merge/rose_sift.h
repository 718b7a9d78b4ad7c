/*-------------------------------------------------------------------------
 *
 * rose_sift.h
 *	  Entries that no row has any more, left out by merges of an index.
 *
 * Who writes blindly leaves the old entry of a row behind (write/rose_blind_entries.c).  Readers
 * pass over it; a pass that sifts takes it out.  Before its first stride all versions that the
 * table retains are read, and the keys of their entries are put down as hashes; but not of
 * those that are older than one that everybody sees, and that no crash takes back.  An entry
 * whose key is not among them is of no version that anybody sees, or will see:
 *
 * - the inputs were there before the table was read, and a version is linked before its entry is.  So the version of an
 *	 entry of theirs was met, unless it has gone, which it does only if nobody needs it, after a crash neither;
 * - a version without an entry of its own has the key of the one before it (a row written with the same
 *	 values, a PARTIAL), and that was met, too;
 * - what is written from then on has its entry in what is newer than the inputs.
 *
 * A hash may be that of another key, too: then an entry stays, which does no harm.
 *
 * Backend-local, of one merge; lives from its first step to its last.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SIFT_H
#define ROSE_SIFT_H

#include "postgres.h"

#include "access/transam.h"
#include "datatype/timestamp.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/tree/rose_tree.h"

typedef enum RoseSiftProgress
{
	ROSE_SIFT_MORE,				/* of the table is still to be read */
	ROSE_SIFT_READY,
	ROSE_SIFT_GIVEN_UP,			/* nothing is to be left out: somebody has locked the table */
	ROSE_SIFT_FAILED			/* nor here: an entry could not be computed */
} RoseSiftProgress;

typedef struct RoseSift
{
	MemoryContext context;
	RoseSiftProgress progress;
	struct bloom_filter *wanted;	/* hashes of keys of entries; NULL: nothing was read yet */
	RoseSchema *schema;			/* then: the index's, that has hashes of whole keys, ... */
	uint64		nrows;			/* that have some */
	uint64		nasked;			/* how many were asked for, and not among them, ... */
	uint64		nleft_out;
	uint64		ntoo_new;		/* and that stay, or are wanted, as not everybody sees who has written what came after, ... */
	FullTransactionId newest;	/* ... of whom this is the last one */
	TimestampTz began;			/* when the reading did, ... */
	uint64		nentries;		/* with so many in the index ... */
	uint64		nversions;		/* ... and in the table */
	RelFileLocator table;		/* whose versions they are ... */
	uint64		incarnation;
	RoseKeyBuffer at;			/* ... up to this key, if valid */
	bool		in_step;		/* of its merge; after it: that has ended in an error */
} RoseSift;

extern void rose_sift_define_settings(void);

extern RoseSift *rose_sift_create(MemoryContext context);

typedef enum RoseSiftDue
{
	ROSE_SIFT_NOT_DUE,
	ROSE_SIFT_DUE,
	ROSE_SIFT_DUE_LATER			/* look again: the table is locked, or was a moment ago */
} RoseSiftDue;

/*
 * Are there so many entries too many that a pass should look for those that no row has?  A fifth as many as the
 * table has rows, about; for a thorough one, any.  Not for an index whose entries are exact, that is not valid, or
 * whose expressions may give another result one day.  Keeps AccessShareLock of the table.
 */
extern RoseSiftDue rose_sift_is_due(RoseTree *index, bool thorough);

/* A pass begins to read the table, and has sifted the index to its end. */
extern void rose_sift_begin(RoseSift *sift, RoseTree *index, RoseTree *table);
extern void rose_sift_end(const RoseSift *sift, RoseTree *index);

/* It will not: it may be tried again soon, or only when the index has grown. */
extern void rose_sift_give_up(const RoseSift *sift, RoseTree *index);
extern void rose_sift_in_vain(const RoseSift *sift, RoseTree *index);

/*
 * The index's table, with AccessShareLock, which is kept when it is closed; NULL: it is in another order, or has no
 * key, or not the one that entries have, or (*locked) somebody has locked it.  The index has a lock, so nobody is
 * waited for.
 */
extern RoseTree *rose_sift_open_table(RoseTree *index, bool *locked);
extern void rose_sift_close_table(RoseTree *table);

/* What the versions of this table have will be wanted. */
extern void rose_sift_expect(RoseSift *sift, RoseTree *index, RoseTree *table);
extern void rose_sift_want(RoseSift *sift, const Datum *key);
extern bool rose_sift_is_wanted(RoseSift *sift, const Datum *key);

/* The entry that was asked for last is not wanted, but stays; or n are wanted that would not be: not everybody sees xid. */
extern void rose_sift_keep(RoseSift *sift, FullTransactionId xid);
extern void rose_sift_want_for(RoseSift *sift, uint64 n, FullTransactionId xid);

/*
 * Read on in the table for about budget_ms (0: to its end).  Set by lsm/write, which knows how entries are
 * made and how versions are read; sets progress.
 */
typedef void (*RoseSiftHook) (RoseSift *sift, RoseTree *index, int budget_ms);
extern RoseSiftHook rose_sift_hook;
extern int	rose_sift_keys;		/* of a step that has a budget, at most; 0: any number */

#endif							/* ROSE_SIFT_H */
