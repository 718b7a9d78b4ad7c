/*-------------------------------------------------------------------------
 *
 * test_entry_history.c
 *	  Unit test of src/lsm/tree/rose_entry_history.c: whatever has happened to a row before
 *	  its index is made, and happens then, a snapshot finds in the index exactly the entry
 *	  of the version that it sees.
 *
 * All histories of up to MAX_STEPS steps are gone through.  Transactions of others write
 * the row, one after the other, and a reader takes a snapshot after each.  One transaction,
 * ours, lasts: it writes the row several times, takes some of that back, sees its own
 * versions and of others' what its snapshots see, and commits or not.  Garbage is collected,
 * with the readers' snapshots or when they have ended.  The index is made by us or by others,
 * at any moment, once or again; writes that come later keep it up as
 * src/lsm/write/rose_entries.c does.
 *
 * Once we are REPEATABLE READ, and once we have snapshots of all moments at the same time,
 * as nested functions of READ COMMITTED may.  Those of the latter kind do not write after
 * the index is made.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/tree/rose_entry_history.h"
#include "unit_check.h"
#include "utils/datum.h"

#define MAX_STEPS	7

/* Columns of the table. */
enum
{
	COL_A,						/* indexed; 0 and 1 are equal, 2 and 3 are */
	COL_B,						/* included */
	NCOLS
};

/* Rows that there may be: 0 and 1 differ in their images alone, and so do 0 and 3. */
#define NROWS	4
#define NO_ROW	(-1)

static const int row_a[NROWS] = {0, 1, 2, 0};
static const int row_b[NROWS] = {0, 0, 0, 1};

typedef struct Version
{
	int8		row;
	bool		own;			/* not committed */
	bool		aborted;
	bool		dropped;		/* nobody needs it */
} Version;

typedef struct Written
{
	int8		version;		/* whose stamps it has */
	int8		row;			/* whose entry it is */
	bool		tombstone;
} Written;

typedef struct State
{
	int			nversions;
	Version		versions[MAX_STEPS];
	int			nentries;
	Written		entries[8 * MAX_STEPS];
	int			nreaders;
	uint32		readers[MAX_STEPS + 1]; /* versions that a reader's snapshot sees */
	bool		begun;
	bool		ended;
	int			nmine;
	uint32		mine[MAX_STEPS + 1];	/* of others' versions, what each of our snapshots sees */
	bool		made;
	bool		made_by_us;
	int			made_at;		/* versions that there were */
} State;

static State now;
static bool repeatable;			/* we are REPEATABLE READ */
static bool ask_seen;			/* else all versions of others are taken as not seen */
static uint64 nchecked = 0;
static RoseEntryShape shape;
static RoseSchema *schema;

/* ---- the server that is not there ---- */

void *
palloc(Size size)
{
	return malloc(Max(size, 1));
}

void
pfree(void *pointer)
{
	free(pointer);
}

bool
datum_image_eq(Datum a, Datum b, bool byval, int len)
{
	return a == b;
}

int
rose_key_compare(const RoseSchema *index, const Datum *a, const Datum *b, int ncols)
{
	CHECK(index == schema && ncols == 1);
	return DatumGetInt32(a[0]) / 2 - DatumGetInt32(b[0]) / 2;
}

static void
make_index(void)
{
	shape.ncolumns = NCOLS;
	for (int i = 0; i < NCOLS; i++)
		shape.columns[i] = (RoseEntryColumn) {.source = i + 1, .byval = true, .len = sizeof(int32)};
	schema = calloc(1, sizeof(RoseSchema));
	schema->nkeys = 1;
	schema->keys[0].def.attno = COL_A + 1;
}

static void
entry_of(int row, RoseEntry *entry)
{
	Datum		values[NCOLS];
	bool		nulls[NCOLS] = {false};

	rose_entry_of_none(entry);
	if (row == NO_ROW)
		return;
	values[COL_A] = Int32GetDatum(row_a[row]);
	values[COL_B] = Int32GetDatum(row_b[row]);
	rose_entry_of_row(&shape, NULL, ROSE_ENTRY_OF_WRITER, values, nulls, 0, entry);
}

static int
row_of(const RoseEntry *entry)
{
	for (int row = 0; row < NROWS; row++)
		if (DatumGetInt32(entry->values[COL_A]) == row_a[row] &&
			DatumGetInt32(entry->values[COL_B]) == row_b[row])
			return row;
	CHECK(false);
	return NO_ROW;
}

static bool
same_key(int a, int b)
{
	return row_a[a] / 2 == row_a[b] / 2;
}

/* ---- reading ---- */

/* The newest version that a snapshot sees, or -1.  others: those of others; own: how many of ours. */
static bool
sees(int i, uint32 others, int own)
{
	const Version *version = &now.versions[i];

	return !version->aborted && (version->own ? i < own : (others & (1 << i)) != 0);
}

static int
newest_seen(uint32 others, int own)
{
	for (int i = now.nversions - 1; i >= 0; i--)
		if (sees(i, others, own))
			return i;
	return -1;
}

static int
row_seen(uint32 others, int own)
{
	int			i = newest_seen(others, own);

	return i < 0 ? NO_ROW : now.versions[i].row;
}

static bool
is_newest_entry(int i, uint32 others, int own)
{
	for (int j = 0; j < now.nentries; j++)
		if (now.entries[j].version > now.entries[i].version &&
			same_key(now.entries[i].row, now.entries[j].row) &&
			sees(now.entries[j].version, others, own))
			return false;
	return true;
}

static void
check_snapshot(uint32 others, int own)
{
	int			found = NO_ROW;

	for (int i = 0; i < now.nentries; i++)
	{
		if (!sees(now.entries[i].version, others, own) || now.entries[i].tombstone ||
			!is_newest_entry(i, others, own))
			continue;
		CHECK(found == NO_ROW);
		found = now.entries[i].row;
	}
	CHECK(found == row_seen(others, own));
	nchecked++;
}

/* What a snapshot that is taken now sees of others. */
static uint32
committed(void)
{
	uint32		result = 0;

	for (int i = 0; i < now.nversions; i++)
		if (!now.versions[i].own)
			result |= 1 << i;
	return result;
}

static void
check_all(void)
{
	for (int i = 0; i < now.nreaders; i++)
		check_snapshot(now.readers[i], 0);
	check_snapshot(committed(), 0);
	if (!now.begun || now.ended)
		return;
	for (int i = 0; i < now.nmine; i++)
		for (int own = 0; own <= now.nversions; own++)
			check_snapshot(now.mine[i], own);
}

/* ---- what writes to the index ---- */

static void
note_entry(void *arg, int i, bool tombstone, const RoseEntry *entry)
{
	const int  *versions = arg;
	Written    *written = &now.entries[now.nentries];

	CHECK(now.nentries < lengthof(now.entries));
	*written = (Written) {.version = versions[i], .row = row_of(entry), .tombstone = tombstone};
	for (int j = 0; j < now.nentries; j++)
		CHECK(now.entries[j].version != written->version ||
			  !same_key(now.entries[j].row, written->row));
	now.nentries++;
}

/* The last version over a row; hidden: that a snapshot of ours sees, though it is gone. */
static void
keep_up(int old_row, int hidden)
{
	int			version = now.nversions - 1;
	int			new_row = now.versions[version].row;
	RoseEntry	old;
	RoseEntry	new;
	RoseEntryChange change;

	entry_of(new_row, &new);
	if (hidden != NO_ROW)
	{
		entry_of(hidden, &old);
		if (rose_entry_compare(&shape, schema, &old, &new).tombstone)
			note_entry(&version, 0, true, &old);
	}
	entry_of(old_row, &old);
	change = rose_entry_compare(&shape, schema, &old, &new);
	if (change.tombstone)
		note_entry(&version, 0, true, &old);
	if (change.put)
		note_entry(&version, 0, false, &new);
}

static bool
seen_by_all_of_us(int i)
{
	if (!ask_seen)
		return false;
	for (int j = 0; now.begun && !now.ended && j < now.nmine; j++)
		if ((now.mine[j] & (1 << i)) == 0)
			return false;
	return true;
}

static bool
make(bool by_us)
{
	RoseEntryVersion history[MAX_STEPS];
	int			versions[MAX_STEPS];
	int			n = 0;

	if (by_us && (!now.begun || now.ended))
		return false;
	for (int i = 0; i < now.nversions; i++)
	{
		const Version *version = &now.versions[i];

		if (version->aborted || version->dropped)
			continue;
		if (version->own && !by_us)
			return false;
		entry_of(version->row, &history[n].entry);
		history[n].own = version->own;
		/* a snapshot is taken for it at the latest */
		history[n].seen = !version->own && seen_by_all_of_us(i);
		versions[n++] = i;
	}
	now.nentries = 0;
	rose_entry_history_write(&shape, schema, history, n, note_entry, versions);
	now.made = true;
	now.made_by_us = by_us;
	now.made_at = now.nversions;
	return true;
}

/* ---- steps ---- */

static int
newest(void)
{
	for (int i = now.nversions - 1; i >= 0; i--)
		if (!now.versions[i].aborted)
			return i;
	return -1;
}

static bool
write_row(int row, bool own)
{
	int			last = newest();
	int			old = last < 0 ? NO_ROW : now.versions[last].row;
	int			hidden = NO_ROW;

	if (row == NO_ROW && old == NO_ROW)
		return false;
	if (!own && last >= 0 && now.versions[last].own)
		return false;			/* waits for us */
	if (own && repeatable && old != NO_ROW && !sees(last, now.mine[0], now.nversions))
		return false;			/* could not serialize access */
	if (own && !repeatable && now.made)
		return false;
	if (own && !repeatable)
		now.mine[now.nmine++] = committed();
	if (own && old == NO_ROW)
		hidden = row_seen(now.mine[0], now.nversions);
	now.versions[now.nversions++] = (Version) {.row = row, .own = own};
	if (now.made)
		keep_up(old, hidden);
	if (!own)
		now.readers[now.nreaders++] = committed();
	return true;
}

/* Take back our versions, the last one or all. */
static bool
take_back(bool all)
{
	bool		any = false;

	for (int i = now.nversions - 1; i >= 0 && (all || !any); i--)
		if (now.versions[i].own && !now.versions[i].aborted)
		{
			/* the index would go, too */
			if (now.made && now.made_by_us && i < now.made_at)
				return false;
			now.versions[i].aborted = true;
			any = true;
		}
	return any;
}

static bool
commit(void)
{
	if (!now.begun || now.ended)
		return false;
	now.ended = true;
	for (int i = 0; i < now.nversions; i++)
		now.versions[i].own = false;
	now.readers[now.nreaders++] = committed();
	return true;
}

static bool
is_needed(int i)
{
	for (int j = 0; j < now.nreaders; j++)
		if (newest_seen(now.readers[j], 0) == i)
			return true;
	for (int j = 0; now.begun && !now.ended && j < now.nmine; j++)
		for (int own = 0; own <= now.nversions; own++)
			if (newest_seen(now.mine[j], own) == i)
				return true;
	return newest_seen(committed(), 0) == i;
}

static bool
collect_garbage(bool readers_end)
{
	bool		any = false;

	if (now.made)
		return false;
	if (readers_end)
		now.nreaders = 0;
	for (int i = 0; i < now.nversions; i++)
		if (!now.versions[i].own && !now.versions[i].aborted && !now.versions[i].dropped &&
			!is_needed(i))
			any = now.versions[i].dropped = true;
	return any;
}

static bool
begin(void)
{
	if (now.begun)
		return false;
	now.begun = true;
	now.mine[now.nmine++] = committed();
	return true;
}

#define NOPERATIONS (2 * (NROWS + 1) + 8)
static bool
operate(int operation)
{
	if (operation < NROWS + 1)
		return write_row(operation - 1, false);
	operation -= NROWS + 1;
	if (operation < NROWS + 1)
		return now.begun && !now.ended && write_row(operation - 1, true);
	switch (operation - (NROWS + 1))
	{
		case 0:
			return begin();
		case 1:
		case 2:
			return take_back(operation - (NROWS + 1) == 1);
		case 3:
			return commit();
		case 4:
		case 5:
			return make(operation - (NROWS + 1) == 4);
		case 6:
			return collect_garbage(false);
		default:
			return collect_garbage(true);
	}
}

static void
go_on(int step)
{
	State		before = now;

	if (step == MAX_STEPS)
		return;
	for (int operation = 0; operation < NOPERATIONS; operation++)
	{
		if (operate(operation))
		{
			if (now.made)
				check_all();
			go_on(step + 1);
		}
		now = before;
	}
}

int
main(void)
{
	make_index();
	for (int way = 0; way < 4; way++)
	{
		repeatable = (way & 1) != 0;
		ask_seen = (way & 2) != 0;
		go_on(0);
	}
	CHECK(nchecked > 1000000);
	printf("ok - snapshots find the entries of an index that is made later (" UINT64_FORMAT " asked)\n",
		   nchecked);
	return 0;
}
