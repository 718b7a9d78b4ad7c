/*-------------------------------------------------------------------------
 *
 * test_gc.c
 *	  Unit test of src/lsm/rose_gc.c: random histories of one key, and what
 *	  every possible snapshot reads before and after garbage collection.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_gc.h"

#undef printf
#undef fprintf

#define CHECK(condition) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: %s (history %d)\n", __FILE__, __LINE__, #condition, history); \
			abort(); \
		} \
	} while (0)

#define NCOLUMNS		4
#define ALL_COLUMNS		((1 << NCOLUMNS) - 1)
#define MAX_VERSIONS	40
#define HORIZON			1000

/* A version with its columns: column i has a value if bit i of present is set. */
typedef struct Version
{
	uint64		seq;
	uint64		xid;
	int			group;			/* in commit order: a snapshot sees groups up to one */
	uint8		op;
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

static int
below(int n)
{
	static uint64 state = UINT64CONST(88172645463325252);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (int) (state % n);
}

/* ngroups transactions, the first nold of them older than the horizon. */
static void
make_history(Versions *versions, int nold, int ngroups)
{
	Versions	oldest_first;
	uint64		seq = 1;

	oldest_first.n = 0;
	for (int group = 0; group < ngroups; group++)
	{
		uint64		xid = group < nold ? 1 + below(HORIZON - 1) : HORIZON + group * 10 + below(5);
		int			n = 1 + below(4);

		for (int i = 0; i < n && oldest_first.n < MAX_VERSIONS; i++)
		{
			Version    *v = &oldest_first.v[oldest_first.n++];

			v->seq = seq++;
			v->xid = xid;
			v->group = group;
			v->op = ROSE_OP_PUT + below(3);
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
collect_garbage(const Versions *in, bool bottom, Versions *out)
{
	RoseGc		gc;
	Version		held = {0};

	out->n = 0;
	rose_gc_init(&gc, FullTransactionIdFromU64(HORIZON), bottom);
	CHECK(!rose_gc_next_key(&gc));
	for (int i = 0; i < in->n; i++)
	{
		const Version *v = &in->v[i];
		RoseGcDecision decision = rose_gc_next(&gc, v->seq, FullTransactionIdFromU64(v->xid),
											   v->op);
		Found		fold;

		if (decision.flush)
			out->v[out->n++] = held;
		switch (decision.action)
		{
			case ROSE_GC_DROP:
				break;
			case ROSE_GC_KEEP:
				out->v[out->n++] = *v;
				break;
			case ROSE_GC_HOLD:
				CHECK(v->op == ROSE_OP_PARTIAL);
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
				CHECK(v->op == ROSE_OP_PUT);
				held.op = ROSE_OP_PUT;
				out->v[out->n++] = held;
				break;
		}
		/* a repeated version, as two sources may bring it, changes nothing */
		decision = rose_gc_next(&gc, v->seq, FullTransactionIdFromU64(v->xid), v->op);
		CHECK(!decision.flush && decision.action == ROSE_GC_DROP);
	}
	if (rose_gc_next_key(&gc))
		out->v[out->n++] = held;
}

static void
check_history(int nold, int ngroups, bool bottom)
{
	Versions	before;
	Versions	after;
	int			nold_left = 0;

	make_history(&before, nold, ngroups);
	collect_garbage(&before, bottom, &after);

	/* every snapshot sees at least the groups older than the horizon */
	for (int group = Max(nold - 1, 0); group < ngroups; group++)
	{
		Found		a = read_as_of(&before, group);
		Found		b = read_as_of(&after, group);

		/* at the bottom, "deleted" and "never there" are the same */
		if (bottom && a.have == 0 && !a.complete)
			a.deleted = b.deleted = false;
		CHECK(memcmp(&a, &b, sizeof(Found)) == 0);
	}

	for (int i = 0; i < after.n; i++)
	{
		CHECK(i == 0 || after.v[i].seq < after.v[i - 1].seq);
		nold_left += after.v[i].xid < HORIZON;
	}
	/* one, or a PARTIAL on top of a TOMBSTONE */
	CHECK(nold_left <= 2);
	if (nold_left == 2)
		CHECK(after.v[after.n - 1].op == ROSE_OP_TOMBSTONE &&
			  after.v[after.n - 2].op == ROSE_OP_PARTIAL);
	/* a deleted key disappears */
	if (bottom && nold == ngroups && before.n > 0 && before.v[0].op == ROSE_OP_TOMBSTONE)
		CHECK(after.n == 0);
}

/* Locks and a deletion that a waiting writer must see. */
static void
check_special_cases(void)
{
	RoseGc		gc;
	FullTransactionId xid = FullTransactionIdFromU64(HORIZON + 5);

	rose_gc_init(&gc, FullTransactionIdFromU64(HORIZON), false);
	(void) rose_gc_next_key(&gc);
	CHECK(rose_gc_next(&gc, 9, xid, ROSE_OP_LOCK).action == ROSE_GC_DROP);
	CHECK(rose_gc_next(&gc, 8, xid, ROSE_OP_PUT).action == ROSE_GC_KEEP);
	CHECK(rose_gc_next(&gc, 7, xid, ROSE_OP_PUT).action == ROSE_GC_DROP);
	CHECK(rose_gc_next(&gc, 6, xid, ROSE_OP_TOMBSTONE).action == ROSE_GC_KEEP);
	CHECK(rose_gc_next(&gc, 5, xid, ROSE_OP_PUT).action == ROSE_GC_DROP);
	CHECK(rose_gc_next(&gc, 4, FullTransactionIdFromU64(3), ROSE_OP_PUT).action == ROSE_GC_KEEP);
	CHECK(rose_gc_next(&gc, 3, FullTransactionIdFromU64(4), ROSE_OP_PUT).action == ROSE_GC_DROP);
}

int
main(void)
{
	check_special_cases();
	for (history = 0; history < 200000; history++)
	{
		int			ngroups = 1 + below(8);

		check_history(below(ngroups + 1), ngroups, below(2) == 0);
	}
	printf("# version garbage collection: all checks passed\n");
	return 0;
}
