/*-------------------------------------------------------------------------
 *
 * memtable_between.c
 *	  Unit test of readers of a memtable between two looks at what a writer changes.
 *
 * A stop point stands between the looks, and the writer is called there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include "memtable/rose_memnode.h"
#include "util/rose_key_internal.h"
#include "util/rose_stop_point.h"

#define FULL_LEAVES		3
#define LAST_LEAF		5		/* entries */
#define NROWS			(FULL_LEAVES * ROSE_MEMTREE_FANOUT + LAST_LEAF)
#define STEP			10		/* from a number to the next one */
#define MUCH			20000

static const char *awaited;		/* the stop point */
static void (*change) (void);	/* once; NULL: it was made */
static uint64 last_seq;
static RoseSchema alike_schema; /* all keys have one prefix */

static bool
change_there(const char *name)
{
	void		(*todo) (void) = change;

	if (todo == NULL || strcmp(name, awaited) != 0)
		return false;
	change = NULL;
	todo();
	return false;
}

static void
await(const char *name, void (*todo) (void))
{
	awaited = name;
	change = todo;
	rose_stop_point_hook = change_there;
}

/* ---- a walk that begins, and leaves that are split at its left ---- */

/* All that memory which nobody has used yet may have: what looks like items of these keys, and leads nowhere. */
static void
fill_memory_with_zeros(void)
{
	left_behind = 0;
	rose_c0_init(&c0, 1);
	for (uint64 seq = 1; seq <= MUCH; seq++)
		CHECK(put(&rowid_schema, seq, seq, 0));
	rose_c0_clear(&c0);
	left_behind = 0x7f;
}

static void
split_first_leaf(void)
{
	CHECK(put(&alike_schema, STEP + 1, ++last_seq, 0));
}

void
test_walk_beside_split(bool forward)
{
	MinimalTuple row = make_row(NROWS * STEP, 0);
	RoseMemCursor cursor;
	RoseMemEntryRef ref;
	Datum		key;
	uint64		expected = NROWS;

	alike_schema = bytes_schema;
	alike_schema.keys[0].prefix_kind = ROSE_PREFIX_NONE;
	rose_key_prefix_plan(&alike_schema);
	key = key_of(&alike_schema, row, NROWS * STEP);
	fill_memory_with_zeros();
	rose_c0_init(&c0, 1);
	last_seq = 0;
	while (last_seq < NROWS)
	{
		last_seq++;
		CHECK(put(&alike_schema, last_seq * STEP, last_seq, 0));
	}
	rose_mem_cursor_open(&cursor, &c0, &alike_schema, c0.active);
	CHECK(rose_mem_cursor_seek(&cursor, &key, 1, PG_UINT64_MAX));
	await("walk-descended", split_first_leaf);
	rose_mem_cursor_walk(&cursor, forward, 16);
	CHECK(change == NULL);
	for (bool found = true; found && expected > 1;
		 found = forward ? rose_mem_cursor_next(&cursor) : rose_mem_cursor_prev(&cursor))
	{
		rose_mem_cursor_get(&cursor, &ref);
		check_entry(&alike_schema, &ref, expected * STEP, expected);
		expected--;
	}
	CHECK(expected == (forward ? NROWS - 1 : 1));
	rose_c0_clear(&c0);
	free(row);
}

/* ---- a memtable that goes, and another one in its slot ---- */

static void
replace_first_slot(void)
{
	rose_c0_retire(&c0, 0);
	CHECK(put(&rowid_schema, 2, 2, 0));
	CHECK(c0.active == 0);
}

/* Without a section: whoever looks in one sees less between his looks. */
void
test_slot_between_looks(void)
{
	RoseMemCursor cursor;

	rose_c0_init(&c0, 1);
	CHECK(put(&rowid_schema, 1, 1, 0));
	CHECK(rose_c0_freeze(&c0) == 0);
	rose_mem_cursor_open(&cursor, &c0, &rowid_schema, 0);
	CHECK(rose_mem_cursor_alive(&cursor));
	await("memtable-looked", replace_first_slot);
	CHECK(!rose_mem_cursor_alive(&cursor));
	CHECK(change == NULL);
	rose_c0_clear(&c0);
}
