/*-------------------------------------------------------------------------
 *
 * rose_write_stats.c
 *	  How often writers were slowed down or had to spill themselves.
 *
 * For views.  The counters are atomic and begin with the server; nobody decides anything
 * by them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"

#include "lsm/write/rose_write_stats.h"

typedef struct RoseWriteStatsShared
{
	pg_atomic_uint64 delays;	/* no lock */
	pg_atomic_uint64 delay_us;	/* no lock */
	pg_atomic_uint64 own_spills;	/* no lock */
} RoseWriteStatsShared;

static RoseWriteStatsShared *counters = NULL;

Size
rose_write_stats_shmem_size(void)
{
	return sizeof(RoseWriteStatsShared);
}

void
rose_write_stats_shmem_init(bool found)
{
	bool		have;

	counters = ShmemInitStruct("rose writes", sizeof(*counters), &have);
	if (have)
		return;
	pg_atomic_init_u64(&counters->delays, 0);
	pg_atomic_init_u64(&counters->delay_us, 0);
	pg_atomic_init_u64(&counters->own_spills, 0);
}

void
rose_write_stats_count_delay(uint64 us)
{
	pg_atomic_fetch_add_u64(&counters->delays, 1);
	pg_atomic_fetch_add_u64(&counters->delay_us, us);
}

void
rose_write_stats_count_own_spill(void)
{
	pg_atomic_fetch_add_u64(&counters->own_spills, 1);
}

void
rose_write_stats_get(RoseWriteStats *stats)
{
	stats->delays = pg_atomic_read_u64(&counters->delays);
	stats->delay_us = pg_atomic_read_u64(&counters->delay_us);
	stats->own_spills = pg_atomic_read_u64(&counters->own_spills);
}
