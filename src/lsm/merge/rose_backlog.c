/*-------------------------------------------------------------------------
 *
 * rose_backlog.c
 *	  What waits for merges, and how far those under way are.
 *
 * For whoever slows writers down, and for views: figures of a table's shared entry, read
 * without locks or I/O, so that those of one moment need not fit together.  What merges
 * write there is rose_merge_stats.h's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/procarray.h"

#include "memtable/rose_local_arena.h"
#include "memtable/rose_pressure.h"
#include "store/rose_file_name.h"
#include "lsm/merge/rose_backlog.h"

uint64
rose_pick_c0_size(bool local)
{
	Size		total = local ? rose_local_arena_total_bytes() : rose_arena_total_bytes();

	return Max(rose_pressure_part(total, ROSE_SHARE_C0), 1);
}

void
rose_merge_sizes(RoseTreeShared *shared, RosePickSizes *sizes)
{
	sizes->c0_size = rose_pick_c0_size(rose_file_is_local(shared->locator));
	sizes->nruns = pg_atomic_read_u32(&shared->store.nruns);
	rose_store_levels(&shared->store, sizes->bytes, sizes->blocks);
}

/* A process that died before it could say that it ended does not count. */
void
rose_merge_backlog(RoseTreeShared *shared, RoseMergeBacklog *backlog)
{
	memset(backlog, 0, sizeof(*backlog));
	backlog->c0_size = rose_pick_c0_size(rose_file_is_local(shared->locator));
	backlog->nruns = (int) pg_atomic_read_u32(&shared->store.nruns);
	backlog->run_bytes = pg_atomic_read_u64(&shared->store.level_bytes[0]);
	backlog->c1_bytes = pg_atomic_read_u64(&shared->store.level_bytes[1]);
	backlog->c2_bytes = pg_atomic_read_u64(&shared->store.level_bytes[2]);
	for (int i = 0; i < ROSE_TREE_MERGES; i++)
	{
		RoseMergeSlotShared *slot = &shared->merge_stats.slots[i];
		int			pid = (int) pg_atomic_read_u32(&slot->pid);
		int			into;

		pg_read_barrier();
		if (pid == 0 || BackendPidGetProc(pid) == NULL)
			continue;
		into = pg_atomic_read_u32(&slot->level) == 2;
		backlog->done[into] = pg_atomic_read_u64(&slot->done);
		backlog->total[into] = pg_atomic_read_u64(&slot->total);
		backlog->pid[into] = pid;
	}
}
