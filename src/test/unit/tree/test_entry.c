/*-------------------------------------------------------------------------
 *
 * test_entry.c
 *	  Unit test of src/lsm/tree/rose_entry.c: whatever happens to rows, a snapshot finds in
 *	  the index exactly the entries of the rows that it sees.
 *
 * All histories of up to MAX_STEPS writes of two rows are gone through: rows come, change,
 * move to the other key and go, and what was written is taken back to some savepoint. After
 * each step every snapshot that can be is asked.
 *
 * The index is on a column that may be NULL and whose values may be equal without being the
 * same, with another column included; or on an expression that gives that column, and
 * with a predicate.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/tree/rose_entry.h"
#include "unit_check.h"
#include "utils/datum.h"

#define MAX_STEPS	5

/* Columns of the table. */
enum
{
	COL_KEY,					/* 1 or 2 */
	COL_A,						/* indexed; 0 and 1 are equal, 2 and 3 are */
	COL_B,						/* included */
	NCOLS
};

typedef struct Row
{
	bool		live;
	Datum		values[NCOLS];
	bool		nulls[NCOLS];
} Row;

typedef struct Written
{
	int			seq;
	bool		aborted;
	int			key;			/* of the table: the row that it is about */
	Row			row;			/* table */
	bool		tombstone;		/* index: put, or this */
	RoseEntry	entry;
} Written;

/* What the table and the index have, oldest first. */
static Written versions[2 * MAX_STEPS];
static Written entries[4 * MAX_STEPS];
static int	nversions;
static int	nentries;
static int	next_seq = 1;
static uint64 nchecked = 0;

static RoseEntryShape shape;
static RoseSchema *schema;
static uint64 ncomputed = 0;

/* ---- the server that is not there ---- */

bool
datum_image_eq(Datum a, Datum b, bool byval, int len)
{
	CHECK(byval);
	return a == b;
}

/* Columns of the index's key: rank, the column, the table's key. */
int
rose_key_compare(const RoseSchema *index, const Datum *a, const Datum *b, int ncols)
{
	CHECK(index == schema && ncols == 3);
	if (DatumGetInt16(a[0]) != DatumGetInt16(b[0]))
		return DatumGetInt16(a[0]) < DatumGetInt16(b[0]) ? -1 : 1;
	/* the rank says NULL: nobody looks at the value */
	if (DatumGetInt16(a[0]) == 0 &&
		DatumGetInt32(a[1]) / 2 != DatumGetInt32(b[1]) / 2)
		return DatumGetInt32(a[1]) < DatumGetInt32(b[1]) ? -1 : 1;
	return DatumGetInt32(a[2]) - DatumGetInt32(b[2]);
}

/* The index's expression is column a; its predicate: that is not NULL, or b is 0. */
static RoseEntryEval
compute(Relation index, RoseEntryUser user, const Datum *values, const bool *nulls,
		Datum *results, bool *result_nulls)
{
	CHECK(index == NULL && user == ROSE_ENTRY_OF_WRITER);
	ncomputed++;
	if (nulls[COL_A] && DatumGetInt32(values[COL_B]) != 0)
		return ROSE_EVAL_NO_ROW;
	results[0] = values[COL_A];
	result_nulls[0] = nulls[COL_A];
	return ROSE_EVAL_ROW;
}

static bool
is_indexed(const Row *row)
{
	return row->live &&
		(!shape.evaluates || !row->nulls[COL_A] || DatumGetInt32(row->values[COL_B]) == 0);
}

static void
make_index(bool nulls_first, bool evaluates)
{
	const AttrNumber key[3] = {4, 1, 2};

	memset(&shape, 0, sizeof(shape));
	shape.ncolumns = 4;
	for (int i = 0; i < 3; i++)
		shape.columns[i] = (RoseEntryColumn) {.byval = true, .len = sizeof(int32)};
	shape.columns[0].source = COL_A + 1;
	shape.columns[1].source = COL_KEY + 1;
	shape.columns[2].source = COL_B + 1;
	shape.columns[3] = (RoseEntryColumn)
	{
		.source = COL_A + 1, .rank = true, .null_is_less = nulls_first,
			.byval = true, .len = sizeof(int16)
	};
	if (evaluates)
	{
		shape.evaluates = true;
		shape.columns[0].source = shape.columns[3].source = -1;
	}
	if (schema == NULL)
		schema = calloc(1, rose_schema_size(3));
	schema->nkeys = 3;
	for (int i = 0; i < 3; i++)
		schema->keys[i].def.attno = key[i];
}

/* ---- writing ---- */

static const Row *
newest_row(int key)
{
	for (int i = nversions - 1; i >= 0; i--)
		if (!versions[i].aborted && versions[i].key == key)
			return versions[i].row.live ? &versions[i].row : NULL;
	return NULL;
}

static void
entry_of(const Row *row, RoseEntry *entry)
{
	if (row == NULL)
		rose_entry_of_none(entry);
	else
		rose_entry_of_row(&shape, NULL, ROSE_ENTRY_OF_WRITER, row->values, row->nulls, 0, entry);
}

static int
compare_entries(const RoseEntry *a, const RoseEntry *b)
{
	Datum		x[3];
	Datum		y[3];

	rose_entry_key(schema, a, x);
	rose_entry_key(schema, b, y);
	return rose_key_compare(schema, x, y, 3);
}

static void
note_entry(int key, bool tombstone, const RoseEntry *entry)
{
	Written    *written = &entries[nentries++];

	written->seq = next_seq;
	written->aborted = false;
	written->key = key;
	written->tombstone = tombstone;
	written->entry = *entry;
	/* two of one number differ in their keys */
	CHECK(nentries < 2 || written[-1].seq != next_seq ||
		  compare_entries(&written[-1].entry, entry) != 0);
}

/* A new version of the row of a key; NULL: a tombstone. */
static void
write_row(int key, const Row *row)
{
	RoseEntry	old;
	RoseEntry	new;
	RoseEntryChange change;
	Written    *written;

	entry_of(newest_row(key), &old);
	entry_of(row, &new);
	change = rose_entry_compare(&shape, schema, &old, &new);
	if (change.tombstone)
		note_entry(key, true, &old);
	if (change.put)
		note_entry(key, false, &new);

	written = &versions[nversions++];
	written->seq = next_seq++;
	written->aborted = false;
	written->key = key;
	memset(&written->row, 0, sizeof(Row));
	if (row != NULL)
		written->row = *row;
}

static Row
make_row(int key, int which)
{
	Row			row = {.live = true};

	row.values[COL_KEY] = Int32GetDatum(key);
	row.nulls[COL_A] = which == 0;
	row.values[COL_A] = Int32GetDatum(which == 0 ? 0x7f7f7f7f : which == 2);
	row.values[COL_B] = Int32GetDatum(which == 3);
	return row;
}

/* Operation 0 to NOPERATIONS - 1; false if it cannot be. */
#define NOPERATIONS 8
static bool
operate(int operation)
{
	const Row  *first = newest_row(1);
	const Row  *second = newest_row(2);
	Row			row;

	switch (operation)
	{
		case 4:					/* DELETE */
			if (first == NULL)
				return false;
			write_row(1, NULL);
			return true;
		case 5:					/* UPDATE of the key */
			if ((first == NULL) == (second == NULL))
				return false;
			row = first ? *first : *second;
			row.values[COL_KEY] = Int32GetDatum(first ? 2 : 1);
			write_row(first ? 1 : 2, NULL);
			write_row(first ? 2 : 1, &row);
			return true;
		case 6:					/* a row under the other key */
			row = make_row(2, 1);
			write_row(2, &row);
			return true;
		case 7:					/* one that the predicate leaves out */
			row = make_row(1, 0);
			row.values[COL_B] = Int32GetDatum(1);
			write_row(1, &row);
			return true;
		default:				/* INSERT or UPDATE */
			row = make_row(1, operation);
			write_row(1, &row);
			return true;
	}
}

/* ---- reading ---- */

/* Is there nothing newer of its key that this snapshot sees? */
static bool
is_newest(int i, int seq)
{
	for (int j = i + 1; j < nentries && entries[j].seq <= seq; j++)
		if (!entries[j].aborted && compare_entries(&entries[i].entry, &entries[j].entry) == 0)
			return false;
	return true;
}

/* As stored: what a scan of the index alone returns. */
static bool
is_image_of(const RoseEntry *entry, const Row *row)
{
	bool		null = row->nulls[COL_A];

	return entry->nulls[0] == null && (null || entry->values[0] == row->values[COL_A]) &&
		!entry->nulls[1] && entry->values[1] == row->values[COL_KEY] &&
		!entry->nulls[2] && entry->values[2] == row->values[COL_B] &&
		!entry->nulls[3] &&
		DatumGetInt16(entry->values[3]) == (!null ? 0 : shape.columns[3].null_is_less ? -1 : 1);
}

/* A snapshot that sees the numbers up to this one. */
static void
check_snapshot(int seq)
{
	int			found[3] = {0};
	int			expected[3] = {0};

	for (int i = 0; i < nversions && versions[i].seq <= seq; i++)
		if (!versions[i].aborted)
			expected[versions[i].key] = is_indexed(&versions[i].row) ? i + 1 : 0;
	for (int i = 0; i < nentries && entries[i].seq <= seq; i++)
	{
		int			key = entries[i].key;

		if (entries[i].aborted || entries[i].tombstone || !is_newest(i, seq))
			continue;
		CHECK(found[key] == 0 && expected[key] != 0);
		found[key]++;
		CHECK(is_image_of(&entries[i].entry, &versions[expected[key] - 1].row));
	}
	for (int key = 1; key <= 2; key++)
		CHECK((expected[key] != 0) == (found[key] != 0));
	nchecked++;
}

/* ---- histories ---- */

static void
roll_back(int seq)
{
	for (int i = 0; i < nversions; i++)
		versions[i].aborted |= versions[i].seq >= seq;
	for (int i = 0; i < nentries; i++)
		entries[i].aborted |= entries[i].seq >= seq;
}

/* seqs: where the steps before began, of which 'step' savepoints there are. */
static void
go_on(int step, int *seqs)
{
	Written		old_versions[lengthof(versions)];
	Written		old_entries[lengthof(entries)];
	int			old_nversions = nversions;
	int			old_nentries = nentries;
	int			old_seq = next_seq;

	if (step == MAX_STEPS)
		return;
	memcpy(old_versions, versions, nversions * sizeof(Written));
	memcpy(old_entries, entries, nentries * sizeof(Written));
	seqs[step] = next_seq;
	for (int operation = 0; operation < NOPERATIONS; operation++)
	{
		/* taken back: nothing, this step, the last two, all */
		for (int back = 0; back < 4; back++)
		{
			if (back >= 2 && step + 1 < back)
				break;
			if (!operate(operation))
				break;
			if (back > 0)
				roll_back(seqs[back == 3 ? 0 : step + 1 - back]);
			for (int seq = 1; seq < next_seq; seq++)
				check_snapshot(seq);
			go_on(step + 1, seqs);
			nversions = old_nversions;
			nentries = old_nentries;
			next_seq = old_seq;
			memcpy(versions, old_versions, nversions * sizeof(Written));
			memcpy(entries, old_entries, nentries * sizeof(Written));
		}
	}
}

int
main(void)
{
	int			seqs[MAX_STEPS];

	rose_entry_eval_hook = compute;
	for (int kind = 0; kind < 3; kind++)
	{
		make_index(kind == 1, kind == 2);
		go_on(0, seqs);
	}
	CHECK(nchecked > 1000000 && ncomputed > 1000000);
	printf("ok - snapshots find the entries of the rows that they see (" UINT64_FORMAT " asked)\n",
		   nchecked);
	return 0;
}
