/*-------------------------------------------------------------------------
 *
 * memtable_interrupted.c
 *	  Unit test of readers of a memtable that are stopped between any two of their
 *	  steps, while versions that they are on are superseded.
 *
 * A signal stops a reader wherever he is, until the writer has written a few versions
 * more.  So what lasts for some nanoseconds only, as an entry that is in the list and not
 * linked yet, is met often.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define NSTOPPED		2		/* readers */
#define ENOUGH_STOPS	4000
#define STEPS_BETWEEN	3		/* that the writer makes while a reader stands */
#define UNLINKED_TURNS	50		/* so long an entry is in the list before it is linked */
#define MUCH_MEMORY		(1024 * 1024)
#define HOT_NUMBER		1000	/* two others are beside it, and its versions before the last one */

static const uint64 others[] = {1, 2000};
static volatile uint64 linked;	/* the newest version */
static volatile uint64 written;
static volatile bool done;
static volatile uint64 nstops;
static RoseSchema *stopped_schema;

static bool
never(CommandId earlier, CommandId later)
{
	return false;
}

static bool
not_undone(TransactionId subxid)
{
	return false;
}

static const RoseOwnRules one_stays = {never, never, not_undone};

static void
stop_here(int signo)
{
	uint64		before = written;

	nstops++;
	while (written < before + STEPS_BETWEEN && !done)
		sched_yield();
}

static void
write_slowly(const RoseSchema *schema, uint64 seq)
{
	MinimalTuple row = make_row(HOT_NUMBER, 0);
	Datum		key = key_of(schema, row, HOT_NUMBER);
	const RoseMemSpot none = {0};
	RoseVersion version = {.seq = seq, .op = ROSE_OP_PUT, .cid = (CommandId) seq};
	RoseMemPending pending;

	version.xid = FullTransactionIdFromU64(1000);
	version.rowid = schema->nkeys == 0 ? HOT_NUMBER : 0;
	CHECK(rose_c0_prepare_near(&c0, schema, &version, &key, row, &none, NULL, &pending) == ROSE_MEM_PREPARED);
	for (volatile int i = 0; i < UNLINKED_TURNS; i++)
		;
	rose_c0_link(&c0, &pending);
	pg_write_barrier();
	linked = seq;
	(void) rose_c0_supersede(&c0, schema, &key, pending.entry, &one_stays);
	written = seq;
	free(row);
}

/* A walk meets the other keys and a version of the hot one that is not older than this. */
static void
check_walk(RoseMemCursor *cursor, bool forward, uint64 wanted)
{
	bool		found = forward ? rose_mem_cursor_first(cursor) : rose_mem_cursor_last(cursor);
	uint64		met = 0;
	int			nothers = 0;

	while (found)
	{
		RoseMemEntryRef ref;
		uint64		number;

		rose_mem_cursor_get(cursor, &ref);
		number = number_of(stopped_schema, &ref);
		if (number == HOT_NUMBER)
			met = Max(met, ref.version.seq);
		else
			CHECK(number == others[forward ? nothers++ : 1 - nothers++]);
		found = forward ? rose_mem_cursor_next(cursor) : rose_mem_cursor_prev(cursor);
	}
	CHECK(nothers == 2);
	CHECK(met >= wanted);
}

static void *
reader_main(void *arg)
{
	int			reader = (int) (intptr_t) arg;
	MinimalTuple row = make_row(HOT_NUMBER, 0);
	Datum		key = key_of(stopped_schema, row, HOT_NUMBER);

	for (int n = 0; !done; n++)
	{
		uint64		wanted = linked;
		RoseMemCursor cursor;
		RoseMemEntryRef ref;

		pg_read_barrier();
		reader_enter(reader);
		rose_mem_cursor_open(&cursor, &c0, stopped_schema, 0);
		CHECK(rose_mem_cursor_seek(&cursor, &key, 1, PG_UINT64_MAX));
		rose_mem_cursor_get(&cursor, &ref);
		CHECK(number_of(stopped_schema, &ref) == HOT_NUMBER);
		CHECK(ref.version.seq >= wanted);
		CHECK(rose_mem_cursor_seek_last(&cursor, &key, 1, true));
		rose_mem_cursor_get(&cursor, &ref);
		CHECK(number_of(stopped_schema, &ref) == HOT_NUMBER);
		check_walk(&cursor, n % 2 == 0, wanted);
		reader_leave(reader);
	}
	free(row);
	return NULL;
}

/* Stop the readers, one after the other, at moments that nobody chooses. */
static void *
stopper_main(void *arg)
{
	pthread_t  *readers = arg;

	for (int i = 0; nstops < ENOUGH_STOPS; i++)
	{
		pthread_kill(readers[i % NSTOPPED], SIGUSR1);
		sched_yield();
	}
	done = true;
	return NULL;
}

void
test_interrupted(RoseSchema *schema)
{
	struct sigaction action = {.sa_handler = stop_here, .sa_flags = SA_RESTART};
	pthread_t	readers[NSTOPPED];
	pthread_t	stopper;
	uint64		seq = 0;

	rose_c0_init(&c0, 1);
	stopped_schema = schema;
	done = false;
	nstops = 0;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(put(schema, others[i], ++seq, 0));
	write_slowly(schema, ++seq);
	for (intptr_t i = 0; i < NSTOPPED; i++)
		CHECK(pthread_create(&readers[i], NULL, reader_main, (void *) i) == 0);
	CHECK(pthread_create(&stopper, NULL, stopper_main, readers) == 0);
	while (!done)
	{
		write_slowly(schema, ++seq);
		/* readers that stand keep memory */
		if (rose_c0_superseded_bytes(&c0) > MUCH_MEMORY)
			usleep(100);
	}
	pthread_join(stopper, NULL);
	for (int i = 0; i < NSTOPPED; i++)
		pthread_join(readers[i], NULL);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}
