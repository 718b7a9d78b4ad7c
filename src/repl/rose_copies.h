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

/* One table, in the transaction at hand, from the connection's (rose_copy.c).  check: could it be copied?  Error if not. */
extern void rose_copy_check(struct WalReceiverConn *conn, Oid relid);
extern uint64 rose_copy_table(struct WalReceiverConn *conn, Relation rel);

/* The process that copies one table (rose_copy_worker.c).  here: in this one, whatever comes of it; false: nothing. */
extern bool rose_copy_worker_start(Oid relid, uint64 ticket);
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
extern void rose_copy_places_give_back(Oid relid);
extern void rose_copy_places_clear(void);
extern bool rose_copy_places_changed(void);
extern bool rose_copy_places_enter(Oid relid, uint64 ticket);
extern void rose_copy_places_leave(void);
extern void rose_copy_places_expect(int64 rows);
extern void rose_copy_places_tell(RoseCopyPhase phase, uint64 rows, uint64 bytes);
extern void rose_copy_places_committed(Oid relid);
extern void rose_copy_places_note_failure(Oid relid, bool may_pass);
extern TimestampTz rose_copy_places_due(Oid relid);

/* The table, or a partition, as for writing, until the transaction ends. */
extern void rose_copy_places_lock(Oid relid, LOCKMODE mode);

#endif							/* ROSE_COPIES_H */
