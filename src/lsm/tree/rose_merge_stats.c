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

/* One process merges a table at a time, so what others have left there is stale. */
int
rose_merge_stats_begin(RoseMergeStatsShared *stats, int level)
{
	for (int i = 0; i < ROSE_TREE_MERGES; i++)
	{
		RoseMergeSlotShared *slot = &stats->slots[i];

		if (pg_atomic_read_u32(&slot->pid) == (uint32) MyProcPid)
			continue;
		pg_atomic_write_u64(&slot->done, 0);
		pg_atomic_write_u64(&slot->total, 0);
		pg_atomic_write_u32(&slot->level, level);
		pg_write_barrier();
		pg_atomic_write_u32(&slot->pid, MyProcPid);
		return i;
	}
	return -1;
}

void
rose_merge_stats_progress(RoseMergeStatsShared *stats, int slot, uint64 done, uint64 total)
{
	if (slot < 0)
		return;
	pg_atomic_write_u64(&stats->slots[slot].done, done);
	pg_atomic_write_u64(&stats->slots[slot].total, total);
}

void
rose_merge_stats_end(RoseMergeStatsShared *stats, int slot)
{
	if (slot >= 0)
		pg_atomic_write_u32(&stats->slots[slot].pid, 0);
}
