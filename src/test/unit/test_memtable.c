/*-------------------------------------------------------------------------
 *
 * test_memtable.c
 *	  Unit test of src/memtable: order, cursors, the sequence index, arena
 *	  exhaustion and reuse, and lock-free readers beside a writer (threads).
 *
 * Needs no server: the few functions that the module wants from one are faked
 * below, the free page manager included.  A program of its own, because it
 * fakes more than the other unit tests and uses threads; run.sh builds and runs
 * it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <pthread.h>

#include "common/pg_prng.h"
#include "compat/rose_compat_unit.h"
#include "memtable/rose_memtable.h"
#include "memtable/rose_memlist.h"
#include "storage/shmem.h"
#include "util/rose_key_internal.h"
#include "utils/datum.h"
#include "utils/freepage.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

/* the C library's own */
#undef printf
#undef fprintf
#undef snprintf
#undef qsort

#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* ---- the server that is not there ---- */

#define FAKE_PAGES 4096			/* 16 MB */

static char shared_memory[(FAKE_PAGES + 2) * FPM_PAGE_SIZE + 4096];
static bool page_used[FAKE_PAGES + 1];

pg_prng_state pg_global_prng_state = {1, 2};
MemoryContext CurrentMemoryContext = NULL;

uint64
pg_prng_uint64(pg_prng_state *state)
{
	state->s0 ^= state->s0 << 13;
	state->s0 ^= state->s0 >> 7;
	state->s0 ^= state->s0 << 17;
	return state->s0;
}

void
DefineCustomIntVariable(const char *name, const char *short_desc,
						const char *long_desc, int *variable, int boot, int min,
						int max, GucContext context, int flags,
						GucIntCheckHook check, GucIntAssignHook assign,
						GucShowHook show)
{
	*variable = FAKE_PAGES * (FPM_PAGE_SIZE / 1024);
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	CHECK(size <= sizeof(shared_memory));
	*found = false;
	return shared_memory;
}

int
LWLockNewTrancheId(void)
{
	return 100;
}

void
LWLockRegisterTranche(int tranche, const char *name)
{
}

void
LWLockInitialize(LWLock *lock, int tranche)
{
}

/* Only the writer thread allocates, so there is nothing to lock out. */
bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	return true;
}

void
LWLockRelease(LWLock *lock)
{
}

bool
LWLockHeldByMeInMode(LWLock *lock, LWLockMode mode)
{
	return true;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 1;
}

void
FreePageManagerInitialize(FreePageManager *fpm, char *base)
{
	memset(page_used, true, sizeof(page_used));
}

bool
FreePageManagerGet(FreePageManager *fpm, Size npages, Size *first_page)
{
	Size		run = 0;

	for (Size page = 1; page < FAKE_PAGES; page++)
	{
		run = page_used[page] ? 0 : run + 1;
		if (run == npages)
		{
			*first_page = page + 1 - npages;
			memset(&page_used[*first_page], true, npages);
			return true;
		}
	}
	return false;
}

void
FreePageManagerPut(FreePageManager *fpm, Size first_page, Size npages)
{
	for (Size page = first_page; page < first_page + npages; page++)
	{
		CHECK(page_used[page]);
		page_used[page] = false;
		/* whoever still reads freed memory shall notice */
		memset(rose_arena_base + page * FPM_PAGE_SIZE, 0x7f, FPM_PAGE_SIZE);
	}
}

void *
palloc0(Size size)
{
	return calloc(1, size);
}

void
pfree(void *pointer)
{
	free(pointer);
}

bool
errstart(int elevel, const char *domain)
{
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return true;
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	fprintf(stderr, "error raised at %s:%d\n", filename, lineno);
	abort();
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

/* never reached: the keys here are the first column, and no row is short */
Datum
nocachegetattr(HeapTuple tup, int attnum, TupleDesc att)
{
	abort();
}

Datum
getmissingattr(TupleDesc tupdesc, int attnum, bool *isnull)
{
	abort();
}

Datum
datumCopy(Datum value, bool typByVal, int typLen)
{
	abort();
}

uint64
hash_bytes_uint32_extended(uint32 k, uint64 seed)
{
	abort();
}

Datum
FunctionCall2Coll(FmgrInfo *flinfo, Oid collation, Datum arg1, Datum arg2)
{
	abort();
}

/* ---- schemas and rows ---- */

static RoseSchema rowid_schema;
static RoseSchema bytes_schema; /* one bytea key, ordered by its bytes */
static RoseC0Shared c0;

/* two words of a prefix, and eight bytes that it does not hold */
#define BYTES_KEY_LEN 24

static int
compare_bytes(Datum x, Datum y, SortSupport ssup)
{
	return memcmp(VARDATA_ANY(x), VARDATA_ANY(y), BYTES_KEY_LEN);
}

static void
make_schemas(void)
{
	TupleDesc	tupdesc = rose_unit_varlena_desc();

	rowid_schema.natts = 1;
	rowid_schema.tupdesc = tupdesc;
	rose_key_prefix_plan(&rowid_schema);

	bytes_schema.natts = 1;
	bytes_schema.tupdesc = tupdesc;
	bytes_schema.nkeys = 1;
	bytes_schema.keys[0].def.attno = 1;
	bytes_schema.keys[0].attlen = -1;
	bytes_schema.keys[0].ssup.comparator = compare_bytes;
	bytes_schema.keys[0].prefix_kind = ROSE_PREFIX_BYTES;
	rose_key_prefix_plan(&bytes_schema);
	CHECK(bytes_schema.prefix_wide && !rose_key_prefix_exact(&bytes_schema));
	CHECK(!rowid_schema.prefix_wide && rose_key_prefix_exact(&rowid_schema));
}

/* A row of one bytea column with the number in it, and padding behind. */
static MinimalTuple
make_row(uint64 number, Size padding)
{
	Size		header = MAXALIGN(SizeofMinimalTupleHeader);
	Size		len = header + VARHDRSZ + BYTES_KEY_LEN + padding;
	MinimalTuple row = calloc(1, len + 1);	/* snprintf ends with a zero */
	char	   *value = (char *) row + header;

	row->t_len = len;
	row->t_infomask2 = 1;		/* natts */
	row->t_infomask = HEAP_HASVARWIDTH;
	row->t_hoff = header + MINIMAL_TUPLE_OFFSET;
	SET_VARSIZE(value, VARHDRSZ + BYTES_KEY_LEN + padding);
	/* 256 numbers share the first word of a prefix, 16 of them the second */
	snprintf(value + VARHDRSZ, BYTES_KEY_LEN + 1, "%08x%08x%08x",
			 (uint32) (number >> 8), (uint32) (number >> 4), (uint32) number);
	return row;
}

static Datum
key_of(const RoseSchema *schema, MinimalTuple row, uint64 number)
{
	if (schema->nkeys == 0)
		return Int64GetDatum((int64) number);
	return PointerGetDatum((char *) row + MAXALIGN(SizeofMinimalTupleHeader));
}

static bool
prepare(const RoseSchema *schema, uint64 number, uint64 seq, Size padding,
		RoseMemPending *pending)
{
	static RoseMemHint hint;
	bool		found = false;
	MinimalTuple row = make_row(number, padding);
	Datum		key = key_of(schema, row, number);
	RoseVersion version = {0};
	bits8		present = 0x01;
	bool		ok;

	version.seq = seq;
	version.xid = FullTransactionIdFromU64(seq + 1000);
	version.op = seq % 3 == 0 ? ROSE_OP_PARTIAL : ROSE_OP_PUT;
	version.present = seq % 3 == 0 ? &present : NULL;
	version.moved_to = seq % 5 == 0 ? seq + 1 : 0;
	version.cid = seq;
	version.rowid = schema->nkeys == 0 ? (int64) number : 0;
	/* hints that are fresh, of another key, or none */
	if (seq % 4 == 0)
		rose_c0_probe(&c0, schema, &(const Datum *) {&key}, 1, seq % 8 == 0, &found, &hint);
	else if (seq % 4 == 1)
		memset(&hint, 0, sizeof(hint));
	ok = rose_c0_prepare_near(&c0, schema, &version, &key, row, &hint, pending);
	free(row);
	return ok;
}

static bool
put(const RoseSchema *schema, uint64 number, uint64 seq, Size padding)
{
	RoseMemPending pending;

	if (!prepare(schema, number, seq, padding, &pending))
		return false;
	rose_c0_link(&c0, &pending);
	return true;
}

static uint64
number_of(const RoseSchema *schema, const RoseMemEntryRef *ref)
{
	char		digits[9] = {0};

	if (schema->nkeys == 0)
		return (uint64) ref->version.rowid;
	memcpy(digits, (char *) ref->row + MAXALIGN(SizeofMinimalTupleHeader) +
		   VARHDRSZ + 16, 8);
	return strtoul(digits, NULL, 16);
}

static void
check_entry(const RoseSchema *schema, const RoseMemEntryRef *ref,
			uint64 number, uint64 seq)
{
	const RoseVersion *version = &ref->version;

	CHECK(number_of(schema, ref) == number);
	CHECK(version->seq == seq);
	CHECK(U64FromFullTransactionId(version->xid) == seq + 1000);
	CHECK(version->cid == (CommandId) seq);
	CHECK((version->present != NULL) == (seq % 3 == 0));
	CHECK(version->present == NULL || version->present[0] == 0x01);
	CHECK(version->moved_to == (seq % 5 == 0 ? seq + 1 : 0));
}

/* ---- prefixes of keys ---- */

/*
 * Keys of these columns, over any number of them: what prefixes say is true.
 */
static void
check_prefixes(const RoseKeyColumn *columns, int nkeys)
{
	RoseSchema	schema = {0};
	const int	nvalues = 2000;
	int			decided = 0;

	schema.nkeys = nkeys;
	memcpy(schema.keys, columns, nkeys * sizeof(RoseKeyColumn));
	rose_key_prefix_plan(&schema);
	for (int i = 0; i < nvalues; i++)
	{
		Datum		a[4];
		Datum		b[4];
		RoseKeyPrefix x;
		RoseKeyPrefix y;
		int			ncols = 1 + i % nkeys;
		int			cmp;
		bool		equal;

		for (int k = 0; k < nkeys; k++)
		{
			uint64		bits = pg_prng_uint64(&pg_global_prng_state);
			int			shift = bits & 63;

			/* near and far, and often the same */
			a[k] = Int64GetDatum((int64) pg_prng_uint64(&pg_global_prng_state) >> shift);
			b[k] = bits & 64 ? a[k] : Int64GetDatum(DatumGetInt64(a[k]) + (int64) (bits >> 62) - 1);
			if (columns[k].attlen == 4)
			{
				a[k] = Int32GetDatum((int32) a[k]);
				b[k] = Int32GetDatum((int32) b[k]);
			}
			else if (columns[k].attlen == 2)
			{
				a[k] = Int16GetDatum((int16) a[k]);
				b[k] = Int16GetDatum((int16) b[k]);
			}
		}
		rose_key_prefix_make(&schema, a, nkeys, &x);
		rose_key_prefix_make(&schema, b, ncols, &y);
		CHECK(x.mask[0] == PG_UINT64_MAX && x.mask[1] == PG_UINT64_MAX);
		CHECK(rose_key_prefix(&schema, a) == x.word[0]);
		x.word[0] &= y.mask[0];
		x.word[1] &= y.mask[1];
		cmp = rose_key_compare(&schema, a, b, ncols);
		equal = x.word[0] == y.word[0];
		if (!equal)
			CHECK((x.word[0] < y.word[0]) == (cmp < 0) && cmp != 0);
		else if (x.word[1] != y.word[1])
			CHECK((x.word[1] < y.word[1]) == (cmp < 0) && cmp != 0);
		if (equal)
			CHECK(rose_key_compare(&schema, a, b, Min(ncols, schema.prefix_columns)) == 0);
		decided += !equal;
	}
	CHECK(decided > 0);
	CHECK(rose_key_prefix_exact(&schema) == (schema.prefix_columns == nkeys));
}

static void
test_prefixes(void)
{
	RoseKeyColumn columns[3][4] = {0};
	const int16 lengths[3][4] = {{4, 4, 8, 2}, {2, 8, 4, 4}, {8, 2, 2, 2}};

	for (int i = 0; i < 3; i++)
	{
		for (int k = 0; k < 4; k++)
		{
			columns[i][k].int_order = true;
			columns[i][k].attlen = lengths[i][k];
			columns[i][k].attbyval = true;
			columns[i][k].prefix_kind = ROSE_PREFIX_INT;
		}
		for (int nkeys = 1; nkeys <= 4; nkeys++)
			check_prefixes(columns[i], nkeys);
	}
}

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
	CHECK(c0.tables[c0.active].nentries == NMODEL);
	CHECK(c0.tables[c0.active].min_seq == 1);
	CHECK(c0.tables[c0.active].max_seq == NMODEL);
	CHECK(rose_memtable_find_seq(&c0, c0.active, NMODEL + 1) == 0);

	qsort(model, NMODEL, sizeof(Model), compare_model);
	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	check_walks(&cursor);
	check_seeks(&cursor, max_number);
	check_sequences(schema, c0.active);
	rose_c0_free_all(&c0);
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
	rose_c0_free_all(&c0);
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
	CHECK(put(&rowid_schema, 1, 3, 0));	/* a PARTIAL */
	ptr = rose_memtable_find_seq(&c0, c0.active, 3);
	rose_memtable_get(&c0, &wider, ptr, &ref);
	CHECK(rose_present_test(ref.version.present, 1));
	for (int attno = 2; attno <= 20; attno++)
		CHECK(!rose_present_test(ref.version.present, attno));
	pfree(unconstify(bits8 *, ref.version.present));
	rose_c0_free_all(&c0);
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
	RoseMemHint hints[NKEYS];

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
		CHECK(c0.tables[c0.active].nentries == n);
		CHECK(rose_c0_bytes(&c0) == before);

		rose_mem_cursor_open(&cursor, &c0, &bytes_schema, c0.active);
		for (bool found = rose_mem_cursor_first(&cursor); found;
			 found = rose_mem_cursor_next(&cursor))
			seen++;
		CHECK(seen == n);
		rose_arena_use_reserve = false;
		rose_c0_free_all(&c0);
		CHECK(rose_arena_used_bytes() == 0);
	}
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
		CHECK(c0.tables[slots[i]].state == ROSE_MEMTABLE_FROZEN);
	}
	CHECK(put(&rowid_schema, 99, 99, 0));
	CHECK(rose_c0_freeze(&c0) == -1);	/* no slot for another one */

	rose_mem_cursor_open(&cursor, &c0, &rowid_schema, slots[1]);
	CHECK(rose_mem_cursor_alive(&cursor));
	rose_c0_free_memtable(&c0, slots[1]);
	CHECK(!rose_mem_cursor_alive(&cursor));
	CHECK(rose_c0_freeze(&c0) >= 0);
	CHECK(put(&rowid_schema, 100, 100, 0));	/* in the slot that was freed */
	CHECK(c0.active == slots[1]);
	CHECK(!rose_mem_cursor_alive(&cursor));
	rose_c0_free_all(&c0);
}

/* ---- readers beside a writer ---- */

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
		uint64		number;
		bool		found;
		RoseMemHint hint;

		CHECK(ptr != 0);
		rose_memtable_get(&c0, schema, ptr, &ref);
		number = number_of(schema, &ref);
		check_entry(schema, &ref, number, seq);
		row = make_row(number, 0);
		key = key_of(schema, row, number);
		found = false;
		rose_c0_probe(&c0, schema, &(const Datum *) {&key}, 1, seq % 2 == 0, &found,
					  &hint);
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
static void
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
	rose_c0_free_all(&c0);
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

static void
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
	rose_c0_free_all(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

int
main(void)
{
	rose_arena_define_settings();
	rose_arena_shmem_init(false);
	make_schemas();

	test_prefixes();
	test_model(&rowid_schema, 5000);
	test_model(&rowid_schema, UINT64CONST(1) << 62);
	test_model(&bytes_schema, 5000);
	test_model(&bytes_schema, UINT64CONST(1) << 31);
	test_old_sequences();
	test_wider_bitmap();
	test_exhaustion(100);
	test_exhaustion(20000);
	test_exhaustion(300000);
	test_freezing();
	test_stress(&rowid_schema, 5000);
	test_stress(&rowid_schema, 100000007);
	test_stress(&bytes_schema, 5000);
	test_stress(&bytes_schema, 100000007);
	test_append();
	printf("# memtable: all checks passed\n");
	return 0;
}
