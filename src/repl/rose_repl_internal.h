/*-------------------------------------------------------------------------
 *
 * rose_repl_internal.h
 *	  What the files of the replication consumer share among themselves.
 *
 * Each section names the file that it belongs to.  Shared structs name the lock of each
 * field; rose_apply is the state of one worker process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REPL_INTERNAL_H
#define ROSE_REPL_INTERNAL_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "replication/logicalproto.h"
#include "utils/hsearch.h"

#include "lsm/tree/rose_tree.h"
#include "lsm/merge/rose_epoch_runs.h"
#include "repl/rose_added.h"
#include "repl/rose_columns.h"
#include "repl/rose_copies.h"
#include "repl/rose_defaults.h"
#include "repl/rose_prepared.h"
#include "repl/rose_realtime.h"
#include "repl/rose_repl.h"
#include "repl/rose_repl_shared.h"
#include "repl/rose_repl_value.h"
#include "repl/rose_route.h"
#include "repl/rose_rules.h"
#include "repl/rose_target.h"

struct WalReceiverConn;
struct WalRcvExecResult;

/* Settings */
extern int	rose_batch_interval;	/* ms */
extern int	rose_background_spill_size; /* kB */

/* ---------------------------------------------------------------------
 * Catalog writes of the worker; each needs a transaction and a snapshot.
 */
extern void rose_subscription_set_remote(Oid subid, Oid relid, const RoseUpstreamTable *remote);

/* It is being copied; the copy will be of later than this. */
extern void rose_subscription_set_copying(Oid subid, Oid relid, XLogRecPtr lsn);

/* Not if it is there already. */
extern void rose_subscription_note_new(Oid subid, const RoseUpstreamTable *remote, XLogRecPtr lsn);
extern void rose_subscription_set_blocked(Oid subid, const char *reason);
extern bool rose_subscription_epoch_committed(Oid subid, uint64 epoch);

/* ---------------------------------------------------------------------
 * Upstream connection, the worker's part.
 */
/*
 * The first row of a query or replication command, as C strings (NULL for NULL); false:
 * there is none.  REQUIRES: a transaction.
 */
extern bool rose_upstream_row(struct WalReceiverConn *conn, const char *sql, int ncols,
							  char **values, const char *purpose);

/* A column of an answer, of type text; NULL for NULL.  malformed: the error that an answer is none. */
extern char *rose_upstream_text(struct TupleTableSlot *slot, int attnum);
pg_noreturn extern void rose_upstream_malformed(const char *purpose);

/* All rows of a query; and strings (String nodes) as a list of SQL literals. */
extern struct WalRcvExecResult *rose_upstream_query(struct WalReceiverConn *conn, const char *sql, int ncols,
													const Oid *types, const char *purpose);
extern char *rose_upstream_literals(List *strings);

/* The first column, of type text, of all rows: a list of C strings, NULL for NULL. */
extern List *rose_upstream_strings(struct WalReceiverConn *conn, const char *sql, const char *purpose);

/* Start of the stream; ends with rose_upstream_disconnect.  REQUIRES: it was identified on this connection. */
extern void rose_upstream_start(struct WalReceiverConn *conn, const RoseSubscription *sub,
								XLogRecPtr start, bool binary);
extern void rose_upstream_feedback(struct WalReceiverConn *conn, XLogRecPtr received,
								   XLogRecPtr flushed, XLogRecPtr applied,
								   bool reply_requested);

/* A command without a result. */
extern void rose_upstream_command(struct WalReceiverConn *conn, const char *command);

/*
 * A stream is to begin that gets what is prepared.  Notes what may have come to another consumer of its slot, once for each slot; of
 * commits up to the position that it returns, that is not known.  REQUIRES: a transaction.
 */
extern XLogRecPtr rose_upstream_take_over_prepared(struct WalReceiverConn *conn, const RoseSubscription *sub);

/* End of the upstream's WAL, or invalid if the connection failed. */
extern XLogRecPtr rose_upstream_wal_end(struct WalReceiverConn *conn);

/* How many rows, and bytes, the table has by the upstream's statistics; 0: not known. */
extern void rose_upstream_estimate(struct WalReceiverConn *conn, Oid relid, int64 *rows, int64 *bytes);

/* Error if the rows may not be read. */
extern void rose_upstream_require_select(struct WalReceiverConn *conn, const RoseUpstreamTable *table, List *columns);

/* For a transaction that reads a table: nothing is hidden from it, and it takes as long as it takes, also idle, while what it has read is sorted here. */
extern void rose_upstream_prepare_copy(struct WalReceiverConn *conn);

/* Begin a transaction whose snapshot is that of a temporary slot at *lsn. */
extern void rose_upstream_begin_copy(struct WalReceiverConn *conn, const char *slot,
									 XLogRecPtr *lsn);

/*
 * The published table with this oid, or else this name, as it is called now.  False:
 * there is none.
 */
extern bool rose_upstream_find_table(struct WalReceiverConn *conn, List *publications,
									 const RoseUpstreamTable *known, RoseUpstreamTable *found);

/* Is a constraint on some of these columns, or all, deferrable, and none that is not? */
extern bool rose_upstream_key_is_deferrable(struct WalReceiverConn *conn, Oid relid, const int16 *attnums, int n);

/* Which kinds of changes of a table some publication has.  REQUIRES: a transaction. */
typedef struct RoseUpstreamKinds
{
	bool		inserts;
	bool		updates;
	bool		deletes;
} RoseUpstreamKinds;

extern void rose_upstream_published_kinds(struct WalReceiverConn *conn, List *publications,
										  const RoseUpstreamTable *table, RoseUpstreamKinds *out);

/* Those of them that the publications have. */
extern void rose_upstream_published_columns(struct WalReceiverConn *conn, List *publications,
											const RoseUpstreamTable *table, RoseUpstreamColumns *out);

/* What follows FROM, in a query for the table's published rows. */
extern char *rose_upstream_source(struct WalReceiverConn *conn, List *publications,
								  const RoseUpstreamTable *table);

/* What a copy reads of a table.  From now on the rows stay in their files.  Error, which may pass, if one was made anew since the transaction's snapshot. */
extern void rose_upstream_lock_rows(struct WalReceiverConn *conn, List *publications, const RoseUpstreamTable *table,
									RoseUpstreamRows *rows);

/* COPY ... TO STDOUT of these columns was started; of all rows, or those that meet the condition, too.  REQUIRES: the above. */
extern void rose_upstream_start_copy(struct WalReceiverConn *conn, const RoseUpstreamTable *table, const RoseUpstreamRows *rows,
									 List *columns, const char *condition);

/* Has it, and have its columns, still the names that a query has used?  REQUIRES: the query locked them. */
extern bool rose_upstream_has_names(struct WalReceiverConn *conn, const RoseUpstreamTable *table);

/* After a copy: error, which may pass, if the rows were of another table that had got its name, or columns of others. */
extern void rose_upstream_check_copied(struct WalReceiverConn *conn, const RoseUpstreamTable *table);

/* ---------------------------------------------------------------------
 * The upstream's identity (rose_upstream_identity.c).
 */

/*
 * Error, with rose_apply.blocked set, if it is not the upstream that our rows are of, or
 * lacks some of what was applied.  Returns the end of its WAL.  REQUIRES: no open batch.
 */
extern XLogRecPtr rose_upstream_identity_check(struct WalReceiverConn *conn, bool with_slot);

/* Error, as above, if what it sends is of another history: a transaction's end, or the end of what was sent. */
extern void rose_upstream_identity_check_commit(const RoseUpstreamCommit *commit);
extern void rose_upstream_identity_check_end(XLogRecPtr end);

/* Error with the reason why this worker cannot go on. */
pg_noreturn extern void rose_repl_block(const char *reason, const char *why, const char *hint);

/* REQUIRES: a transaction. */
extern void rose_upstream_identity_check_monitor(struct WalReceiverConn *conn);

/* REQUIRES: the transaction that makes the copied rows visible.  Who the upstream is does not change until it ends. */
extern void rose_upstream_identity_check_copied(struct WalReceiverConn *conn);

/* ---------------------------------------------------------------------
 * Relation map (rose_relmap.c): from the upstream's relation ids to local tables.
 */
typedef struct RoseReplRel
{
	LogicalRepRelId remoteid;	/* hash key */
	MemoryContext context;		/* owns remote */
	LogicalRepRelation remote;
	uint64		heard;			/* its place in the order in which descriptions have come */
	LogicalRepRelation *later;	/* one that has come later, and holds again when the transaction at hand
								 * ends; or NULL */
	MemoryContext later_context;	/* owns it */
	uint64		later_heard;

	bool		mapped;			/* what follows is valid */
	bool		identified;		/* numbers of the remote columns were asked for; also ... */
	int16	   *remote_attnums; /* ... these, or NULL: they cannot be known; and ... */
	RoseUpstreamSeen *seen;		/* ... what was seen then, if it is to be noted; or NULL */
	MemoryContext map_context;	/* owns it */
	Oid			relid;			/* local table, or invalid: the subscription has none for it */
	bool		recreated;		/* the local table is of another one of the same name */
	bool		noted;			/* as one that only the upstream has */
	bool		ready;			/* not: changes are skipped, as the table's state says */
	XLogRecPtr	sync_lsn;		/* commits before it are skipped: the copy has them */
	XLogRecPtr	until_lsn;		/* commits from there on are skipped: it is paused */
	XLogRecPtr	pass_lsn;		/* the commit at this position is passed over; or invalid */
	XLogRecPtr	exact_lsn;		/* before it the table has rows of several positions; or invalid */
	uint64		passed;			/* changes of it that were */
	int			natts;
	RoseReplColumn *columns;	/* natts */
	RoseDefaults *defaults;		/* of new rows, or NULL: there are none */
	Bitmapset  *identity;		/* local columns that are part of the replica identity */
	List	   *keys_asked;		/* of the upstream (rose_relmap_learn_identity) */
	bool		partitioned;	/* the local table is */
	bool		binary_fits;	/* values in binary format mean the same on both sides */
	Datum	   *values;			/* natts each; scratch of one change */
	bool	   *nulls;
	Datum	   *old_values;
	bool	   *old_nulls;
	bits8	   *present;

	Relation	rel;			/* open in the current batch, or NULL; then also ... */
	Oid			subid;			/* ... whose it is */
	char		called_here[2 * NAMEDATALEN + 16];	/* for messages, if the local table has another name; or empty */
	RoseReplTarget target;		/* ... what takes its rows, or, if it is partitioned, */
	RoseRoute  *route;			/* where they go */
	RoseReplTableCounts counts; /* since the last batch */
	RoseReplTableCounts truncated;	/* ... and what they were when this one last truncated it */
} RoseReplRel;

extern void rose_relmap_init(Oid subid);

/* A Relation message; heard: its place in the order in which they have come. */
extern void rose_relmap_update(const LogicalRepRelation *remote, uint64 heard);

/* A description that has come with a transaction in progress: it is what was last heard, if nothing has come later. */
extern void rose_relmap_learn(const LogicalRepRelation *remote, uint64 heard);

/* What was last heard of a relation, be it one of ours or not; NULL: nothing. */
extern const LogicalRepRelation *rose_relmap_description(LogicalRepRelId remoteid);

/* The end of a transaction that was sent before it committed: what has come after its descriptions holds again. */
extern void rose_relmap_end_replay(void);

/* The open batch is given up, and what was derived in it. */
extern void rose_relmap_forget(void);

/*
 * The table of a change, open and locked (RowExclusiveLock) in the current batch; NULL:
 * its changes are not applied.  Raises errors about tables that do not fit.
 */
extern RoseReplRel *rose_relmap_open(LogicalRepRelId remoteid, XLogRecPtr commit_lsn);

/* The table of a change, neither opened nor locked; NULL as for rose_relmap_open. */
extern RoseReplRel *rose_relmap_lookup(LogicalRepRelId remoteid, XLogRecPtr commit_lsn);

/* What was last heard of a table of ours, or NULL. */
extern RoseReplRel *rose_relmap_find(Oid relid);

/* The local columns whose values come with the upstream's replica identity, or are known (rose_relmap_identity.c). */
extern Bitmapset *rose_relmap_columns_in_identity(const RoseReplRel *entry);

/*
 * Whether the upstream's identity is the local key (rose_relmap_identity.c).  Returns how many columns the
 * upstream is to be asked about, and their numbers there: may it have two rows of one key for a while?
 */
extern int	rose_relmap_check_identity(RoseReplTarget *target, int16 *attnums);

/* Whether it is, and what the upstream says to that.  REQUIRES: the columns are mapped. */
extern void rose_relmap_learn_identity(RoseReplTarget *target);

/* Error if a change that names an old row cannot be applied; verb: as "an UPDATE". */
extern void rose_relmap_require_identity(const RoseReplTarget *target, const char *verb);

/* Error if the local table is gone.  REQUIRES: a lock on its oid. */
extern void rose_relmap_require_local(RoseReplRel *entry);

/* Error of the table if the subscription's owner may not write to it. */
extern void rose_relmap_require_owner(RoseReplRel *entry);
extern void rose_relmap_close(RoseReplRel *entry);
extern void rose_relmap_close_all(void);	/* before the end of a batch */
extern void rose_relmap_flush_counts(bool keep);

/* What the open batch has done to each table, for core's statistics.  REQUIRES: it is about to commit. */
extern void rose_relmap_count_rows(void);

/*
 * The transaction at hand is complete: tables of which it passed changes over go on after
 * it.  REQUIRES: an open batch, or none has passed any.
 */
extern void rose_relmap_end_passed(void);

/* Since the last call, something has happened to a table of the subscription. */
extern bool rose_relmap_tables_changed(void);

/* ---------------------------------------------------------------------
 * Local tables.
 */

/* A partition of one of the subscription's tables, on any level (rose_partitions.c).  May be called in a callback. */
extern bool rose_partitions_is_known(Oid relid);

/* Make the table, and its indexes, the subscription's, if they are not yet (rose_feeding.c).  REQUIRES: a lock on rel that excludes other feeders. */
extern void rose_repl_feed(Relation rel, Oid subid);

/* The same for a partition; nothing is done if it cannot be fed, since only who writes to it need say so. */
extern void rose_feeding_try(Relation rel, Oid subid);

/*
 * Who writes to tables of a subscription whose batches are logged (rose_local_writes.c).  await: who does, for a copy.
 */
extern void rose_local_writes_register(void);
extern void rose_local_writes_await(Oid relid);

/* Error if the table has an index beside the primary key's that cannot be fed. */
extern void rose_feeding_require_indexes(Relation rel);

/* ---------------------------------------------------------------------
 * The apply process.  One instance in each worker.
 */
typedef enum RoseApplyResult
{
	ROSE_APPLY_GO_ON,
	ROSE_APPLY_RESTART			/* the batch has to be cut before this transaction */
} RoseApplyResult;

/* The upstream transaction that is being received (rose_apply.c). */
typedef struct RoseApplyRemote
{
	bool		open;
	XLogRecPtr	commit_lsn;		/* its commit record */
	RoseUpstreamCommit commit;	/* that, and more of it */
	bool		passing;		/* it was applied before: nothing of it is */
	bool		is_sent;		/* whenever the upstream is asked for it: not if nothing is left of what it streamed */
	bool		durable_at_once;	/* it truncated a table, or changed columns */
	bool		cut_needed;		/* it has to be applied on its own */
	uint64		changes;		/* its changes that were applied, but truncates */
	bool		moved;			/* the UPDATE at hand gives its row another key, or another partition */
} RoseApplyRemote;

/* The local transaction (rose_batch.c). */
typedef struct RoseApplyBatch
{
	bool		open;
	TimestampTz start;
	int64		cost_us;		/* of ending one, on average of the last few */
	XLogRecPtr	first;			/* commit LSN of the first upstream transaction in it */
	XLogRecPtr	reached_lsn;	/* what will be applied when it commits ... */
	RoseUpstreamCommit reached; /* ... and the last transaction of that */
} RoseApplyBatch;

/* Where the stream starts (rose_upstream_identity.c). */
typedef struct RoseApplyStart
{
	XLogRecPtr	lsn;			/* what commits before it was applied */
	RoseUpstreamCommit expected;	/* must come first; invalid: it has, or need not */
	uint32		publications;	/* hash of their names, and of the origins that were asked for */
	XLogRecPtr	elsewhere_lsn;	/* prepared transactions that commit up to there may have come to somebody else */
} RoseApplyStart;

/* rose_epoch.c and rose_flight.c. */
typedef struct RoseApplyEpochs
{
	bool		dirty;			/* committed batches that no epoch covers, not even the one
								 * in flight */
	uint64		flight;			/* epoch in flight, 0 = none */
	bool		awaited;		/* the upstream waits for the next one */
	bool		unpublished;	/* the spiller has left tables to be published */
	TimestampTz last;
	uint64		applied_bytes;	/* of all messages that were applied, be it in vain */
	XLogRecPtr	row_lsn;		/* durable_lsn of the state row */
	XLogRecPtr	recorded_lsn;	/* the same, or the origin's position if that is later; flushed: the most that may be
								 * confirmed */
	XLogRecPtr	solo_lsn;		/* cut before the transaction that commits here */
} RoseApplyEpochs;

/* The format of values (rose_stream.c). */
typedef struct RoseApplyFormat
{
	bool		binary;			/* of the stream at hand */
	bool		text_needed;	/* some table does; see RoseReplSubShared */
} RoseApplyFormat;

/* Positions at which tables have failed or are paused (rose_table_error.c). */
typedef struct RoseApplyStops
{
	XLogRecPtr	failed_lsn;		/* the first transaction that failed; invalid: none */
	XLogRecPtr	held_lsn;		/* paused tables need the WAL from there on; invalid: none is paused */
} RoseApplyStops;

/* Tables that are being copied, or wait for that, beside the stream (rose_copies.c). */
typedef struct RoseApplyCopies
{
	bool		outstanding;	/* there are some */
	TimestampTz look;			/* when to look at them again, at the latest */
	TimestampTz copied;			/* since when one has waited for the stream to go back; 0: none does */
	TimestampTz no_process;		/* when one was last asked for in vain */
	void		(*breathe) (void);	/* now and then while rows are copied; NULL: none are */
	bool		here;			/* this process copies one itself */
	bool		here_failed;	/* the last one that it copied; also when that ... */
	TimestampTz here_ended;		/* ... ended, and when it may copy ... */
	TimestampTz here_next;		/* ... the next one, if the stream does not catch up sooner */
	XLogRecPtr	hold;			/* they need the WAL from there on; none: PG_UINT64_MAX */
	bool		starting_over;	/* the worker ends, for the next one to go on elsewhere; what is being copied
								 * goes on */
	Oid			broken;			/* a change found that this table has to be copied again (rose_chunks.h); or invalid */
} RoseApplyCopies;

/* Descriptions of tables (rose_description.c). */
extern void rose_description_copy(LogicalRepRelation *to, const LogicalRepRelation *from, MemoryContext context);
extern void rose_description_check(const LogicalRepRelation *remote);	/* error: names are not in our encoding */
extern void rose_description_write(const LogicalRepRelation *remote, StringInfo out);	/* as a message, behind its type */
extern bool rose_description_equal(const LogicalRepRelation *a, const LogicalRepRelation *b);

/* Does a type, in binary format, mean the same on both sides?  Has some column to come as text? */
extern bool rose_description_binary_fits(Oid type);
extern bool rose_description_needs_text(const LogicalRepRelation *remote);

/* What is being done, for error messages and whose an error is. */
typedef struct RoseApplyBlame
{
	char		command;		/* message type, 0 = none */
	RoseReplRel *rel;			/* table of the change, or NULL */
	bool		certain;		/* an error now is rel's: it comes from the definition or a change of it */
	bool		writing;		/* rows of earlier changes are written to rel */
	bool		beside;			/* ... or the changes do not come from the stream: an error is nobody's */
} RoseApplyBlame;

typedef struct RoseApply
{
	RoseSubscription *sub;
	RoseReplSubShared *shared;
	RoseReplStatus status;
	RoseReplProgress progress;
	MemoryContext message_context;

	RoseApplyRemote remote;
	RoseApplyBatch batch;
	RoseApplyStart start;
	RoseApplyEpochs epochs;
	RoseApplyFormat format;
	RoseApplyStops stops;
	RoseApplyCopies copies;
	RoseApplyBlame blame;

	uint64		descriptions;	/* that have come, of all connections */
	bool		origin_missing; /* of a subscription whose batches are logged: nobody knows what was applied */
	bool		owner_doubtful; /* roles, or privileges, may have changed since the owner was looked at */
	bool		copier;			/* this process copies one table, and does nothing else */
	bool		giving_way;		/* the worker ends for the next one to serve requests (rose_repl_locks.c) */
	const char *blocked;		/* why this worker cannot go on (ROSE_BLOCKED_...), or NULL */

	void		(*keep_alive) (void);	/* NULL: there is no stream */
} RoseApply;

extern RoseApply rose_apply;

/* The upstream hears from us now and then, for those who keep the stream waiting. */
static inline void
rose_apply_keep_alive(void)
{
	if (rose_apply.keep_alive != NULL)
		rose_apply.keep_alive();
}

/* Other transactions, in this batch or not yet in an epoch, come before the one at hand (rose_apply.c). */
extern bool rose_apply_can_be_cut(void);

/* One message of pgoutput. */
extern RoseApplyResult rose_apply_message(StringInfo s);

/* A change that does not come from the stream, as of a transaction that commits at lsn.  False: it cannot be applied by itself. */
extern bool rose_apply_change_beside(StringInfo s, XLogRecPtr lsn);

/* The next message of a streamed transaction that has committed, or its end.  REQUIRES: rose_streamed_is_replayed. */
extern RoseApplyResult rose_apply_replay(void);
extern void rose_apply_error_context(void *arg);

/* A TRUNCATE message, behind its type (rose_truncated.c). */
extern RoseApplyResult rose_truncated_apply(StringInfo s);

/*
 * Transactions that the upstream sends before they commit (rose_streamed.c).
 *
 * forget: of another connection; to be called before the first use.  take: a message that
 * is part of one, or says something of one, but that it has committed; false: it is something
 * else.  If it describes a table, description is that, behind the type; else its data is NULL.
 * described: what the stream has last said of a relation; NULL: nothing.
 * begin_replay: it has committed, and comes now; should_be_alone: what came before should
 * be durable first, as an epoch.  next: its next message, in the message context.  end_replay:
 * after the last one; the end of its commit record.
 *
 * keep_prepared: it was prepared, and is in the catalog with the batch.  begin_prepared: one that is there is committed, and
 * comes now, as above, if it is there.  end_prepared: it was rolled back, or was applied before.  is_prepared: such a one is replayed; end_lsn: of
 * its commit record.  The first two REQUIRE an open batch.
 */
typedef const LogicalRepRelation *(*RoseStreamedDescribed) (LogicalRepRelId remoteid);

/* A description that holds in the stream from now on, behind its type; behind it its place in the order of all. */
typedef void (*RoseStreamedHear) (StringInfo description);

extern void rose_streamed_forget(void);
extern bool rose_streamed_take(StringInfo s, StringInfo description, RoseStreamedDescribed described);
extern void rose_streamed_error_context(void);
extern void rose_streamed_begin_replay(TransactionId xid, const LogicalRepCommitData *commit);
extern bool rose_streamed_is_replayed(void);
extern bool rose_streamed_should_be_alone(void);
extern bool rose_streamed_next(StringInfo out);
extern void rose_streamed_keep_prepared(const LogicalRepPreparedTxnData *prepare, bool may_be_empty, RoseStreamedHear hear);
extern RosePreparedFound rose_streamed_begin_prepared(const LogicalRepCommitPreparedTxnData *commit);
extern void rose_streamed_end_prepared(TransactionId xid);
extern bool rose_streamed_is_prepared(void);
extern XLogRecPtr rose_streamed_end_lsn(void);
extern XLogRecPtr rose_streamed_end_replay(void);

/*
 * Rows gathered before they are written (rose_gather.c).  REQUIRES: an open batch, in
 * which the tables stay open until what was gathered is written or forgotten.
 */
extern void rose_gather_row(RoseReplTarget *target, RoseOp op, const Datum *values,
							const bool *nulls, const bits8 *present);
extern void rose_gather_write(void);
extern void rose_gather_forget(void);

/*
 * Core's statistics (rose_repl_stats.c): count rows, of a table that the transaction at hand
 * has locked and that is about to commit; report them; and, between transactions, those
 * that could not be reported yet.
 */
extern void rose_repl_stats_count(Oid relid, uint64 inserts, uint64 updates, uint64 deletes);

/* Of partitions, and of tables that are copied: to be counted together when the transaction commits, or to be forgotten. */
extern void rose_repl_stats_keep(Oid relid, uint64 inserts, uint64 updates, uint64 deletes);
extern void rose_repl_stats_count_kept(void);
extern void rose_repl_stats_forget_kept(void);
extern void rose_repl_stats_forget_kept_of(Oid relid);
extern void rose_repl_stats_report(bool at_once);
extern void rose_repl_stats_report_left(TimestampTz now);

/* Batches (rose_batch.c). */
extern void rose_batch_ensure(void);
extern void rose_batch_commit(void);	/* nothing if none is open */
extern void rose_batch_abort(void);
extern int64 rose_batch_asked_us(void); /* how old one is to be that somebody waits for */
extern bool rose_batch_goes_first(StringInfoData message, XLogRecPtr start, TimestampTz now);	/* is it to end before what comes? */

/* Epochs (rose_epoch.c).  REQUIRES: no open batch. */
extern void rose_epoch_recover(void);	/* what the last worker left */

/* Everything applied is durable when it returns. */
extern void rose_epoch_commit(void);

/* Begin one, which may be in flight for a while; nothing if not dirty.  REQUIRES: none is in flight. */
extern void rose_epoch_begin(void);
extern void rose_epoch_begin_in_time(void); /* may be put off */

/*
 * For whoever writes it: everything between its boundary and its landing, in transactions of its own.  *published: no tables are left for
 * that.  False: somebody has a table locked, and another process is to go on with it.
 */
extern bool rose_epoch_write(uint64 epoch, XLogRecPtr lsn, const RoseUpstreamCommit *last_commit, bool *published);

/* It is committed and published. */
extern void rose_epoch_landed(uint64 epoch, XLogRecPtr lsn);
extern void rose_epoch_upstream_asks(TimestampTz now);
extern bool rose_epoch_is_due(TimestampTz now);
extern bool rose_epoch_memory_is_due(void);

/* The state row, committed and flushed, says that this is durable; it may have gone back. */
extern void rose_epoch_note_row(XLogRecPtr lsn);

/* In a transaction: the state row says that this epoch, and this position, are durable. */
extern void rose_epoch_record(uint64 epoch, XLogRecPtr lsn, const RoseUpstreamCommit *last_commit);

/* The state row follows durable_lsn, which has moved without an epoch.  REQUIRES: no open batch, none in flight. */
extern void rose_epoch_record_idle(void);

/* REQUIRES: an open batch.  Its rows become durable with the epoch's commit, if that is the batch's. */
extern void rose_epoch_spill_batch(uint64 epoch);

/* Make the tables the subscription's again that lost that with their file. */
extern void rose_epoch_feed_tables(void);

/* After its commit: publish the runs, in transactions of their own, then note it, and that it covers all. */
extern void rose_epoch_publish_tables(uint64 epoch);

/* Publish and feed what could not be so far, as somebody has locked it.  REQUIRES: no open batch. */
extern void rose_epoch_catch_up(TimestampTz now);
extern void rose_epoch_recorded(uint64 epoch, XLogRecPtr lsn);

/* Tables have changed: partitions may have been detached.  They are let go; REQUIRES: no open batch. */
extern void rose_epoch_doubt_strays(void);
extern void rose_epoch_let_go(TimestampTz now);

/*
 * A subscription whose batches are logged (rose_logged.c); there are no epochs then.
 *
 * take_up: its origin is this process's, if there is one (rose_apply.origin_missing); what it says, flushed, or invalid.
 * commit: the batch, with which what is before this position is applied; wrote: it has written something.  look: durable
 * and recorded positions are as far as commits are flushed; flush: all of them.
 */
extern XLogRecPtr rose_logged_take_up(void);
extern void rose_logged_commit(XLogRecPtr lsn, TimestampTz time, bool wrote);
extern void rose_logged_look(void);
extern void rose_logged_flush(void);

/* Its origin (rose_origin.c).  let_go: another process may have it.  commit: the transaction, whose record says this position. */
extern char *rose_origin_name(Oid subid);
extern void rose_origin_take(Oid subid);
extern void rose_origin_let_go(void);
extern void rose_origin_commit(XLogRecPtr lsn, TimestampTz time);

/* An epoch in flight (rose_flight.c). */
typedef struct RoseSpillerArgs
{
	Oid			dbid;
	Oid			subid;
	uint64		epoch;
} RoseSpillerArgs;

/* beside: at once by a process of its own; may_be_beside: or by one when a table is locked. */
extern void rose_flight_begin(uint64 epoch, XLogRecPtr lsn, bool beside, bool may_be_beside);
extern bool rose_flight_poll(void); /* true: none is in flight any more */
extern bool rose_flight_wait(void); /* true: it took a while */
extern void rose_flight_finish_left(void);	/* by the worker's predecessor */
extern bool rose_flight_is_left(void);	/* one is in flight, and nobody writes it */

/*
 * is_held_up: somebody has a table locked whose rows it has to write.  wait_for_writer: until it has landed; false: it is held up.
 */
extern bool rose_flight_is_held_up(void);
extern bool rose_flight_wait_for_writer(void);

/* What backends ask for, between messages (rose_repl_serve.c).  True: the worker is to end, and nothing is applied that is not durable. */
extern bool rose_repl_serve_requests(void);

/* For whoever writes an epoch, between two attempts to lock a relation: wait a little.  InvalidOid: it has been locked.  False: another process is to go on. */
extern bool rose_flight_wait_for_lock(Oid relid);

/*
 * Tables that somebody has locked (rose_repl_locks.c).
 *
 * lock_table: for a batch; the upstream hears from us meanwhile, and requests are served, for which the worker may have
 * to end.  take_up: for the next one.  waits_for_us: does a process wait for a lock of this one, or for somebody who
 * does?  request_is_hopeless: do those who serve a request of this process?  held_up_by: the relation that the subscription's
 * processes wait for, or InvalidOid.
 */
extern void rose_repl_lock_table(Oid relid, LOCKMODE mode);
extern bool rose_repl_lock_try(Oid relid, LOCKMODE mode, int ms);	/* in its queue for so long at most; 0: not at all */
extern void rose_repl_lock_note_waiting(Oid relid); /* is waited for; InvalidOid: none is */
extern void rose_repl_lock_await_rows(void);	/* once, in a worker: batches wait so for rows that others hold */
extern void rose_repl_lock_take_up(void);
extern Oid	rose_repl_held_up_by(Oid subid, bool *for_epoch);
extern bool rose_repl_waits_for_us(int pid);
extern bool rose_repl_request_is_hopeless(Oid subid);

/* ---------------------------------------------------------------------
 * Tables' errors (rose_table_error.c).
 */

/*
 * The table whose definition or data the error comes from, or invalid.  REQUIRES: nothing
 * was undone yet, as for rose_table_error_stops.
 */
extern Oid	rose_table_error_at_fault(int sqlerrcode);

/* An error of a table stops the stream, and all that comes before it is durable. */
extern bool rose_table_error_stops(void);

/* The transaction has been aborted; from here on, what changes may be a reason to try again. */
extern void rose_table_error_undone(void);

/* For the subscription's last error: where it stops, why, and what to do. */
extern char *rose_table_error_explain(const char *why);

/*
 * What becomes of it.  REQUIRES: no transaction.
 *
 * pause: the table's row says what happened.
 * come_back: the next worker makes durable what comes before the transaction.
 * stop: the table's row says what happened, and the subscription is blocked for it.  False: it has been changed meanwhile, so the next
 * worker is to see.
 */
extern void rose_table_error_pause(Oid relid, const char *message, const char *error_code);
extern void rose_table_error_come_back(void);
extern bool rose_table_error_stop(Oid relid, const char *message, const char *error_code);

/* A batch is about to commit: what has failed in it before is well. */
extern void rose_table_error_end_with_batch(void);

/* Until there is a reason to try again. */
extern void rose_table_error_wait(void);

/* Before the stream begins: what earlier workers and backends have left in rose.subscription_rel. */
extern void rose_table_error_take_up(void);

/* Between batches: what has failed before is behind us; what is kept for paused tables has become too much. */
extern void rose_table_error_look(void);

/* The upstream has discarded what comes before its slot's position.  REQUIRES: a transaction. */
extern void rose_table_error_lose(XLogRecPtr lsn, const char *why);

/* The table could not be copied: its row says so, if it still says that it is being copied.  REQUIRES: no transaction. */
extern void rose_table_error_record_copy(Oid relid, const char *message, int sqlerrcode);

/* May an error of this class pass by itself? */
extern bool rose_table_error_may_pass(int sqlerrcode);

/*
 * Standing still for a backend that compares the tables (rose_verify_hold.c): between two upstream transactions, lsn being
 * where the next one commits, or where the stream is.  stand: until the backend lets it go, or for too long.  REQUIRES:
 * it is due, and no batch is open.
 */
extern bool rose_verify_hold_is_due(const RoseReplSubShared *shared, XLogRecPtr lsn);
extern void rose_verify_hold_stand(RoseReplSubShared *shared, void (*keep_alive) (void));

/*
 * The backend's side (rose_verify_position.c).  One at a time: begin waits for its turn, and returns when the worker stands
 * still; it must be followed by end, whatever happens.  go: the worker goes on to lsn; wait: until it stands still there.
 * False: it did not stand still any more, or has ended.  end: true if it has stood still there until now; *stood_us: for how
 * long in all.
 */
extern void rose_verify_position_begin(const RoseSubscription *sub, TimestampTz deadline);
extern bool rose_verify_position_go(const RoseSubscription *sub, XLogRecPtr lsn);
extern bool rose_verify_position_wait(const RoseSubscription *sub, TimestampTz deadline);
extern bool rose_verify_position_end(Oid subid, int64 *stood_us);

/* Sleep for a little; error if the subscription cannot do what is waited for ("to ..."), or after the deadline.  why: said then, or NULL. */
extern void rose_verify_position_nap(const RoseSubscription *sub, TimestampTz deadline, const char *what, const char *why);

/* Transactions beside batches (rose_repl_local.c). */
extern void rose_repl_local_begin(void);
extern void rose_repl_local_commit(void);

/* The stream (rose_stream.c): until the subscription changes or is to be drained. */
extern void rose_stream_run(void);

/* After an error: the upstream hears no more of us. */
extern void rose_stream_give_up(void);

/* A connection beside it, for queries.  REQUIRES: a transaction. */
extern struct WalReceiverConn *rose_stream_side_connection(void);

/* Entry points of background workers. */
extern PGDLLEXPORT void rose_repl_launcher_main(Datum arg);
extern PGDLLEXPORT void rose_repl_starter_main(Datum arg);
extern PGDLLEXPORT void rose_repl_worker_main(Datum arg);
extern PGDLLEXPORT void rose_repl_spiller_main(Datum arg);
extern PGDLLEXPORT void rose_repl_copier_main(Datum arg);

/* Connected, with the settings that apply needs (rose_repl_worker.c). */
extern void rose_repl_set_up_process(Oid dbid);

/*
 * Error if the owner may not have subscriptions (any more); or, for another worker to begin at once, if what he was when this one
 * began has given it more than he may do now.  REQUIRES: a transaction.
 */
extern void rose_repl_check_owner(void);

/* That, if roles have changed since the last look.  REQUIRES: no transaction. */
extern void rose_repl_look_at_owner(void);

/*
 * From here on the process runs as the owner, and rose_apply.owner_doubtful says whether to look at him again.  copier: without
 * a look at first.  REQUIRES: no transaction.
 */
extern void rose_repl_become_owner(void);
extern void rose_repl_become_copier(void);

/* Everything that the error says. */
extern char *rose_repl_form_message(const ErrorData *edata);

/* Read it into rose_apply.sub; false: it is gone. */
extern bool rose_repl_load_subscription(Oid subid);

#endif							/* ROSE_REPL_INTERNAL_H */
