/*-------------------------------------------------------------------------
 *
 * rose_interval.c
 *	  Intervals of a table's keys, which the processes of a parallel query take from one list.
 *	  See rose_interval.h.
 *
 * Bounds are chosen where most of the rows are: at leaves of C2's pieces, or of the largest
 * other component, by their inner pages; or at entries of the largest memtable.  If rows
 * come and go after that, intervals have more or fewer of them, and nothing else.
 *
 * An interval is small enough that who takes the last one does not keep the others waiting
 * long, and large enough that finding its begin in each source does not matter.
 *
 * Bytes of a bound, each part MAXALIGNed: the number of its columns as a uint64; for each
 * of them the Datum of a value that is passed by value, or else its length and the value.
 *
 * Locking: bounds are chosen in a reading section of C0, then by reading pages without it.
 * In shared memory only the number of the next interval changes, atomically.
 *
 * What this does not do: say how many processes there are (scan/rose_node_parallel.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "utils/datum.h"
#include "utils/guc.h"

#include "lsm/component/rose_key_buffer.h"
#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_interval.h"

/* Leaves of an interval, and as many rows of a memtable as some leaves have. */
#define INTERVAL_LEAVES		32
#define ROWS_OF_LEAF		256

#define MAX_INTERVALS		1024
#define MAX_MEM_INTERVALS	256

struct RoseIntervalsShared
{
	pg_atomic_uint32 next;		/* interval to take next */
	uint32		nbounds;		/* constant */
	Size		size;			/* of bounds; constant */
	char		bounds[FLEXIBLE_ARRAY_MEMBER];	/* MAXALIGNed; constant */
};

#define HEADER_SIZE		MAXALIGN(offsetof(RoseIntervalsShared, bounds))

typedef struct Bound
{
	int			ncols;
	Datum	   *key;
} Bound;

struct RoseIntervals
{
	RoseIntervalsShared *shared;	/* NULL: it is gone */
	uint32		nbounds;
	Bound	   *bounds;
};

static int	interval_leaves = INTERVAL_LEAVES;

void
rose_interval_define_settings(void)
{
	DefineCustomIntVariable("rose.interval_leaves",
							"Leaves of a table that a process of a parallel scan takes at a time, at least.",
							"For tests: results do not depend on it.",
							&interval_leaves,
							INTERVAL_LEAVES,
							1,
							INTERVAL_LEAVES,
							PGC_USERSET,
							GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
}

/* ---- bounds as bytes ---- */

static void
column_storage(const RoseSchema *schema, int column, bool *byval, int16 *len)
{
	*byval = schema->nkeys > 0 ? schema->keys[column].attbyval : true;
	*len = schema->nkeys > 0 ? schema->keys[column].attlen : (int16) sizeof(int64);
}

static void
write_word(StringInfo out, uint64 word)
{
	appendBinaryStringInfo(out, (const char *) &word, sizeof(word));
}

static void
write_bound(const RoseSchema *schema, const Datum *key, int ncols, StringInfo out)
{
	static const char zeros[MAXIMUM_ALIGNOF] = {0};

	write_word(out, (uint64) ncols);
	for (int i = 0; i < ncols; i++)
	{
		bool		byval;
		int16		len;
		Size		size;

		column_storage(schema, i, &byval, &len);
		if (byval)
		{
			write_word(out, (uint64) key[i]);
			continue;
		}
		size = datumGetSize(key[i], false, len);
		write_word(out, (uint64) size);
		appendBinaryStringInfo(out, DatumGetPointer(key[i]), (int) size);
		appendBinaryStringInfo(out, zeros, (int) (MAXALIGN(size) - size));
	}
}

static uint64
read_word(char **at)
{
	uint64		word;

	memcpy(&word, *at, sizeof(word));
	*at += sizeof(word);
	return word;
}

/* The Datums point into the bytes. */
static void
read_bound(const RoseSchema *schema, char **at, Bound *bound)
{
	bound->ncols = (int) read_word(at);
	bound->key = palloc(bound->ncols * sizeof(Datum));
	for (int i = 0; i < bound->ncols; i++)
	{
		bool		byval;
		int16		len;
		uint64		word = read_word(at);

		column_storage(schema, i, &byval, &len);
		if (byval)
		{
			bound->key[i] = (Datum) word;
			continue;
		}
		bound->key[i] = PointerGetDatum(*at);
		*at += MAXALIGN(word);
	}
}

/* ---- choosing ---- */

typedef struct Chooser
{
	RoseTree   *tree;
	RoseIntervalBounds *bounds;
	RoseKeyBuffer last;
	int			last_ncols;		/* 0: there is none */
} Chooser;

/* Is it behind the last one?  First columns alone are before all keys that begin with them. */
static bool
is_ascending(const Chooser *chooser, const Datum *key, int ncols)
{
	int			cmp = rose_key_compare(chooser->tree->schema, chooser->last.key, key,
									   Min(chooser->last_ncols, ncols));

	return cmp < 0 || (cmp == 0 && ncols > chooser->last_ncols);
}

static void
add_bound(Chooser *chooser, const Datum *key, int ncols)
{
	const RoseSchema *schema = chooser->tree->schema;

	if (ncols == 0 || !is_ascending(chooser, key, ncols))
		return;
	rose_key_buffer_set_prefix(&chooser->last, schema, key, ncols);
	chooser->last_ncols = ncols;
	write_bound(schema, key, ncols, &chooser->bounds->bytes);
	chooser->bounds->n++;
}

static void
add_key(void *chooser, const Datum *key)
{
	add_bound(chooser, key, rose_schema_key_width(((Chooser *) chooser)->tree->schema));
}

static uint64
rows_of(const RoseView *view, int i)
{
	const RoseComponentEntryDisk *entry = rose_view_entry(view, i);

	return rose_component_readable(entry) ? entry->nrows - entry->first_ordinal : 0;
}

static uint64
leaves_of(RoseView *view, int i)
{
	return rose_component_info(rose_view_component(view, i))->leaf_pages;
}

/* Its part of the bounds, if there is one for so many leaves. */
static void
choose_in_component(Chooser *chooser, RoseView *view, int i, uint64 leaves)
{
	RoseComponent *component = rose_view_component(view, i);
	uint64		first = rose_view_entry(view, i)->first_ordinal;
	uint64		nparts = Max(leaves_of(view, i) / leaves, 1);
	RoseComponentCursor *cursor;

	if (rows_of(view, i) == 0)
		return;
	cursor = rose_component_cursor_create(component, chooser->tree->rel, view->schema, NULL,
										  CurrentMemoryContext);
	if (first == 0 && i > view->first_piece)
		add_key(chooser, rose_component_info(component)->min_key);
	for (uint64 part = first == 0 ? 1 : 0; part < nparts; part++)
	{
		Datum		key[INDEX_MAX_KEYS];
		uint64		ordinal = first + (uint64) ((double) rows_of(view, i) * part / nparts);
		int			ncols = rose_component_cursor_bound(cursor, ordinal, key);

		add_bound(chooser, key, ncols);
	}
	rose_component_cursor_free(cursor);
}

/* In the components [from, to), whose keys do not overlap. */
static void
choose_in_components(Chooser *chooser, RoseView *view, int from, int to)
{
	uint64		leaves = 0;

	for (int i = from; i < to; i++)
		leaves += rows_of(view, i) > 0 ? leaves_of(view, i) : 0;
	leaves = Max(leaves / MAX_INTERVALS + 1, (uint64) interval_leaves);
	for (int i = from; i < to; i++)
		choose_in_component(chooser, view, i, leaves);
}

/* The components [*from, *to) that have most rows, and their number. */
static void
largest_components(const RoseView *view, int *from, int *to, uint64 *rows)
{
	*from = view->first_piece;
	*to = view->manifest.ncomponents;
	*rows = 0;
	for (int i = *from; i < *to; i++)
		*rows += rows_of(view, i);
	for (int i = 0; i < view->first_piece; i++)
	{
		if (rows_of(view, i) <= *rows)
			continue;
		*rows = rows_of(view, i);
		*from = i;
		*to = i + 1;
	}
}

void
rose_interval_choose(RoseTree *tree, RoseIntervalBounds *bounds)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	Chooser		chooser = {tree, bounds};
	RoseView   *view;
	uint64		in_memory;
	uint64		in_components;
	int			slot;
	int			from;
	int			to;

	bounds->n = 0;
	initStringInfo(&bounds->bytes);
	rose_key_buffer_init(&chooser.last, CurrentMemoryContext);
	rose_c0_read_begin(c0);
	view = rose_view_take(tree);
	slot = rose_memtable_largest(c0, &in_memory);
	largest_components(view, &from, &to, &in_components);
	if (in_memory > in_components)
		rose_memtable_part_keys(c0, tree->schema, slot,
								Min(in_memory / (interval_leaves * ROWS_OF_LEAF), MAX_MEM_INTERVALS),
								add_key, &chooser);
	rose_c0_read_end(c0);
	if (in_memory <= in_components)
		choose_in_components(&chooser, view, from, to);
	rose_view_release(view);
}

/* ---- sharing ---- */

Size
rose_interval_shared_size(const RoseIntervalBounds *bounds)
{
	return HEADER_SIZE + MAXALIGN(bounds->bytes.len);
}

void
rose_interval_share(RoseIntervalsShared *shared, const RoseIntervalBounds *bounds)
{
	pg_atomic_init_u32(&shared->next, 0);
	shared->nbounds = bounds->n;
	shared->size = bounds->bytes.len;
	memcpy((char *) shared + HEADER_SIZE, bounds->bytes.data, bounds->bytes.len);
}

void
rose_interval_restart(RoseIntervalsShared *shared)
{
	pg_atomic_write_u32(&shared->next, 0);
}

/* ---- taking ---- */

/* Bounds are copied: ranges made of them may be there longer than the shared memory. */
RoseIntervals *
rose_interval_attach(RoseIntervalsShared *shared, const RoseSchema *schema)
{
	RoseIntervals *intervals = palloc(sizeof(RoseIntervals));
	char	   *at = palloc(Max(shared->size, 1));

	memcpy(at, (char *) shared + HEADER_SIZE, shared->size);
	intervals->shared = shared;
	intervals->nbounds = shared->nbounds;
	intervals->bounds = palloc(Max(shared->nbounds, 1) * sizeof(Bound));
	for (uint32 i = 0; i < shared->nbounds; i++)
		read_bound(schema, &at, &intervals->bounds[i]);
	return intervals;
}

void
rose_interval_detach(RoseIntervals *intervals)
{
	intervals->shared = NULL;
}

bool
rose_interval_next(RoseIntervals *intervals, RoseKeyRange *interval)
{
	uint32		i;

	if (intervals->shared == NULL)
		elog(ERROR, "the list of intervals is gone");
	/* who finds all taken does not count on: others may ask again and again */
	if (pg_atomic_read_u32(&intervals->shared->next) > intervals->nbounds)
		return false;
	i = pg_atomic_fetch_add_u32(&intervals->shared->next, 1);
	if (i > intervals->nbounds)
		return false;
	memset(interval, 0, sizeof(*interval));
	if (i > 0)
	{
		const Bound *lower = &intervals->bounds[i - 1];

		interval->nlower = lower->ncols;
		interval->lower_inclusive = true;
		memcpy(interval->lower, lower->key, lower->ncols * sizeof(Datum));
	}
	if (i < intervals->nbounds)
	{
		const Bound *upper = &intervals->bounds[i];

		interval->nupper = upper->ncols;
		interval->upper_inclusive = false;
		memcpy(interval->upper, upper->key, upper->ncols * sizeof(Datum));
	}
	return true;
}

/* ---- ranges in intervals ---- */

static int
compare_ends(const RoseSchema *schema, const Datum *a, int na, const Datum *b, int nb)
{
	return rose_key_compare(schema, a, b, Min(na, nb));
}

/*
 * Ends that agree in the columns that both have: one with fewer columns takes in, or leaves out, all keys that begin
 * with them.
 */
static bool
ends_before(const RoseSchema *schema, const RoseKeyRange *range, const RoseKeyRange *interval)
{
	int			cmp;

	if (range->nupper == 0 || interval->nlower == 0)
		return false;
	cmp = compare_ends(schema, range->upper, range->nupper, interval->lower, interval->nlower);
	if (cmp != 0)
		return cmp < 0;
	return range->nupper <= interval->nlower && !range->upper_inclusive;
}

static bool
begins_behind(const RoseSchema *schema, const RoseKeyRange *range, const RoseKeyRange *interval)
{
	int			cmp;

	if (range->nlower == 0 || interval->nupper == 0)
		return false;
	cmp = compare_ends(schema, range->lower, range->nlower, interval->upper, interval->nupper);
	if (cmp != 0)
		return cmp > 0;
	return range->nlower >= interval->nupper || !range->lower_inclusive;
}

/* Does the range begin in the interval, so that it keeps its lower end? */
static bool
begins_inside(const RoseSchema *schema, const RoseKeyRange *range, const RoseKeyRange *interval)
{
	int			cmp;

	if (range->nlower == 0 || interval->nlower == 0)
		return interval->nlower == 0;
	cmp = compare_ends(schema, range->lower, range->nlower, interval->lower, interval->nlower);
	if (cmp != 0)
		return cmp > 0;
	return range->nlower > interval->nlower || !range->lower_inclusive;
}

static bool
ends_inside(const RoseSchema *schema, const RoseKeyRange *range, const RoseKeyRange *interval)
{
	int			cmp;

	if (range->nupper == 0 || interval->nupper == 0)
		return interval->nupper == 0;
	cmp = compare_ends(schema, range->upper, range->nupper, interval->upper, interval->nupper);
	if (cmp != 0)
		return cmp < 0;
	return range->nupper <= interval->nupper && !range->upper_inclusive;
}

RoseIntervalCut
rose_interval_cut(const RoseSchema *schema, const RoseKeyRange *interval, RoseKeyRange *range)
{
	if (ends_before(schema, range, interval))
		return ROSE_CUT_BEFORE;
	if (begins_behind(schema, range, interval))
		return ROSE_CUT_BEHIND;
	if (!begins_inside(schema, range, interval))
	{
		range->nlower = interval->nlower;
		range->lower_inclusive = interval->lower_inclusive;
		memcpy(range->lower, interval->lower, interval->nlower * sizeof(Datum));
	}
	if (!ends_inside(schema, range, interval))
	{
		range->nupper = interval->nupper;
		range->upper_inclusive = interval->upper_inclusive;
		memcpy(range->upper, interval->upper, interval->nupper * sizeof(Datum));
	}
	return ROSE_CUT_INSIDE;
}
