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

#include "memtable/rose_seqindex.h"

#define ENTRIES	2000
#define GAP		40				/* some leaves of the index have one entry, others many */
#define MANY	100
#define HIDDEN_EVERY	100

static uint64 numbers[ENTRIES * GAP];	/* by sequence; 0: none */
static uint64 newer_of[ENTRIES * GAP];	/* the next newer version of its number; 0: none */

static uint64
next_newer(uint64 seq)
{
	return newer_of[seq];
}

static void
find_newer(void)
{
	uint64		seqs[ENTRIES];
	int			n = 0;

	memset(newer_of, 0, sizeof(newer_of));
	for (uint64 seq = ENTRIES * GAP - 1; seq > 0; seq--)
	{
		if (numbers[seq] == 0)
			continue;
		for (int i = 0; i < n; i++)
			if (numbers[seqs[i]] == numbers[seq])
				newer_of[seq] = seqs[i];
		seqs[n++] = seq;
	}
}

static inline bool
is_there(uint64 seq)
{
	return numbers[seq] != 0 && seq % 11 != 0;
}

/* Everybody sees what was committed before this; a snapshot, more. */
static uint64 everyone;
static uint64 seen_before;

static inline bool
is_seen(uint64 seq)
{
	return seq % 7 != 0 && seq + 1000 < seen_before;
}

/* Of these everybody knows at once, if nothing newer is there, that they are rows. */
static inline bool
is_plain(uint64 seq)
{
	return seq % 3 != 0 && is_seen(seq);
}

/* The next newer version that is not dead; 0: there is none. */
static uint64
newer_alive(uint64 seq)
{
	while ((seq = next_newer(seq)) != 0 && !is_there(seq))
		;
	return seq;
}

/* Does a newer version stand for this one, as is known at once? */
static bool
is_replaced(uint64 seq)
{
	uint64		newer = newer_alive(seq);

	return newer != 0 && is_plain(newer);
}

/* The entries' numbers up to here are those that were not dead, nor replaced. */
static void
check_passed(uint64 *last, uint64 seq)
{
	while (++*last < seq)
		CHECK(!is_there(*last) || is_replaced(*last));
	CHECK(is_there(seq) && !is_replaced(seq));
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

/* One section of a walk that begins with number *next; false: it has come to the end. */
static bool
check_section(const RoseMemCursor *cursor, uint64 *next, uint64 *last, int *nplain, int *nalone)
{
	RoseArenaPtr ptrs[MANY];
	uint64		prefixes[MANY];
	uint64		seqs[MANY];
	MinimalTuple rows[MANY];
	const RoseMemColumns taken = {ptrs, prefixes, seqs, rows};
	const RoseMemSeen seen = {{seen_before}, InvalidTransactionId};
	RoseMemArrivals at = {.seq = *next, .everyone = {everyone}};

	for (int rounds = pg_prng_uint64(&pg_global_prng_state) % 5; rounds >= 0 && !at.at_end; rounds--)
	{
		int			from = pg_prng_uint64(&pg_global_prng_state) % 3;
		int			to = from + 1 + pg_prng_uint64(&pg_global_prng_state) % (MANY - from);
		int			end;

		at.looks = 1 + pg_prng_uint64(&pg_global_prng_state) % 200;
		end = rose_mem_cursor_take_arrivals(cursor, &at, &seen, &taken, from, to);
		for (int i = from; i < end; i++)
		{
			RoseMemEntryRef ref;

			check_passed(last, seqs[i]);
			CHECK(is_plain(seqs[i]) && newer_alive(seqs[i]) == 0);
			rose_memtable_get(&c0, cursor->schema, ptrs[i], &ref);
			check_entry(cursor->schema, &ref, numbers[seqs[i]], seqs[i]);
			CHECK(prefixes[i] == ref.prefix && rows[i] == ref.row);
		}
		*nplain += end - from;
		if (at.other == 0)
			continue;
		check_passed(last, at.seq);
		check_other(cursor, at.other);
		*nalone += is_plain(at.seq) && newer_alive(at.seq) == 0;
		at.seq++;
	}
	*next = at.seq;
	return !at.at_end;
}

/* A walk of a snapshot that sees what was committed before a number. */
static int
check_arrivals(const RoseMemCursor *cursor, uint64 before)
{
	uint64		next = 0;
	uint64		last = 0;
	int			nplain = 0;
	int			nalone = 0;

	seen_before = before;
	while (check_section(cursor, &next, &last, &nplain, &nalone))
		;
	CHECK(last == ENTRIES * GAP - 1);
	CHECK(nalone == 0);
	return nplain;
}

/* How many entries does a walk meet, whatever they are? */
static int
count_met(const RoseMemCursor *cursor)
{
	RoseArenaPtr entries[ROSE_SEQINDEX_LEAF];
	RoseArenaPtr leaf;
	uint64		next = 0;
	int			n = 0;

	do
		n += rose_seqindex_walk(&c0.memtables[cursor->slot], &next, &leaf, entries);
	while (leaf != 0);
	return n;
}

/* Those that nobody needs to meet again: the dead, and what was replaced by what everyone sees. */
static int
count_hidden(void)
{
	int			n = 0;

	for (uint64 seq = 1; seq < ENTRIES * GAP; seq++)
	{
		uint64		newer = newer_alive(seq);

		if (numbers[seq] == 0)
			continue;
		n += !is_there(seq) || (newer != 0 && is_plain(newer) && newer + 1000 < everyone);
	}
	return n;
}

/* The first entry that is not plain is one that a second look finds replaced. */
static void
check_hide_other(const RoseMemCursor *cursor)
{
	RoseArenaPtr ptrs[MANY];
	uint64		words[2][MANY];
	MinimalTuple rows[MANY];
	const RoseMemColumns taken = {ptrs, words[0], words[1], rows};
	const RoseMemSeen seen = {{seen_before}, InvalidTransactionId};
	RoseMemArrivals at = {.everyone = {everyone}, .looks = PG_INT32_MAX};
	int			nmet = count_met(cursor);
	RoseArenaPtr hidden;

	while (at.other == 0)
		(void) rose_mem_cursor_take_arrivals(cursor, &at, &seen, &taken, 0, MANY);
	hidden = at.other;
	rose_mem_cursor_hide_other(&at);
	CHECK(count_met(cursor) == nmet - 1);
	memset(&at, 0, offsetof(RoseMemArrivals, entries));
	at.looks = PG_INT32_MAX;
	do
		(void) rose_mem_cursor_take_arrivals(cursor, &at, &seen, &taken, 0, MANY);
	while (at.other == 0);
	CHECK(at.other != hidden);
}

/* Each walk gives what it would if there had been none before it. */
static void
check_walks(const RoseMemCursor *cursor, bool many)
{
	const uint64 half = ENTRIES * GAP / 2 + 1000;
	int			nmet = count_met(cursor);
	int			nplain;

	everyone = 0;
	nplain = check_arrivals(cursor, half);
	CHECK(nplain > 300 || !many);
	everyone = half / 2;
	CHECK(check_arrivals(cursor, half) == nplain);
	CHECK(count_met(cursor) == nmet - count_hidden());
	CHECK(check_arrivals(cursor, half) == nplain);
	(void) check_arrivals(cursor, everyone);
	(void) check_arrivals(cursor, ENTRIES * GAP + 1000);
	CHECK(count_met(cursor) == nmet - count_hidden());
	CHECK(check_arrivals(cursor, half) == nplain);
	for (uint64 seq = 1; seq < ENTRIES * GAP; seq++)
		CHECK((numbers[seq] != 0) == (rose_memtable_find_seq(&c0, c0.active, seq) != 0));
	check_hide_other(cursor);
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
	find_newer();
	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	check_walks(&cursor, max_number > ENTRIES);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}
