/*-------------------------------------------------------------------------
 *
 * memtable_stress.c
 *	  Unit test of lock-free readers of a memtable beside a writer: threads.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include <pthread.h>

#define NSTRESS 60000
static volatile uint64 stress_done; /* sequences up to here are linked */

/* Every entry of a walk is in order and whole; nothing linked before is missed. */
static void
stress_walk(const RoseSchema *schema, bool forward)
{
	RoseMemCursor cursor;
	uint64		promised = stress_done;
	uint64		met = 0;
	uint64		last = forward ? 0 : PG_UINT64_MAX;
	RoseMemEntryRef ref;

	pg_read_barrier();
	rose_mem_cursor_open(&cursor, &c0, schema, 0);
	if (!rose_mem_cursor_alive(&cursor))
		return;
	for (bool found = forward ? rose_mem_cursor_first(&cursor) : rose_mem_cursor_last(&cursor);
		 found;
		 found = forward ? rose_mem_cursor_next(&cursor) : rose_mem_cursor_prev(&cursor))
	{
		uint64		number;

		rose_mem_cursor_get(&cursor, &ref);
		number = number_of(schema, &ref);
		check_entry(schema, &ref, number, ref.version.seq);
		CHECK(forward ? number >= last : number <= last);
		last = number;
		if (ref.version.seq <= promised)
			met++;
	}
	CHECK(met == promised);
}

static void
stress_lookups(const RoseSchema *schema)
{
	RoseMemCursor cursor;
	RoseMemEntryRef ref;
	uint64		promised = stress_done;

	pg_read_barrier();
	rose_mem_cursor_open(&cursor, &c0, schema, 0);
	for (uint64 seq = 1; seq <= promised; seq += 97)
	{
		RoseArenaPtr ptr = rose_memtable_find_seq(&c0, 0, seq);
		MinimalTuple row;
		Datum		key;
		const Datum *keys[] = {&key};
		uint64		number;
		bool		found;
		RoseMemSpot hint;

		CHECK(ptr != 0);
		rose_memtable_get(&c0, schema, ptr, &ref);
		number = number_of(schema, &ref);
		check_entry(schema, &ref, number, seq);
		row = make_row(number, 0);
		key = key_of(schema, row, number);
		found = false;
		rose_c0_probe(&c0, schema, keys, 1, seq % 2 == 0, &found, &hint);
		CHECK(found);
		CHECK(rose_mem_cursor_seek(&cursor, &key, 1, seq));
		CHECK(cursor.current == ptr);
		rose_memtable_set_hint(ptr, ROSE_MEM_HINT_COMMITTED);
		free(row);
	}
}

static void *
stress_reader(void *arg)
{
	while (stress_done < NSTRESS)
	{
		stress_walk(arg, true);
		stress_lookups(arg);
		stress_walk(arg, false);
	}
	return NULL;
}

/* Many versions of few keys, or keys all over the place. */
void
test_stress(RoseSchema *schema, uint64 max_number)
{
	pthread_t	readers[2];

	rose_c0_init(&c0, 1);
	stress_done = 0;
	for (int i = 0; i < lengthof(readers); i++)
		CHECK(pthread_create(&readers[i], NULL, stress_reader, schema) == 0);
	for (uint64 seq = 1; seq <= NSTRESS; seq++)
	{
		CHECK(put(schema, seq * 48271 % max_number, seq, seq % 40));
		pg_write_barrier();
		stress_done = seq;
	}
	for (int i = 0; i < lengthof(readers); i++)
		pthread_join(readers[i], NULL);
	stress_walk(schema, true);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

/*
 * A seek must not return what comes in, while it is under way, on the near side
 * of its bound.  The writer always writes right before the one entry that the
 * readers look for.
 */
#define NAPPEND 100000
#define LAST_NUMBER UINT64CONST(1000000000)

static void *
append_reader(void *arg)
{
	RoseMemCursor cursor;
	RoseMemEntryRef ref;
	Datum		key = Int64GetDatum((int64) LAST_NUMBER);

	rose_mem_cursor_open(&cursor, &c0, &rowid_schema, c0.active);
	while (stress_done < NAPPEND)
	{
		uint64		promised = stress_done;

		pg_read_barrier();
		CHECK(rose_mem_cursor_seek(&cursor, &key, 1, PG_UINT64_MAX));
		rose_mem_cursor_get(&cursor, &ref);
		CHECK(number_of(&rowid_schema, &ref) == LAST_NUMBER);
		if (rose_mem_cursor_seek_last(&cursor, &key, 1, false))
		{
			rose_mem_cursor_get(&cursor, &ref);
			CHECK(number_of(&rowid_schema, &ref) >= promised);
			CHECK(number_of(&rowid_schema, &ref) < LAST_NUMBER);
		}
		else
			CHECK(promised == 0);
	}
	return NULL;
}

void
test_append(void)
{
	pthread_t	readers[2];

	rose_c0_init(&c0, 1);
	stress_done = 0;
	CHECK(put(&rowid_schema, LAST_NUMBER, NAPPEND + 1, 0));
	for (int i = 0; i < lengthof(readers); i++)
		CHECK(pthread_create(&readers[i], NULL, append_reader, NULL) == 0);
	for (uint64 seq = 1; seq <= NAPPEND; seq++)
	{
		CHECK(put(&rowid_schema, seq, seq, 0));
		pg_write_barrier();
		stress_done = seq;
	}
	for (int i = 0; i < lengthof(readers); i++)
		pthread_join(readers[i], NULL);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}
