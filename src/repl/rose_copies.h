/*-------------------------------------------------------------------------
 *
 * rose_copies.h
 *	  The copies of tables: which are made when, by whom, and how.
 *
 * For the files of the replication consumer; part of rose_repl_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COPIES_H
#define ROSE_COPIES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/relcache.h"

#include "repl/rose_repl.h"

/* The rows of a table that a copy reads. */
typedef struct RoseUpstreamRows
{
	char	   *relation;		/* follows FROM */
	char	   *filter;			/* a condition that they meet; NULL: none */
	bool		plain;			/* they are one ordinary table's */
	int64		expected;		/* how many, as the upstream estimates; -1: not known */
} RoseUpstreamRows;

/* What is copied of a table. */
typedef struct RoseCopyJob
{
	RoseSubscriptionTable *listed;
	List	   *remote_names;	/* columns: C strings there, String nodes here */
	List	   *local_names;
	RoseUpstreamRows rows;
	bool		replace;		/* it has old rows, which make room for these at the end */
} RoseCopyJob;

/* One table, in the transaction at hand, from the connection's (rose_copy.c).  check: could it be copied?  Error if not. */
extern void rose_copy_check(struct WalReceiverConn *conn, Oid relid);

/* From here on the upstream's table is locked.  The job lives in the current context.  note: its columns, in the catalog. */
extern void rose_copy_begin(struct WalReceiverConn *conn, Relation rel, RoseCopyJob *job, bool note);

/* All rows of it go into the table; or those for which a condition holds, into a relation made for them.  Returns their number. */
extern uint64 rose_copy_table(struct WalReceiverConn *conn, Relation rel, const RoseCopyJob *job);
extern uint64 rose_copy_piece(struct WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, Relation made,
							  const char *condition, uint64 *bytes);

/* That relation's rows become the table's.  REQUIRES: AccessExclusiveLock on it. */
extern void rose_copy_switch(struct WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, Relation made);

/*
 * In pieces, each in a transaction of its own (rose_copy_chunks.c).  find: NULL: as one; else what there is, or is to be.
 * read: all that is not there; start: one more process that helps.  help: some of it, beside who leads.  switch: in the transaction at hand; returns how many rows there are.
 */
typedef bool (*RoseStartCopier) (Oid relid, uint64 ticket, bool helper);
struct RoseChunks;

/* Where the rows come from. */
typedef struct RoseCopySource
{
	RoseUpstreamIdentity identity;
	RoseUpstreamSlot slot;		/* the subscription's */
	bool		has_slot;
} RoseCopySource;

extern struct RoseChunks *rose_copy_chunks_find(struct WalReceiverConn *conn, Relation rel, const RoseCopyJob *job,
												const RoseCopySource *source, XLogRecPtr lsn);
extern void rose_copy_chunks_read(struct WalReceiverConn *conn, Oid relid, const RoseCopyJob *job,
								  struct RoseChunks *chunks, XLogRecPtr lsn, RoseStartCopier start);
extern void rose_copy_chunks_help(struct WalReceiverConn *conn, Oid relid, const RoseCopySource *source);
extern uint64 rose_copy_chunks_switch(struct WalReceiverConn *conn, Relation rel, const RoseCopyJob *job,
									  const struct RoseChunks *chunks);

/* The process that copies one table (rose_copy_worker.c).  here: in this one, whatever comes of it; false: nothing. */
extern bool rose_copy_worker_start(Oid relid, uint64 ticket, bool helper);
extern bool rose_copy_worker_here(Oid relid, uint64 ticket);

/* Which tables are copied, and what comes after that, in the worker (rose_copies.c). */
extern bool rose_copies_before_stream(void);	/* false: the worker is to end */

/* REQUIRES: between batches.  True: the worker is to end, and the next one to go on from an earlier position. */
extern bool rose_copies_look(TimestampTz now);

/*
 * For a worker that waits for something else: a table was copied since the last look, and only a worker that has no batch open can take
 * it in.  REQUIRES: a transaction.
 */
extern bool rose_copies_wait_for_worker(void);

/*
 * Now and then while rows are copied: if it is the worker that copies, the upstream of its stream hears from us.  Error
 * if somebody wants the worker to end.
 */
extern void rose_copies_breathe(void);

/* The worker ends: so do copies.  REQUIRES: no transaction. */
extern void rose_copies_end(void);

/* Places of copies (rose_copy_places.c). */
extern int	rose_copy_places_taken(Oid *relids);	/* at most ROSE_MAX_COPIES */
extern bool rose_copy_places_take(Oid relid, uint64 *ticket);
extern void rose_copy_places_give_back(uint64 ticket);
extern void rose_copy_places_clear(void);
extern bool rose_copy_places_changed(void);
extern bool rose_copy_places_enter(Oid relid, uint64 ticket);
extern void rose_copy_places_leave(void);
extern void rose_copy_places_expect(int64 rows);
extern void rose_copy_places_tell(RoseCopyPhase phase, uint64 rows, uint64 bytes);
extern void rose_copy_places_committed(Oid relid);

/* The place of this process; REQUIRES: it has entered one.  A place for one more who copies the table of that one, or false. */
extern struct RoseReplCopyShared *rose_copy_places_mine(void);
extern bool rose_copy_places_take_helper(uint64 *ticket);
/* The worker says how many tables have found none.  Then how many places are left, if so many may be taken: negative, if a table waits for one. */
extern void rose_copy_places_set_waiting(int n);
extern int	rose_copy_places_spare(int most);

/*
 * Several processes copy pieces of one table (rose_copy_helpers.c).  lead: these are there, others may help to read the rest.
 * claim: the next piece that nobody reads, or 0.  finished: it is committed.
 */
extern void rose_copy_helpers_lead(struct WalReceiverConn *conn, const struct RoseChunks *chunks, XLogRecPtr lsn);
extern void rose_copy_helpers_start(RoseStartCopier start);
extern int	rose_copy_helpers_claim(void);
extern void rose_copy_helpers_finished(uint64 rows, uint64 bytes);
extern bool rose_copy_helpers_wait(void);	/* for the others; false: all pieces are there */

/* Error if who leads is not there any more.  REQUIRES: a lock on the relation of pieces, which the next one waits for. */
extern void rose_copy_helpers_require_leader(void);

/* In a helper: as a transaction of the connection that has the leader's snapshot. */
extern XLogRecPtr rose_copy_helpers_join(struct WalReceiverConn *conn);

extern void rose_copy_places_note_failure(Oid relid, bool may_pass);
extern TimestampTz rose_copy_places_due(Oid relid);

/* A copy has failed: the transaction is aborted, and no lock is left, a session's neither. */
extern void rose_copy_places_unlock_all(void);

/* The table, or a partition, as for writing, until the transaction ends. */
extern void rose_copy_places_lock(Oid relid, LOCKMODE mode);

#endif							/* ROSE_COPIES_H */
