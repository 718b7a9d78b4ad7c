/*-------------------------------------------------------------------------
 *
 * test_memtable.c
 *	  Unit test of src/memtable: order, cursors, the sequence index, arena
 *	  exhaustion and reuse; with memtable_arrivals.c, memtable_keys.c,
 *	  memtable_stress.c and memtable_recycle.c.
 *
 * Needs no server: memtable_server.c fakes what the module wants from one.  A program of
 * its own, because it fakes more than the other unit tests and uses threads; run.sh
 * builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include "common/pg_prng.h"
#include "memtable/rose_memlist.h"

/* ---- against a sorted array ---- */

typedef struct Model
{
	uint64		number;
	uint64		seq;
} Model;

#define NMODEL 20000
static Model model[NMODEL];

static int
compare_model(const void *a, const void *b)
{
	const Model *x = a;
	const Model *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->seq > y->seq ? -1 : x->seq < y->seq;
}

/* Index of the first entry not before (number, seq). */
static int
model_seek(uint64 number, uint64 seq)
{
	Model		wanted = {number, seq};
	int			low = 0;
	int			high = NMODEL;

	while (low < high)
	{
		int			mid = (low + high) / 2;

		if (compare_model(&model[mid], &wanted) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void
check_at(const RoseMemCursor *cursor, bool found, int index)
{
	RoseMemEntryRef ref;

	CHECK(found == (index >= 0 && index < NMODEL));
	if (!found)
		return;
	rose_mem_cursor_get(cursor, &ref);
	check_entry(cursor->schema, &ref, model[index].number, model[index].seq);
}

static void
check_walks(RoseMemCursor *cursor)
{
	int			i;
	bool		found;

	for (i = 0, found = rose_mem_cursor_first(cursor); found;
		 i++, found = rose_mem_cursor_next(cursor))
		check_at(cursor, true, i);
	CHECK(i == NMODEL);
	for (i = NMODEL - 1, found = rose_mem_cursor_last(cursor); found;
		 i--, found = rose_mem_cursor_prev(cursor))
		check_at(cursor, true, i);
	CHECK(i == -1);
}

static void
check_seeks(RoseMemCursor *cursor, uint64 max_number)
{
	const RoseSchema *schema = cursor->schema;

	for (int i = 0; i < 20000; i++)
	{
		uint64		number = pg_prng_uint64(&pg_global_prng_state) % max_number;
		uint64		seq = pg_prng_uint64(&pg_global_prng_state) % (NMODEL + 1);
		MinimalTuple row = make_row(number, 0);
		Datum		key = key_of(schema, row, number);
		int			index = model_seek(number, seq);

		check_at(cursor, rose_mem_cursor_seek(cursor, &key, 1, seq), index);
		check_at(cursor, rose_mem_cursor_seek(cursor, &key, 1, PG_UINT64_MAX),
				 model_seek(number, PG_UINT64_MAX));
		check_at(cursor, rose_mem_cursor_seek_last(cursor, &key, 1, true),
				 model_seek(number + 1, PG_UINT64_MAX) - 1);
		check_at(cursor, rose_mem_cursor_seek_last(cursor, &key, 1, false),
				 model_seek(number, PG_UINT64_MAX) - 1);
		free(row);
	}
	check_at(cursor, rose_mem_cursor_seek(cursor, NULL, 0, 7), 0);
	check_at(cursor, rose_mem_cursor_seek_last(cursor, NULL, 0, true), NMODEL - 1);
}

static void
check_sequences(const RoseSchema *schema, int slot)
{
	RoseMemEntryRef ref;

	for (int i = 0; i < NMODEL; i++)
	{
		RoseArenaPtr ptr = rose_memtable_find_seq(&c0, slot, model[i].seq);

		CHECK(ptr != 0);
		rose_memtable_get(&c0, schema, ptr, &ref);
		check_entry(schema, &ref, model[i].number, model[i].seq);
	}
	CHECK(rose_memtable_find_seq(&c0, slot, NMODEL + 1000000) == 0);
	CHECK(rose_memtable_find_seq(&c0, slot, PG_UINT64_MAX) == 0);
}

/* ---- many entries at a time ---- */

#define PLAIN_MANY 100

static const RoseMemSeen seen_half = {{NMODEL / 2 + 1000}, NMODEL - 5 + 1000};

/* As set_hints and put make them. */
static bool
model_is_plain(int index)
{
	uint64		seq = model[index].seq;

	return seq % 3 != 0 && seq % 7 != 0 && seq % 11 != 0 &&
		(seq < NMODEL / 2 || seq == NMODEL - 5);
}

static void
set_hints(void)
{
	for (int i = 0; i < NMODEL; i++)
	{
		uint64		seq = model[i].seq;
		uint8		hint = (seq % 7 == 0 ? 0 : ROSE_MEM_HINT_COMMITTED) |
			(seq % 11 == 0 ? ROSE_MEM_HINT_ABORTED : 0);

		rose_memtable_set_hint(rose_memtable_find_seq(&c0, c0.active, seq), hint);
	}
}

/* An entry that was taken, and a copy of it. */
static void
check_taken(const RoseSchema *schema, const RoseMemColumns *taken, int i, int index)
{
	RoseMemEntryRef ref;
	RoseMemEntryRef of_copy;
	Size		size;
	const void *image = rose_memtable_image(taken->ptrs[i], &size);
	char	   *copy = malloc(size);

	rose_memtable_get(&c0, schema, taken->ptrs[i], &ref);
	check_entry(schema, &ref, model[index].number, model[index].seq);
	CHECK(taken->seqs[i] == model[index].seq && taken->prefixes[i] == ref.prefix);
	CHECK(taken->rows[i] == ref.row);
	memcpy(copy, image, size);
	rose_memtable_image_get(schema, copy, &of_copy);
	check_entry(schema, &of_copy, model[index].number, model[index].seq);
	CHECK((char *) of_copy.row > copy && (char *) of_copy.row < copy + size);
	CHECK(rose_memtable_image_row(copy) == of_copy.row);
	free(copy);
}

/* Have two entries the same prefix? */
static bool
share_prefix(const RoseSchema *schema, int a, int b)
{
	int			bits = rose_key_prefix_exact(schema) ? 0 : 8;	/* see make_row */

	return model[a].number >> bits == model[b].number >> bits;
}

/* How many of an entry's key from it on are passed over together? */
static int
model_pass_old(int index)
{
	int			n = 0;

	while (n < 8 && index + n < NMODEL && model[index + n].number == model[index].number)
		n++;
	return n;
}

/*
 * What is to be taken from *index on, behind an entry that was taken before (or -1), into
 * taken[0..room).  Returns how many; *index goes behind them.
 */
static int
model_take(const RoseSchema *schema, bool forward, int before, bool whole, int *index, int *taken, int room)
{
	bool		exact = rose_key_prefix_exact(schema);
	int			n = 0;

	while (*index >= 0 && *index < NMODEL)
	{
		int			last = n > 0 ? taken[n - 1] : before;

		if (last >= 0 && share_prefix(schema, *index, last))
		{
			if (exact && forward && (n > 0 || whole))
			{
				*index += model_pass_old(*index);
				if (*index < NMODEL && share_prefix(schema, *index, last))
					break;
				continue;
			}
			if (!exact || forward || n == 0 || !model_is_plain(*index))
				break;
			n--;
		}
		if (n == room || !model_is_plain(*index))
			break;
		taken[n++] = *index;
		*index += forward ? 1 : -1;
	}
	return n;
}

/*
 * All entries, plain ones in runs of up to PLAIN_MANY that go on behind those taken
 * before, or begin anew.  Returns how many runs had more than one.
 */
static int
check_plain(RoseMemCursor *cursor, bool forward)
{
	RoseArenaPtr ptrs[PLAIN_MANY];
	uint64		prefixes[PLAIN_MANY];
	uint64		seqs[PLAIN_MANY];
	MinimalTuple rows[PLAIN_MANY];
	int			expected[PLAIN_MANY];
	const RoseMemColumns taken = {ptrs, prefixes, seqs, rows};
	int			index = forward ? 0 : NMODEL - 1;
	int			before = -1;
	int			from = 0;
	int			nlong = 0;
	bool		more = forward ? rose_mem_cursor_first(cursor) : rose_mem_cursor_last(cursor);

	while (more)
	{
		bool		whole = from > 0 && pg_prng_uint64(&pg_global_prng_state) % 2 == 0;
		int			n;
		int			end;

		check_at(cursor, true, index);
		n = model_take(cursor->schema, forward, from > 0 ? before : -1, whole, &index, expected, PLAIN_MANY - from);
		rose_mem_cursor_walk(cursor, forward, 16);
		end = rose_mem_cursor_take_plain(cursor, forward, &seen_half, &taken, from, PLAIN_MANY, whole);
		CHECK(end == from + n);
		for (int i = from; i < end; i++)
		{
			CHECK(i == 0 || prefixes[i] != prefixes[i - 1]);
			check_taken(cursor->schema, &taken, i, expected[i - from]);
			before = expected[i - from];
		}
		nlong += n > 1;
		check_at(cursor, cursor->current != 0, index);
		more = cursor->current != 0;
		if (more && n == 0)
		{
			more = forward ? rose_mem_cursor_next(cursor) : rose_mem_cursor_prev(cursor);
			index += forward ? 1 : -1;
			end = 0;
		}
		from = end < PLAIN_MANY ? end : 0;
	}
	CHECK(index == (forward ? NMODEL : -1));
	return nlong;
}

static void
test_model(const RoseSchema *schema, uint64 max_number)
{
	RoseMemCursor cursor;
	RoseMemPending hidden;

	rose_c0_init(&c0, 1);
	for (int i = 0; i < NMODEL; i++)
	{
		model[i].number = pg_prng_uint64(&pg_global_prng_state) % max_number;
		model[i].seq = i + 1;
		CHECK(put(schema, model[i].number, model[i].seq, i % 50));
		/* entries that are prepared and given up must never be seen */
		if (i % 100 == 0)
			CHECK(prepare(schema, model[i].number, NMODEL + 1 + i, 0, &hidden));
	}
	CHECK(c0.memtables[c0.active].nentries == NMODEL);
	CHECK(c0.memtables[c0.active].min_seq == 1);
	CHECK(c0.memtables[c0.active].max_seq == NMODEL);
	CHECK(rose_memtable_find_seq(&c0, c0.active, NMODEL + 1) == 0);

	qsort(model, NMODEL, sizeof(Model), compare_model);
	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	check_walks(&cursor);
	check_seeks(&cursor, max_number);
	check_sequences(schema, c0.active);
	set_hints();
	CHECK(check_plain(&cursor, true) > 100 || max_number < NMODEL);
	CHECK(check_plain(&cursor, false) > 100 || max_number < NMODEL);
	rose_c0_clear(&c0);
	CHECK(!rose_mem_cursor_alive(&cursor));
	CHECK(rose_c0_is_empty(&c0) && rose_c0_bytes(&c0) == 0);
	CHECK(rose_arena_used_bytes() == 0);
}

/* Sequences of all magnitudes, as carried over from older memtables. */
static void
test_old_sequences(void)
{
	rose_c0_init(&c0, 1);
	for (int shift = 63; shift >= 0; shift--)
		CHECK(put(&rowid_schema, shift, UINT64CONST(1) << shift, 0));
	for (int shift = 1; shift < 64; shift++)
		CHECK(put(&rowid_schema, shift, (UINT64CONST(1) << shift) + 1, 0));
	for (int shift = 63; shift >= 0; shift--)
	{
		uint64		seq = UINT64CONST(1) << shift;

		CHECK(rose_memtable_find_seq(&c0, c0.active, seq) != 0);
		CHECK(shift == 0 || rose_memtable_find_seq(&c0, c0.active, seq + 1) != 0);
		CHECK(shift < 3 || rose_memtable_find_seq(&c0, c0.active, seq - 1) == 0);
	}
	CHECK(rose_memtable_find_seq(&c0, c0.active, 0) == 0);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

/* ---- two keys with versions of one number ---- */

static bool
has_elsewhere(int slot, uint64 number, uint64 seq)
{
	MinimalTuple row = make_row(number, 0);
	Datum		key = key_of(&bytes_schema, row, number);
	bool		found = rose_c0_has_elsewhere(&c0, slot, &bytes_schema, &key, seq);

	free(row);
	return found;
}

static void
test_unnumbered(void)
{
	RoseMemPending hidden;
	int			frozen;

	rose_c0_init(&c0, 1);
	rose_c0_write_begin(&c0);
	rose_c0_set_unnumbered(&c0);
	for (uint64 number = 1; number <= 500; number++)
	{
		CHECK(put(&bytes_schema, number, 7, 0));
		CHECK(put(&bytes_schema, number, number + 100, 0));
	}
	CHECK(c0.memtables[c0.active].nentries == 1000);
	CHECK(c0.memtables[c0.active].seq_index == 0);
	CHECK(rose_memtable_find_seq(&c0, c0.active, 7) == 0);

	/* what a spill has carried over before it failed */
	frozen = rose_c0_freeze(&c0);
	CHECK(put(&bytes_schema, 20, 7, 0));
	CHECK(put(&bytes_schema, 30, 130, 0));
	CHECK(prepare(&bytes_schema, 40, 7, 0, &hidden));
	CHECK(has_elsewhere(frozen, 20, 7) && has_elsewhere(frozen, 30, 130));
	CHECK(!has_elsewhere(frozen, 20, 120) && !has_elsewhere(frozen, 30, 7));
	CHECK(!has_elsewhere(frozen, 25, 7) && !has_elsewhere(frozen, 40, 7));
	CHECK(has_elsewhere(c0.active, 20, 120) && has_elsewhere(c0.active, 500, 7));
	CHECK(!has_elsewhere(c0.active, 501, 7));
	rose_c0_write_end(&c0);
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

/* ---- a bitmap of a table that had fewer columns ---- */

static void
test_wider_bitmap(void)
{
	RoseSchema	wider = rowid_schema;
	RoseMemEntryRef ref;
	RoseArenaPtr ptr;

	wider.natts = 20;
	rose_c0_init(&c0, 1);
	CHECK(put(&rowid_schema, 1, 3, 0)); /* a PARTIAL */
	ptr = rose_memtable_find_seq(&c0, c0.active, 3);
	rose_memtable_get(&c0, &wider, ptr, &ref);
	CHECK(rose_present_test(ref.version.present, 1));
	for (int attno = 2; attno <= 20; attno++)
		CHECK(!rose_present_test(ref.version.present, attno));
	pfree(unconstify(bits8 *, ref.version.present));
	rose_c0_clear(&c0);
}

/* ---- exhaustion, freezing, reuse ---- */

/* Is there an entry of this key, by a cursor? */
static bool
have_key(const RoseSchema *schema, const Datum *key)
{
	RoseMemCursor cursor;
	RoseMemEntryRef ref;
	MinimalTuple row;
	Datum		other;
	bool		found;

	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	if (!rose_mem_cursor_seek(&cursor, key, 1, PG_UINT64_MAX))
		return false;
	rose_mem_cursor_get(&cursor, &ref);
	row = make_row(number_of(schema, &ref), 0);
	other = key_of(schema, row, number_of(schema, &ref));
	found = rose_key_compare(schema, key, &other, 1) == 0;
	free(row);
	return found;
}

/* Many keys at a time, with and without entries, up to beyond the last one. */
static void
probe_some(const RoseSchema *schema, uint64 step)
{
	enum
	{
		NKEYS = 150
	};
	const Datum *pointers[NKEYS];
	Datum		keys[NKEYS];
	MinimalTuple rows[NKEYS];
	bool		found[2][NKEYS] = {{false}};
	RoseMemSpot hints[NKEYS];

	for (int i = 0; i < NKEYS; i++)
	{
		rows[i] = make_row(i * step, 0);
		keys[i] = key_of(schema, rows[i], i * step);
		pointers[i] = &keys[i];
	}
	for (int ascending = 0; ascending < 2; ascending++)
		rose_c0_probe(&c0, schema, pointers, NKEYS, ascending, found[ascending],
					  hints);
	for (int i = 0; i < NKEYS; i++)
	{
		bool		expected = have_key(schema, &keys[i]);
		bool		last_part = false;

		CHECK(found[0][i] == expected && found[1][i] == expected);
		rose_c0_probe(&c0, schema, &pointers[i], 1, true, &last_part, hints);
		CHECK(last_part == expected);
		free(rows[i]);
	}
}

static void
test_exhaustion(Size padding)
{
	for (int round = 0; round < 3; round++)
	{
		uint64		n = 0;
		uint64		before;
		RoseMemCursor cursor;
		uint64		seen = 0;

		rose_c0_init(&c0, 1);
		while (put(&bytes_schema, n * 7919 % 100000, n + 1, padding))
			n++;
		CHECK(n > 10);
		CHECK(rose_arena_used_bytes() < rose_arena_total_bytes());
		probe_some(&bytes_schema, 1);
		probe_some(&bytes_schema, 3000);

		/* what is reserved for spills is there for spills */
		rose_arena_use_reserve = true;
		before = n;
		while (put(&bytes_schema, n * 7919 % 100000, n + 1, padding))
			n++;
		CHECK(n > before);
		before = rose_arena_used_bytes();
		CHECK(!put(&bytes_schema, 1, n + 1, padding));
		CHECK(rose_arena_used_bytes() == before);
		CHECK(before <= rose_arena_total_bytes());
		CHECK(before >= rose_arena_total_bytes() - 2 * (padding + 4096));
		CHECK(rose_memtable_find_seq(&c0, c0.active, n + 1) == 0);
		CHECK(c0.memtables[c0.active].nentries == n);
		CHECK(rose_c0_bytes(&c0) == before);

		rose_mem_cursor_open(&cursor, &c0, &bytes_schema, c0.active);
		for (bool found = rose_mem_cursor_first(&cursor); found;
			 found = rose_mem_cursor_next(&cursor))
			seen++;
		CHECK(seen == n);
		rose_arena_use_reserve = false;
		rose_c0_clear(&c0);
		CHECK(rose_arena_used_bytes() == 0);
	}
}

/* Half of the arena is free, but not in one piece. */
static void
test_fragments(void)
{
	const Size	small = 36 * 1024;
	const Size	large = 2048 * 1024;	/* more than the reserve */
	RoseC0Shared other;
	RoseC0Shared swap;
	uint64		n = 0;

	rose_c0_init(&c0, 1);
	rose_c0_init(&other, 1);
	while (put(&rowid_schema, n, n + 1, small))
	{
		n++;
		swap = c0;
		c0 = other;
		other = swap;
	}
	CHECK(!rose_arena_has_refused());
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() < rose_arena_total_bytes() / 8 * 5);
	CHECK(rose_arena_has_refused());
	CHECK(!put(&rowid_schema, n, n + 1, large));
	CHECK(!rose_arena_has_refused());
	CHECK(rose_arena_refused_bytes() > large);
	rose_c0_clear(&c0);
	swap = c0;
	c0 = other;
	rose_c0_clear(&c0);
	CHECK(rose_arena_has_refused());
	CHECK(put(&rowid_schema, n, n + 1, large));
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

static void
test_freezing(void)
{
	RoseMemCursor cursor;
	int			slots[ROSE_MAX_MEMTABLES];

	rose_c0_init(&c0, 1);
	CHECK(rose_c0_freeze(&c0) == -1);
	for (int i = 0; i < ROSE_MAX_MEMTABLES - 1; i++)
	{
		CHECK(put(&rowid_schema, i, i + 1, 0));
		slots[i] = rose_c0_freeze(&c0);
		CHECK(slots[i] >= 0 && c0.active == -1);
		CHECK(c0.memtables[slots[i]].state == ROSE_MEMTABLE_FROZEN);
	}
	CHECK(put(&rowid_schema, 99, 99, 0));
	CHECK(rose_c0_freeze(&c0) == -1);	/* no slot for another one */

	rose_mem_cursor_open(&cursor, &c0, &rowid_schema, slots[1]);
	CHECK(rose_mem_cursor_alive(&cursor));
	rose_c0_retire(&c0, slots[1]);
	CHECK(!rose_mem_cursor_alive(&cursor));
	CHECK(rose_c0_freeze(&c0) >= 0);
	CHECK(put(&rowid_schema, 100, 100, 0)); /* in the slot that was freed */
	CHECK(c0.active == slots[1]);
	CHECK(!rose_mem_cursor_alive(&cursor));
	rose_c0_clear(&c0);
}

int
main(void)
{
	rose_arena_define_settings();
	rose_arena_shmem_init(false);
	rose_readers_shmem_init(false);
	make_readers();
	make_schemas();

	test_prefixes();
	test_model(&rowid_schema, 5000);
	test_model(&rowid_schema, UINT64CONST(1) << 62);
	test_model(&bytes_schema, 5000);
	test_model(&bytes_schema, UINT64CONST(1) << 31);
	test_arrivals(&rowid_schema, 500);
	test_arrivals(&rowid_schema, 100000007);
	test_arrivals(&bytes_schema, 500);
	test_arrivals(&bytes_schema, 100000007);
	test_old_sequences();
	test_unnumbered();
	test_wider_bitmap();
	test_exhaustion(100);
	test_exhaustion(20000);
	test_exhaustion(300000);
	test_fragments();
	test_freezing();
	test_stress(&rowid_schema, 5000);
	test_stress(&rowid_schema, 100000007);
	test_stress(&bytes_schema, 5000);
	test_stress(&bytes_schema, 100000007);
	test_append();
	test_recycling(&rowid_schema);
	test_recycling(&bytes_schema);
	test_recycling_full_leaves(&rowid_schema);
	test_recycling_full_leaves(&bytes_schema);
	test_recycling_held(&rowid_schema, FAKE_READERS - 2);
	test_recycling_held(&bytes_schema, FAKE_READERS - 2);
	test_recycling_held(&bytes_schema, FAKE_READERS - 1);
	test_recycling_readers(&rowid_schema, 2000);
	test_recycling_readers(&rowid_schema, 100000007);
	test_recycling_readers(&bytes_schema, 2000);
	test_recycling_readers(&bytes_schema, 100000007);
	test_partials(&rowid_schema);
	test_partials(&bytes_schema);
	test_interrupted(&rowid_schema);
	test_interrupted(&bytes_schema);
	test_walk_beside_split(true);
	test_walk_beside_split(false);
	test_slot_between_looks();
	printf("# memtable: all checks passed\n");
	return 0;
}
