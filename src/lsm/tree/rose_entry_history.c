/*-------------------------------------------------------------------------
 *
 * rose_entry_history.c
 *	  What all versions of one row write to an index that is made after them.
 *
 * Each version writes what it changes of the entry of the version before (rose_entry.h).
 * That is enough for snapshots that see all versions up to some one.
 *
 * Snapshots of the transaction that makes the index need not be like that: they see its
 * own versions, but maybe not what others have written directly before them.  A row that
 * somebody has deleted since a REPEATABLE READ transaction began is seen by its snapshot,
 * and a row with that key that the transaction has inserted then, too.  In the table the
 * newest version of the key counts.  In the index the deleted row's entry is another key,
 * with a tombstone that the snapshot does not see.  So the first own version takes all
 * entries out that committed versions have had, and puts its own one whatever was there
 * before, unless all snapshots see the version before it.
 *
 * No locks; nothing is kept.
 *
 * What this does not do: write entries together with rows (lsm/write/rose_entries.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/tree/rose_entry_history.h"

typedef struct History
{
	const RoseEntryShape *shape;
	const RoseSchema *schema;
	const RoseEntryVersion *versions;
	RoseEntryWrite write;
	void	   *arg;
} History;

static int
compare_keys(const RoseSchema *schema, const RoseEntry *a, const RoseEntry *b)
{
	Datum		x[INDEX_MAX_KEYS];
	Datum		y[INDEX_MAX_KEYS];

	rose_entry_key(schema, a, x);
	rose_entry_key(schema, b, y);
	return rose_key_compare(schema, x, y, schema->nkeys);
}

static int
compare_entries(const void *a, const void *b, void *schema)
{
	return compare_keys(schema, *(const RoseEntry *const *) a, *(const RoseEntry *const *) b);
}

/* The first own version, if what was there before it may be seen otherwise; or n. */
static int
first_unsure(const RoseEntryVersion *versions, int n)
{
	int			i = n;

	while (i > 0 && versions[i - 1].own)
		i--;
	return i > 0 && !versions[i - 1].seen ? i : n;
}

/* Version i over the version before. */
static void
write_change(const History *history, int i)
{
	RoseEntry	none;
	const RoseEntry *old = &none;
	const RoseEntry *new = &history->versions[i].entry;
	RoseEntryChange change;

	rose_entry_of_none(&none);
	if (i > 0)
		old = &history->versions[i - 1].entry;
	change = rose_entry_compare(history->shape, history->schema, old, new);
	if (change.tombstone)
		history->write(history->arg, i, true, old);
	if (change.put)
		history->write(history->arg, i, false, new);
}

/* Version i over any of those before. */
static void
write_over_all(const History *history, int i)
{
	const RoseEntry *new = &history->versions[i].entry;
	const RoseEntry **entries = palloc(i * sizeof(RoseEntry *));
	int			n = 0;

	for (int j = 0; j < i; j++)
		if (history->versions[j].entry.exists)
			entries[n++] = &history->versions[j].entry;
	qsort_arg(entries, n, sizeof(RoseEntry *), compare_entries, unconstify(RoseSchema *, history->schema));
	for (int j = 0; j < n; j++)
	{
		if (j > 0 && compare_keys(history->schema, entries[j - 1], entries[j]) == 0)
			continue;
		if (!new->exists || compare_keys(history->schema, entries[j], new) != 0)
			history->write(history->arg, i, true, entries[j]);
	}
	if (new->exists)
		history->write(history->arg, i, false, new);
	pfree(entries);
}

void
rose_entry_history_write(const RoseEntryShape *shape, const RoseSchema *schema,
						 const RoseEntryVersion *versions, int n, RoseEntryWrite write, void *arg)
{
	History		history = {shape, schema, versions, write, arg};
	int			unsure = first_unsure(versions, n);

	for (int i = 0; i < n; i++)
	{
		if (i == unsure)
			write_over_all(&history, i);
		else
			write_change(&history, i);
	}
}
