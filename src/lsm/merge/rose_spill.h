/*-------------------------------------------------------------------------
 *
 * rose_spill.h
 *	  Spills: C0 becomes runs.
 *
 * A spill, and whatever changes private or pending runs, holds the table's
 * ROSE_LOCK_SPILL to the end of its work; it never takes ROSE_LOCK_MERGE while it does.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SPILL_H
#define ROSE_SPILL_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"
#include "lsm/merge/rose_epoch_runs.h"

/*
 * Rows leave memory at the latest after this many milliseconds: local ones because a
 * background worker spills them, replicated ones with their subscription's epoch.
 *
 * Not so those of tables that have few of them in memory: a run of a handful of rows
 * costs a file more than it gives, and thousands of such tables would be written all the
 * time.  They wait for ten such intervals, or until memory is used for more than these.
 */
extern int	rose_spill_interval;
extern void rose_spill_define_settings(void);	/* rose.spill_interval */

/* Few rows: less than this many bytes, which are read back in milliseconds after a restart. */
#define ROSE_SPILL_SMALL	((uint64) 256 * 1024)

/*
 * Is it time to spill a table that has so much in memory, since then (0: nothing)?  An
 * interval of its own (else ROSE_OPTION_UNSET) counts however little it has.
 */
extern bool rose_spill_is_due(uint64 c0_bytes, TimestampTz first_write, int own_interval,
							  TimestampTz now);

/*
 * Spill all of the table's C0 as of now: freeze, write a run (committed
 * versions), carry in-progress versions over into the new memtable (or into a
 * private run if they are many), publish, free the memtable.  Takes
 * ROSE_LOCK_SPILL, waiting for it, and ROSE_LOCK_MERGE before that if there are so many
 * components that some must be merged first.  Returns true if something was spilled.
 *
 * epoch != 0: the run is published PENDING and the frozen memtable stays
 * readable until rose_epoch_publish.  If memory is short, the run is
 * READ_PENDING as well and the memtable is freed at once; so are private runs,
 * whose transaction does not fit in memory.  epoch 0: the run is live at once.
 *
 * A table that a subscription feeds is spilled by that subscription only:
 * others get false.
 *
 * After an error the memtable stays frozen and the next call spills it again.
 *
 * Caller: rel opened with at least AccessShareLock, in a transaction; no
 * LWLock held.
 */
extern bool rose_spill(RoseTree *tree, Oid subid, uint64 epoch);

/*
 * The same for an ordinary table as far as there is room in the manifest: where a spill
 * can be put off, merges go first.  The caller may hold ROSE_LOCK_SPILL.
 */
extern bool rose_spill_if_room(RoseTree *tree);

/*
 * The same, and what the current transaction has written leaves C0, too: for a
 * private run, pending for this epoch.  So a transaction can commit its rows
 * and its epoch at once.
 */
extern bool rose_spill_own(RoseTree *tree, Oid subid, uint64 epoch);

/*
 * The same as rose_spill_if_room, and nothing at all stays in C0, of no transaction; but
 * what others write meanwhile, and what there was no room for.
 */
extern bool rose_spill_whole(RoseTree *tree);

/*
 * Has the table so few components that the spill of a memtable leaves room for merges to
 * publish what they make?  A manifest that is full takes neither.
 */
extern bool rose_spill_has_room(RoseTree *tree);

/*
 * Ask a background worker of this database to spill, because the arena is
 * full, or soon will be; false: there is none, and none will come.  Set by the worker
 * module; NULL without one.
 */
typedef bool (*RoseRequestSpillHook) (Oid dbid);
extern RoseRequestSpillHook rose_request_spill_hook;

#endif							/* ROSE_SPILL_H */
