/*-------------------------------------------------------------------------
 *
 * rose.c
 *	  The library's entry point: wiring, and nothing else.
 *
 * Each module brings its settings, its shared memory and its callbacks; here
 * they are listed in the order of the layers.
 *
 * Runs once in each process that loads the library; takes no locks.  What a module does
 * with its settings is its own affair.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"

#include "util/rose_preload.h"
#include "util/rose_release.h"
#include "memtable/rose_readers.h"
#include "store/rose_pin.h"
#include "store/rose_store.h"
#include "lsm/component/rose_component.h"
#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_serial.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_settle.h"
#include "lsm/merge/rose_sift.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/read/rose_interval.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_partition.h"
#include "lsm/write/rose_sift_rows.h"
#include "lsm/write/rose_write_stats.h"
#include "lsm/rose_transaction.h"
#include "indexam/rose_indexam.h"
#include "indexam/rose_or.h"
#include "repl/rose_realtime.h"
#include "repl/rose_repl.h"
#include "tableam/rose_tableam.h"
#include "worker/rose_worker.h"
#include "scan/rose_node.h"
#include "rose_hooks.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/* Shared memory, by module.  init runs under AddinShmemInitLock. */
static const struct
{
	Size		(*size) (void);
	void		(*init) (bool found);
}			shared_modules[] =

{
	{rose_arena_shmem_size, rose_arena_shmem_init},
	{rose_readers_shmem_size, rose_readers_shmem_init},
	{rose_pin_shmem_size, rose_pin_shmem_init},
	{rose_declared_shmem_size, rose_declared_shmem_init},
	{rose_serial_shmem_size, rose_serial_shmem_init},
	{rose_tid_shmem_size, rose_tid_shmem_init},
	{rose_registry_shmem_size, rose_registry_shmem_init},
	{rose_partition_shmem_size, rose_partition_shmem_init},
	{rose_write_stats_shmem_size, rose_write_stats_shmem_init},
	{rose_worker_shmem_size, rose_worker_shmem_init},
	{rose_repl_shmem_size, rose_repl_shmem_init},
};

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
rose_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	for (int i = 0; i < lengthof(shared_modules); i++)
		RequestAddinShmemSpace(shared_modules[i].size());
	/* the index in which ShmemInitStruct would find this says whether it is new */
	RequestAddinShmemSpace(sizeof(bool));
}

static void
rose_shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	(void) ShmemInitStruct("rose", sizeof(bool), &found);
	for (int i = 0; i < lengthof(shared_modules); i++)
		shared_modules[i].init(found);
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Loaded later than at server start (LOAD, session_preload_libraries, a call of
 * a function), the library does nothing; see util/rose_preload.c.
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	rose_set_preloaded();

	rose_release_define_settings();
	rose_arena_define_settings();
	rose_store_define_settings();
	rose_registry_define_settings();
	rose_spill_define_settings();
	rose_component_define_settings();
	rose_merge_define_settings();
	rose_sift_define_settings();
	rose_interval_define_settings();
	rose_pause_define_settings();
	rose_index_ddl_define_settings();
	rose_worker_define_settings();
	rose_repl_define_settings();
	rose_realtime_define_settings();
	rose_node_define_settings();
	MarkGUCPrefixReserved("rose");

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = rose_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = rose_shmem_startup;

	rose_tableam_register();
	rose_declared_define_callbacks();
	rose_serial_define_callbacks();
	rose_tree_define_callbacks();
	rose_settle_register();
	rose_sift_rows_register();
	rose_transaction_define_callbacks();
	rose_rekey_define_callbacks();
	rose_class_row_define_callbacks();
	rose_primary_key_define_callbacks();
	rose_or_register();
	rose_node_register();
	rose_index_eval_define_callbacks();
	rose_hooks_install();
	rose_worker_register();
	rose_repl_register();
}
