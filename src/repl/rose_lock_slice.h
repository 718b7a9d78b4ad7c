/*-------------------------------------------------------------------------
 *
 * rose_lock_slice.h
 *	  Waiting for somebody else's lock for a limited time, where the server's deadlock detector sees it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOCK_SLICE_H
#define ROSE_LOCK_SLICE_H

#include "postgres.h"

#include "storage/lockdefs.h"

typedef struct RoseLockSlice
{
	Oid			relid;
	LOCKMODE	mode;			/* a lock of that table; or ... */
	TransactionId xid;			/* ... if valid, the end of who holds rows of it */
	int			ms;				/* for so long */
	bool		patient;		/* also if something is asked for that needs the process */
	bool		cut;			/* set: it has ended sooner, for that */
	bool		deadlocked;		/* set: it was part of a deadlock, with who holds the rows */
} RoseLockSlice;

/* Once, in a process that will wait so: cancels of others are told from the end of a slice. */
extern void rose_lock_slice_watch_cancels(void);

/* False: not within the slice.  A deadlock over a table is an error.  REQUIRES: a transaction. */
extern bool rose_lock_slice_wait(RoseLockSlice *slice);

#endif							/* ROSE_LOCK_SLICE_H */
