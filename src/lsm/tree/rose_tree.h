/*-------------------------------------------------------------------------
 *
 * rose_tree.h
 *	  The open tree: registry of shared per-table state, backend-local handle
 *	  and recovery at first touch.
 *
 * The registry is a shared hash keyed by the file's locator.  The first backend
 * that touches a table after a start of the server makes its entry and recovers
 * it under ROSE_LOCK_RECOVER: replays the tail log into C0 and promotes or discards
 * pending runs.
 *
 * The entries of temporary tables are not there, but in their session's own memory
 * (rose_local_trees.c).
 *
 * An entry may go when nobody pins the table and there is nothing in it that could not be
 * made anew.  So a pointer to an entry is good while its transaction holds the pin that
 * rose_tree_open took; later the memory may be gone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TREE_H
#define ROSE_TREE_H

#include "postgres.h"

#include "lib/ilist.h"

#include "util/rose_index_def.h"
#include "memtable/rose_c0.h"
#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "store/rose_tail_replay.h"
#include "lsm/component/rose_component.h"
#include "lsm/tree/rose_claims.h"
#include "lsm/tree/rose_merge_stats.h"
#include "lsm/tree/rose_pause.h"

/* How far the tail log has come to C0; but for worker: ROSE_LOCK_RECOVER, and to be the worker. */
typedef struct RoseReplayShared
{
	pg_atomic_uint64 worker;	/* who recovers the table, as rose_recover.c packs it; 0 = nobody; no lock */
	bool		begun;			/* C0 has what is before ... */
	RoseTailPosition position;	/* ... this */
	uint64		max_seq;		/* that it has, left out or not */
} RoseReplayShared;

typedef struct RoseTreeShared
{
	RelFileLocator locator;		/* constant: the file's name (rose_file_name.h) */
	uint64		incarnation;	/* constant; never reused */
	int			place;			/* constant */
	int			next;			/* place of the next one in its bucket; registry lock */
	pg_atomic_uint32 in_use;	/* cleared now and then, set by the next transaction that uses
								 * it; no lock */
	pg_atomic_uint64 maintained_version;	/* store.manifest_version as of which a worker found
											 * nothing to do or to wait for; no lock */
	pg_atomic_uint32 relid;		/* relation that opened it last (a rewrite gives
								 * a file another owner); no lock */
	bool		recovered;		/* set once, under ROSE_LOCK_RECOVER; read without */
	RoseReplayShared replay;	/* until recovered */
	uint64		hash_functions; /* by which partitions of keys are found; set with recovered */
	bool		other_order;	/* components are sorted by other versions of collations than the server
								 * has now, and the tail log is not read; set with recovered,
								 * cleared by REINDEX under ROSE_LOCK_RECOVER */
	Oid			fed_by;			/* subscription feeding it by epochs, 0 = none; writing section of c0 */
	Oid			logged_by;		/* ... or through the tail log; writing section of c0 */
	uint64		copied_by;		/* as the metapage has it (rose_copied.h); set with recovered, or by who has the table
								 * to himself */
	uint64		newest_writer;	/* full id of the newest transaction that may have written or locked rows, but
								 * for those that write blindly; writing section of c0 */
	pg_atomic_uint64 index_generation;	/* of a table: grows when an index begins to be kept up beside
										 * writers; changed in a writing section of c0 */
	pg_atomic_uint64 fed_changes;	/* grows when the metapage has come to say another subscription, and with
									 * that, of an index, whether entries are believed; no lock */
	bool		incomplete;		/* of an index: what is its oldest component comes last (ROSE_INDEX_INCOMPLETE);
								 * set with recovered, cleared when that has come; read before the manifest */
	RoseC0Shared c0;			/* see rose_c0.h */
	RoseStoreShared store;		/* see rose_store.h */
	pg_atomic_uint64 bloom_probes;	/* statistics; no lock */
	pg_atomic_uint64 bloom_passes;
	pg_atomic_uint64 merges;
	pg_atomic_uint64 spills;
	pg_atomic_uint64 sift_rows; /* of an index: rows that had entries when a merge has last looked for those of none
								 * (lsm/merge/rose_sift.h); no lock */
	pg_atomic_uint64 sift_vain; /* entries that there were, 0 = unless it was in vain; no lock */
	pg_atomic_uint64 sift_versions; /* and versions of the table; no lock */
	pg_atomic_uint64 sift_after;	/* a TimestampTz: not before then; no lock */
	pg_atomic_uint64 sift_horizon;	/* a full xid: not before everybody sees what it has committed; no lock */
	RosePauseShared pauses[ROSE_PAUSE_KINDS];	/* atomic */
	RoseMergeStatsShared merge_stats;	/* atomic */
	RoseClaimsShared claims;	/* see rose_claims.h */
} RoseTreeShared;

/* The subscription that writes to it, in whichever way (rose_feed.h); 0 = none. */
static inline Oid
rose_tree_written_by(const RoseTreeShared *shared)
{
	return OidIsValid(shared->fed_by) ? shared->fed_by : shared->logged_by;
}

/*
 * Backend-local handle, cached by locator.  It, its schema and all components it ever
 * gave out stay valid until the end of the top-level transaction, even if the table is
 * altered or merged meanwhile.  No longer: handles that are not used for a while go at
 * the end of some transaction.  What must live longer (a merge) makes its own:
 * rose_schema_copy, rose_component_open.
 */
typedef struct RoseTree
{
	RelFileLocator locator;		/* the file's name, by which it is found (rose_file_name.h) */
	bool		local;			/* of a temporary table, or of an index of one */
	Relation	rel;			/* as of the last rose_tree_open; borrowed */
	RoseTreeShared *shared;
	RoseSchema *schema;
	MemoryContext context;		/* owns it, schema, views and components */

	int			lookup_hits;	/* see lsm/read/rose_hits.h */

	/* private to rose_index_set.c and rose_tree.c */
	bool		unindexed;		/* it has no secondary indexes; false: it may have */
	struct RoseIndexSet *indexes;	/* or NULL: not known; the only chunk of its context that others know */
	uint64		index_generation;	/* of shared, when that was found out */

	/* private to indexam */
	uint64		attached;		/* invalidations as of the last look for indexes that are being dropped */
	uint64		attached_at;	/* rose_tree_relcache_changes() before indexes were last given routines */

	/* private to rose_view.c */
	struct RoseView *view;		/* the newest one; or NULL */
	dlist_head	old_views;		/* that somebody holds, or that were lent */
	MemoryContext retired;		/* what goes at the end of the transaction; or NULL */
	uint64		replaced;		/* grows when something comes there (also for read/rose_lookup_cache.c) */
	uint64		looked_in;		/* transaction that used the manifest */
	uint64		let_go_at;		/* store.manifest_version as of the last rose_write_let_go */
	uint64		kept_in;		/* transaction that keeps all components that it meets (also by rose_tree.c) */

	/* private to rose_tree.c */
	Oid			relid;			/* of rel */
	uint64		incarnation;	/* of shared when it was bound ... */
	pg_atomic_uint64 *life;		/* ... and what is the same as long as it is there */
	uint64		invalidations;	/* relcache invalidations so far ... */
	uint64		schema_stamp;	/* ... and as of the last check of schema */
	bool		of_index;		/* as of that */
	RoseIndexMetaDisk *index_meta;	/* of the file of an index, as of fed_seen; or NULL */
	uint64		fed_seen;		/* shared->fed_changes before the metapage was read */
	uint64		pinned_in;		/* transaction (local count) that holds a pin */
	dlist_node	node;			/* among all handles */
	bool		grown;			/* since it was measured (also by rose_view.c) */
	Size		bytes;			/* that it took then */
} RoseTree;

/* --- shared memory (lsm/tree/rose_registry.c) --- */
extern void rose_registry_define_settings(void);
extern Size rose_registry_shmem_size(void);
extern void rose_registry_shmem_init(bool found);

typedef struct RoseRegistryItem
{
	RelFileLocator locator;
	Oid			relid;			/* may be outdated: check its file */
	uint64		c0_bytes;
	TimestampTz first_write;	/* oldest write in C0; 0 = empty */
	int			spill_interval; /* the table's own, in ms; ROSE_OPTION_UNSET */
	bool		options_stale;	/* nobody has read them since they were changed */
	Oid			fed_by;
	uint64		manifest_version;	/* changes when it is switched */
	uint64		incarnation;	/* of its entry: another one when it was let go of and is in use again */
	uint32		nruns;			/* not merged yet */
	uint64		level_bytes[3]; /* of rows, in runs, C1 and C2 ... */
	uint64		level_blocks[3];	/* ... and blocks */
	uint32		ntails;			/* segments of its tail log */
	bool		other_order;	/* nothing can be done for it before REINDEX */
	TimestampTz paused_until[ROSE_PAUSE_KINDS]; /* 0 = it is not */
} RoseRegistryItem;

/*
 * The tables of a database that are in the registry, up to max of them;
 * returns how many there are.  Figures are hints (read without the tables'
 * locks).
 */
extern int	rose_registry_list(Oid dbid, RoseRegistryItem *items, int max);

/* What the tables of one database together have to be looked after. */
typedef struct RoseRegistryDatabase
{
	Oid			dbid;
	uint64		c0_bytes;		/* of tables that no subscription feeds */
	TimestampTz first_write;	/* oldest write in them; 0 = none */
	TimestampTz first_common_write; /* in those without an interval of their own ... */
	TimestampTz first_large_write;	/* ... and in those of them that have much in C0 */
	TimestampTz due_at;			/* when the first one with an interval of its own is; 0 = none */
	bool		options_stale;	/* of some table that has something in C0 */
	uint32		ntails;			/* most tail log segments that one of them has */
	uint64		activity;		/* changes when tables come or manifests are switched */
} RoseRegistryDatabase;

/*
 * All databases that have tables in the registry, up to max; returns their number.
 * large: bytes of C0 that are much for a table.
 */
extern int	rose_registry_databases(RoseRegistryDatabase *items, int max, uint64 large);

/* The table may do better now: workers do not leave it alone any more. */
extern void rose_registry_end_pauses(RelFileLocator locator);

/* Entries there are, and the shared memory for them. */
extern void rose_registry_memory(int *ntables, Size *nbytes);

/*
 * Let go of entries that were not used since the last time, some at a time: from *place =
 * 0 on, until false.  maintained: only of those that a worker has nothing left to do for.
 * Then memory that was not needed since the last time is given back.  forgotten is
 * called, without lock, for each one, with its part in the activity of the database.
 */
typedef void (*RoseRegistryForgotten) (Oid dbid, uint64 activity);
extern bool rose_registry_forget_idle(int *place, bool maintained, RoseRegistryForgotten forgotten);
extern int	rose_idle_table_timeout;	/* rose.idle_table_timeout, in ms */

/* The file is gone or emptied: free its C0 and forget it.  Raises no error. */
extern void rose_registry_drop(RelFileLocator locator);

/* The table's options were changed: whoever opens it next reads them.  Raises no error. */
extern void rose_registry_note_options(RelFileLocator locator);

/*
 * The database is gone or has moved: the same for all its files.  REQUIRES: nobody is in
 * it, and nobody can come.
 */
extern void rose_registry_drop_database(Oid dbid);

/*
 * Drop entries of this database whose file is gone.  Needed for what a prepared
 * transaction dropped or made: nobody is there to tell when it ends.  Call now and
 * then, connected to the database.  Returns how many.
 */
extern int	rose_registry_sweep(Oid dbid);

/* --- handle (lsm/tree/rose_tree.c) --- */

/*
 * The handle of an open and locked relation; cheap when nothing changed.  Attaches,
 * recovers at first touch, and pins the table's file for the transaction.  Needs a
 * transaction and no LWLock held.  Errors if rose was not preloaded, on a standby, for
 * temporary tables of other sessions, and if the rows are sorted by other versions of collations than the
 * server has.
 */
extern RoseTree *rose_tree_open(Relation rel);

/*
 * A relation by what the entry of its file says, for who would spill it while he is at
 * something else; NULL if others have it locked, it has another file by now, or is gone.
 * Close it with its AccessShareLock.
 */
extern Relation rose_tree_relation_of(Oid relid, RelFileLocator name);

/*
 * Nor is it opened if this session is using it: ALTER TABLE, for one, has changed its columns
 * in the catalog while it reads it.
 */
extern Relation rose_tree_relation_at_rest(Oid relid, RelFileLocator name);

/*
 * The same in whatever order the rows are.  Then (shared->other_order) nothing may be
 * looked for, merged, spilled or written, and C0 is empty, whatever the tail log has.
 */
extern RoseTree *rose_tree_open_any_order(Relation rel);

/* Say that it is in another order. */
extern void rose_tree_report_order(RoseTree *tree, int elevel);

/*
 * All components were found to be in the present order after all: note that, and read the
 * tail log.  REQUIRES: a lock against writers.
 */
extern void rose_tree_note_order(RoseTree *tree);

/*
 * A handle of one's own that reads the file by this descriptor instead of the
 * relation's: ALTER TABLE changes the catalog before it rewrites the rows.
 */
extern RoseTree *rose_tree_open_as(Relation rel, TupleDesc tupdesc, MemoryContext context);
extern void rose_tree_close_as(RoseTree *tree);

/*
 * Of an index: what its file says of its entries, but for flags of a build that is going on
 * (ROSE_INDEX_UNKEPT, ROSE_INDEX_INCOMPLETE), as of now.  Reads the metapage only if it may say something else
 * than before.  Good until the tree is opened or asked again.
 */
extern const RoseIndexMetaDisk *rose_tree_index_meta(RoseTree *tree);

/*
 * Is it known, without reading anything, that this index has a tree?  False: it may have one.
 */
extern bool rose_tree_is_known_index(Relation index);

/*
 * Is this index of a rose table that of the primary key, or the one that REINDEX
 * CONCURRENTLY puts in its place, or has replaced by it?  One becomes the other while
 * statements go on.
 */
extern bool rose_tree_is_key_index(Relation index);

/* The table may have other secondary indexes than this handle knows. */
extern void rose_tree_forget_indexes(RoseTree *tree);

/*
 * The metapage's key or feeding subscription was changed: handles of this
 * process look again at the next open.  Others learn it from the relcache
 * invalidation that goes with such a change.
 */
extern void rose_tree_invalidate(RelFileLocator locator);

/*
 * Files may be dropped from the registry at the end of this transaction or command, where
 * nothing may fail: so have all of it within reach.
 */
extern void rose_registry_reach_all(void);

/* Grows, from 1 on, with each invalidation of any relation: as long as it stays, so does what relcache entries have. */
extern uint64 rose_tree_relcache_changes(void);

extern void rose_tree_define_callbacks(void);	/* relcache, syscache; _PG_init */

/* At the end of a transaction, after its pins: frees what nobody can use any more.  Raises no error. */
extern void rose_tree_end_transaction(void);

/* Some handle may be stale: its file has gone.  Looked for at the end of the transaction. */
extern void rose_tree_note_stale(void);

/*
 * The manifest as of now; good until the end of the transaction.  Components are had from
 * a view (rose_view.h).
 */
extern const RoseManifest *rose_tree_manifest(RoseTree *tree);

/* RoseTreeShared.incomplete.  Who asks for the manifest as well does that afterwards. */
static inline bool
rose_tree_is_incomplete(const RoseTree *tree)
{
	bool		incomplete = *(const volatile bool *) &tree->shared->incomplete;

	pg_read_barrier();
	return incomplete;
}

/* Decide on a PENDING run after a crash: is this epoch of this subscription
 * committed?  Set by the replication layer.  Called in a transaction, no LWLock held. */
typedef bool (*RoseEpochCommittedHook) (Oid subid, uint64 epoch);
extern RoseEpochCommittedHook rose_epoch_committed_hook;

/*
 * A transaction uses a temporary table for the first time.  No worker looks after that, so
 * whoever does it for workers can do it now.  Set by rose_settle.c.
 */
typedef void (*RoseLocalUseHook) (RoseTree *tree);
extern RoseLocalUseHook rose_local_use_hook;

/*
 * Does another process recover this table just now?  Who has others to look after need
 * not wait for it.
 */
extern bool rose_recovery_is_under_way(Relation rel);

/*
 * Heavyweight page locks.  RECOVER comes before the others: it is held while the table is
 * recovered, and nothing can be done with it before.  SPILL and MERGE serialise
 * maintenance of a table.
 */
#define ROSE_LOCK_RECOVER	((BlockNumber) 0xFFFFFFF2)
#define ROSE_LOCK_SPILL		((BlockNumber) 0xFFFFFFF0)
#define ROSE_LOCK_MERGE		((BlockNumber) 0xFFFFFFF1)

#endif							/* ROSE_TREE_H */
