/*-------------------------------------------------------------------------
 *
 * rose_pause.c
 *	  How long workers leave a table alone on which they have failed.
 *
 * A failure follows the one before if it comes within PAUSE_LONGEST of the pause's end:
 * workers come when they have time, and a merge may fail late.  Successes are not looked
 * at: the small merges of a table may succeed again and again between those of a large
 * one that fails.
 *
 * Locking: none (see the header).
 *
 * What this does not do: look at pauses (worker/rose_maintainer_slot.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"
#include "utils/timestamp.h"

#include "lsm/tree/rose_pause.h"

#define PAUSE_FIRST_MS		(60 * 1000)
#define PAUSE_DOUBLED		3	/* so often at most */
#define PAUSE_LONGEST_MS	(PAUSE_FIRST_MS << PAUSE_DOUBLED)

static int	first_pause = PAUSE_FIRST_MS;	/* rose.debug_failure_pause */

void
rose_pause_define_settings(void)
{
	DefineCustomIntVariable("rose.debug_failure_pause",
							"Sets for how long workers leave a table alone after they have failed on it for the first time.",
							"For tests of rose.",
							&first_pause,
							PAUSE_FIRST_MS,
							1,
							PAUSE_FIRST_MS,
							PGC_SIGHUP,
							GUC_UNIT_MS | GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
}

void
rose_pause_init(RosePauseShared *pauses)
{
	for (int i = 0; i < ROSE_PAUSE_KINDS; i++)
	{
		pg_atomic_init_u64(&pauses[i].until, 0);
		pg_atomic_init_u32(&pauses[i].failures, 0);
	}
}

void
rose_pause_end(RosePauseShared *pauses)
{
	for (int i = 0; i < ROSE_PAUSE_KINDS; i++)
	{
		pg_atomic_write_u32(&pauses[i].failures, 0);
		pg_atomic_write_u64(&pauses[i].until, 0);
	}
}

void
rose_pause_begin(RosePauseShared *pause)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = (TimestampTz) pg_atomic_read_u64(&pause->until);
	uint32		before = pg_atomic_read_u32(&pause->failures);

	if (until == 0 || TimestampDifferenceExceeds(until, now, PAUSE_LONGEST_MS))
		before = 0;
	until = TimestampTzPlusMilliseconds(now, (int64) first_pause << Min(before, PAUSE_DOUBLED));
	pg_atomic_write_u32(&pause->failures, before + 1);
	pg_atomic_write_u64(&pause->until, until);
}

TimestampTz
rose_pause_until(RosePauseShared *pause)
{
	TimestampTz until = (TimestampTz) pg_atomic_read_u64(&pause->until);

	return until != 0 && until > GetCurrentTimestamp() ? until : 0;
}
