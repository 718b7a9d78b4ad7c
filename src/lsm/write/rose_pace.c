/*-------------------------------------------------------------------------
 *
 * rose_pace.c
 *	  Slowing writers smoothly, before they would have to stop.
 *
 * A background worker spills and merges.  If writers are faster than that in the
 * long run, something has to give: without pacing they run at full speed until
 * memory is full, and then stop for as long as a spill takes.  With it each write
 * costs a little more the fuller things are, so that writers settle at the speed
 * of the worker (the spring and gear of bLSM).
 *
 * Two things are looked at: how full the arena is, which says how far spills are
 * behind, and how many runs of the table wait for a merge.  Whichever is worse
 * counts.  Between a low and a high mark the delay of a version grows
 * exponentially, from nothing to a millisecond: wherever the balance is, it is
 * found with small steps.
 *
 * Sleeps shorter than the timers of operating systems are no use, so a backend saves
 * its delays up for a short sleep.
 *
 * A writer is not slowed down for a full arena that others fill: its table must have a
 * good part of it.
 *
 * Nor is one that no worker can help: there is none, or the writer's own transaction has
 * locked the table against everybody.  It spills its table itself (rose_make_room.c).
 *
 * Nor are those of temporary tables, which are nobody else's (rose_local_room.c).
 *
 * No locks.  What is counted is in rose_write_stats.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"

#include "compat/rose_compat.h"
#include "memtable/rose_pressure.h"
#include "store/rose_store.h"
#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/write/rose_local_room.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_pace.h"
#include "lsm/write/rose_write_stats.h"

/* Marks, as numbers of runs; those of memory are in rose_pressure.h. */
#define PACE_RUNS_LOW			(ROSE_MAX_COMPONENTS / 4)
#define PACE_RUNS_HIGH			(ROSE_MAX_COMPONENTS * 9 / 16)

/* Doublings of the delay between the marks: 2^10 us. */
#define PACE_DOUBLINGS			10

/* Sleep when so much is saved up, and for so long at a time, in microseconds. */
#define PACE_MIN_SLEEP_US		200
#define PACE_MAX_SLEEP_US		1000

/* Longest sleep for the versions of one call, in microseconds. */
#define PACE_MAX_CALL_US		20000

/* Versions between two requests for a spill. */
#define PACE_REQUEST_EVERY		512

static double debt_us = 0;		/* delays that were not slept yet */
static int	since_request = PACE_REQUEST_EVERY;
static bool worker_comes = true;	/* as of the last request */

static double
part_between(double value, double low, double high)
{
	if (value <= low)
		return 0;
	return Min((value - low) / (high - low), 1);
}

double
rose_pace_delay_us(Size used, Size total, int nruns)
{
	double		part = Max(part_between((double) used * ROSE_PRESSURE_UNIT / total,
										ROSE_MARK_SHORT, ROSE_MARK_FULL),
						   part_between(nruns, PACE_RUNS_LOW, PACE_RUNS_HIGH));

	return part == 0 ? 0 : exp2(PACE_DOUBLINGS * part) - 1;
}

static inline double
delay_of(RoseTree *tree)
{
	Size		total = rose_arena_total_bytes();
	bool		large = rose_c0_bytes(&tree->shared->c0) >= rose_pressure_part(total, ROSE_SHARE_PACED);
	double		delay = rose_pace_delay_us(large ? rose_arena_used_bytes() : 0, total,
										   (int) pg_atomic_read_u32(&tree->shared->store.nruns));

	if (delay == 0 || !worker_comes ||
		CheckRelationLockedByMe(tree->rel, AccessExclusiveLock, true))
		return 0;
	return delay;
}

/*
 * So that the spill is under way before anybody has to be slowed down.  Only for
 * tables that a worker may spill.
 */
static void
request_spill(RoseTree *tree, int n)
{
	since_request += n;
	if (since_request < PACE_REQUEST_EVERY || rose_request_spill_hook == NULL ||
		OidIsValid(tree->shared->fed_by) ||
		rose_c0_bytes(&tree->shared->c0) < rose_pressure_share(ROSE_SHARE_SPILL_EARLY))
		return;
	since_request = 0;
	worker_comes = rose_request_spill_hook(rose_locator_db(tree->locator));
}

static void
sleep_for(long us)
{
	pgstat_report_wait_start(rose_wait_event_pacing());
	pg_usleep(us);
	pgstat_report_wait_end();
	rose_write_stats_count_delay(us);
}

/* The longest of all. */
static inline double
current_delay(RoseTree *const *trees, int ntrees)
{
	double		longest = delay_of(trees[0]);

	for (int i = 1; i < ntrees; i++)
	{
		double		delay = delay_of(trees[i]);

		longest = Max(longest, delay);
	}
	return longest;
}

static inline void
pace(RoseTree *const *trees, int ntrees, int n)
{
	double		delay;

	if (unlikely(trees[0]->local))
	{
		for (int i = 0; i < ntrees; i++)
			rose_local_room_keep_share(trees[i]);
		return;
	}
	delay = current_delay(trees, ntrees);
	for (int i = 0; i < ntrees; i++)
	{
		request_spill(trees[i], n);
		rose_make_room_keep_share(trees[i], worker_comes && rose_request_spill_hook != NULL);
	}
	if (delay == 0)
	{
		debt_us = 0;
		return;
	}
	debt_us = Min(debt_us + delay * n, PACE_MAX_CALL_US);
	while (debt_us >= PACE_MIN_SLEEP_US)
	{
		long		us = (long) Min(debt_us, PACE_MAX_SLEEP_US);

		CHECK_FOR_INTERRUPTS();
		sleep_for(us);
		debt_us -= us;
		if (current_delay(trees, ntrees) == 0)
			debt_us = 0;
	}
}

void
rose_pace_writes(RoseTree *tree, int n)
{
	pace(&tree, 1, n);
}

void
rose_pace_writes_of(RoseTree *const *trees, int ntrees, int n)
{
	pace(trees, ntrees, n);
}
