/*-------------------------------------------------------------------------
 *
 * rose_pause.h
 *	  How long workers leave a table alone on which they have failed.
 *
 * What fails once may fail for ever: a user's comparison function, a damaged page.  So
 * each failure that follows the one before makes the pause twice as long, up to a limit.
 * Spills have a pause of their own: a table whose merges fail is spilled as others are.
 *
 * A pause ends with its time, and at once when the table is altered, or when somebody
 * spills or merges it by hand.  It is kept in the table's shared entry, so that it
 * outlives workers, and is forgotten with the entry.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PAUSE_H
#define ROSE_PAUSE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"

typedef enum RosePauseKind
{
	ROSE_PAUSE_SPILLS,
	ROSE_PAUSE_MERGES,			/* and all else that workers do */
	ROSE_PAUSE_KINDS
} RosePauseKind;

/* No lock: all fields are atomic, and of two who fail at the same time one may not be counted. */
typedef struct RosePauseShared
{
	pg_atomic_uint64 until;		/* a TimestampTz; 0 = no pause */
	pg_atomic_uint32 failures;	/* in a row */
} RosePauseShared;

extern void rose_pause_define_settings(void);	/* rose.debug_failure_pause */

/* An array of ROSE_PAUSE_KINDS. */
extern void rose_pause_init(RosePauseShared *pauses);
extern void rose_pause_end(RosePauseShared *pauses);

/* A worker has failed. */
extern void rose_pause_begin(RosePauseShared *pause);

/* The end of a pause that is not over; 0 = there is none. */
extern TimestampTz rose_pause_until(RosePauseShared *pause);

#endif							/* ROSE_PAUSE_H */
