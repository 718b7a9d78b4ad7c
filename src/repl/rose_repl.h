/*-------------------------------------------------------------------------
 *
 * rose_repl.h
 *	  The replication consumer, as the layers above may know it.
 *
 * A subscription is a row of rose.subscription; its tables are rows of
 * rose.subscription_rel; what it has made durable is one row of
 * rose.subscription_state.  One background worker applies each subscription.
 * See README.md beside this file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REPL_H
#define ROSE_REPL_H

#include "postgres.h"

#include "access/transam.h"
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/* --- wiring, for _PG_init (rose_repl_state.c, rose_repl_launcher.c) --- */
extern void rose_repl_define_settings(void);	/* rose.batch_interval, rose.max_subscriptions */
extern Size rose_repl_shmem_size(void);
extern void rose_repl_shmem_init(bool found);	/* under AddinShmemInitLock */

/* The launcher, the end-of-transaction callback and rose_epoch_committed_hook. */
extern void rose_repl_register(void);

/* ---------------------------------------------------------------------
 * The catalog (rose_subscription.c).  All need a transaction.  Reads take a
 * fresh snapshot and check no privileges.
 */

/*
 * A transaction of the upstream, so that it can be told from any other.  The publications
 * matter, for with other ones the upstream may not send it.
 */
typedef struct RoseUpstreamCommit
{
	XLogRecPtr	lsn;			/* its commit record; invalid: none is known */
	TransactionId xid;
	TimestampTz time;
	uint32		publications;	/* hash of their names, and of the origins that were asked for */
} RoseUpstreamCommit;

/* rose.subscription_rel.state */
#define ROSE_REL_INIT		"init"	/* waits for its copy */
#define ROSE_REL_COPYING	"copying"	/* a process is at it, or was; sync_lsn: the copy will be of later */
#define ROSE_REL_COPIED		"copied"	/* it has what comes before sync_lsn; the stream has not gone back there yet */
#define ROSE_REL_READY		"ready" /* copied; changes after sync_lsn are applied */
#define ROSE_REL_FAILED		"failed"	/* ready, but its change at error_lsn failed: that is tried again */
#define ROSE_REL_SKIPPING	"skipping"	/* ready, but its changes at error_lsn will be passed over */
#define ROSE_REL_PAUSED		"paused"	/* changes from error_lsn on wait, in the upstream's WAL */
#define ROSE_REL_ERROR		"error" /* changes from error_lsn on are lost: it has to be copied again; or, if that is
									 * invalid, its copy has failed, and is tried again */

/* rose.subscription_options.on_error: what becomes of the others when a table's change fails */
#define ROSE_ON_ERROR_STOP	"stop"
#define ROSE_ON_ERROR_PAUSE	"pause"

/* rose.subscription_options.durability: what makes a change durable here */
#define ROSE_DURABILITY_UPSTREAM	"upstream"	/* an epoch, and until then the upstream's WAL */
#define ROSE_DURABILITY_LOCAL		"local" /* the commit of its batch */

/* rose.subscription_options.on_schema_change: what becomes of a column that the upstream has added */
#define ROSE_ON_SCHEMA_CHANGE_STOP	"stop"	/* an error of the table */
#define ROSE_ON_SCHEMA_CHANGE_ADD	"add"	/* it is added here, if it is known what rows of before have in it */

/* rose.subscription_options.origin: which changes the upstream sends */
#define ROSE_ORIGIN_ANY		"any"
#define ROSE_ORIGIN_NONE	"none"	/* those that have no replication origin there */

/* rose.subscription_options.count_conflicts: is it looked for changes that do not fit the rows here (rose_conflicts.c) */
typedef enum RoseCountConflicts
{
	ROSE_COUNT_CONFLICTS_OFF = 0,
	ROSE_COUNT_CONFLICTS_CERTAIN,	/* of rows that should be there those that no filter has are missing */
	ROSE_COUNT_CONFLICTS_EXACT	/* they are looked up */
} RoseCountConflicts;

/* Its values; read: error if it is none. */
extern const char *rose_count_conflicts_name(RoseCountConflicts value);
extern RoseCountConflicts rose_count_conflicts_read(const char *name);

typedef struct RoseSubscription
{
	Oid			subid;
	char	   *name;
	Oid			owner;
	bool		enabled;
	bool		binary;
	char	   *synchronous_commit;
	char	   *slot_name;
	List	   *publications;	/* of String nodes */
	bool		limited;		/* the owner was no superuser when this was read: it may do what he may (rose_owner.c) */
	char	   *conninfo;		/* NULL: it is out of a dump, which has none */
	bool		pause_on_error; /* else it stops */
	bool		add_columns;	/* that the upstream has added */
	bool		failover;		/* its slot is to be kept on the upstream's standbys, too */
	bool		two_phase;		/* transactions come when they are prepared (rose_prepared.h) */
	RoseCountConflicts count_conflicts;
	bool		no_origin;		/* only changes that have no replication origin upstream (rose_upstream_options.c) */
	bool		streaming;		/* large transactions come before they commit, from upstreams that can do that */
	char	   *tables;			/* names that its tables have here (rose_mapping.c), or NULL: the same ones */
	char	   *constants;		/* of local columns in all of its rows (rose_constants.c), or NULL */
	bool		logged;			/* durability is "local": there are no epochs (rose_origin.c) */
	uint64		epoch;			/* last committed epoch */
	XLogRecPtr	durable_lsn;	/* and the upstream position that it stands for; of a logged one what its origin says,
								 * if that is later, be it flushed or not */
	XLogRecPtr	row_lsn;		/* what the state row says */
	char	   *system_id;		/* of the upstream; NULL: it is not known yet */
	TimeLineID	timeline;		/* 0: not known yet */
	Oid			upstream_dbid;
	char	   *blocked;		/* a reason that stays (ROSE_BLOCKED_...), or NULL */
	RoseUpstreamCommit last_commit; /* the last one before durable_lsn that was sent */
} RoseSubscription;

/* A table of the upstream.  Its oid is its identity; the name may change. */
typedef struct RoseUpstreamTable
{
	Oid			relid;
	char	   *nspname;
	char	   *relname;
} RoseUpstreamTable;

/* Columns of one of its tables, in the order of their numbers. */
typedef struct RoseUpstreamColumns
{
	int			n;
	int16	   *attnums;		/* NULL: not known */
	char	  **names;
} RoseUpstreamColumns;

/* Which local column has the values of which of the upstream's (rose_columns.c). */
typedef struct RoseColumnMap
{
	int			n;
	int16	   *attnums;		/* local */
	int16	   *remote_attnums; /* negative: it had them, but it is not published any more */
	char	  **remote_names;	/* as they were last heard of */
} RoseColumnMap;

typedef struct RoseSubscriptionTable
{
	Oid			relid;
	char	   *state;
	XLogRecPtr	sync_lsn;		/* commits before it are in the copy */
	XLogRecPtr	error_lsn;		/* see the states; if it is invalid, no change was applied */
	RoseUpstreamTable remote;
	RoseColumnMap *columns;		/* NULL: not known yet */

	/* of one that is, or was, copied in pieces (rose_chunks.h); invalid: not so */
	XLogRecPtr	pieces_lsn;		/* some may be there, and need all changes from here on */
	XLogRecPtr	exact_lsn;		/* before this position its rows are of several ones; it may be behind us */
	bool		broken;			/* ... and a change found that it has to be copied again, as one */
} RoseSubscriptionTable;

/* Of this database; NULL if there is none. */
extern RoseSubscription *rose_subscription_find(const char *name);
extern RoseSubscription *rose_subscription_get(Oid subid);

/* For messages, of one that nothing keeps from being dropped: then it is the number. */
extern const char *rose_subscription_name(Oid subid);

/* All of this database; NIL also when the extension is not installed. */
extern List *rose_subscription_list(void);
extern List *rose_subscription_tables(Oid subid);

/* The one of them that is this table here, or NULL. */
extern RoseSubscriptionTable *rose_subscription_find_table(List *tables, Oid relid);

/* Changes of it are applied: all of them, but for those of one transaction if it is skipping. */
extern bool rose_subscription_table_is_live(const RoseSubscriptionTable *table);

/* It is to be copied, for the first time or again. */
extern bool rose_subscription_table_waits(const RoseSubscriptionTable *table);

/* Every table has its copy, or will not get it: then it is in error. */
extern bool rose_subscription_synced(Oid subid, int *nerrors);

/* Writes; name, conninfo etc. from sub, subid is assigned and returned. */
extern Oid	rose_subscription_insert(const RoseSubscription *sub);
extern void rose_subscription_update(const RoseSubscription *sub);
extern void rose_subscription_set_owner(Oid subid, Oid owner);

/* The state row: everything up to here is durable. */
extern void rose_subscription_set_state(Oid subid, uint64 epoch, XLogRecPtr durable_lsn,
										const RoseUpstreamCommit *last_commit);
extern void rose_subscription_delete(Oid subid);
extern void rose_subscription_add_table(Oid subid, Oid relid, const RoseUpstreamTable *remote,
										const char *state);
extern void rose_subscription_set_columns(Oid subid, Oid relid, const RoseColumnMap *columns);
extern void rose_subscription_remove_table(Oid subid, Oid relid);

/* NULL error and SQLSTATE, and an invalid LSN, set NULL. */
extern void rose_subscription_set_table(Oid subid, Oid relid, const char *state,
										XLogRecPtr sync_lsn, const char *error,
										const char *error_code, XLogRecPtr error_lsn);

/* The state alone, of one that has an error_lsn. */
extern void rose_subscription_set_state_of_table(Oid subid, Oid relid, const char *state);

/* Commits before this position are in the table already. */
extern void rose_subscription_set_sync(Oid subid, Oid relid, XLogRecPtr sync_lsn);

/* Tables that only the upstream has: forget them all; they are noted again at their next change. */
extern void rose_subscription_forget_new(Oid subid);

/* All tables are to be copied anew, from an upstream that is not known yet. */
extern void rose_subscription_forget_upstream(Oid subid);

/*
 * The stream goes back to a position (rose_rewind.c), for those of the subscription's tables that lack what comes
 * after it: the state row says so, and the rows of the others that they have all.  durable: where the stream was.
 * REQUIRES: nothing is applied meanwhile.
 */
extern void rose_rewind_to(const RoseSubscription *sub, uint64 epoch, XLogRecPtr durable, List *tables,
						   List *lacking, XLogRecPtr lsn);

/*
 * An error if the origin says more than the state row: what is done to it does not roll back.  Nothing for a subscription
 * that is not logged.
 */
extern void rose_rewind_require_recorded(const RoseSubscription *sub);

/*
 * What the origin says does not count any more, for the caller writes another position to the state row, or drops it.  Nothing
 * is done for a subscription that is not logged.  REQUIRES: as rose_rewind_to.
 */
extern void rose_rewind_origin(const RoseSubscription *sub);

/* Nobody writes to the subscription's tables until the transaction ends (rose_local_writes.c); waits for those who do. */
extern void rose_local_writes_lock_out(Oid subid);

/* The subscription's batches are not logged any more.  REQUIRES: the same. */
extern void rose_rewind_end_origin(const RoseSubscription *sub);

/*
 * The replication origin of a subscription whose batches are logged (rose_origin.c).
 *
 * position: what its last commit says; invalid: nothing.  flush: which is durable then.  clear: it says nothing, whatever
 * becomes of the transaction.
 */
extern void rose_origin_create(Oid subid);
extern void rose_origin_drop(Oid subid);
extern bool rose_origin_exists(Oid subid);
extern XLogRecPtr rose_origin_position(Oid subid, bool flush);
extern void rose_origin_clear(Oid subid);

/* Serialise DDL on one subscription: locks its row until the transaction ends. */
extern void rose_subscription_lock(Oid subid);
extern bool rose_subscription_try_lock(Oid subid);	/* false: somebody has it */

/* Until the transaction ends, nobody else looks at who the upstream is in order to change that, or to rely on it. */
extern void rose_subscription_lock_identity(Oid subid);

/* Until the transaction ends, nobody else gives this table to a subscription. */
extern void rose_subscription_lock_table(Oid relid);

/* The subscription of this database that has the table, or one that it is a partition of; or InvalidOid. */
extern Oid	rose_subscription_of_table(Oid relid);

/* One that has one of these tables itself, or InvalidOid. */
extern Oid	rose_subscription_of_any(const List *relids);

/* ---------------------------------------------------------------------
 * The upstream (rose_upstream.c).  The connection ends with the memory of the
 * process or by rose_upstream_disconnect; callers in user backends use PG_FINALLY.
 */
struct WalReceiverConn;

/*
 * check_conninfo: error if it may not be the subscription's, or if the current user may not give it; connect: error if the
 * upstream has asked for no password, but must.
 */
extern void rose_upstream_check_conninfo(const RoseSubscription *sub);
extern struct WalReceiverConn *rose_upstream_connect(const RoseSubscription *sub);
extern void rose_upstream_disconnect(struct WalReceiverConn *conn);

/* Error if one of the publications (String nodes) is not there. */
extern void rose_upstream_check_publications(struct WalReceiverConn *conn, List *publications);

/* Their tables, as a list of RoseUpstreamTable. */
extern List *rose_upstream_tables(struct WalReceiverConn *conn, List *publications);
extern void rose_upstream_create_slot(struct WalReceiverConn *conn, const char *slot,
									  XLogRecPtr *lsn);	/* of no use to standbys */
extern void rose_upstream_drop_slot(struct WalReceiverConn *conn, const char *slot);

/*
 * Options that not every release can do (rose_upstream_options.c).
 *
 * require_origin_here: error if this server cannot ask for changes without an origin, which the subscription's option wants.
 * require_options: or if the upstream cannot send them, or have a slot that standbys have, too; require_failover: that alone.
 * warn_of_origins: if the subscription's tables that wait for their copy, or this one (valid), are ones that the upstream itself is
 * subscribed with, though it is to have no rows of elsewhere.
 */
extern void rose_upstream_require_origin_here(const RoseSubscription *sub);
extern void rose_upstream_require_options(struct WalReceiverConn *conn, const RoseSubscription *sub);
extern void rose_upstream_require_failover(struct WalReceiverConn *conn, const RoseSubscription *sub);
extern void rose_upstream_warn_of_origins(struct WalReceiverConn *conn, const RoseSubscription *sub, Oid only);

/*
 * Slots that standbys have, too (rose_upstream_slot.c).
 *
 * make_slot: one that standbys have, too, if the subscription is to have such a one; error if the upstream has none such.
 * set_failover: of a slot that is there; waits for whoever uses it.  Nothing if it is so already, or there is none.
 */
extern void rose_upstream_make_slot(struct WalReceiverConn *conn, const RoseSubscription *sub, XLogRecPtr *lsn);
extern void rose_upstream_set_failover(struct WalReceiverConn *conn, const RoseSubscription *sub);

/*
 * All tables are copied from now on, each when what is prepared just now has ended.  So they lack nothing of what the slot has sent to
 * somebody else; a table that is added without a copy may lack what is prepared now, which is noted.
 */
extern void rose_upstream_note_prepared(struct WalReceiverConn *conn, const RoseSubscription *sub);

/* ---------------------------------------------------------------------
 * Who the upstream is (rose_upstream_identity.c).  All need a transaction.
 */

/* Why a subscription is blocked: rose.stat_subscription.blocked_reason. */
#define ROSE_BLOCKED_OTHER_UPSTREAM	"other_upstream"
#define ROSE_BLOCKED_DIVERGED		"diverged"
#define ROSE_BLOCKED_OLD_TIMELINE	"old_timeline"
#define ROSE_BLOCKED_BEHIND			"behind"
#define ROSE_BLOCKED_REWRITTEN		"rewritten"
#define ROSE_BLOCKED_SLOT_MISSING	"slot_missing"
#define ROSE_BLOCKED_SLOT_LOST		"slot_lost"
#define ROSE_BLOCKED_SLOT_AHEAD		"slot_ahead"
#define ROSE_BLOCKED_SLOT_TWO_PHASE	"slot_two_phase"
#define ROSE_BLOCKED_ORIGIN_MISSING	"origin_missing"
#define ROSE_BLOCKED_OWNER			"owner"
#define ROSE_BLOCKED_TABLE_ERROR	"table_error"
#define ROSE_BLOCKED_LENGTH			32

typedef struct RoseUpstreamIdentity
{
	char		system_id[24];
	TimeLineID	timeline;
	Oid			dbid;
	XLogRecPtr	wal_end;
	bool		in_recovery;
} RoseUpstreamIdentity;

typedef struct RoseUpstreamSlot
{
	bool		usable;			/* ours by plugin and database, and it has its WAL */
	bool		two_phase;		/* transactions are sent when they are prepared, whatever is asked of it */
	bool		failover;		/* standbys of the upstream may have it, too */
	XLogRecPtr	confirmed_lsn;
} RoseUpstreamSlot;

extern void rose_upstream_identity_ask(struct WalReceiverConn *conn, RoseUpstreamIdentity *out);

/* Is it the system and database that the subscription has known?  True if it has known none. */
extern bool rose_upstream_identity_is_known(const RoseSubscription *sub,
											const RoseUpstreamIdentity *identity);
extern bool rose_upstream_find_slot(struct WalReceiverConn *conn, const char *slot,
									RoseUpstreamSlot *out);

/* Error if there is its slot, which sends transactions when they are prepared, and the subscription does not take them so. */
extern void rose_upstream_refuse_two_phase(struct WalReceiverConn *conn, const RoseSubscription *sub);

/* The state row from now on. */
extern void rose_subscription_set_identity(Oid subid, const RoseUpstreamIdentity *identity);

/*
 * The local table for one of the upstream, by the names that the subscription's mapping says: checked to be a rose table, or
 * partitioned into such, and one that its owner may write to.
 */
extern Oid	rose_repl_target_table(const RoseSubscription *sub, const RoseUpstreamTable *remote);

/* The table, and, if it is partitioned, all its partitions, of all levels (rose_target_tables.c). */
extern List *rose_target_tables_of(Oid relid);

/*
 * The subscription's tables, with their partitions; and those that were, and are fed yet: one that was detached is
 * not let go of at once (rose_partitions.c).
 */
extern List *rose_partitions_tables(Oid subid);
extern List *rose_partitions_strays(Oid subid);
extern List *rose_partitions_with_strays(Oid subid);	/* both */

/* ---------------------------------------------------------------------
 * The workers' shared state (rose_repl_state.c).
 */
typedef enum RoseReplStatus
{
	ROSE_REPL_STOPPED = 0,
	ROSE_REPL_STARTING,
	ROSE_REPL_COPYING,
	ROSE_REPL_STREAMING,
	ROSE_REPL_ERROR,			/* waits for its next try */
	ROSE_REPL_BLOCKED			/* the same, but the upstream is not what it was */
} RoseReplStatus;

#define ROSE_REPL_ERROR_LENGTH 1024

/* What a worker tells.  Written by the worker alone; see rose_repl_progress. */
typedef struct RoseReplProgress
{
	XLogRecPtr	received_lsn;	/* newest position in any message */
	XLogRecPtr	applied_lsn;	/* committed locally and visible up to here */
	XLogRecPtr	durable_lsn;	/* survives a crash here without the upstream */
	XLogRecPtr	confirmed_lsn;	/* told to the upstream */
	XLogRecPtr	upstream_lsn;	/* end of the upstream's WAL when last heard of */
	TimestampTz upstream_time;	/* the upstream's clock in its last message ... */
	TimestampTz heard_time;		/* ... and ours when it arrived */
	RoseUpstreamCommit last_commit; /* the last applied transaction that was sent */
	TimestampTz asked_time;		/* ours when the end of its WAL, upstream_lsn, was last learned */
	TimestampTz fresh_time;		/* upstream time at which nothing was missing */
	uint64		epoch;
	uint64		inserts;
	uint64		updates;
	uint64		deletes;
	uint64		truncates;
	uint64		old_row_reads;
	uint64		skipped;		/* changes of tables that are not ready, or paused */
	uint64		transactions;	/* of the upstream */
	uint64		batches;
	uint64		epochs;
	uint64		copied_rows;
	uint64		received_bytes;
	uint64		spill_waits;	/* how often applying had to wait for an epoch in flight ... */
	uint64		spill_wait_ms;	/* ... and for how long in all */
	uint64		streams;		/* transactions in progress that were received in part ... */
	uint64		stream_bytes;	/* ... what of them is kept in files */
	uint64		streamed;		/* ... and how many of them were applied, as they committed */
} RoseReplProgress;

typedef struct RoseReplSnapshot
{
	Oid			subid;
	int			pid;			/* 0: no worker */
	RoseReplStatus status;
	RoseReplProgress progress;
	Oid			waiting;		/* the relation whose lock it waits for, or invalid */
	TimestampTz waiting_since;
	TimestampTz last_error_time;
	Oid			last_error_owner;	/* whose subscription it was then; invalid: not known */
	char		last_error[ROSE_REPL_ERROR_LENGTH];
	char		blocked[ROSE_BLOCKED_LENGTH];	/* why, if it is, or was when a worker last looked */
	TransactionId blocked_xid;	/* of rose_repl_state.c */
	FullTransactionId reason_xid;
	bool		looks_again;	/* a worker looks, or is about to, whether it still is */
} RoseReplSnapshot;

/* Copies of this database's entries; returns how many (at most max). */
extern int	rose_repl_list(RoseReplSnapshot *out, int max);
extern bool rose_repl_get(Oid subid, RoseReplSnapshot *out);

/* Which table the subscription waits for, and who has it locked, as a sentence; NULL: it waits for none.  REQUIRES: a transaction. */
extern char *rose_repl_describe_wait(Oid subid);

/* Error if the database has subscriptions (rose_subscription_server.c).  REQUIRES: it is locked. */
extern void rose_repl_check_drop_database(Oid dbid);

/* The database was dropped: nothing of it is started any more. */
extern void rose_repl_forget_database(Oid dbid);
extern int	rose_max_subscriptions;
extern int	rose_max_paused_wal_size;	/* MB; -1 = any */

typedef struct RoseReplTableCounts
{
	Oid			relid;
	uint64		inserts;
	uint64		updates;
	uint64		deletes;
	uint64		truncates;
	uint64		partials;
	uint64		incomplete;		/* inserts without all values: no row, until what they lack comes */
	uint64		copied;
} RoseReplTableCounts;

/* Changes of a table that did not fit its rows, named as PostgreSQL 18 names them (rose_conflicts.c). */
typedef enum RoseConflictKind
{
	ROSE_CONFLICT_NONE = 0,
	ROSE_CONFLICT_INSERT_EXISTS,
	ROSE_CONFLICT_UPDATE_EXISTS,	/* the new key's row */
	ROSE_CONFLICT_UPDATE_MISSING,
	ROSE_CONFLICT_DELETE_MISSING
} RoseConflictKind;

#define ROSE_CONFLICT_KINDS			(ROSE_CONFLICT_DELETE_MISSING + 1)
#define ROSE_CONFLICT_KEY_LENGTH	96

typedef struct RoseReplConflict
{
	RoseConflictKind kind;
	XLogRecPtr	lsn;			/* of the upstream transaction's commit record */
	TimestampTz time;			/* ours, when it was found */
	char		key[ROSE_CONFLICT_KEY_LENGTH];	/* or the beginning of it */
} RoseReplConflict;

typedef struct RoseReplConflicts
{
	uint64		counts[ROSE_CONFLICT_KINDS];
	RoseReplConflict first;		/* kind NONE: there was none */
	RoseReplConflict last;
} RoseReplConflicts;

extern const char *rose_conflict_name(RoseConflictKind kind);	/* NULL for none */

/* Of one table since the server started; false if nothing is known. */
extern bool rose_repl_table_conflicts(Oid subid, Oid relid, RoseReplConflicts *out);

/* A table that is being copied. */
typedef enum RoseCopyPhase
{
	ROSE_COPY_CONNECTING = 0,
	ROSE_COPY_READING,			/* the upstream's rows, which are sorted if there is a key */
	ROSE_COPY_WRITING,			/* them */
	ROSE_COPY_INDEXES,
	ROSE_COPY_SWITCHING			/* waits until nobody uses the table, and then puts the new rows in the old ones' place */
} RoseCopyPhase;

typedef struct RoseReplCopy
{
	Oid			subid;
	Oid			relid;
	int			pid;
	RoseCopyPhase phase;
	TimestampTz since;
	TimestampTz reading_since;	/* 0: not yet */
	uint64		rows;
	uint64		bytes;			/* as they are sent */
	int64		expected_rows;	/* as the upstream estimates; negative: not known */
	int			pieces;			/* 0: it is copied as one */
	int			pieces_done;
	uint64		begun_rows;		/* of pieces that were there when it began; they are among rows */
	int			workers;		/* so many processes copy it */
} RoseReplCopy;

/* A subscription copies no more tables than that at a time. */
#define ROSE_MAX_COPIES		16

/* Those of this database; returns how many (at most max). */
extern int	rose_repl_list_copies(RoseReplCopy *out, int max);
extern int	rose_max_copy_workers;
extern int	rose_copy_piece_size;	/* kB; 0: tables are copied as one */
extern int	rose_copied_patience;	/* ms */

/* When a table whose copy has failed is tried again. */
typedef struct RoseReplRetry
{
	int			failures;
	TimestampTz next;
} RoseReplRetry;

/* False: it has not failed, or nothing is known. */
extern bool rose_repl_table_retry(Oid subid, Oid relid, RoseReplRetry *out);

/* The subscription was changed, so tables whose copies have failed are tried again, which their rows do not say yet. */
extern bool rose_repl_retries_copies(Oid subid);

/* Counts of one table since the server started; false if nothing is known. */
extern bool rose_repl_table_counts(Oid subid, Oid relid, RoseReplTableCounts *out);

/* ---------------------------------------------------------------------
 * Requests (rose_repl_request.c).
 */

/* Reserve the place of a new subscription; given back if the transaction
 * aborts.  Error if all rose.max_subscriptions places are taken. */
extern void rose_repl_reserve(Oid subid, const char *name);

/* When this transaction commits: start, restart or stop the worker, as the row then says. */
extern void rose_repl_changed_at_commit(Oid subid);

/* When this transaction commits: positions that are not in the state row mean nothing any more.  REQUIRES: drained. */
extern void rose_repl_rewound_at_commit(Oid subid);

/* When this transaction commits: it takes the upstream as it is, so nothing blocks it any more. */
extern void rose_repl_accepted_at_commit(Oid subid);

/* When this transaction commits: forget the entry. */
extern void rose_repl_dropped_at_commit(Oid subid);

/* When this transaction commits: rose_repl_unfeed.  Locks the table (ShareUpdateExclusiveLock). */
extern void rose_repl_unfeed_at_commit(Oid relid, Oid subid);

/*
 * Have the worker make everything durable that is applied, and stop it.  Works
 * without the upstream.  Error if that takes longer than timeout_s; the
 * subscription then runs on, as it does if this transaction aborts.
 */
extern void rose_repl_drain(Oid subid, int timeout_s);

/*
 * Have the worker commit an epoch now: everything applied before this call is in
 * components when it returns.  For rose.spill() of a table that a subscription feeds.
 */
extern void rose_repl_spill(Oid subid, int timeout_s);

/* rose_repl_spill that does not raise an error: what went wrong is returned; NULL = nothing. */
extern char *rose_repl_try_spill(Oid subid, int timeout_s);

/* Error if a subscription of this database feeds the table: it may not be truncated here. */
extern void rose_repl_check_truncate(Oid relid);

/*
 * Empty the tables (open Relations) together; what their owners have attached to them
 * runs as those.  at: called (if it is not NULL) with each before something is done to it.
 * REQUIRES: AccessExclusiveLock on each.
 */
extern void rose_repl_truncate_tables(List *rels, bool restart_seqs, void (*at) (Relation rel));

/* For who decodes our WAL: the rows that the table had are gone. */
extern void rose_repl_truncate_log(Relation rel);

/* Error if a subscription feeds the table and it would become unlogged or a table of another access method. */
extern void rose_repl_check_alter(Oid relid, bool unlogged);

/* Error if it is one of rose's own materialized views, which a refresh without data would empty. */
extern void rose_repl_check_refresh(Oid relid);

/*
 * The subscription no longer feeds the table (drained before); InvalidOid: whichever does.
 * REQUIRES: rose_repl_settle, if the subscription itself goes.
 */
extern void rose_repl_unfeed(Oid relid, Oid subid);

/*
 * Publish what a committed epoch has left in the table, since somebody had it locked.  When the subscription is
 * gone, nobody can tell any more that the epoch was committed.
 */
extern void rose_repl_settle(Oid relid);

#endif							/* ROSE_REPL_H */
