/*-------------------------------------------------------------------------
 *
 * rose_tableam.h
 *	  The table access method's callbacks, by concept.
 *
 * Their contracts are those of TableAmRoutine (access/tableam.h).  Only the
 * last section is for other folders.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TABLEAM_H
#define ROSE_TABLEAM_H

#include "postgres.h"

#include "access/tableam.h"
#include "catalog/pg_index.h"

#include "compat/rose_compat_am.h"
#include "lsm/read/rose_arrival.h"
#include "indexam/rose_index_fetch.h"

typedef struct RoseSlices RoseSlices;

/* A scan of the table; scan and slices are made by the kinds of scan that need them. */
typedef struct RoseTableScan
{
	TableScanDescData base;
	RoseTree   *tree;
	bool		own_table;		/* table was made for this scan */
	MemoryContext context;		/* where scan and slices are made */
	RoseScan   *scan;
	RoseStretch *stretch;		/* of scan or arrival, if rows may be taken from it; or NULL */
	bool		any_order;		/* who asks takes rows in whatever order, and forward */
	RoseArrival *arrival;		/* instead of scan, at first; or NULL */
	uint64		left_at;		/* it has given out what has smaller numbers; 0: nothing */
	RoseSlices *slices;			/* ANALYZE and TABLESAMPLE */
	bool		asked;			/* parallel scan: tried to be the one who scans ... */
	bool		granted;		/* ... and is */
} RoseTableScan;

/* --- the access method (rose_tableam.c) --- */
extern void rose_tableam_register(void);	/* for rose_relation_is_rose; _PG_init */

/* --- reading (rose_tableam_scan.c) --- */

/*
 * The snapshot of the query that is being run, if that only reads and never turns: whoever
 * begins a sequential scan with it takes rows in any order.  Or NULL.
 */
extern Snapshot rose_scan_any_order;

/* Are rows of these descriptors stored alike? */
extern bool rose_scan_same_layout(TupleDesc a, TupleDesc b);
extern TableScanDesc rose_scan_begin_callback(Relation rel, Snapshot snapshot, int nkeys,
											  struct ScanKeyData *keys,
											  ParallelTableScanDesc pscan, uint32 flags);
extern void rose_scan_end_callback(TableScanDesc sscan);
extern void rose_scan_rescan(TableScanDesc sscan, struct ScanKeyData *keys, bool set_params,
							 bool allow_strat, bool allow_sync, bool allow_pagemode);
extern bool rose_scan_getnextslot(TableScanDesc sscan, ScanDirection direction,
								  TupleTableSlot *slot);
extern Size rose_parallelscan_estimate(Relation rel);
extern Size rose_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan);
extern void rose_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan);

extern IndexFetchTableData *rose_index_fetch_begin(Relation rel);
extern void rose_index_fetch_reset(IndexFetchTableData *data);
extern void rose_index_fetch_end(IndexFetchTableData *data);
extern bool rose_index_fetch_tuple(IndexFetchTableData *data, ItemPointer tid,
								   Snapshot snapshot, TupleTableSlot *slot,
								   bool *call_again, bool *all_dead);

extern bool rose_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
								   TupleTableSlot *slot);
extern bool rose_tid_valid(TableScanDesc sscan, ItemPointer tid);
extern void rose_get_latest_tid(TableScanDesc sscan, ItemPointer tid);
extern bool rose_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot);
extern TransactionId rose_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate);

/* --- sampling (rose_tableam_sample.c) --- */
extern bool rose_analyze_next_block(TableScanDesc sscan, ROSE_ANALYZE_BLOCK_ARGS);
extern bool rose_analyze_next_tuple(TableScanDesc sscan, TransactionId oldest_xmin,
									double *liverows, double *deadrows,
									TupleTableSlot *slot);
extern bool rose_sample_next_block(TableScanDesc sscan, struct SampleScanState *state);
extern bool rose_sample_next_tuple(TableScanDesc sscan, struct SampleScanState *state,
								   TupleTableSlot *slot);
extern void rose_slices_free(RoseSlices *slices);

/* --- rewriting (rose_tableam_ddl.c) --- */

/*
 * Is all that a subscription has written to it covered by an epoch?  Of tables that none feeds: yes.  True for as long as
 * the caller's lock keeps writers out.
 */
extern bool rose_rows_are_durable(Relation rel);

/* The hint of commands that are refused because they are not. */
#define ROSE_SPILL_FIRST \
	"Call rose.spill() for the table first. If changes keep coming, disable the subscription with rose.alter_subscription(..., enabled => false) meanwhile."
extern void rose_check_rewrite(Relation old);	/* error if its rows must not go into a new file now */

/* --- writing (rose_tableam_modify.c) --- */
extern void rose_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
							  int options, struct BulkInsertStateData *bistate);
extern void rose_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
										  int options, struct BulkInsertStateData *bistate,
										  uint32 token);
extern void rose_tuple_complete_speculative(Relation rel, TupleTableSlot *slot,
											uint32 token, bool succeeded);
extern void rose_multi_insert(Relation rel, TupleTableSlot **slots, int nslots,
							  CommandId cid, int options,
							  struct BulkInsertStateData *bistate);
extern TM_Result rose_tuple_delete(Relation rel, ItemPointer tid, CommandId cid,
								   Snapshot snapshot, Snapshot crosscheck, bool wait,
								   TM_FailureData *tmfd, bool changing_part);
extern TM_Result rose_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
								   CommandId cid, Snapshot snapshot, Snapshot crosscheck,
								   bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
								   RoseUpdateIndexes *update_indexes);
extern TM_Result rose_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
								 TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
								 LockWaitPolicy wait_policy, uint8 flags,
								 TM_FailureData *tmfd);

/* --- files and maintenance (rose_tableam_ddl.c, rose_tableam_vacuum.c) --- */
extern void rose_set_new_file_callback(Relation rel, const RelFileLocator *locator,
									   char persistence, TransactionId *freeze_xid,
									   MultiXactId *minmulti);
extern void rose_nontransactional_truncate(Relation rel);
extern void rose_finish_bulk_insert(Relation rel, int options);
extern void rose_copy_data(Relation rel, const RelFileLocator *locator);
extern void rose_copy_for_cluster(Relation old_table, Relation new_table, Relation index,
								  bool use_sort, TransactionId oldest_xmin,
								  TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
								  double *num_tuples, double *tups_vacuumed,
								  double *tups_recently_dead);
extern bool rose_needs_toast_table(Relation rel);
extern Oid	rose_toast_am(Relation rel);
extern void rose_vacuum(Relation rel, struct VacuumParams *params,
						BufferAccessStrategy bstrategy);
extern void rose_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
							   double *tuples, double *allvisfrac);

/* --- row types in keys (rose_row_types.c) --- */

/* Refuse ALTER TABLE and ALTER TYPE that change the columns of such a type. */
struct AlterTableStmt;
extern void rose_row_types_check_altered(const struct AlterTableStmt *stmt);

/* --- the key (rose_rekey.c) --- */
extern double rose_index_build_range_scan(Relation rel, Relation index,
										  struct IndexInfo *info, bool allow_sync,
										  bool anyvisible, bool progress,
										  BlockNumber start_blockno, BlockNumber numblocks,
										  IndexBuildCallback callback, void *callback_state,
										  TableScanDesc scan);

/* --- builds of secondary indexes (rose_index_ddl.c) --- */

/* Returns the number of rows. */
extern double rose_index_ddl_build(Relation rel, Relation index, struct IndexInfo *info);
extern void rose_index_validate_scan(Relation rel, Relation index, struct IndexInfo *info,
									 Snapshot snapshot, struct ValidateIndexState *state);

/*
 * Is it what REINDEX CONCURRENTLY, the command at hand, puts in the place of the primary key's
 * index?  It is not that yet, but as virtual.
 */
extern bool rose_index_ddl_is_copied_key(Oid indexid);

/* Another command begins. */
extern void rose_index_ddl_forget_copies(void);

/* Key that the next file of this table gets, instead of that of its present file. */
extern void rose_next_file_set_key(Oid relid, int nkeys, const RoseKeyColumnDisk *keys);
extern void rose_next_file_forget_key(void);

/* ---------------------------------------------------------------------
 * For the layers above.
 */

/* Estimated number of rows: no I/O beyond the metapage. */
extern double rose_table_estimate_rows(RoseTree *tree);

/* --- secondary indexes (rose_index_ddl.c) --- */
extern void rose_index_ddl_define_settings(void);	/* rose.secondary_indexes; _PG_init */

/*
 * Raise the error for a new index that there may not be: by the setting, or by this access method.
 * internal: core makes it by itself, as it does when it has dropped it to make it anew.
 */
extern void rose_index_ddl_check_created(Relation rel, Relation index, bool internal);

/*
 * Raise the error for an index that cannot be built beside writers, before it is known to
 * others.  pg_index: its row there; copied: by REINDEX CONCURRENTLY.
 */
extern void rose_index_ddl_check_beside(Relation rel, Relation index, HeapTuple pg_index,
										bool copied);

/* Rows of the table are sorted anew by REINDEX, not CONCURRENTLY: an error if that is needed. */
extern void rose_index_ddl_check_order(Relation rel);

/* An index was altered: core would copy its file to another tablespace as it is, without what is in memory. */
extern void rose_index_ddl_check_moved(Oid indexid);

/* Around each utility statement; leave_command gets what enter_command has returned. */
extern int	rose_index_ddl_enter_command(Node *stmt);
extern void rose_index_ddl_leave_command(int outer);

/* The primary key index of a rose table is being dropped. */
extern void rose_rekey_note_dropped(Oid relid);

/*
 * Around each utility statement; leave_notes gets what enter_notes has returned.  At the end
 * tables that lost their primary key get keyed by row ids (unless they have the key again,
 * or are gone), and those that took an index for it by that.
 */
extern int	rose_rekey_enter_notes(void);
extern void rose_rekey_begin_command(Node *stmt);
extern void rose_rekey_end_command(void);
extern void rose_rekey_leave_notes(int outer);

/*
 * Has the table another key than this index of it knows, up to the end of the command?  That
 * is the primary key's if it was another index before, or any other one of a table with a new key.
 */
extern bool rose_rekey_is_pending(Oid relid, Oid indexid, bool primary);
extern void rose_rekey_define_callbacks(void);

/* --- the table's row in pg_class (rose_class_row.c) --- */

/* Wait for who is changing it, and keep others from it to the end of the transaction. */
extern void rose_class_row_lock(Relation rel);
extern void rose_class_row_define_callbacks(void);

/*
 * While on, rose tables ask for a TOAST table as heap tables do: they are about
 * to become heap tables.  Returns the old value.
 */
extern bool rose_toast_wanted(bool on);

#endif							/* ROSE_TABLEAM_H */
