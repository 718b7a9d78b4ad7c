/*-------------------------------------------------------------------------
 *
 * rose_maintainer_internal.h
 *	  What the files of the maintenance worker share: state of its process.
 *
 * Backend-local but for the slot in shared memory, whose fields are in
 * rose_worker_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MAINTAINER_INTERNAL_H
#define ROSE_MAINTAINER_INTERNAL_H

#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_spill.h"
#include "worker/rose_worker_internal.h"

#define RECHECK_MS		5000	/* look again at a table that waits for something */
#define NAP_MS			500		/* between two looks when there is nothing to do */

/* ---- rose_maintainer_slot.c: the slot in shared memory ---- */

/* Take over the slot that the launcher made; false if it is no longer meant for us. */
extern bool rose_maintainer_attach(Oid dbid, int slot, bool *visit);
extern bool rose_maintainer_is_helper(void);
extern void rose_maintainer_count(bool spill);
extern void rose_maintainer_show_work(RoseWorkerWork work, Oid relid);

/*
 * Remember an error, and on which table; that is left alone for a while.  ends: this
 * worker does.  failed_lately: what this process remembers of a table; leaves_alone: and
 * what all do.
 */
extern void rose_maintainer_note_error(const ErrorData *error, bool ends);
extern bool rose_maintainer_failed_lately(Oid relid);
extern bool rose_maintainer_leaves_alone(const RoseRegistryItem *item, RosePauseKind kind);

/* The table at hand, as the view shows it; InvalidOid = none. */
extern Oid	rose_maintainer_work_relid(void);
extern bool rose_maintainer_take_request(void); /* was a spill asked for? */
extern void rose_maintainer_note_visited(void);

/* Nothing to do just now; done: as of this activity. */
extern void rose_maintainer_note_idle(uint64 activity, bool done);
extern void rose_maintainer_note_busy(void);

/*
 * There is more to do in the database than this worker can just now: will another one see
 * to it?  One that is idle is woken, or a helper started if there may be one; if not now,
 * then later, should there still be something to do.
 */
extern bool rose_maintainer_ask_for_help(void);

/* Has it merges under way?  How many workers have, of all databases? */
extern void rose_maintainer_note_merging(bool merging);
extern int	rose_maintainer_count_merging(void);

/* How long this worker may go on. */
typedef enum RoseWorkerTurn
{
	ROSE_TURN_FREE,				/* nobody waits for it */
	ROSE_TURN_WANTED,			/* somebody does: end when there is nothing to do */
	ROSE_TURN_OVER,				/* begin nothing new, end when merges are done */
	ROSE_TURN_END				/* end now */
} RoseWorkerTurn;
extern RoseWorkerTurn rose_maintainer_turn(void);

/*
 * It ends.  waiting: for something that will not tell, so look again in a while;
 * unfinished: there is more to do; gives_up: merges among it.
 */
extern void rose_maintainer_leave(bool waiting, bool unfinished, bool gives_up);

/* ---- rose_maintainer_tables.c: the database's tables ---- */

/* What this worker remembers of a table. */
typedef struct RoseTableNote
{
	RelFileLocator locator;		/* hash key */
	uint64		manifest_version;	/* as of the last look for merges ... */
	uint64		incarnation;	/* ... in which entry of the registry */
	TimestampTz look_again;		/* look at the latest then; 0 = when it changes */
	TimestampTz spill_after;	/* do not spill it earlier */
	TimestampTz left_since;		/* its merge is left to another worker; 0 = no */
	uint64		open_bytes;		/* of rows in private runs of transactions in progress ... */
	uint64		open_blocks;
	uint32		open_runs;		/* ... of which it has so many */
	bool		open_private;	/* ... some */
	bool		sift_later;		/* an index that had entries of no row then */
	bool		freed;			/* its file may have free room since we looked last */
	bool		listed;			/* among the tables as of the last look; for the sweep */
} RoseTableNote;

extern RoseRegistryItem *rose_maintainer_items; /* tables, as of the last look */
extern int	rose_maintainer_nitems;

extern void rose_maintainer_list_tables(void);

/*
 * Open every rose table of the database once, so that the registry knows it: list them,
 * then some at a time, until false.  Those that are locked come later; are there any yet?
 */
extern void rose_maintainer_begin_visit(void);
extern bool rose_maintainer_visit_step(void);
extern bool rose_maintainer_has_unvisited(void);

extern RoseTableNote *rose_maintainer_note(RelFileLocator locator);

/* How many runs has a table that merges could have less of?  Usual private ones do not count. */
extern uint32 rose_maintainer_runs(const RoseRegistryItem *item);

/* Has a table private runs of transactions in progress, whose end nothing else tells us? */
extern bool rose_maintainer_waits_for_private(void);

/*
 * A transaction for work on one table, shown in the view.  It is opened without waiting
 * for a lock; NULL if that is not possible now, or there is no such rose table any more.
 * It may have another file than when it was listed: a merge finds out by itself.  Ended
 * in any case by rose_maintainer_end.
 */
extern RoseTree *rose_maintainer_begin(RoseWorkerWork work, Oid relid);

/* It was NULL because of a lock, or a recovery: the table may well be there. */
extern bool rose_maintainer_was_locked(void);
extern void rose_maintainer_end(void);

/* After an error: the same by aborting it. */
extern void rose_maintainer_abort(void);

/* Forget tables whose files are gone, and what was noted of them.  Looks at the tables anew. */
extern void rose_maintainer_sweep(void);

/* ---- rose_maintainer_merge.c: merges that take turns ---- */

/*
 * Begin a merge that is due, if may_begin, or go on with one; false if there is nothing to
 * do now.  may_rest: there is time for rests, unless merges are late.
 */
extern bool rose_maintainer_merge_step(bool may_begin, bool may_rest);
extern bool rose_maintainer_has_merges(void);

/* Was there nothing to do but to rest? */
extern bool rose_maintainer_is_resting(void);

/*
 * Is there a table at which this worker could not look since it changed, or on which it
 * failed lately?  Nobody tells when that is over.
 */
extern bool rose_maintainer_was_kept_out(void);

/* Is there one whose table is not locked? */
extern bool rose_maintainer_merges_can_go_on(void);

/*
 * After the abort of a transaction in which this table (InvalidOid: any) was worked on:
 * its merges are given up, with the next steps, and all others take their locks again, or
 * are given up, too.  False if one of its merges had been given up already, and that went
 * wrong.
 */
extern bool rose_maintainer_give_merges_up(Oid relid);

/* ---- rose_maintainer_rest.c: rests between steps of merges ---- */

/* Around a step: its cost is counted, and owed if it owes anything. */
extern void rose_maintainer_cost_begin(void);
extern void rose_maintainer_cost_end(bool owes);

/* Milliseconds; 0: it has rested enough. */
extern long rose_maintainer_rest_left(void);

/* Rest for a while, or until the latch is set. */
extern void rose_maintainer_rest(void);

#endif							/* ROSE_MAINTAINER_INTERNAL_H */
