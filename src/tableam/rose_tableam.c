/*-------------------------------------------------------------------------
 *
 * rose_tableam.c
 *	  The table access method: the routine and its handler.
 *
 * The callbacks live in the other files of this folder.  What is not here on
 * purpose: bitmap scans and TID range scans (TIDs name versions for one
 * transaction only, and follow no order).
 *
 * No state and no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "util/rose_preload.h"
#include "lsm/tree/rose_relation.h"
#include "tableam/rose_slot.h"
#include "tableam/rose_tableam.h"

PG_FUNCTION_INFO_V1(rose_tableam_handler);

static const TupleTableSlotOps *
rose_slot_callbacks(Relation rel)
{
	return &rose_slot_ops;
}

static const TableAmRoutine table_routine = {
	.type = T_TableAmRoutine,

	.slot_callbacks = rose_slot_callbacks,

	.scan_begin = rose_scan_begin_callback,
	.scan_end = rose_scan_end_callback,
	.scan_rescan = rose_scan_rescan,
	.scan_getnextslot = rose_scan_getnextslot,

	.parallelscan_estimate = rose_parallelscan_estimate,
	.parallelscan_initialize = rose_parallelscan_initialize,
	.parallelscan_reinitialize = rose_parallelscan_reinitialize,

	.index_fetch_begin = rose_index_fetch_begin,
	.index_fetch_reset = rose_index_fetch_reset,
	.index_fetch_end = rose_index_fetch_end,
	.index_fetch_tuple = rose_index_fetch_tuple,

	.tuple_fetch_row_version = rose_fetch_row_version,
	.tuple_tid_valid = rose_tid_valid,
	.tuple_get_latest_tid = rose_get_latest_tid,
	.tuple_satisfies_snapshot = rose_satisfies_snapshot,
	.index_delete_tuples = rose_index_delete_tuples,

	.tuple_insert = rose_tuple_insert,
	.tuple_insert_speculative = rose_tuple_insert_speculative,
	.tuple_complete_speculative = rose_tuple_complete_speculative,
	.multi_insert = rose_multi_insert,
	.finish_bulk_insert = rose_finish_bulk_insert,
	.tuple_delete = rose_tuple_delete,
	.tuple_update = rose_tuple_update,
	.tuple_lock = rose_tuple_lock,

	.ROSE_SET_NEW_FILE_CALLBACK = rose_set_new_file_callback,
	.relation_nontransactional_truncate = rose_nontransactional_truncate,
	.relation_copy_data = rose_copy_data,
	.relation_copy_for_cluster = rose_copy_for_cluster,
	.relation_vacuum = rose_vacuum,

	.scan_analyze_next_block = rose_analyze_next_block,
	.scan_analyze_next_tuple = rose_analyze_next_tuple,
	.index_build_range_scan = rose_index_build_range_scan,
	.index_validate_scan = rose_index_validate_scan,

	.relation_size = table_block_relation_size,
	.relation_needs_toast_table = rose_needs_toast_table,
	.relation_toast_am = rose_toast_am,

	.relation_estimate_size = rose_estimate_size,

	.scan_sample_next_block = rose_sample_next_block,
	.scan_sample_next_tuple = rose_sample_next_tuple,
};

/* ---- handler ---- */

void
rose_tableam_register(void)
{
	rose_relation_routine = &table_routine;
}

/*
 * Without its shared memory rose could neither read nor write a table, so an
 * open of one fails here, before anything else is touched.
 */
Datum
rose_tableam_handler(PG_FUNCTION_ARGS)
{
	rose_require_preload();
	PG_RETURN_POINTER(&table_routine);
}
