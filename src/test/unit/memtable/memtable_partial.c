/*-------------------------------------------------------------------------
 *
 * memtable_partial.c
 *	  Unit test of PARTIALs that stand for one another: against a model that keeps all.
 *
 * Transactions come one after the other, and some are rolled back.  Each writes a few
 * versions of a few keys: PARTIALs of all kinds of columns, and whole ones now and then.  Whoever looks, from
 * whatever moment on that not everybody sees yet, puts the same row together from what is
 * left as from all that there was: the transaction itself, those that see all before it, and older ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#define NCOLUMNS	8
#define NKEYS		3
#define NVERSIONS	400			/* of a round */
#define NXIDS		(NVERSIONS + 1)
#define MAX_LAG		6			/* transactions that somebody does not see yet */

typedef struct ModelVersion
{
	uint64		number;
	int			xid;
	uint8		op;
	bits8		present;
} ModelVersion;

static ModelVersion model[NVERSIONS + 1];	/* by sequence, from 1 on */
static bool committed[NXIDS];
static int	oldest;				/* everybody sees what older ones have committed */

static bool
by_command(CommandId earlier, CommandId later)
{
	return earlier != later;
}

static bool
always_undone(CommandId earlier, CommandId later)
{
	return true;
}

static bool
never_undone(TransactionId subxid)
{
	return false;
}

static bool
seen_by_all(FullTransactionId xid, bool hinted)
{
	int			number = (int) U64FromFullTransactionId(xid);

	return number < oldest && committed[number];
}

static const RoseOwnRules blind_rules = {by_command, always_undone, never_undone, seen_by_all};

/* A row as it is put together: of each column the version that it is from. */
typedef struct PutTogether
{
	bool		whole;			/* nothing below matters; else what is in a run does */
	bool		gone;
	uint64		from[NCOLUMNS];
} PutTogether;

/* One more version, an older one; false: that is all. */
static bool
add_version(PutTogether *row, uint8 op, bits8 present, uint64 seq)
{
	if (op == ROSE_OP_TOMBSTONE)
		row->gone = true;
	else
		for (int i = 0; i < NCOLUMNS; i++)
			if (row->from[i] == 0 && (op == ROSE_OP_PUT || (present & (1 << i)) != 0))
				row->from[i] = seq;
	row->whole = op != ROSE_OP_PARTIAL;
	return !row->whole;
}

/* Does somebody see what was committed up to a transaction, and what own has written? */
static bool
sees(int upto, int own, int xid)
{
	return xid == own || (xid <= upto && committed[xid]);
}

static void
read_model(uint64 number, uint64 last, int upto, int own, PutTogether *row)
{
	memset(row, 0, sizeof(*row));
	for (uint64 seq = last; seq > 0; seq--)
		if (model[seq].number == number && sees(upto, own, model[seq].xid) &&
			!add_version(row, model[seq].op, model[seq].present, seq))
			break;
}

/* Returns how many versions of the number there are that nobody has taken back. */
static int
read_memory(const RoseSchema *schema, uint64 number, int upto, int own, PutTogether *row)
{
	RoseMemCursor cursor;
	RoseMemEntryRef ref;
	bool		more = true;
	int			nleft = 0;

	memset(row, 0, sizeof(*row));
	rose_mem_cursor_open(&cursor, &c0, schema, c0.active);
	for (bool found = rose_mem_cursor_first(&cursor); found; found = rose_mem_cursor_next(&cursor))
	{
		rose_mem_cursor_get(&cursor, &ref);
		if (number_of(schema, &ref) != number || (ref.hints & ROSE_MEM_HINT_ABORTED) != 0)
			continue;
		nleft++;
		if (more && sees(upto, own, (int) U64FromFullTransactionId(ref.version.xid)))
			more = add_version(row, ref.version.op,
							   ref.version.present != NULL ? ref.version.present[0] : 0, ref.version.seq);
	}
	return nleft;
}

static void
write_version(const RoseSchema *schema, uint64 seq)
{
	const RoseMemSpot none = {0};
	const ModelVersion *it = &model[seq];
	MinimalTuple row = make_row(it->number, 0);
	Datum		key = key_of(schema, row, it->number);
	RoseVersion version = {0};
	RoseMemPending pending;

	version.seq = seq;
	version.xid = FullTransactionIdFromU64(it->xid);
	version.op = it->op;
	version.present = it->op == ROSE_OP_PARTIAL ? &it->present : NULL;
	version.cid = 1;
	version.rowid = schema->nkeys == 0 ? (int64) it->number : 0;
	CHECK(rose_c0_prepare_near(&c0, schema, &version, &key, row, &none, NULL, &pending) == ROSE_MEM_PREPARED);
	rose_c0_link(&c0, &pending);
	(void) rose_c0_supersede(&c0, schema, &key, pending.entry, &blind_rules);
	free(row);
}

static void
check_all(const RoseSchema *schema, uint64 last, int xid)
{
	PutTogether expected;
	PutTogether found;

	for (uint64 number = 1; number <= NKEYS; number++)
		for (int upto = oldest - 1; upto <= xid; upto++)
		{
			/* the last one is the transaction itself */
			int			own = upto == xid ? xid : -1;

			read_model(number, last, Min(upto, xid - 1), own, &expected);
			(void) read_memory(schema, number, Min(upto, xid - 1), own, &found);
			CHECK(memcmp(&expected, &found, sizeof(found)) == 0);
		}
}

/* kinds: of how many sets of columns PARTIALs are; whole: one in so many versions is, or 0. */
static void
run_round(const RoseSchema *schema, int kinds, int whole)
{
	static const bits8 sets[] = {0xff, 0x7f, 0x0f, 0x03, 0xf1};
	int			xid = 1;

	rose_c0_init(&c0, 1);
	oldest = 1;
	memset(committed, 0, sizeof(committed));
	for (uint64 seq = 1; seq <= NVERSIONS; seq++)
	{
		ModelVersion *it = &model[seq];

		it->number = 1 + rand() % NKEYS;
		it->xid = xid;
		it->present = sets[rand() % kinds];
		it->op = whole == 0 || rand() % whole != 0 ? ROSE_OP_PARTIAL :
			rand() % 2 == 0 ? ROSE_OP_PUT : ROSE_OP_TOMBSTONE;
		write_version(schema, seq);
		check_all(schema, seq, xid);
		if (rand() % 3 != 0)
			continue;
		committed[xid] = rand() % 4 != 0;
		xid++;
		if (xid - oldest >= MAX_LAG || rand() % 2 == 0)
			oldest = xid - rand() % (xid - oldest + 1);
	}
	rose_c0_clear(&c0);
	CHECK(rose_arena_used_bytes() == 0);
}

/* Each transaction writes one version, of the same columns, and all see it at once, or from some moment on. */
static void
run_hot(const RoseSchema *schema)
{
	PutTogether row;

	rose_c0_init(&c0, 1);
	for (int i = 0; i < NXIDS; i++)
		committed[i] = true;
	for (uint64 seq = 1; seq <= NVERSIONS; seq++)
	{
		model[seq] = (ModelVersion) {.number = 1, .xid = (int) seq, .op = ROSE_OP_PARTIAL, .present = 0x3f};
		/* somebody looks at the 100th for a while */
		oldest = seq > 100 && seq < 200 ? 100 : (int) seq;
		write_version(schema, seq);
		if (seq <= 100 || seq > 230)
			CHECK(read_memory(schema, 1, (int) seq, -1, &row) <= 3);
		if (seq == 199)
			CHECK(read_memory(schema, 1, (int) seq, -1, &row) >= 99);
	}
	rose_c0_clear(&c0);
}

void
test_partials(RoseSchema *schema)
{
	for (int i = 0; i < 20; i++)
	{
		run_round(schema, 1, 0);
		run_round(schema, 1, 10);
		run_round(schema, 5, 0);
		run_round(schema, 5, 10);
	}
	run_hot(schema);
}
