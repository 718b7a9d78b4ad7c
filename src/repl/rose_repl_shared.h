/*-------------------------------------------------------------------------
 *
 * rose_repl_shared.h
 *	  The replication consumer's shared memory: what workers, those who help them, and backends know of each other.
 *
 * For the files of the replication consumer; part of rose_repl_internal.h.  Membership and requests: RoseReplShared.lock.  Each
 * field names its lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REPL_SHARED_H
#define ROSE_REPL_SHARED_H

#include "postgres.h"

#include "storage/dsm.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "repl/rose_copies.h"
#include "repl/rose_realtime.h"
#include "repl/rose_repl.h"

/* What a process waits for; see rose_repl_locks.c. */
typedef struct RoseReplWaitShared
{
	Oid			relid;			/* a table or an index that somebody has locked; 0 = none */
	bool		alone;			/* nobody else may have it locked at all */
	bool		for_epoch;		/* to write one: no request that needs an epoch can be served before */
	TimestampTz since;
} RoseReplWaitShared;

/* An epoch in flight; see rose_flight.c. */
typedef enum RoseFlightState
{
	ROSE_FLIGHT_NONE = 0,
	ROSE_FLIGHT_ASKED,			/* a spiller is to come */
	ROSE_FLIGHT_RUNNING,		/* pid writes it */
	ROSE_FLIGHT_FAILED,			/* whoever wrote it has ended */
	ROSE_FLIGHT_LANDED			/* committed; published but for tables that somebody has locked */
} RoseFlightState;

typedef struct RoseFlightShared
{
	RoseFlightState state;
	uint64		epoch;
	XLogRecPtr	lsn;			/* the upstream position that it stands for ... */
	RoseUpstreamCommit last_commit; /* ... and the last transaction before it */
	int			pid;
	RoseReplWaitShared blocked; /* the spiller cannot lock this */
	bool		unpublished;	/* of a landed one: tables are left to be published */
} RoseFlightShared;

/* A table that is being copied, or is to be (rose_copy_places.c). */
#define ROSE_SNAPSHOT_LENGTH	64

typedef struct RoseReplCopyShared
{
	Oid			relid;			/* 0 = free */
	uint64		ticket;			/* whoever comes must have the same one */
	int			pid;			/* 0: he has not come yet */
	bool		stopped;		/* he was told to end */
	bool		committed;		/* it is done */
	RoseCopyPhase phase;
	TimestampTz since;			/* that he was asked for, or has come */
	TimestampTz reading_since;
	uint64		rows;
	uint64		bytes;
	int64		expected_rows;	/* negative: not known */

	/* of one that is copied in pieces: who leads, and those who help him (rose_copy_helpers.c) */
	uint64		leader;			/* his ticket, in a helper's place; 0: this is no helper */
	int			pieces;			/* how many there are; 0: it is copied as one */
	uint32		claimed;		/* whoever reads which, by bits: piece 1 is bit 0 */
	uint32		finished;		/* ... and those that are there */
	bool		refused;		/* a helper could not help: no more of them */
	uint64		done_rows;		/* of pieces that are there; rows and bytes are what is read of others */
	uint64		done_bytes;
	uint64		begun_rows;		/* ... and of those that were there when it began */
	XLogRecPtr	snapshot_lsn;	/* the snapshot that all of them read: its position, ... */
	char		snapshot[ROSE_SNAPSHOT_LENGTH];	/* ... its name on the upstream, and ... */
	char		server[ROSE_SNAPSHOT_LENGTH];	/* ... which server that is */
} RoseReplCopyShared;

/* The worker stands still for a backend's snapshots (rose_verify_hold.c). */
typedef enum RoseHoldState
{
	ROSE_HOLD_NONE = 0,
	ROSE_HOLD_ASKED,			/* the worker is to stand still between two upstream transactions */
	ROSE_HOLD_STANDS,			/* it does, until it is told a position that is still to come */
	ROSE_HOLD_GOES,				/* it goes on to lsn */
	ROSE_HOLD_REACHED,			/* it stands still there */
	ROSE_HOLD_REPAIRS,			/* it is to write the changes before it goes on */
	ROSE_HOLD_REPAIRED,			/* it has, and they are committed */
	ROSE_HOLD_LAPSED			/* it has gone on, as nobody said anything for too long; or it has ended */
} RoseHoldState;

typedef struct RoseHoldShared
{
	RoseHoldState state;
	int			pid;			/* who has asked; 0 = nobody */
	Latch	   *latch;			/* his */
	XLogRecPtr	lsn;			/* what commits before it is applied, and nothing else, when it is reached */
	TimestampTz since;			/* that the worker stands still ... */
	int64		stood_us;		/* ... and for how long it did before, for him */
	dsm_handle	changes;		/* REPAIRS: what is to be written (rose_repair_apply.c) */
} RoseHoldShared;

typedef struct RoseReplSubShared
{
	Oid			dbid;			/* lock; 0 = free */
	Oid			subid;			/* lock */
	char		name[NAMEDATALEN];	/* lock */
	int			reserved_by;	/* lock; pid whose transaction makes it, or 0 */
	bool		wanted;			/* lock; launcher keeps a worker running */
	TimestampTz start_time;		/* lock; not before this; also set when a start
								 * was asked for, so that it is not asked twice */
	int			pid;			/* lock; the worker, 0 = none */
	Latch	   *latch;			/* lock; its latch */
	bool		reload;			/* lock; the row has changed */
	bool		retry_copies;	/* lock; it has, and tables in error have not been made to wait for another copy yet */
	bool		drain;			/* lock; commit an epoch and stop */
	bool		drained;		/* lock; done so */
	bool		text_needed;	/* lock; values must not come in binary format; until a worker
								 * ends in good order */
	uint64		epoch_asked;	/* lock; counts requests for an epoch */
	uint64		epoch_served;	/* lock; the last one that was served */
	RoseFlightShared flight;	/* lock */
	RoseReplWaitShared waiting; /* lock; the worker */
	RoseReplCopyShared copies[ROSE_MAX_COPIES]; /* lock */
	uint64		copy_tickets;	/* lock; the last one that was given out */
	uint64		copies_ended;	/* lock; counts those who have left their place */
	uint64		copied_rows;	/* lock; of copies that are done */
	int			copies_waiting; /* lock; tables that the worker has found no place for; who helps with another one leaves his */
	RoseHoldShared hold;		/* lock */
	RoseRealtimeShared realtime;	/* no lock */
	XLogRecPtr	solo_lsn;		/* lock; what comes before the transaction that commits here is to be made durable
								 * first, as it waits for a table; invalid: none does */
	int			received_anew;	/* lock; how often transactions in progress had to come again for tables
								 * that were copied, since none of those waits */

	slock_t		mutex;			/* protects what follows */
	RoseReplStatus status;
	RoseReplProgress progress;
	TimestampTz last_error_time;
	Oid			last_error_owner;	/* lock; whose subscription it was then; invalid: not known */
	char		last_error[ROSE_REPL_ERROR_LENGTH]; /* lock */
	char		blocked[ROSE_BLOCKED_LENGTH];	/* mutex; why it is, or was when a worker last looked; empty: nothing blocks it */
	TransactionId blocked_xid;	/* mutex; which has written that to a row, and is not known to have ended */
	FullTransactionId reason_xid;	/* mutex; the same, also when it has ended; invalid: it comes with no row */
} RoseReplSubShared;

typedef struct RoseReplTableKey
{
	Oid			dbid;
	Oid			subid;
	Oid			relid;
} RoseReplTableKey;

typedef struct RoseReplTableShared
{
	RoseReplTableKey key;		/* hash key */
	RoseReplTableCounts counts; /* tables_lock */
	RoseReplRetry retry;		/* tables_lock */
	RoseReplConflicts conflicts;	/* tables_lock */
	uint64		unreported;		/* tables_lock; conflicts since the last message ... */
	TimestampTz reported;		/* tables_lock; ... which came then; 0: none has */
} RoseReplTableShared;

typedef struct RoseReplShared
{
	LWLock		lock;
	LWLock		tables_lock;
	int			launcher_pid;	/* lock */
	Latch	   *launcher_latch; /* lock */
	bool		scanned;		/* lock; subscriptions of all databases are known */
	bool		passed_over;	/* lock; but one that was being changed, which is looked at again */
	RoseReplSubShared subs[FLEXIBLE_ARRAY_MEMBER];	/* rose_max_subscriptions */
} RoseReplShared;

extern RoseReplShared *rose_repl_shared;

/* REQUIRES: lock.  The entry, or NULL. */
extern RoseReplSubShared *rose_repl_entry(Oid dbid, Oid subid);

/* REQUIRES: lock exclusive.  Makes one; NULL if there is no room. */
extern RoseReplSubShared *rose_repl_entry_make(Oid dbid, Oid subid, const char *name);

/* REQUIRES: lock exclusive. */
extern void rose_repl_entry_free(RoseReplSubShared *entry);
extern int	rose_repl_count_running(Oid dbid);	/* takes the lock; running, or to run */
extern void rose_repl_require_shared(void); /* error if rose was not preloaded */
extern bool rose_repl_needs_worker(const RoseReplSubShared *entry);
extern void rose_repl_wake_launcher(void);

/* A worker's side. */
extern RoseReplSubShared *rose_repl_attach(Oid dbid, Oid subid);	/* NULL: not needed (any more) */
extern void rose_repl_publish(RoseReplSubShared *entry, RoseReplStatus status,
							  const RoseReplProgress *progress);

/* blocked: the reason (ROSE_BLOCKED_...), or NULL */
extern void rose_repl_report_error(RoseReplSubShared *entry, const char *message,
								   const char *blocked, int retry_ms);

/*
 * It is blocked for a reason that the transaction at hand has written to a row: nobody sees the one without the other.  False: the
 * subscription has been changed since the worker has read it, so it is not.  settle_reason: the transaction has ended.
 */
extern bool rose_repl_block_with(RoseReplSubShared *entry, const char *reason, FullTransactionId xid);
extern void rose_repl_settle_reason(RoseReplSubShared *entry, bool committed);

/*
 * REQUIRES: lock exclusive.  What blocked it may be put right, and nobody knows before a worker has looked again.  accepted: the upstream
 * is taken as it is, though it was behind.
 */
extern void rose_repl_unblock(RoseReplSubShared *entry, bool accepted);

/* The next worker is to come after so long, whatever was said before. */
extern void rose_repl_restart_after(int ms);
extern void rose_repl_add_table_counts(Oid subid, const RoseReplTableCounts *counts);

/* Of a batch that has committed.  True: it is time to report them, and what was not reported before: so many. */
extern bool rose_repl_add_conflicts(Oid subid, Oid relid, const RoseReplConflicts *found, uint64 *unreported);
extern void rose_repl_set_table_retry(Oid subid, Oid relid, const RoseReplRetry *retry);

/* Tables whose copies have failed are due at once. */
extern void rose_repl_forget_retries(Oid subid);

#endif							/* ROSE_REPL_SHARED_H */
