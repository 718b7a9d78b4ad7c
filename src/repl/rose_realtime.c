/*-------------------------------------------------------------------------
 *
 * rose_realtime.c
 *	  Reading in real time: numbers of batches, by which those who read wait for the worker.
 *
 * A batch gets its number when it has a whole upstream transaction, and its end is told to those who
 * wait for it, whatever becomes of it: one that is given up comes again.
 *
 * Locking: none; see RoseRealtimeShared.
 *
 * Not here: asking and waiting (rose_realtime_read.c); when a batch ends (rose_stream.c, rose_batch.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "repl/rose_realtime.h"

/* The worker: the open batch has its number. */
static bool numbered = false;

void
rose_realtime_init(RoseRealtimeShared *shared)
{
	pg_atomic_init_u64(&shared->complete, 0);
	pg_atomic_init_u64(&shared->ended, 0);
	pg_atomic_init_u64(&shared->asked, 0);
	pg_atomic_init_u64(&shared->asked_at, 0);
	ConditionVariableInit(&shared->cv);
}

void
rose_realtime_note_complete(RoseRealtimeShared *shared)
{
	if (numbered)
		return;
	numbered = true;
	pg_atomic_write_u64(&shared->complete, pg_atomic_read_u64(&shared->ended) + 1);
}

bool
rose_realtime_is_asked(RoseRealtimeShared *shared)
{
	return numbered && pg_atomic_read_u64(&shared->asked) >= pg_atomic_read_u64(&shared->complete);
}

/*
 * Who asks at the same time either finds that it has ended, or is found to have asked.
 */
void
rose_realtime_note_ended(RoseRealtimeShared *shared)
{
	uint64		batch = pg_atomic_read_u64(&shared->complete);

	numbered = false;
	if (pg_atomic_read_u64(&shared->ended) == batch)
		return;
	pg_memory_barrier();		/* its commit is to be seen before this */
	pg_atomic_write_u64(&shared->ended, batch);
	pg_memory_barrier();
	if (pg_atomic_read_u64(&shared->asked) >= batch)
		ConditionVariableBroadcast(&shared->cv);
}
