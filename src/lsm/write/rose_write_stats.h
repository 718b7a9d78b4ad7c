/*-------------------------------------------------------------------------
 *
 * rose_write_stats.h
 *	  How often writers were slowed down or had to spill themselves.
 *
 * Counters of the server; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_STATS_H
#define ROSE_WRITE_STATS_H

#include "postgres.h"

extern Size rose_write_stats_shmem_size(void);
extern void rose_write_stats_shmem_init(bool found);

/* Since the server started. */
typedef struct RoseWriteStats
{
	uint64		delays;			/* waits of writers ... */
	uint64		delay_us;		/* ... and their time in all */
	uint64		own_spills;		/* of writers who could not wait for the worker */
} RoseWriteStats;

extern void rose_write_stats_count_delay(uint64 us);
extern void rose_write_stats_count_own_spill(void);
extern void rose_write_stats_get(RoseWriteStats *stats);

#endif							/* ROSE_WRITE_STATS_H */
