/*-------------------------------------------------------------------------
 *
 * rose_blind_below.c
 *	  Is there a row before a blind write?
 *
 * For who counts changes that do not fit: inserts of rows that are there, changes of rows that are not.  The
 * memtables and the filters of all components are asked for many keys together (rose_key_screen.h).  If none has the key,
 * there is no row, and nothing was read.  If memory has it, its newest version tells, unless that is a PARTIAL, which is a row
 * only if there is one below.  What is left is that a filter may have the key: then who asks exactly
 * has it looked up, and who asks cheaply is told that it is not known.  So "no row" is never wrong, and neither is "a row".
 *
 * Several rows may have one key: what the earlier ones, which are not written yet, make of it counts.
 *
 * Nobody else may write the keys from the look on until the rows are written.  That is for callers to see to (rose_blind.c,
 * rose_blind_beside.c); so versions in progress of others, which they have waited for, do not come here.
 *
 * Locking: a reader's (rose_key_reader.h).  May be used under key-partition locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "lsm/snapshot/rose_visibility.h"
#include "lsm/read/rose_key_screen.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/write/rose_blind_below.h"

StaticAssertDecl(ROSE_BLIND_ASK_MAX <= ROSE_SCREEN_MAX, "rows that ask are screened together");

/* So often a key is looked up again whose versions are moved under the look. */
#define BELOW_MAX_VIEWS		100

/* Places for keys, to find rows of the same one. */
#define BELOW_KEYS			512

/* Rows that are looked at together. */
typedef struct BelowRows
{
	RoseTree   *tree;
	const RoseBlindRow *rows;
	int			n;
	uint64		hashes[ROSE_BLIND_ASK_MAX];
	int16		before[ROSE_BLIND_ASK_MAX]; /* the one before of the same key, or -1 */
} BelowRows;

/*
 * Down the versions of a key.  *torn: they were of different views, and a PARTIAL was among them.
 *
 * Not exactly: of components only private runs are read, which may be older than others that are not, since they stay for a
 * while after their transactions.  The transaction's own are not: nobody else has written a key since it did.
 */
static RoseBlindBelow
descend(RoseKeyReader *reader, bool exactly, bool *torn)
{
	const RoseBlindBelow otherwise = exactly ? ROSE_BLIND_BELOW_NOTHING : ROSE_BLIND_BELOW_UNKNOWN;
	const RoseRow *row;
	bool		committed;
	bool		partial = false;

	*torn = false;
	while ((row = rose_key_reader_next(reader, &committed)) != NULL)
	{
		RoseXidStatus status = committed ? ROSE_XID_COMMITTED : rose_version_status(&row->version);

		if (partial && rose_key_reader_moved(reader))
			break;
		if (row->version.op == ROSE_OP_LOCK || status == ROSE_XID_ABORTED || status == ROSE_XID_IN_PROGRESS)
			continue;
		if (!exactly && rose_key_reader_entry(reader) != NULL && status != ROSE_XID_OWN)
			return otherwise;
		if (row->version.op != ROSE_OP_PARTIAL)
			return row->version.op == ROSE_OP_PUT ? ROSE_BLIND_BELOW_ROW : ROSE_BLIND_BELOW_NOTHING;
		/* a merge may have made it whole meanwhile, under the same number */
		if (!partial)
			rose_key_reader_repeat_from(reader, row->version.seq);
		partial = true;
	}
	*torn = partial && rose_key_reader_moved(reader);
	return otherwise;
}

/* exactly: components are read, too; else memory alone, and the transaction's own runs. */
static RoseBlindBelow
look_up(RoseTree *tree, const Datum *key, bool exactly)
{
	RoseKeyReader *reader = rose_lookup_cached_reader(tree);

	for (int nviews = 0; nviews < BELOW_MAX_VIEWS; nviews++)
	{
		RoseBlindBelow below;
		bool		torn;

		CHECK_FOR_INTERRUPTS();
		rose_key_reader_start(reader, key, PG_UINT64_MAX);
		if (!exactly)
			rose_key_reader_only_newer(reader, PG_UINT64_MAX);
		below = descend(reader, exactly, &torn);
		if (!torn)
			return below;
	}
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not look for a row of table \"%s\" because it was written to disk again and again meanwhile",
					RelationGetRelationName(tree->rel))));
}

/* Rows of one key, one after the other. */
static void
link_keys(BelowRows *all)
{
	const RoseSchema *schema = all->tree->schema;
	int16		last[BELOW_KEYS];
	int16		next[ROSE_BLIND_ASK_MAX];	/* of those with the same place */

	memset(last, -1, sizeof(last));
	for (int i = 0; i < all->n; i++)
	{
		int16	   *place;
		int			at;

		all->hashes[i] = rose_key_hash(schema, all->rows[i].key);
		place = &last[all->hashes[i] % BELOW_KEYS];
		for (at = *place; at >= 0; at = next[at])
			if (rose_key_compare(schema, all->rows[at].key, all->rows[i].key, schema->nkeys) == 0)
				break;
		all->before[i] = (int16) at;
		next[i] = *place;
		*place = (int16) i;
	}
}

/* The first ones of their keys: what memory and filters say of them, and what is looked up. */
static void
look_at_first(const BelowRows *all, uint8 *below)
{
	const RoseSchema *schema = all->tree->schema;
	const Datum *keys[ROSE_BLIND_ASK_MAX];
	uint64		prefixes[ROSE_BLIND_ASK_MAX];
	uint64		hashes[ROSE_BLIND_ASK_MAX];
	int			which[ROSE_BLIND_ASK_MAX];
	bool		maybe[ROSE_BLIND_ASK_MAX];
	bool		in_memory[ROSE_BLIND_ASK_MAX];
	int			n = 0;

	for (int i = 0; i < all->n; i++)
	{
		if (all->before[i] >= 0 || all->rows[i].ask == ROSE_BLIND_ASK_NOTHING)
			continue;
		keys[n] = all->rows[i].key;
		prefixes[n] = rose_key_prefix(schema, keys[n]);
		hashes[n] = all->hashes[i];
		which[n++] = i;
	}
	if (n == 0)
		return;
	rose_key_screen(all->tree, keys, prefixes, hashes, n, false, maybe, in_memory, NULL);
	for (int i = 0; i < n; i++)
	{
		bool		exactly = all->rows[which[i]].ask == ROSE_BLIND_ASK_EXACTLY;

		if (!maybe[i])
			below[which[i]] = ROSE_BLIND_BELOW_NOTHING;
		else if (exactly || in_memory[i])
			below[which[i]] = look_up(all->tree, keys[i], exactly);
	}
}

/* What a row finds that comes after one of the same key. */
static RoseBlindBelow
below_later(const BelowRows *all, int i, const uint8 *below)
{
	int			before = all->before[i];

	switch (all->rows[before].op)
	{
		case ROSE_OP_PUT:
			return ROSE_BLIND_BELOW_ROW;
		case ROSE_OP_TOMBSTONE:
			return ROSE_BLIND_BELOW_NOTHING;
		default:
			/* a PARTIAL makes no row, and ends none */
			if (below[before] == ROSE_BLIND_BELOW_UNKNOWN && all->rows[i].ask == ROSE_BLIND_ASK_EXACTLY)
				return look_up(all->tree, all->rows[i].key, true);
			return (RoseBlindBelow) below[before];
	}
}

void
rose_blind_look_below(RoseTree *tree, const RoseBlindRow *rows, int n, uint8 *below)
{
	BelowRows	all = {.tree = tree, .rows = rows, .n = n};

	Assert(tree->schema->nkeys > 0 && n <= ROSE_BLIND_ASK_MAX);
	memset(below, ROSE_BLIND_BELOW_UNKNOWN, n);
	link_keys(&all);
	look_at_first(&all, below);
	for (int i = 0; i < n; i++)
		if (all.before[i] >= 0)
			below[i] = below_later(&all, i, below);
}
