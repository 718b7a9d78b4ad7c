/*-------------------------------------------------------------------------
 *
 * test_gc.c
 *	  Unit test of src/lsm/merge/rose_gc.c: random histories of one key, and what
 *	  every possible snapshot reads before and after garbage collection.
 *
 * Each history is a few transactions in commit order; their xids are in any order. A
 * snapshot stands at a point of that order and sees what was committed before. Some
 * snapshots are declared; an undeclared one may stand wherever the horizon allows,
 * above all at the end.  Some transactions and some snapshots are SERIALIZABLE.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/merge/rose_gc.h"
#include "unit_check.h"

/* in check_history */
#define CHECK_HISTORY(condition) CHECK_AT(condition, " (history %d)\n", history)

#define NCOLUMNS		4
#define ALL_COLUMNS		((1 << NCOLUMNS) - 1)
#define MAX_VERSIONS	40
#define MAX_GROUPS		8
#define MAX_READERS		(MAX_GROUPS + 1)

/* A version with its columns: column i has a value if bit i of present is set. */
typedef struct Version
{
	uint64		seq;
	uint64		xid;
	int			group;			/* in commit order: a snapshot sees groups up to one */
	uint8		op;
	bool		named;			/* by a tombstone of another key */
	int			present;
	int			values[NCOLUMNS];
} Version;

typedef struct Versions
{
	int			n;
	Version		v[MAX_VERSIONS];	/* newest first */
} Versions;

/* What a reader finds. */
typedef struct Found
{
	int			have;			/* columns found */
	int			values[NCOLUMNS];
	bool		complete;		/* by a PUT */
	bool		deleted;		/* a TOMBSTONE ended the search */
} Found;

static int	history;

/* How the transactions of this history ran, as far as it is known: by their xids. */
#define MAX_XID			1000
static RoseSerial serial[MAX_XID];

RoseSerial
rose_serial_ask(uint64 xid)
{
	return serial[xid];
}

static int
below(int n)
{
	static uint64 state = UINT64CONST(88172645463325252);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (int) (state % n);
}

/* A horizon with room for its snapshots, and where each of those stands. */
typedef struct World
{
	uint64		xids[MAX_GROUPS];	/* in commit order */
	int			ngroups;
	RoseHorizon horizon;
	RoseKnownSnapshot snapshots[MAX_READERS];
	uint64		xip[MAX_READERS][MAX_GROUPS];
	int			positions[MAX_READERS]; /* it sees so many groups */
} World;

static void
make_history(Versions *versions, const World *world)
{
	Versions	oldest_first;
	uint64		seq = 1;

	oldest_first.n = 0;
	for (int group = 0; group < world->ngroups; group++)
	{
		uint64		xid = world->xids[group];
		int			n = 1 + below(4);

		for (int i = 0; i < n && oldest_first.n < MAX_VERSIONS; i++)
		{
			Version    *v = &oldest_first.v[oldest_first.n++];

			v->seq = seq++;
			v->xid = xid;
			v->group = group;
			v->op = ROSE_OP_PUT + below(3);
			v->named = false;
			v->present = v->op == ROSE_OP_PUT ? ALL_COLUMNS :
				v->op == ROSE_OP_PARTIAL ? below(ALL_COLUMNS + 1) : 0;
			for (int c = 0; c < NCOLUMNS; c++)
				v->values[c] = (int) v->seq * 10 + c;
		}
	}
	versions->n = oldest_first.n;
	for (int i = 0; i < versions->n; i++)
		versions->v[i] = oldest_first.v[versions->n - 1 - i];
}

static void
take_columns(Found *found, const Version *v)
{
	for (int c = 0; c < NCOLUMNS; c++)
		if ((v->present & (1 << c)) && !(found->have & (1 << c)))
		{
			found->values[c] = v->values[c];
			found->have |= 1 << c;
		}
}

static Found
read_as_of(const Versions *versions, int group)
{
	Found		found;

	memset(&found, 0, sizeof(found));
	for (int i = 0; i < versions->n; i++)
	{
		const Version *v = &versions->v[i];

		if (v->group > group)
			continue;
		take_columns(&found, v);
		if (v->op == ROSE_OP_PUT)
			found.complete = true;
		if (v->op == ROSE_OP_TOMBSTONE)
			found.deleted = true;
		if (v->op != ROSE_OP_PARTIAL)
			break;
	}
	return found;
}

/* What the writer of a component does with the filter's decisions. */
static void
collect_garbage(const Versions *in, const RoseHorizon *horizon, bool bottom,
				Versions *out)
{
	RoseGc		gc;
	Version		held = {0};

	out->n = 0;
	rose_gc_init(&gc, horizon, bottom);
	CHECK_HISTORY(rose_gc_next_key(&gc) == ROSE_GC_NOT_HELD);
	for (int i = 0; i < in->n; i++)
	{
		const Version *v = &in->v[i];
		RoseGcDecision decision = rose_gc_next(&gc, v->seq, FullTransactionIdFromU64(v->xid),
											   v->op, v->named);
		Found		fold;

		CHECK_HISTORY(decision.held == ROSE_GC_NOT_HELD || decision.held == ROSE_GC_WRITE_HELD ||
					  held.op == (decision.held == ROSE_GC_DROP_HELD ? ROSE_OP_PARTIAL : ROSE_OP_PUT));
		if (decision.held == ROSE_GC_WRITE_HELD)
			out->v[out->n++] = held;
		switch (decision.action)
		{
			case ROSE_GC_DROP:
				break;
			case ROSE_GC_KEEP:
				out->v[out->n++] = *v;
				break;
			case ROSE_GC_HOLD:
				CHECK_HISTORY(v->op == ROSE_OP_PARTIAL);
				held = *v;
				break;
			case ROSE_GC_ASIDE:
				CHECK_HISTORY(v->op == ROSE_OP_PUT);
				held = *v;
				break;
			case ROSE_GC_FOLD:
			case ROSE_GC_FOLD_LAST:
				memset(&fold, 0, sizeof(fold));
				take_columns(&fold, &held);
				take_columns(&fold, v);
				held.present = fold.have;
				memcpy(held.values, fold.values, sizeof(held.values));
				if (decision.action == ROSE_GC_FOLD)
					break;
				CHECK_HISTORY(v->op == ROSE_OP_PUT);
				held.op = ROSE_OP_PUT;
				out->v[out->n++] = held;
				break;
		}
		/* a repeated version, as two sources may bring it, changes nothing */
		decision = rose_gc_next(&gc, v->seq, FullTransactionIdFromU64(v->xid), v->op, v->named);
		CHECK_HISTORY(decision.held == ROSE_GC_NOT_HELD && decision.action == ROSE_GC_DROP);
	}
	if (rose_gc_next_key(&gc) == ROSE_GC_WRITE_HELD)
		out->v[out->n++] = held;
}

/* Least xid of the groups from this position on, or one that is greater than all. */
static uint64
least_unseen(const World *world, int position)
{
	uint64		least = 1000;

	for (int i = position; i < world->ngroups; i++)
		least = Min(least, world->xids[i]);
	return least;
}

/* The snapshot at a position, as the process array would have it.  xip: room for its transactions in progress. */
static void
make_snapshot(const World *world, int position, uint64 *xip, RoseKnownSnapshot *snapshot)
{
	uint64		xmax = 1;

	memset(snapshot, 0, sizeof(*snapshot));
	for (int i = 0; i < position; i++)
		xmax = Max(xmax, world->xids[i] + 1);
	xmax += below(20);			/* others have committed, too */
	snapshot->xmin = Min(xmax, least_unseen(world, position));
	snapshot->xmax = xmax;
	for (int i = position; i < world->ngroups; i++)
		if (world->xids[i] < xmax)
			xip[snapshot->nxip++] = world->xids[i];
	snapshot->xip = xip;
	for (int i = 0; i < world->ngroups; i++)
		CHECK_HISTORY(rose_known_snapshot_sees(snapshot, world->xids[i]) == (i < position));
}

static int
compare_positions(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

static void
make_world(World *world, int ngroups, int nsnapshots, bool serializable)
{
	uint64		oldest;

	memset(world, 0, sizeof(*world));
	world->ngroups = ngroups;
	for (int i = 0; i < ngroups; i++)
		world->xids[i] = 100 + below(10) * 10 + i;	/* no two are the same */
	/* sometimes all undeclared snapshots see everything */
	oldest = world->horizon.undeclared = below(2) == 0 ? 1000 : 90 + below(150);
	for (int i = 0; i < nsnapshots; i++)
		world->positions[i] = below(ngroups + 1);
	qsort(world->positions, nsnapshots, sizeof(int), compare_positions);
	for (int i = 0; i < nsnapshots; i++)
	{
		make_snapshot(world, world->positions[i], world->xip[i], &world->snapshots[i]);
		oldest = Min(oldest, world->snapshots[i].xmin);
	}
	world->horizon.oldest = oldest - (below(4) == 0 ? below(oldest) : 0);
	world->horizon.nsnapshots = nsnapshots;
	world->horizon.snapshots = world->snapshots;
	world->horizon.first_serializable = nsnapshots;
	for (int i = nsnapshots - 1; serializable && i >= 0; i--)
	{
		world->snapshots[i].serializable = below(3) == 0;
		if (world->snapshots[i].serializable)
			world->horizon.first_serializable = i;
	}
	for (int i = 0; i < ngroups; i++)
		serial[world->xids[i]] = serializable ? ROSE_SERIAL_NO + below(3) : ROSE_SERIAL_NO;
}

/* May somebody read as of this position? */
static bool
has_reader(const World *world, int position, bool *declared)
{
	*declared = false;
	for (int i = 0; i < world->horizon.nsnapshots; i++)
		*declared = *declared || world->positions[i] == position;
	return *declared || least_unseen(world, position) >= world->horizon.undeclared ||
		position == world->ngroups;
}

/* Versions that are the first one that some reader sees: all that is needed if all are PUTs. */
static int
count_needed(const World *world, const Versions *versions)
{
	int			needed = 0;

	for (int i = 0; i < versions->n; i++)
	{
		bool		found = false;

		if (i > 0 && versions->v[i].group == versions->v[i - 1].group)
			continue;
		for (int position = 0; position <= world->ngroups && !found; position++)
		{
			bool		declared;
			int			first = 0;

			if (!has_reader(world, position, &declared))
				continue;
			while (first < versions->n && versions->v[first].group >= position)
				first++;
			found = first == i;
		}
		needed += found;
	}
	return needed;
}

static int
count_settled(const World *world, const Versions *versions)
{
	int			n = 0;

	for (int i = 0; i < versions->n; i++)
	{
		uint32		first;

		n += rose_horizon_settled(&world->horizon, versions->v[i].xid, &first);
	}
	return n;
}

/*
 * The most that is left if all are PUTs: for each that is needed one more, and
 * each of which little is known, with the one before it.
 */
static int
count_left(const World *world, const Versions *versions)
{
	int			n = 2 * count_needed(world, versions);

	for (int i = 0; i < world->ngroups; i++)
		n += serial[world->xids[i]] == ROSE_SERIAL_MAYBE ? 2 : 0;
	return n;
}

static bool
has_puts_only(const Versions *versions)
{
	for (int i = 0; i < versions->n; i++)
		if (versions->v[i].op != ROSE_OP_PUT)
			return false;
	return true;
}

static void
check_same_answers(const World *world, const Versions *before, const Versions *after,
				   bool bottom)
{
	for (int position = 0; position <= world->ngroups; position++)
	{
		bool		declared;
		Found		a = read_as_of(before, position - 1);
		Found		b = read_as_of(after, position - 1);

		if (!has_reader(world, position, &declared))
			continue;
		/* what is above a deletion is no row; at the bottom, "deleted" and "never there" are the same */
		if (!a.complete && !b.complete && ((a.deleted && b.deleted) || bottom))
			continue;
		CHECK_HISTORY(memcmp(&a, &b, sizeof(Found)) == 0);
	}
}

/*
 * Who waits for a row that was moved to this key looks for what the move wrote, as long
 * as there can be a snapshot that does not see it.
 */
static void
check_named(const World *world, const Versions *before, const Versions *after)
{
	uint32		first = world->horizon.nsnapshots;
	bool		settled = false;
	int			at = 0;

	for (int i = 0; i < before->n; i++)
	{
		const Version *v = &before->v[i];
		uint32		own;

		settled = rose_horizon_settled(&world->horizon, v->xid, &own) || settled;
		first = Min(first, own);
		while (at < after->n && after->v[at].seq > v->seq)
			at++;
		if (v->named && !(settled && first == 0))
			CHECK_HISTORY(at < after->n && after->v[at].seq == v->seq &&
						  after->v[at].op == ROSE_OP_PUT);
	}
}

static bool
has_group(const Versions *versions, int group)
{
	for (int i = 0; i < versions->n; i++)
		if (versions->v[i].group == group)
			return true;
	return false;
}

/*
 * A SERIALIZABLE snapshot meets the first SERIALIZABLE transaction that it does not see,
 * of those that wrote the key, and of those after each deletion; and everybody who may be
 * it.
 */
static void
check_conflicts(const World *world, const Versions *before, const Versions *after)
{
	for (int s = 0; s < world->horizon.nsnapshots; s++)
	{
		bool		met = false;

		if (!world->snapshots[s].serializable)
			continue;
		for (int i = before->n - 1; i >= 0; i--)
		{
			const Version *v = &before->v[i];

			if (v->group < world->positions[s])
				continue;
			if (!met && v->op != ROSE_OP_PARTIAL && serial[v->xid] != ROSE_SERIAL_NO)
			{
				CHECK_HISTORY(has_group(after, v->group));
				met = serial[v->xid] == ROSE_SERIAL_YES;
			}
			if (v->op == ROSE_OP_TOMBSTONE)
				met = false;
		}
	}
}

/* What everybody sees: one version, and at the bottom a row. */
static void
check_seen_by_all(const World *world, const Versions *after, bool bottom)
{
	int			n = 0;

	for (int i = 0; i < after->n; i++)
	{
		uint32		first;

		if (rose_horizon_settled(&world->horizon, after->v[i].xid, &first) && first == 0)
			n++;
		else
			n = 0;				/* the group ends here: look at the oldest one */
	}
	CHECK_HISTORY(n <= 1);
	if (bottom && n == 1)
		CHECK_HISTORY(after->v[after->n - 1].op == ROSE_OP_PUT);
}

static void
check_history(int ngroups, int nsnapshots, bool bottom, bool puts_only, bool moves,
			  bool serializable)
{
	World		world;
	Versions	before;
	Versions	after;

	make_world(&world, ngroups, nsnapshots, serializable);
	make_history(&before, &world);
	for (int i = 0; puts_only && i < before.n; i++)
	{
		before.v[i].op = ROSE_OP_PUT;
		before.v[i].present = ALL_COLUMNS;
	}
	for (int i = 0; moves && i < before.n; i++)
		before.v[i].named = before.v[i].op == ROSE_OP_PUT && below(2) == 0;
	collect_garbage(&before, &world.horizon, bottom, &after);

	for (int i = 1; i < after.n; i++)
		CHECK_HISTORY(after.v[i].seq < after.v[i - 1].seq);
	check_same_answers(&world, &before, &after, bottom);
	check_seen_by_all(&world, &after, bottom);
	check_named(&world, &before, &after);
	check_conflicts(&world, &before, &after);

	if (count_settled(&world, &before) < before.n)
		return;
	/* nothing is left that nobody needs */
	if (has_puts_only(&before) && !moves)
		CHECK_HISTORY(after.n == count_needed(&world, &before) ||
					  (serializable && after.n <= count_left(&world, &before)));
	/* a deleted key disappears */
	if (bottom && nsnapshots == 0 && before.v[0].op == ROSE_OP_TOMBSTONE)
		CHECK_HISTORY(after.n == 0);
}

/* Locks and a deletion that a waiting writer must see. */
static void
check_special_cases(void)
{
	RoseGc		gc;
	RoseHorizon horizon = {.oldest = 1000, .undeclared = 1000};
	FullTransactionId xid = FullTransactionIdFromU64(1005);

	rose_gc_init(&gc, &horizon, false);
	(void) rose_gc_next_key(&gc);
	CHECK_HISTORY(rose_gc_next(&gc, 9, xid, ROSE_OP_LOCK, false).action == ROSE_GC_DROP);
	CHECK_HISTORY(rose_gc_next(&gc, 8, xid, ROSE_OP_PUT, false).action == ROSE_GC_KEEP);
	CHECK_HISTORY(rose_gc_next(&gc, 7, xid, ROSE_OP_PUT, false).action == ROSE_GC_DROP);
	CHECK_HISTORY(rose_gc_next(&gc, 6, xid, ROSE_OP_TOMBSTONE, false).action == ROSE_GC_KEEP);
	CHECK_HISTORY(rose_gc_next(&gc, 5, xid, ROSE_OP_PUT, false).action == ROSE_GC_DROP);
	CHECK_HISTORY(rose_gc_next(&gc, 4, FullTransactionIdFromU64(3), ROSE_OP_PUT, false).action == ROSE_GC_KEEP);
	CHECK_HISTORY(rose_gc_next(&gc, 3, FullTransactionIdFromU64(4), ROSE_OP_PUT, false).action == ROSE_GC_DROP);
}

int
main(void)
{
	check_special_cases();
	for (history = 0; history < 200000; history++)
	{
		check_history(1 + below(MAX_GROUPS), below(MAX_READERS), below(2) == 0, below(4) == 0,
					  below(3) == 0, below(2) == 0);
	}
	printf("# version garbage collection: all checks passed\n");
	return 0;
}
