/*-------------------------------------------------------------------------
 *
 * memtable_recycle.c
 *	  Unit test of memory that is used again: versions of one transaction that
 *	  supersede each other, against a model, and beside readers that are threads.
 *
 * Each row says by its length and its bytes which version of which key it is, so that
 * memory that is used again too early is noticed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include <pthread.h>
#include <unistd.h>

#include "memtable/rose_memlist.h"
#include "memtable/rose_seqindex.h"

#define NHOT			64		/* keys that are written again and again */
#define NUPDATES		30000
#define NREADERS		3
#define PATTERN			16		/* bytes of a row that tell its sequence, at least */

/* ---- versions of one transaction ---- */

static bool
never(CommandId earlier, CommandId later)
{
	return false;
}

/* The version before the newest one stays, as for the statement that writes. */
static CommandId newest_cid;
static bool
is_by_one(CommandId earlier, CommandId later)
{
	return later == newest_cid && earlier % 2 == 0;
}

static bool
not_undone(TransactionId subxid)
{
	return false;
}

static const RoseOwnRules one_stays = {never, never, not_undone};
static const RoseOwnRules two_stay = {is_by_one, never, not_undone};

/* Lengths that come again, and large ones that are as good as never the same. */
static Size
padding_of(uint64 seq)
{
	return PATTERN + (seq % 64 == 0 ? 600 + seq % 2000 : seq % 5 * 8);
}

static MinimalTuple
row_of(uint64 number, uint64 seq)
{
	Size		padding = padding_of(seq);
	MinimalTuple row = make_row(number, padding);

	memset((char *) row + row->t_len - padding, (int) (seq & 0x3f) + 1, padding);
	return row;
}

/* Write a version; what it supersedes goes. */
static RoseArenaPtr
write_hot(const RoseSchema *schema, uint64 number, uint64 seq, const RoseOwnRules *rules)
{
	const RoseMemSpot none = {0};
	MinimalTuple row = row_of(number, seq);
	Datum		key = key_of(schema, row, number);
	RoseVersion version = {0};
	RoseMemPending pending;

	version.seq = seq;
	version.xid = FullTransactionIdFromU64(1000);
	version.op = ROSE_OP_PUT;
	version.cid = newest_cid = (CommandId) seq;
	version.rowid = schema->nkeys == 0 ? (int64) number : 0;
	CHECK(rose_c0_prepare_near(&c0, schema, &version, &key, row, &none, NULL, &pending) == ROSE_MEM_PREPARED);
	rose_c0_link(&c0, &pending);
	(void) rose_c0_supersede(&c0, schema, &key, pending.entry, rules);
	free(row);
	return pending.entry;
}

/* Is the entry a whole version of the number?  Returns its sequence. */
static uint64
check_version(const RoseSchema *schema, const RoseMemEntryRef *ref)
{
	uint64		seq = ref->version.seq;
	Size		padding = padding_of(seq);
	MinimalTuple expected = row_of(number_of(schema, ref), seq);
	const char *bytes = (const char *) ref->row;

	CHECK(ref->row->t_len == expected->t_len);
	for (Size i = 0; i < padding; i++)
		CHECK(bytes[ref->row->t_len - 1 - i] == (char) ((seq & 0x3f) + 1));
	free(expected);
	CHECK(U64FromFullTransactionId(ref->version.xid) == 1000);
	CHECK(ref->version.op == ROSE_OP_PUT);
	return seq;
}

static inline bool
is_dead(const RoseMemEntryRef *ref)
{
	return (ref->hints & ROSE_MEM_HINT_ABORTED) != 0;
}

/* ---- against a model ---- */

#define HOT_DISTANCE	2000	/* from one hot number to the next */

static uint64 newest_of[NHOT];	/* of the hot number with this index, from 1 on */

/* Of each number the newest version, whichever way one goes; ndead: some that could not be taken out. */
static void
check_walk(const RoseSchema *schema, bool forward, int nmany, int *ndead)
{
	RoseMemCursor cursor;
	RoseMemEntryRef ref;
	int			nfound = 0;
	uint64		last = 0;

	*ndead = 0;
	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	for (bool found = forward ? rose_mem_cursor_first(&cursor) : rose_mem_cursor_last(&cursor);
		 found;
		 found = forward ? rose_mem_cursor_next(&cursor) : rose_mem_cursor_prev(&cursor))
	{
		uint64		number;

		rose_mem_cursor_get(&cursor, &ref);
		number = number_of(schema, &ref);
		check_version(schema, &ref);
		CHECK(last == 0 || (forward ? number >= last : number <= last));
		last = number;
		if (is_dead(&ref))
		{
			++*ndead;
			continue;
		}
		CHECK(number % HOT_DISTANCE != 0 || ref.version.seq == newest_of[number / HOT_DISTANCE]);
		nfound++;
	}
	CHECK(nfound == nmany + NHOT - 1);
}

static void
check_seeks(const RoseSchema *schema)
{
	RoseMemCursor cursor;
	RoseMemEntryRef ref;

	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	for (int i = 1; i < NHOT; i++)
	{
		uint64		number = (uint64) i * HOT_DISTANCE;
		MinimalTuple row = row_of(number, 1);
		Datum		key = key_of(schema, row, number);
		RoseArenaPtr ptr;

		CHECK(rose_mem_cursor_seek(&cursor, &key, 1, PG_UINT64_MAX));
		rose_mem_cursor_get(&cursor, &ref);
		CHECK(number_of(schema, &ref) == number && ref.version.seq == newest_of[i]);
		ptr = rose_memtable_find_seq(&c0, c0.active, newest_of[i]);
		CHECK(ptr == cursor.current);
		CHECK(rose_mem_cursor_seek_last(&cursor, &key, 1, true));
		rose_mem_cursor_get(&cursor, &ref);
		CHECK(number_of(schema, &ref) == number);
		free(row);
	}
}

/*
 * One version of each key is left, in the memory that they had after a few updates.  Other
 * keys are all over the place between them, so that leaves begin and end anywhere, and
 * then in their order, right before a hot key.
 */
void
test_recycling(RoseSchema *schema)
{
	uint64		seq = 0;
	uint64		nbytes = 0;
	int			nmany = 0;
	int			ndead;

	rose_c0_init(&c0, 1);
	for (int round = 0; round < 60; round++)
	{
		for (int i = 0; i < 5000; i++)
		{
			int			at = 1 + (seq * 48271 % 65537) % (NHOT - 1);

			newest_of[at] = ++seq;
			write_hot(schema, (uint64) at * HOT_DISTANCE, seq, &one_stays);
		}
		/* a few more keys, which stay */
		for (int i = 0; round < 50 && i < 31 + round; i++, nmany++)
		{
			seq++;
			write_hot(schema, round < 10 ? 1 + (uint64) nmany * 282 :
					  (uint64) (round + 1) * HOT_DISTANCE - 200 + 2 * i, seq, &one_stays);
		}
		check_walk(schema, true, nmany, &ndead);
		CHECK(ndead <= nmany / 20 + 4);
		check_walk(schema, false, nmany, &ndead);
		check_seeks(schema);
		CHECK(c0.memtables[c0.active].nentries == (uint64) (nmany + NHOT - 1 + ndead));
		if (round == 50)
			nbytes = rose_arena_used_bytes();
	}
	CHECK(nbytes < 1000 * 1024);
	CHECK(rose_arena_used_bytes() <= nbytes + 16 * 1024);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

/*
 * Leaves that were filled in order: the first key of each is updated, whose versions
 * belong to the end of the leaf before.
 */
void
test_recycling_full_leaves(RoseSchema *schema)
{
	uint64		nbytes;
	uint64		seq = 0;

	rose_c0_init(&c0, 1);
	for (uint64 number = 1; number <= 400; number++)
		write_hot(schema, number, ++seq, &one_stays);
	nbytes = rose_arena_used_bytes();
	for (int i = 0; i < 10000; i++)
	{
		seq++;
		write_hot(schema, 1 + seq % 10 * 40, seq, &one_stays);
	}
	CHECK(rose_arena_used_bytes() <= nbytes + 64 * 1024);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

/* ---- beside sections that last ---- */

#define NHELD			3000

typedef struct HeldEntry
{
	RoseArenaPtr ptr;
	uint64		seq;
} HeldEntry;

/* So many more updates of four keys. */
static void
write_held(const RoseSchema *schema, uint64 *seq, HeldEntry *entries)
{
	for (int i = 0; i < NHELD; i++)
	{
		uint64		number = 1 + ++*seq % 4;

		entries[i].ptr = write_hot(schema, number, *seq, &one_stays);
		entries[i].seq = *seq;
	}
}

/* These can be looked at still, whether they were taken out or not. */
static void
check_held(const RoseSchema *schema, const HeldEntry *entries, int n)
{
	for (int i = 0; i < n; i++)
	{
		RoseMemEntryRef ref;

		rose_memtable_get(&c0, schema, entries[i].ptr, &ref);
		CHECK(check_version(schema, &ref) == entries[i].seq);
		CHECK(number_of(schema, &ref) == 1 + entries[i].seq % 4);
	}
}

/*
 * Nothing is used again that was found in a section, before that ends: neither by who was
 * there when it was taken out, nor by who came when the locks were being looked at, and
 * his had been.  first: who is there; the last of all is the writer himself.
 */
void
test_recycling_held(RoseSchema *schema, int first)
{
	HeldEntry	entries[NHELD];
	HeldEntry	more[NHELD];
	Size		bytes = 0;
	Size		used;
	uint64		seq = 0;

	rose_c0_init(&c0, 1);
	reader_enter(first);
	write_held(schema, &seq, entries);
	check_held(schema, entries, NHELD);
	for (int i = 0; i < NHELD - 4; i++)
		bytes += rose_mementry_piece_bytes(rose_mementry_at(entries[i].ptr));
	CHECK(rose_c0_superseded_bytes(&c0) == bytes + NHELD / 64 * ROSE_SEQ_NODE_BYTES);

	/* the first ones were collected, and the first reader's lock is waited for */
	reader_enter(1);
	write_held(schema, &seq, more);
	reader_leave(first);
	write_held(schema, &seq, entries);
	check_held(schema, more, NHELD);
	reader_leave(1);
	used = rose_arena_used_bytes();
	write_held(schema, &seq, entries);
	CHECK(rose_arena_used_bytes() == used);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

/* ---- beside readers ---- */

/* Numbers that are not hot are written once, before the hot ones' turn comes. */
#define NCOLD			3000
#define MUCH_MEMORY		(4 * 1024 * 1024)

static volatile uint64 promised[NHOT];	/* of each hot key: a version that was linked */
static volatile uint64 written; /* the last number */
static volatile bool done;
static uint64 hot[NHOT];
static RoseSchema *readers_schema;

static int
hot_index(uint64 number)
{
	for (int i = 0; i < NHOT; i++)
		if (hot[i] == number)
			return i;
	return -1;
}

/* So many updates that memory of what was hot is used again, and again. */
#define MANY_UPDATES	200

/*
 * Leave the section and come back: the cursor finds its place again.  on_hot: it may have
 * been taken out meanwhile, and very likely has.
 */
static bool
pause_cursor(int reader, RoseMemCursor *cursor, bool forward, bool on_hot)
{
	uint64		before = written;
	union
	{
		char		bytes[4096];
		uint64		align;
	}			copy;
	Size		size;
	const void *image = rose_memtable_image(cursor->current, &size);

	CHECK(size <= sizeof(copy));
	memcpy(copy.bytes, image, size);
	reader_leave(reader);
	do
		sched_yield();
	while (on_hot && written < before + MANY_UPDATES && !done);
	reader_enter(reader);
	CHECK(rose_mem_cursor_alive(cursor));
	if (!rose_mem_cursor_stands(cursor))
		(void) rose_mem_cursor_seek_image(cursor, copy.bytes, forward);
	return cursor->current != 0;
}

/*
 * A walk meets all cold keys, in order and whole; and in one section of each hot one a
 * version that is at least as new as the one that was promised when it began.
 */
static void
walk(int reader, bool forward, bool pauses, uint64 *random)
{
	const RoseSchema *schema = readers_schema;
	uint64		wanted[NHOT];
	uint64		met[NHOT] = {0};
	uint64		last = forward ? 0 : PG_UINT64_MAX;
	uint64		last_seq = forward ? PG_UINT64_MAX : 0;
	RoseMemEntryRef ref;
	RoseMemCursor cursor;
	int			ncold = 0;
	bool		found;

	for (int i = 0; i < NHOT; i++)
		wanted[i] = promised[i];
	reader_enter(reader);
	rose_mem_cursor_open(&cursor, &c0, schema, 0);
	found = forward ? rose_mem_cursor_first(&cursor) : rose_mem_cursor_last(&cursor);
	while (found)
	{
		uint64		number;
		uint64		seq;
		int			i;

		rose_mem_cursor_get(&cursor, &ref);
		number = number_of(schema, &ref);
		seq = check_version(schema, &ref);
		CHECK(forward ? number >= last : number <= last);
		CHECK(number != last || (forward ? seq < last_seq : seq > last_seq));
		last = number;
		last_seq = seq;
		i = hot_index(number);
		if (i < 0)
			ncold++;
		else
			met[i] = Max(met[i], seq);
		found = forward ? rose_mem_cursor_next(&cursor) : rose_mem_cursor_prev(&cursor);
		*random = *random * UINT64CONST(6364136223846793005) + 1442695040888963407;
		if (found && pauses && (*random >> 33) % 8 == 0)
		{
			rose_mem_cursor_get(&cursor, &ref);
			found = pause_cursor(reader, &cursor, forward, hot_index(number_of(schema, &ref)) >= 0);
		}
	}
	reader_leave(reader);
	CHECK(ncold == NCOLD);
	for (int i = 0; i < NHOT && !pauses; i++)
		CHECK(met[i] >= wanted[i]);
}

static void
look_up(int reader, uint64 *random)
{
	const RoseSchema *schema = readers_schema;
	RoseMemCursor cursor;
	RoseMemEntryRef ref;

	for (int n = 0; n < 2000; n++)
	{
		int			i = (*random = *random * UINT64CONST(6364136223846793005) + 1442695040888963407) >> 33 & (NHOT - 1);
		uint64		wanted = promised[i];
		MinimalTuple row = row_of(hot[i], 1);
		Datum		key = key_of(schema, row, hot[i]);
		const Datum *keys[] = {&key};
		RoseMemSpot spot;
		bool		maybe = false;
		RoseArenaPtr ptr;

		pg_read_barrier();
		reader_enter(reader);
		rose_mem_cursor_open(&cursor, &c0, schema, 0);
		CHECK(rose_mem_cursor_seek(&cursor, &key, 1, PG_UINT64_MAX));
		rose_mem_cursor_get(&cursor, &ref);
		CHECK(number_of(schema, &ref) == hot[i] && check_version(schema, &ref) >= wanted);
		CHECK(rose_mem_cursor_seek_last(&cursor, &key, 1, true));
		rose_mem_cursor_get(&cursor, &ref);
		CHECK(number_of(schema, &ref) == hot[i]);
		rose_c0_probe(&c0, schema, keys, 1, n % 2 == 0, &maybe, &spot);
		CHECK(maybe);
		ptr = rose_memtable_find_seq(&c0, 0, wanted);
		if (ptr != 0)
		{
			rose_memtable_get(&c0, schema, ptr, &ref);
			CHECK(check_version(schema, &ref) == wanted && number_of(schema, &ref) == hot[i]);
		}
		reader_leave(reader);
		free(row);
	}
}

/* What take_arrivals gives: rows of cold keys, and one entry behind them that is not plain, or shares its prefix. */
static void
check_arrivals(const RoseMemCursor *cursor, const RoseMemArrivals *at, const RoseMemColumns *columns, int n,
			   uint64 *last, uint64 *met, int *ncold)
{
	const RoseSchema *schema = readers_schema;
	RoseMemEntryRef ref;

	for (int i = 0; i <= n; i++)
	{
		RoseArenaPtr ptr = i < n ? columns->ptrs[i] : at->other;
		uint64		number;
		int			index;

		if (ptr == 0)
			continue;
		rose_memtable_get(&c0, schema, ptr, &ref);
		number = number_of(schema, &ref);
		index = hot_index(number);
		CHECK(check_version(schema, &ref) > *last);
		CHECK(index < 0 || i == n);
		*last = ref.version.seq;
		if (index < 0)
			++*ncold;
		else
			met[index] = ref.version.seq;
		while (index >= 0 && rose_mem_cursor_newer(cursor, &ref))
			CHECK(check_version(schema, &ref) > *last && number_of(schema, &ref) == number);
	}
}

/*
 * In the order of numbers, and in sections of a few entries: each cold key once, and of each
 * hot one, in the end, a version that is at least as new as the one that was promised.
 */
static void
walk_arrivals(int reader)
{
	const RoseMemSeen seen = {.xmin = FullTransactionIdFromU64(2000)};
	RoseArenaPtr ptrs[50];
	uint64		prefixes[50];
	uint64		seqs[50];
	MinimalTuple rows[50];
	const RoseMemColumns columns = {ptrs, prefixes, seqs, rows};
	uint64		wanted[NHOT];
	uint64		met[NHOT] = {0};
	uint64		last = 0;
	uint64		next = 0;
	bool		at_end = false;
	RoseMemCursor cursor;
	int			ncold = 0;

	for (int i = 0; i < NHOT; i++)
		wanted[i] = promised[i];
	while (!at_end && !done)
	{
		RoseMemArrivals at = {.seq = next};

		reader_enter(reader);
		rose_mem_cursor_open(&cursor, &c0, readers_schema, 0);
		for (int n = 0; n < 5 && !at.at_end; n++)
		{
			int			end;

			at.looks = 100;
			end = rose_mem_cursor_take_arrivals(&cursor, &at, &seen, &columns, 0, lengthof(ptrs));
			check_arrivals(&cursor, &at, &columns, end, &last, met, &ncold);
			at.seq += at.other != 0;
		}
		next = at.seq;
		at_end = at.at_end;
		reader_leave(reader);
	}
	CHECK(done || ncold == NCOLD);
	for (int i = 0; i < NHOT && !done; i++)
		CHECK(met[i] >= wanted[i]);
}

static void *
reader_main(void *arg)
{
	int			reader = (int) (intptr_t) arg;
	uint64		random = reader + 1;

	while (!done)
	{
		walk(reader, true, false, &random);
		look_up(reader, &random);
		walk(reader, false, true, &random);
		walk_arrivals(reader);
		walk(reader, true, true, &random);
		walk(reader, false, false, &random);
	}
	return NULL;
}

void
test_recycling_readers(RoseSchema *schema, uint64 max_number)
{
	pthread_t	readers[NREADERS];
	uint64		seq = 0;

	rose_c0_init(&c0, 1);
	readers_schema = schema;
	done = false;
	/* no number comes twice */
	for (int i = 0; i < NHOT; i++)
	{
		hot[i] = max_number < NCOLD ? 1 + i * 31 : 6000 + (uint64) i * 1500007;
		promised[i] = ++seq;
		write_hot(schema, hot[i], seq, &one_stays);
	}
	for (int i = 0; i < NCOLD; i++)
	{
		uint64		number = 5000 + (uint64) i * 48271 % (max_number + NCOLD + 1);

		if (max_number < NCOLD)
			number = 5000 + i;
		rose_memtable_set_hint(write_hot(schema, number, ++seq, &one_stays), ROSE_MEM_HINT_COMMITTED);
	}
	for (intptr_t i = 0; i < NREADERS; i++)
		CHECK(pthread_create(&readers[i], NULL, reader_main, (void *) i) == 0);
	for (int n = 0; n < NUPDATES; n++)
	{
		int			i = (seq * 48271 % 65537) % NHOT;

		write_hot(schema, hot[i], ++seq, n / 10000 % 2 == 0 ? &one_stays : &two_stay);
		pg_write_barrier();
		promised[i] = seq;
		written = seq;
		/* readers that are kept from running keep memory */
		if (rose_c0_superseded_bytes(&c0) > MUCH_MEMORY)
			usleep(200);
	}
	done = true;
	for (int i = 0; i < NREADERS; i++)
		pthread_join(readers[i], NULL);
	CHECK(rose_arena_used_bytes() < 2 * MUCH_MEMORY);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}
