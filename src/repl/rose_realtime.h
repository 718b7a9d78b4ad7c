/*-------------------------------------------------------------------------
 *
 * rose_realtime.h
 *	  rose.read_mode = 'realtime': a statement sees what the worker has received.
 *
 * The worker gathers upstream transactions into a batch, which nobody sees before it is
 * committed.  A statement that reads in real time has the worker commit the batch that is open,
 * waits for that, and takes its snapshot after it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REALTIME_H
#define ROSE_REALTIME_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"

/*
 * Batches that have, or had, a whole upstream transaction are numbered.  No locks.  Numbers only grow, whichever
 * worker or subscription has the place.
 */
typedef struct RoseRealtimeShared
{
	pg_atomic_uint64 complete;	/* the last batch; written by the worker */
	pg_atomic_uint64 ended;		/* the last one that is visible, or was given up; written by the worker */
	pg_atomic_uint64 asked;		/* the last one that somebody waits for, or has waited */
	pg_atomic_uint64 asked_at;	/* when somebody last read in real time (TimestampTz) */
	ConditionVariable cv;		/* of those who wait for ended */
} RoseRealtimeShared;

extern void rose_realtime_init(RoseRealtimeShared *shared);

/* --- who reads; for core's hooks (rose_realtime_read.c) --- */

extern void rose_realtime_define_settings(void);

/* A query begins, and has its snapshot, but has not started. */
extern void rose_realtime_start_query(QueryDesc *query, int eflags);

/* A command begins: COPY of a table reads it with the command's snapshot. */
extern void rose_realtime_start_command(const Node *stmt);

/* --- the worker --- */

/* The open batch has a whole upstream transaction.  REQUIRES: no other one is being applied. */
extern void rose_realtime_note_complete(RoseRealtimeShared *shared);

/* Does somebody wait for the end of that batch? */
extern bool rose_realtime_is_asked(RoseRealtimeShared *shared);

/* No batch is open any more: what the last one had is visible, or was given up. */
extern void rose_realtime_note_ended(RoseRealtimeShared *shared);

#endif							/* ROSE_REALTIME_H */
