/*-------------------------------------------------------------------------
 *
 * rose_gentle.c
 *	  Long work of a background process that lets others have its core.  See
 *	  rose_gentle.h.
 *
 * State of the process; no locks.  Who has time to spare is for the caller of
 * rose_gentle_begin to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifndef WIN32
#include <sched.h>
#endif

#include "portability/instr_time.h"

#include "util/rose_gentle.h"

/* The core is offered after so much work, in microseconds. */
#define OFFER_EVERY_US		150

RoseGentleSlack rose_gentle_slack = NULL;
int			rose_gentle_rows = 0;

static instr_time offered;

void
rose_gentle_begin(RoseGentleSlack has_slack)
{
	rose_gentle_slack = has_slack;
	INSTR_TIME_SET_CURRENT(offered);
}

static void
offer_core(void)
{
#ifdef WIN32
	SwitchToThread();
#else
	(void) sched_yield();
#endif
}

void
rose_gentle_look(void)
{
	instr_time	now;
	instr_time	since;

	rose_gentle_rows = 0;
	INSTR_TIME_SET_CURRENT(now);
	since = now;
	INSTR_TIME_SUBTRACT(since, offered);
	if (INSTR_TIME_GET_MICROSEC(since) < OFFER_EVERY_US)
		return;
	if (rose_gentle_slack())
	{
		offer_core();
		INSTR_TIME_SET_CURRENT(now);
	}
	offered = now;
}
