/*-------------------------------------------------------------------------
 *
 * rose_version_walk.c
 *	  All versions that a tree has, key by key, as whole rows.  See rose_version_walk.h.
 *
 * The sources of one view are merged by key.  The versions of one key, its group, are
 * gathered before any is returned: they come newest first, but what a PARTIAL version
 * stands for is known only with the older ones.  If a memtable is freed meanwhile, the
 * group is gathered anew, from new sources; so it is always one view's.
 *
 * A version can be in two sources while it moves between them.  A merge may have folded
 * older versions into the copy of a PARTIAL one, or have forgotten numbers; copies of one
 * number are taken as one version, with all that any of them has.
 *
 * Most rows of a table at rest are their only versions.  Who says since when all snapshots
 * see what was committed gets these many at a time, as rows of a leaf: as far as no other
 * source has keys (rose_source.h, "at hand").
 *
 * Backend-local.  Memtables are read in reading sections of C0, by their sources.
 *
 * What this does not do: judge by snapshots (rose_scan.c), or leave out what nobody needs
 * (lsm/merge).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "util/rose_stop_point.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/read/rose_source.h"
#include "lsm/read/rose_version_walk.h"

/* A version as its source has it; rows are held. */
typedef struct WalkRow
{
	RoseRow		row;
	RoseXidStatus status;
	bool		spilled;
} WalkRow;

struct RoseVersionWalk
{
	RoseTree   *tree;
	const RoseSchema *schema;
	MemoryContext context;
	RoseVisibility vis;			/* sources want to know one */
	RoseKeyRange range;			/* everything */
	RoseReading reading;
	RoseSource *sources[ROSE_SOURCES_MAX];
	int			nsources;
	bool		positioned;		/* sources stand on the group's next version, or behind it */
	bool		exact;			/* equal prefixes mean equal keys */
	int			natts;			/* columns that are wanted */

	/* rows that were passed last: their source stands on the first of them */
	RoseSource *passing;		/* NULL: none */
	RoseWalkRows passed;
	bool		repeats;		/* older versions of key may come */

	/* the group, newest first */
	RoseKeyBuffer key;
	bool		key_done;		/* it was returned */
	WalkRow    *rows;
	int			nrows;
	int			capacity;
	MemoryContext group_context;

	/* and as it is returned, oldest first */
	RoseWalkVersion *versions;	/* [capacity] */
	int			nversions;
};

RoseVersionWalk *
rose_version_walk_begin(RoseTree *tree)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose version walk",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseVersionWalk *walk = palloc0(sizeof(RoseVersionWalk));

	walk->tree = tree;
	walk->schema = tree->schema;
	walk->context = context;
	walk->exact = rose_key_prefix_exact(tree->schema);
	walk->natts = tree->schema->natts;
	rose_visibility_init(&walk->vis, SnapshotAny);
	walk->reading.tree = tree;
	walk->reading.vis = &walk->vis;
	walk->reading.range = &walk->range;
	walk->reading.strategy = GetAccessStrategy(BAS_BULKREAD);
	walk->reading.context = AllocSetContextCreate(context, "rose version walk sources",
												  ALLOCSET_DEFAULT_SIZES);
	walk->group_context = AllocSetContextCreate(context, "rose version walk key",
												ALLOCSET_DEFAULT_SIZES);
	rose_key_buffer_init(&walk->key, context);
	MemoryContextSwitchTo(old);
	return walk;
}

/* ---- sources ---- */

static void
release_group(RoseVersionWalk *walk)
{
	for (int i = 0; i < walk->nrows; i++)
		rose_rows_release(walk->rows[i].row.rows);
	walk->nrows = 0;
	MemoryContextReset(walk->group_context);
}

static void
close_sources(RoseVersionWalk *walk)
{
	release_group(walk);
	for (int i = 0; i < walk->nsources; i++)
		walk->sources[i]->ops->close(walk->sources[i]);
	walk->nsources = 0;
	walk->passing = NULL;
	if (walk->reading.view != NULL)
		rose_view_release(walk->reading.view);
	walk->reading.view = NULL;
	MemoryContextReset(walk->reading.context);
	walk->positioned = false;
}

void
rose_version_walk_end(RoseVersionWalk *walk)
{
	close_sources(walk);
	FreeAccessStrategy(walk->reading.strategy);
	MemoryContextDelete(walk->context);
}

/* Place new sources on the key that is gathered, or behind the one that was returned; false: one is gone. */
static bool
position_sources(RoseVersionWalk *walk)
{
	int			ncols = walk->key.valid ? rose_schema_key_width(walk->schema) : 0;

	for (int i = 0; i < walk->nsources; i++)
	{
		RoseSource *source = walk->sources[i];

		source->ops->position(source, ForwardScanDirection, walk->key.key, ncols, !walk->key_done);
		if (source->state == ROSE_SOURCE_GONE)
			return false;
	}
	return true;
}

static void
take_sources(RoseVersionWalk *walk)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		close_sources(walk);
		walk->nsources = rose_sources_take(&walk->reading, false, walk->sources);
	} while (!position_sources(walk));
	walk->positioned = true;
}

static bool
source_precedes(const RoseVersionWalk *walk, const RoseSource *a, const RoseSource *b)
{
	int			cmp = rose_key_compare_prefixed(walk->schema, walk->exact, a->prefix, a->row->key,
												b->prefix, b->row->key);

	if (cmp != 0)
		return cmp < 0;
	return rose_source_is_newer(a, a->row->version.seq, b, b->row->version.seq);
}

/* The source whose version comes first, or NULL. */
static RoseSource *
best_source(RoseVersionWalk *walk)
{
	for (;;)
	{
		RoseSource *best = NULL;

		for (int i = 0; i < walk->nsources; i++)
		{
			RoseSource *source = walk->sources[i];

			if (source->state == ROSE_SOURCE_ROW &&
				(best == NULL || source_precedes(walk, source, best)))
				best = source;
		}
		if (best == NULL || !best->waiting)
			return best;
		best->ops->wake(best, ForwardScanDirection);
	}
}

/* ---- a group's versions, newest first ---- */

/* What became of who wrote it. */
static RoseXidStatus
judge(const RoseSource *source, const RoseVersion *version)
{
	if (source->committed)
		return ROSE_XID_COMMITTED;
	return rose_version_status(version);
}

static void
grow(RoseVersionWalk *walk)
{
	int			capacity = Max(walk->capacity * 2, 16);

	if (walk->capacity == 0)
	{
		walk->rows = MemoryContextAlloc(walk->context, capacity * sizeof(WalkRow));
		walk->versions = MemoryContextAlloc(walk->context, capacity * sizeof(RoseWalkVersion));
	}
	else
	{
		walk->rows = repalloc_huge(walk->rows, capacity * sizeof(WalkRow));
		walk->versions = repalloc_huge(walk->versions, capacity * sizeof(RoseWalkVersion));
	}
	walk->capacity = capacity;
}

/* Keep the version that the source stands on, which goes on. */
static void
gather(RoseVersionWalk *walk, RoseSource *source)
{
	MemoryContext old;
	RoseRow    *row;
	RoseXidStatus status;

	rose_source_need_version(source);
	if (source->row->version.op == ROSE_OP_LOCK)
		return;
	status = judge(source, &source->row->version);
	if (status != ROSE_XID_COMMITTED && status != ROSE_XID_OWN)
		return;

	if (walk->nrows == walk->capacity)
		grow(walk);
	walk->rows[walk->nrows].status = status;
	walk->rows[walk->nrows].spilled = source->entry != NULL &&
		source->entry->state == ROSE_COMPONENT_LIVE;
	row = &walk->rows[walk->nrows].row;
	*row = *source->row;
	row->key = walk->key.key;
	old = MemoryContextSwitchTo(walk->group_context);
	if (row->tuple != NULL)
		row->tuple = rose_copy_minimal_tuple(row->tuple);
	if (row->tuple != NULL && row->version.present != NULL)
	{
		Size		size = ROSE_PRESENT_BYTES(HeapTupleHeaderGetNatts(row->tuple));
		bits8	   *present = palloc(size);

		memcpy(present, row->version.present, size);
		row->version.present = present;
	}
	MemoryContextSwitchTo(old);
	rose_rows_hold(row->rows);
	walk->nrows++;
}

static void
begin_group(RoseVersionWalk *walk, const RoseSource *source)
{
	release_group(walk);
	rose_key_buffer_set(&walk->key, walk->schema, source->row->key);
	walk->key_done = false;
}

static bool
in_group(const RoseVersionWalk *walk, const RoseSource *source)
{
	return rose_key_compare_prefixed(walk->schema, walk->exact, walk->key.prefix, walk->key.key,
									 source->prefix, source->row->key) == 0;
}

/* Leave the rows behind that were passed last. */
static void
finish_passing(RoseVersionWalk *walk)
{
	RoseSource *source = walk->passing;
	Datum		key[INDEX_MAX_KEYS];

	if (source == NULL)
		return;
	rose_leaf_get_key(walk->passed.leaf, walk->passed.to - 1, key);
	rose_key_buffer_set(&walk->key, walk->schema, key);
	walk->key_done = true;
	walk->repeats = source->repeats;
	walk->passing = NULL;
	source->ops->go_to(source, walk->passed.to);
}

/* The source that has the first version of the next key, or NULL. */
static RoseSource *
next_source(RoseVersionWalk *walk)
{
	RoseSource *source;

	finish_passing(walk);
	if (!walk->positioned)
		take_sources(walk);
	source = best_source(walk);
	while (walk->repeats && source != NULL && in_group(walk, source))
	{
		rose_source_advance(source, ForwardScanDirection);
		if (source->state == ROSE_SOURCE_GONE)
			take_sources(walk);
		source = best_source(walk);
	}
	walk->repeats = false;
	return source;
}

/* All versions of the next key; false: there is none. */
static bool
gather_group(RoseVersionWalk *walk)
{
	RoseSource *source = next_source(walk);

	if (source == NULL)
		return false;
	begin_group(walk, source);
	ROSE_STOP_POINT("walk-group");
	while (source != NULL && in_group(walk, source))
	{
		gather(walk, source);
		rose_source_advance(source, ForwardScanDirection);
		if (source->state == ROSE_SOURCE_GONE)
			take_sources(walk); /* and begin with the group anew */
		source = best_source(walk);
	}
	walk->key_done = true;
	return true;
}

/* ---- and as whole rows, oldest first ---- */

/* The columns of a version, over those of what was there before it (NULL: no row). */
static void
fill_values(RoseVersionWalk *walk, const RoseRow *row, const RoseWalkVersion *before,
			Datum *values, bool *nulls)
{
	int			natts = walk->natts;

	rose_row_deform(row, walk->schema, 1, natts, values, nulls);
	for (AttrNumber attno = 1; row->version.op == ROSE_OP_PARTIAL && attno <= natts; attno++)
		if (!rose_row_is_present(row, attno))
		{
			values[attno - 1] = before->values[attno - 1];
			nulls[attno - 1] = before->nulls[attno - 1];
		}
}

static void
return_version(RoseVersionWalk *walk, const WalkRow *from)
{
	int			natts = walk->natts;
	const RoseWalkVersion *before = NULL;
	RoseWalkVersion *to;
	bool		spilled = from->spilled;

	if (walk->nversions > 0)
	{
		before = &walk->versions[walk->nversions - 1];
		/* a copy of it: what both have goes into one */
		if (before->version.seq == from->row.version.seq)
		{
			spilled |= before->spilled;
			walk->nversions--;
		}
	}
	to = &walk->versions[walk->nversions++];
	if (from->row.version.op == ROSE_OP_TOMBSTONE ||
		(from->row.version.op == ROSE_OP_PARTIAL &&
		 (before == NULL || before->version.op == ROSE_OP_TOMBSTONE)))
	{
		to->values = NULL;
		to->nulls = NULL;
	}
	else
	{
		Datum	   *values = MemoryContextAlloc(walk->group_context, natts * sizeof(Datum));
		bool	   *nulls = MemoryContextAlloc(walk->group_context, natts * sizeof(bool));

		fill_values(walk, &from->row, before, values, nulls);
		to->values = values;
		to->nulls = nulls;
	}
	to->version = from->row.version;
	to->version.op = to->values != NULL ? ROSE_OP_PUT : ROSE_OP_TOMBSTONE;
	to->version.present = NULL;
	to->status = from->status;
	to->spilled = spilled;
}

const RoseWalkVersion *
rose_version_walk_next(RoseVersionWalk *walk, int *n)
{
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!gather_group(walk))
			return NULL;
	} while (walk->nrows == 0);

	walk->nversions = 0;
	for (int i = walk->nrows - 1; i >= 0; i--)
		return_version(walk, &walk->rows[i]);
	*n = walk->nversions;
	return walk->versions;
}

/* ---- many rows at a time ---- */

void
rose_version_walk_expect_rows(RoseVersionWalk *walk, int natts, FullTransactionId oldest)
{
	walk->natts = natts;
	walk->vis.xmin = oldest;
}

/* The source with the next key but for those of this one, or NULL. */
static RoseSource *
rival_of(const RoseVersionWalk *walk, const RoseSource *source)
{
	RoseSource *rival = NULL;

	for (int i = 0; i < walk->nsources; i++)
	{
		RoseSource *other = walk->sources[i];

		if (other != source && other->state == ROSE_SOURCE_ROW &&
			(rival == NULL || source_precedes(walk, other, rival)))
			rival = other;
	}
	return rival;
}

bool
rose_version_walk_next_rows(RoseVersionWalk *walk, RoseWalkRows *rows)
{
	RoseSource *source;
	RoseStretch stretch;
	RoseLeaf   *leaf;

	CHECK_FOR_INTERRUPTS();
	source = next_source(walk);
	release_group(walk);
	if (source == NULL || source->entry == NULL ||
		!source->ops->at_hand(source, rival_of(walk, source), &stretch))
		return false;
	leaf = (RoseLeaf *) stretch.rows;	/* it is a component's */
	if (!leaf->rows.plain || leaf->rows.natts < walk->natts)
		return false;
	rose_leaf_set_window(leaf, stretch.next, true);
	rows->leaf = leaf;
	rows->from = stretch.next;
	rows->to = Min(stretch.end, leaf->rows.window_first + leaf->rows.window_rows);
	walk->passing = source;
	walk->passed = *rows;
	return true;
}

const Datum *
rose_version_walk_key(const RoseVersionWalk *walk)
{
	return walk->key.key;
}

const Datum *
rose_version_walk_last_key(RoseVersionWalk *walk)
{
	finish_passing(walk);
	Assert(walk->key.valid && walk->key_done);
	return walk->key.key;
}

void
rose_version_walk_go_behind(RoseVersionWalk *walk, const Datum *key)
{
	Assert(!walk->positioned && !walk->key.valid);
	rose_key_buffer_set(&walk->key, walk->schema, key);
	walk->key_done = true;
}
