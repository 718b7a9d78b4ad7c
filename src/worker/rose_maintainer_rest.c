/*-------------------------------------------------------------------------
 *
 * rose_maintainer_rest.c
 *	  Rests of a maintenance worker between steps of its merges.
 *
 * Queries share the disk with merges, which take all of it that they can get.  To a rose
 * table merges are what autovacuum is to a heap table, so they cost the same, by the same
 * settings: core counts pages that a step reads and dirties
 * (vacuum_cost_page_hit, vacuum_cost_page_miss, vacuum_cost_page_dirty), and for each
 * autovacuum_vacuum_cost_limit of that the worker rests for autovacuum_vacuum_cost_delay.
 * The limit is one for all workers that merge, however many there are.
 *
 * A worker rests between two steps, when it has no transaction and no lock but
 * ROSE_LOCK_MERGE of the tables that it merges.  It wakes up for all that it would wake
 * up for when idle: spills do not wait for the rest to be over.  What is owed is reckoned
 * anew each time, so that another setting is heard at once.
 *
 * When to rest, and when a merge must not wait, is decided in rose_maintainer_merge.c.
 * State is the process' own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "storage/latch.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "worker/rose_maintainer_internal.h"

/* Longest rest for one step, whatever the settings. */
#define MOST_REST_MS	(3600 * 1000)

static int	owed = 0;			/* cost of the latest step */
static TimestampTz owed_since;

void
rose_maintainer_cost_begin(void)
{
	VacuumCostBalance = 0;
	VacuumCostActive = true;
}

void
rose_maintainer_cost_end(bool owes)
{
	owed = owes && VacuumCostActive ? VacuumCostBalance : 0;
	owed_since = GetCurrentTimestamp();
	VacuumCostActive = false;
	VacuumCostBalance = 0;
}

/* Of one worker among n, for the latest step. */
static double
rest_of_step(int n)
{
	double		delay = autovacuum_vac_cost_delay >= 0 ? autovacuum_vac_cost_delay : VacuumCostDelay;
	int			limit = autovacuum_vac_cost_limit > 0 ? autovacuum_vac_cost_limit : VacuumCostLimit;

	return Min(delay * owed * n / limit, MOST_REST_MS);
}

long
rose_maintainer_rest_left(void)
{
	double		left;

	if (owed == 0)
		return 0;
	left = rest_of_step(rose_maintainer_count_merging()) -
		(double) (GetCurrentTimestamp() - owed_since) / 1000;
	if (left > 0)
		return (long) ceil(left);
	owed = 0;
	return 0;
}

void
rose_maintainer_rest(void)
{
	long		left = rose_maintainer_rest_left();

	if (left == 0)
		return;
	rose_maintainer_show_work(ROSE_WORK_REST, InvalidOid);
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Min(left, NAP_MS), WAIT_EVENT_VACUUM_DELAY);
	ResetLatch(MyLatch);
	rose_maintainer_show_work(ROSE_WORK_NONE, InvalidOid);
}
