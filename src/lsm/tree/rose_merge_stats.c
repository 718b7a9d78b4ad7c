/*-------------------------------------------------------------------------
 *
 * rose_merge_stats.c
 *	  Progress and counters of merges in shared memory.  See
 *	  rose_merge_stats.h.
 *
 * Atomic counters, written by the process that merges or spills, read by anybody without
 * locks: figures of one moment need not fit together.  They are about this server's life;
 * after a start they begin anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/procarray.h"

#include "lsm/tree/rose_merge_stats.h"

void
rose_merge_stats_init(RoseMergeStatsShared *stats)
{
	for (int i = 0; i < ROSE_TREE_MERGES; i++)
	{
		pg_atomic_init_u32(&stats->slots[i].pid, 0);
		pg_atomic_init_u32(&stats->slots[i].level, 0);
		pg_atomic_init_u64(&stats->slots[i].helped, 0);
		pg_atomic_init_u64(&stats->slots[i].done, 0);
		pg_atomic_init_u64(&stats->slots[i].total, 0);
	}
	pg_atomic_init_u64(&stats->came_raw_bytes, 0);
	pg_atomic_init_u64(&stats->came_bytes, 0);
	pg_atomic_init_u64(&stats->read_bytes, 0);
	pg_atomic_init_u64(&stats->written_bytes, 0);
	pg_atomic_init_u64(&stats->missing_rows, 0);
}

void
rose_merge_stats_came(RoseMergeStatsShared *stats, const RoseComponentEntryDisk *entry)
{
	pg_atomic_fetch_add_u64(&stats->came_raw_bytes, entry->raw_bytes);
	pg_atomic_fetch_add_u64(&stats->came_bytes, entry->nblocks * BLCKSZ);
}

void
rose_merge_stats_merged(RoseMergeStatsShared *stats, uint64 blocks_read, uint64 blocks_written)
{
	pg_atomic_fetch_add_u64(&stats->read_bytes, blocks_read * BLCKSZ);
	pg_atomic_fetch_add_u64(&stats->written_bytes, blocks_written * BLCKSZ);
}

void
rose_merge_stats_missing(RoseMergeStatsShared *stats, uint64 n)
{
	if (n > 0)
		pg_atomic_fetch_add_u64(&stats->missing_rows, n);
}

/* Free, or left by a process that is gone: then it is this one's. */
static bool
take_slot(RoseMergeSlotShared *slot)
{
	uint32		pid = pg_atomic_read_u32(&slot->pid);

	return (pid == 0 || BackendPidGetProc((int) pid) == NULL) &&
		pg_atomic_compare_exchange_u32(&slot->pid, &pid, (uint32) MyProcPid);
}

/* Who looks meanwhile may take the figures of the one before for this one's. */
int
rose_merge_stats_begin(RoseMergeStatsShared *stats, int level)
{
	for (int i = 0; i < ROSE_TREE_MERGES; i++)
	{
		RoseMergeSlotShared *slot = &stats->slots[i];

		if (!take_slot(slot))
			continue;
		pg_atomic_write_u32(&slot->level, level);
		pg_atomic_write_u64(&slot->helped, 0);
		pg_atomic_write_u64(&slot->done, 0);
		pg_atomic_write_u64(&slot->total, 0);
		return i;
	}
	return -1;
}

void
rose_merge_stats_helped(RoseMergeStatsShared *stats, uint64 n)
{
	for (int i = 0; i < ROSE_TREE_MERGES; i++)
	{
		RoseMergeSlotShared *slot = &stats->slots[i];

		if (pg_atomic_read_u32(&slot->pid) != 0 && pg_atomic_read_u32(&slot->level) == 2)
			pg_atomic_fetch_add_u64(&slot->helped, n);
	}
}

void
rose_merge_stats_progress(RoseMergeStatsShared *stats, int slot, uint64 done, uint64 total)
{
	if (slot < 0)
		return;
	pg_atomic_write_u64(&stats->slots[slot].done,
						done + pg_atomic_read_u64(&stats->slots[slot].helped));
	pg_atomic_write_u64(&stats->slots[slot].total, total);
}

void
rose_merge_stats_end(RoseMergeStatsShared *stats, int slot)
{
	if (slot >= 0)
		pg_atomic_write_u32(&stats->slots[slot].pid, 0);
}
