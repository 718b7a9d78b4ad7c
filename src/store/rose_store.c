/*-------------------------------------------------------------------------
 *
 * rose_store.c
 *	  Shared state of a table's file, and the store's settings.
 *
 * Made once for a file, with its entry in the registry, and filled in from the metapage
 * when somebody attaches; who may do that is for the registry to see to. alloc_lock is
 * initialised here and taken elsewhere.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/guc.h"

#include "store/rose_manifest.h"
#include "store/rose_metapage.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

bool		rose_wal_components = true;

void
rose_store_define_settings(void)
{
	DefineCustomBoolVariable("rose.wal_components",
							 "Writes the pages of components to WAL.",
							 "If off, they are forced to disk before they are used. Standbys "
							 "and online backups then lack them, and reading them there is an error.",
							 &rose_wal_components,
							 true,
							 PGC_SIGHUP,
							 0,
							 NULL, NULL, NULL);
}

void
rose_store_shared_init(RoseStoreShared *store, RelFileLocator locator)
{
	memset(store, 0, sizeof(RoseStoreShared));
	store->locator = locator;
	rose_options_init(&store->options);
	LWLockInitialize(&store->alloc_lock, rose_pin_lock_tranche());
	pg_atomic_init_u64(&store->manifest_version, 0);
	pg_atomic_init_u64(&store->logged_lsn, 0);
	pg_atomic_init_u32(&store->nruns, 0);
	pg_atomic_init_u32(&store->ntails, 0);
	for (int i = 0; i < lengthof(store->level_bytes); i++)
	{
		pg_atomic_init_u64(&store->level_bytes[i], 0);
		pg_atomic_init_u64(&store->level_blocks[i], 0);
	}
	store->tail_block = InvalidBlockNumber;
	rose_region_owner_note_freed(store);
}

/*
 * What WAL before this moment holds about the file is not known, so both LSNs
 * start here: components go without WAL after the next checkpoint only.
 * (After crash recovery they could at once; after a promotion they must not.)
 */
void
rose_store_attach(Relation rel, RoseStoreShared *store)
{
	RoseManifest manifest;
	RoseMetaInfo info;
	XLogRecPtr	now = RecoveryInProgress() ? InvalidXLogRecPtr : GetXLogInsertRecPtr();

	rose_manifest_read(rel, &manifest);
	rose_meta_read(rel, &info);

	LWLockAcquire(&store->alloc_lock, LW_EXCLUSIVE);
	pg_atomic_write_u64(&store->manifest_version, manifest.version);
	rose_manifest_note_levels(store, manifest.ncomponents, manifest.components);
	rose_store_note_logged(store, now);
	store->truncate_lsn = now;
	LWLockRelease(&store->alloc_lock);

	pg_atomic_write_u32(&store->ntails, info.ntails);
	if (info.ntails > 0)
		store->tail_last = info.tails[info.ntails - 1].id;
}

void
rose_store_note_logged(RoseStoreShared *store, XLogRecPtr lsn)
{
	uint64		old = pg_atomic_read_u64(&store->logged_lsn);

	while (old < lsn)
	{
		if (pg_atomic_compare_exchange_u64(&store->logged_lsn, &old, lsn))
			break;
	}
}
