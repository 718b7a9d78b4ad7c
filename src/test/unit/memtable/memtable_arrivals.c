/*-------------------------------------------------------------------------
 *
 * memtable_arrivals.c
 *	  For the memtable's unit test: entries in the order of their numbers, and what they
 *	  know of newer versions of their keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include "common/pg_prng.h"

#define ENTRIES	2000
#define GAP		40				/* some leaves of the index have one entry, others many */
#define MANY	100
#define HIDDEN_EVERY	100

static uint64 numbers[ENTRIES * GAP];	/* by sequence; 0: none */

static uint64
next_newer(uint64 seq)
{
	for (uint64 newer = seq + 1; newer < ENTRIES * GAP; newer++)
		if (numbers[newer] == numbers[seq])
			return newer;
	return 0;
}

static inline bool
is_there(uint64 seq)
{
	return numbers[seq] != 0 && seq % 11 != 0;
}

/* Of these everybody knows at once, if nothing newer is there, that they are rows. */
static inline bool
is_plain(uint64 seq)
{
	return seq % 3 != 0 && seq % 7 != 0 && seq < ENTRIES * GAP / 2;
}

/* The entries' numbers up to here are those that were not dead. */
static void
check_passed(uint64 *last, uint64 seq)
{
	while (++*last < seq)
		CHECK(!is_there(*last));
	CHECK(is_there(seq));
}

static void
check_other(const RoseMemCursor *cursor, RoseArenaPtr ptr)
{
	RoseMemEntryRef ref;
	uint64		seq;
	bool		found;

	rose_memtable_get(&c0, cursor->schema, ptr, &ref);
	do
	{
		seq = ref.version.seq;
		found = rose_mem_cursor_newer(cursor, &ref);
		CHECK(found == (next_newer(seq) != 0));
		CHECK(!found || ref.version.seq == next_newer(seq));
	} while (found);
}

static int
check_arrivals(const RoseMemCursor *cursor)
{
	RoseArenaPtr ptrs[MANY];
	uint64		prefixes[MANY];
	uint64		seqs[MANY];
	MinimalTuple rows[MANY];
	const RoseMemColumns taken = {ptrs, prefixes, seqs, rows};
	const RoseMemSeen seen = {{ENTRIES * GAP / 2 + 1000}, InvalidTransactionId};
	RoseMemArrivals at = {0};
	uint64		last = 0;
	int			nplain = 0;
	int			nalone = 0;

	while (!at.at_end)
	{
		int			from = pg_prng_uint64(&pg_global_prng_state) % 3;
		int			end;

		at.looks = 1 + pg_prng_uint64(&pg_global_prng_state) % 200;
		end = rose_mem_cursor_take_arrivals(cursor, &at, &seen, &taken, from, MANY);
		for (int i = from; i < end; i++)
		{
			RoseMemEntryRef ref;

			check_passed(&last, seqs[i]);
			CHECK(is_plain(seqs[i]));
			CHECK(next_newer(seqs[i]) == 0);
			rose_memtable_get(&c0, cursor->schema, ptrs[i], &ref);
			check_entry(cursor->schema, &ref, numbers[seqs[i]], seqs[i]);
			CHECK(prefixes[i] == ref.prefix && rows[i] == ref.row);
		}
		nplain += end - from;
		if (at.other == 0)
			continue;
		check_passed(&last, at.seq);
		check_other(cursor, at.other);
		nalone += is_plain(at.seq) && next_newer(at.seq) == 0;
		at.seq++;
	}
	CHECK(last == ENTRIES * GAP - 1);
	/* before these is a hidden entry of their key, not merely of their prefix */
	CHECK(nalone <= ENTRIES / HIDDEN_EVERY);
	return nplain;
}

/* Entries come in any order of their numbers, as some do that are carried over. */
void
test_arrivals(const RoseSchema *schema, uint64 max_number)
{
	RoseMemPending hidden;
	RoseMemCursor cursor;

	rose_c0_init(&c0, 1);
	memset(numbers, 0, sizeof(numbers));
	for (int i = 0; i < ENTRIES; i++)
	{
		uint64		seq = 1 + pg_prng_uint64(&pg_global_prng_state) % (i % 2 ? ENTRIES * GAP - 2 : 2000);
		uint64		number = 1 + pg_prng_uint64(&pg_global_prng_state) % max_number;

		/* the last one is there for sure */
		if (i == 0)
			seq = ENTRIES * GAP - 1;
		if (numbers[seq] != 0)
			continue;
		numbers[seq] = number;
		CHECK(put(schema, number, seq, i % 50));
		rose_memtable_set_hint(rose_memtable_find_seq(&c0, c0.active, seq),
							   (seq % 7 == 0 ? 0 : ROSE_MEM_HINT_COMMITTED) |
							   (seq % 11 == 0 ? ROSE_MEM_HINT_ABORTED : 0));
		if (i % HIDDEN_EVERY == 0)
			CHECK(prepare(schema, number, ENTRIES * GAP + i, 0, &hidden));
	}
	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	CHECK(check_arrivals(&cursor) > (max_number > ENTRIES ? 300 : 0));
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}
