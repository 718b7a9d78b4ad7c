/*-------------------------------------------------------------------------
 *
 * rose_registry_entry.c
 *	  The entry of a tree, as it is when it is made.
 *
 * Of those in shared memory (rose_registry.c), and of temporary tables' (rose_local_trees.c).  No
 * I/O: recovery fills in what the file has.  Nobody else knows the entry yet, so there are
 * no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "lsm/tree/rose_registry.h"

void
rose_registry_entry_init(RoseTreeShared *shared, RelFileLocator name, Oid relid,
						 int claims_tranche)
{
	shared->locator = name;
	pg_atomic_init_u32(&shared->relid, relid);
	pg_atomic_init_u32(&shared->in_use, 1);
	pg_atomic_init_u64(&shared->maintained_version, 0);
	pg_atomic_init_u64(&shared->index_generation, 0);
	pg_atomic_init_u64(&shared->fed_changes, 0);
	shared->recovered = false;
	pg_atomic_init_u64(&shared->replay.worker, 0);
	shared->replay.begun = false;
	shared->fed_by = shared->logged_by = InvalidOid;
	shared->copied_by = 0;
	/* nobody knows who has written to the file, but all have begun */
	shared->newest_writer = U64FromFullTransactionId(ReadNextFullTransactionId());
	rose_c0_init(&shared->c0, 1);
	rose_store_shared_init(&shared->store, name);
	pg_atomic_init_u64(&shared->bloom_probes, 0);
	pg_atomic_init_u64(&shared->bloom_passes, 0);
	pg_atomic_init_u64(&shared->merges, 0);
	pg_atomic_init_u64(&shared->spills, 0);
	pg_atomic_init_u64(&shared->sift_rows, 0);
	pg_atomic_init_u64(&shared->sift_vain, 0);
	pg_atomic_init_u64(&shared->sift_after, 0);
	pg_atomic_init_u64(&shared->sift_horizon, 0);
	pg_atomic_init_u64(&shared->sift_versions, 0);
	rose_pause_init(shared->pauses);
	rose_merge_stats_init(&shared->merge_stats);
	rose_claims_init(&shared->claims, claims_tranche);
}
