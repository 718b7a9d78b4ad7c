/*-------------------------------------------------------------------------
 *
 * rose_maintain.h
 *	  Spills (C0 to a run), merges (runs and C1 to C1, C1 to C2) and the picker
 *	  that decides.
 *
 * Heavyweight locks: a spill, and whatever changes private or pending runs,
 * holds the table's ROSE_LOCK_SPILL to the end of its work; a merge holds
 * ROSE_LOCK_MERGE as a session lock from its first step to its last.  A merge
 * takes ROSE_LOCK_SPILL for moments; a spill never takes ROSE_LOCK_MERGE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MAINTAIN_H
#define ROSE_MAINTAIN_H

#include "postgres.h"

#include "lsm/rose_table.h"

/* --- spills (lsm/rose_spill.c) --- */

/*
 * Rows leave memory at the latest after this many milliseconds: local ones because a
 * background worker spills them, replicated ones with their subscription's epoch.
 */
extern int	rose_spill_interval;
extern void rose_spill_define_settings(void);	/* rose.spill_interval */

/*
 * Spill all of the table's C0 as of now: freeze, write a run (committed
 * versions), carry in-progress versions over into the new memtable (or into a
 * private run if they are many), publish, free the memtable.  Takes
 * ROSE_LOCK_SPILL, waiting for it. Returns true if something was spilled.
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
extern bool rose_spill(RoseTable *table, Oid subid, uint64 epoch);

/*
 * Has the table so few components that a spill leaves room for merges to publish what
 * they make?  Where a spill can be put off, merges go first: a manifest that is full
 * takes neither.
 */
extern bool rose_spill_has_room(RoseTable *table);

/*
 * The same, and what the current transaction has written leaves C0, too: for a
 * private run, pending for this epoch.  So a transaction can commit its rows
 * and its epoch at once.
 */
extern bool rose_spill_own(RoseTable *table, Oid subid, uint64 epoch);

/*
 * The same in two steps, of which the second may be another process' while rows are
 * written to new memtables.
 *
 * rose_epoch_freeze: what is in the C0s of all tables that the subscription feeds now is for
 * this epoch, whoever spills it; *nbytes: how much that is.  Takes moments and no
 * locks on tables.  False: some table has no slot for a new memtable and needs
 * rose_spill.
 *
 * rose_epoch_spill: what is for this epoch.
 */
extern bool rose_epoch_freeze(Oid subid, uint64 epoch, uint64 *nbytes);
extern bool rose_epoch_spill(RoseTable *table, Oid subid, uint64 epoch);

/*
 * The epoch's position is committed: its pending runs, and those of earlier
 * epochs, become live, their memtables are freed.
 */
extern void rose_epoch_publish(RoseTable *table, Oid subid, uint64 epoch);

/*
 * Ask a background worker of this database to spill, because the arena is
 * full, or soon will be; false: there is none, and none will come.  Set by the worker
 * module; NULL without one.
 */
typedef bool (*RoseRequestSpillHook) (Oid dbid);
extern RoseRequestSpillHook rose_request_spill_hook;

/* --- private runs (lsm/rose_private.c) --- */

/*
 * Look after private runs: those of aborted transactions are dropped, those of
 * committed ones become ordinary if they can without being rewritten.  Takes
 * ROSE_LOCK_SPILL, does not wait for it.
 */
extern void rose_settle_private_runs(RoseTable *table);

/* --- picker: a pure function (lsm/rose_picker.c) --- */
typedef struct RosePickInput
{
	uint64		c0_size;		/* bytes a memtable may reach for this table */
	int			ncomponents;	/* newest first */
	const RoseComponentEntryDisk *components;
	const bool *blocked;		/* not to be merged now: pending, private and in
								 * progress; NULL = none */
	const bool *busy;			/* inputs of merges under way; NULL = none */
	uint64		horizon;		/* full xid that every snapshot is past; 0 = unknown */
	double		min_ratio;		/* R is at least this */
} RosePickInput;
typedef struct RosePickResult
{
	bool		merge;
	int			ninputs;		/* ids of the components to merge, newest first */
	uint32		inputs[ROSE_MAX_COMPONENTS];
	int			target_level;
	uint64		owner_xid;		/* not 0: join private runs of this transaction, which is
								 * in progress, into one */
	double		ratio;			/* R as derived */
	bool		thorough;		/* level 2: rewrite whatever could be smaller (by hand only) */
} RosePickResult;
extern RosePickResult rose_pick_merge(const RosePickInput *input);

/*
 * The picker's input from a table's manifest; blocked, which is filled, has
 * ROSE_MAX_COMPONENTS elements.
 */
extern void rose_pick_input(RoseTable *table, RosePickInput *input, bool *blocked);

/* Bytes of C0 that count as its size: half of the arena is the most that one busy
 * table can fill before a spill. */
extern uint64 rose_pick_c0_size(void);

/* --- merges (lsm/rose_merge*.c) --- */
typedef struct RoseMerge RoseMerge;

/*
 * Start the merge that was picked; level 2 is a pass over C2's pieces.  NULL if the lock is taken, the manifest
 * has changed, or there is nothing (left) to do.
 *
 * keep: it lives across transactions, in a child of TopMemoryContext, under a
 * session lock; the caller opens the table anew for each step.  One process
 * may have several merges of a table with different inputs.  Otherwise it ends
 * with the transaction, and waits for the lock.
 */
extern RoseMerge *rose_merge_begin(RoseTable *table, const RosePickResult *pick, bool keep);

typedef enum RoseMergeProgress
{
	ROSE_MERGE_MORE,			/* call again */
	ROSE_MERGE_DONE,			/* published (or given up because the table changed); free it */
	ROSE_MERGE_WAIT				/* finished but for publishing, which has to wait for readers */
} RoseMergeProgress;

/* Merge for at most budget_ms (0 = to the end). */
extern RoseMergeProgress rose_merge_step(RoseMerge *merge, RoseTable *table, int budget_ms);

/*
 * End it and free it, done or not.  table: as opened now, or NULL if it is
 * gone.  After an error in a step nothing needs to be called but by the end of
 * the process: locks and blocks are given up with it.
 */
extern void rose_merge_end(RoseMerge *merge, RoseTable *table);

/*
 * What waits for merges, and how far those under way are: for whoever slows
 * writers down.  Without locks or I/O.  Bytes are uncompressed row bytes, as C0's.
 */
typedef struct RoseMergeBacklog
{
	uint64		c0_size;		/* bytes a memtable may reach; see the picker */
	int			nruns;
	uint64		run_bytes;
	uint64		c1_bytes;
	uint64		c2_bytes;
	/* into C1 (or among runs), into C2: versions read, of about so many; 0 of 0: none */
	uint64		done[2];
	uint64		total[2];
	int			pid[2];			/* of the process that merges; 0: none */
} RoseMergeBacklog;
extern void rose_merge_backlog(RoseTableShared *shared, RoseMergeBacklog *backlog);

extern RelFileLocator rose_merge_locator(const RoseMerge *merge);

/*
 * Is this component an input, (now or later) replaced by it, or where its next
 * output goes?
 */
extern bool rose_merge_uses(const RoseMerge *merge, const RoseComponentEntryDisk *entry);

/*
 * Everything (spill first) into C2, now, in this process.  alone: the
 * transaction had not looked at the table before, so that what the merge replaces
 * need not be kept for it.
 */
extern void rose_merge_all(RoseTable *table, bool alone);
extern void rose_merge_define_settings(void);	/* rose.debug_piece_size */

#endif							/* ROSE_MAINTAIN_H */
