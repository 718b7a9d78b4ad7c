/*-------------------------------------------------------------------------
 *
 * rose_weave.c
 *	  Weaves: the stretches of several sources that a forward scan passes on in turns.
 *
 * Where newer runs or C0 have keys between those of a large component, or newer
 * versions of the same ones, stretches are short, and going back to the merge after each
 * costs more than its rows.  So as long as sources stand on rows that need no further
 * judgement (those that stretches are made of), their keys are compared here in one go, and
 * what is found are pieces: "this many rows of that leaf".  Of equal keys the newest source's is
 * taken and the others are passed by.
 *
 * A weave ends where one of its sources has no more rows at hand (its leaf, its window of
 * decoded rows, or its batch ends), or at the key of a source that cannot take
 * part: one that is waiting, or has rows in that place which must be judged singly.
 *
 * While a weave is open, its sources stay where they were, and their leaves and batches are held.
 * When all of its pieces were taken, sources are moved behind them; if it is left earlier,
 * they are positioned anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/read/rose_scan_internal.h"

#include "lsm/component/rose_component_internal.h"
#include "utils/memutils.h"

#define WEAVE_PIECES	128

/* A source, seen from here. */
typedef struct WeaveStrand
{
	RoseSource *source;
	RoseLeaf   *leaf;			/* one of these two, or none: it only bounds the weave */
	RoseMemBatch *batch;
	uint64		first_tid;
	int			next;			/* row that it stands on */
	int			end;			/* rows at hand */

	/* the key of that row: in the order of rank, and if that is not exact, of key */
	uint64		rank;
	Datum		key[INDEX_MAX_KEYS];
	const Datum *ints;			/* leaf's keys by row, if rank is made of an integer */
} WeaveStrand;

typedef struct WeavePiece
{
	int			strand;
	int			first;
	int			end;
} WeavePiece;

struct RoseWeave
{
	bool		open;
	bool		int_keys;		/* one key column, and its order is that of integers */
	bool		exact;			/* equal ranks mean equal keys */
	int			npieces;
	int			next;			/* piece to take next */
	WeavePiece	pieces[WEAVE_PIECES];
	int			nstrands;
	WeaveStrand strands[ROSE_SCAN_MAX_SOURCES];
};

/* ---- keys ---- */

static inline uint64
rank_of_int(const RoseSchema *schema, Datum key)
{
	int64		value = schema->nkeys > 0 ? rose_key_int(&schema->keys[0], key) :
		DatumGetInt64(key);

	return (uint64) value ^ (UINT64CONST(1) << 63);
}

static void
set_key(const RoseWeave *weave, const RoseSchema *schema, WeaveStrand *strand, const Datum *key)
{
	memcpy(strand->key, key, rose_schema_key_width(schema) * sizeof(Datum));
	strand->rank = weave->int_keys ? rank_of_int(schema, key[0]) : rose_key_prefix(schema, key);
}

/* The strand has moved. */
static void
read_key(const RoseWeave *weave, const RoseSchema *schema, WeaveStrand *strand)
{
	Datum		key[INDEX_MAX_KEYS];

	if (strand->ints != NULL)
	{
		strand->key[0] = strand->ints[strand->next];
		strand->rank = rank_of_int(schema, strand->key[0]);
		return;
	}
	if (strand->batch != NULL)
	{
		set_key(weave, schema, strand, rose_mem_batch_row(strand->batch, strand->next)->key);
		return;
	}
	rose_leaf_get_key(strand->leaf, strand->next, key);
	set_key(weave, schema, strand, key);
}

static inline int
compare_strands(const RoseWeave *weave, RoseScan *scan, const WeaveStrand *a, const WeaveStrand *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return weave->exact ? 0 : scan_compare_keys(scan, a->key, b->key);
}

/* First row of a strand, from its next one on, that is not before the other's. */
static int
find_end(const RoseWeave *weave, RoseScan *scan, const WeaveStrand *strand,
		 const WeaveStrand *other)
{
	const RoseSchema *schema = scan->tree->schema;
	int			width = rose_schema_key_width(schema);
	int			lo = strand->next;
	int			hi;
	int			step = 1;

	if (strand->batch != NULL)
		return Min(strand->end,
				   rose_mem_batch_find(strand->batch, lo, other->key, width,
									   weave->int_keys ? NULL : &other->rank, false));
	if (strand->ints == NULL)
		return Min(strand->end, rose_leaf_find(strand->leaf, lo, other->key, width, false));

	while (lo + step < strand->end &&
		   rank_of_int(schema, strand->ints[lo + step - 1]) < other->rank)
	{
		lo += step;
		step *= 2;
	}
	hi = Min(lo + step, strand->end);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (rank_of_int(schema, strand->ints[mid]) < other->rank)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* ---- strands ---- */

static void
add_strand(RoseWeave *weave, RoseScan *scan, RoseSource *source)
{
	const RoseSchema *schema = scan->tree->schema;
	WeaveStrand *strand = &weave->strands[weave->nstrands++];

	strand->source = source;
	strand->leaf = NULL;
	strand->batch = NULL;
	strand->ints = NULL;
	strand->next = strand->end = 0;
	set_key(weave, schema, strand, source->row->key);
	if (source->waiting)
		return;
	if (source->cursor != NULL)
	{
		int			end = rose_stretch_leaf_end(scan, source, &strand->leaf, &strand->next);

		if (end <= strand->next || (source->entry.flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0 ||
			!rose_tid_first_number(scan->tree, &source->entry, &strand->first_tid))
		{
			strand->leaf = NULL;
			return;
		}
		/* the leaf's window stays as it is until all pieces are taken */
		rose_leaf_set_window(strand->leaf, strand->next, true);
		strand->end = Min(end, strand->leaf->window_first + strand->leaf->window_rows);
		strand->first_tid += strand->leaf->first_ordinal;
		if (weave->int_keys)
			strand->ints = rose_leaf_window_keys(strand->leaf);
	}
	else
	{
		int			end = rose_stretch_batch_end(scan, source, &strand->next);

		if (end <= strand->next)
			return;
		strand->batch = source->batch;
		strand->end = end;
		strand->first_tid = rose_tid_memory_salt(scan->tree, source->batch->min_seq,
												 source->batch->max_seq);
	}
}

static inline bool
only_bounds(const WeaveStrand *strand)
{
	return strand->leaf == NULL && strand->batch == NULL;
}

/* Of the row that a memtable's strand stands on. */
static uint64
sequence_of(const WeaveStrand *strand)
{
	return strand->batch != NULL ? strand->batch->seqs[strand->next] :
		strand->source->row->version.seq;
}

/* Is a's version of a key that both have the newer one?  As among sources of a scan. */
static bool
is_newer(const WeaveStrand *a, const WeaveStrand *b)
{
	if (a->source->cursor == NULL && b->source->cursor == NULL)
		return sequence_of(a) > sequence_of(b);
	return a->source < b->source;
}

/* The strand whose row comes first, and the next one (NULL: there is none). */
static WeaveStrand *
best_strand(RoseWeave *weave, RoseScan *scan, WeaveStrand **second)
{
	WeaveStrand *best = &weave->strands[0];

	*second = NULL;
	for (int i = 1; i < weave->nstrands; i++)
	{
		WeaveStrand *strand = &weave->strands[i];
		int			cmp = compare_strands(weave, scan, strand, best);

		if (cmp < 0 || (cmp == 0 && is_newer(strand, best)))
		{
			*second = best;
			best = strand;
		}
		else if (*second == NULL || compare_strands(weave, scan, strand, *second) < 0)
			*second = strand;
	}
	return best;
}

/* ---- pieces ---- */

/* Move a strand; false if it has no more rows at hand. */
static bool
move_strand(RoseWeave *weave, const RoseSchema *schema, WeaveStrand *strand, int next)
{
	strand->next = next;
	if (next >= strand->end)
		return false;
	read_key(weave, schema, strand);
	return true;
}

/* Pass by the versions that others have of the key at hand; false: the weave ends. */
static bool
pass_key(RoseWeave *weave, RoseScan *scan, const WeaveStrand *of)
{
	bool		more = true;

	for (int i = 0; i < weave->nstrands; i++)
	{
		WeaveStrand *strand = &weave->strands[i];

		if (strand == of || compare_strands(weave, scan, strand, of) != 0)
			continue;
		if (only_bounds(strand) ||
			!move_strand(weave, scan->tree->schema, strand, strand->next + 1))
			more = false;
	}
	return more;
}

static void
find_pieces(RoseWeave *weave, RoseScan *scan)
{
	bool		more = true;

	weave->npieces = weave->next = 0;
	while (more && weave->npieces < WEAVE_PIECES)
	{
		WeaveStrand *second;
		WeaveStrand *best = best_strand(weave, scan, &second);
		WeavePiece *piece = &weave->pieces[weave->npieces];

		if (only_bounds(best))
			break;
		piece->strand = best - weave->strands;
		piece->first = best->next;
		if (second == NULL)
			piece->end = best->end;
		else if (compare_strands(weave, scan, best, second) == 0)
		{
			piece->end = best->next + 1;
			more = pass_key(weave, scan, best);
		}
		else
			piece->end = find_end(weave, scan, best, second);
		Assert(piece->end > piece->first);
		weave->npieces++;
		if (!move_strand(weave, scan->tree->schema, best, piece->end))
			more = false;
	}
}

static void
hold_strands(RoseWeave *weave)
{
	for (int i = 0; i < weave->nstrands; i++)
		if (weave->strands[i].leaf != NULL)
			rose_leaf_hold(weave->strands[i].leaf);
		else if (weave->strands[i].batch != NULL)
			rose_mem_batch_hold(weave->strands[i].batch);
}

static void
release_strands(RoseWeave *weave)
{
	for (int i = 0; i < weave->nstrands; i++)
	{
		rose_leaf_release(weave->strands[i].leaf);
		rose_mem_batch_release(weave->strands[i].batch);
	}
	weave->nstrands = 0;
}

/* ---- life of a weave ---- */

/* Could the source's row be the first of a weave? */
static bool
may_begin(RoseScan *scan, RoseSource *source)
{
	RoseLeaf   *leaf;
	int			slot;

	if (source->cursor == NULL)
		return source->filter && source->row->version.op == ROSE_OP_PUT;
	return (source->entry.flags & ROSE_COMPONENT_UNIQUE_KEYS) != 0 &&
		rose_stretch_leaf_end(scan, source, &leaf, &slot) > slot;
}

bool
rose_weave_begin(RoseScan *scan, RoseSource *source)
{
	const RoseSchema *schema = scan->tree->schema;
	RoseWeave  *weave = scan->weave;

	if (scan->rival == NULL || scan->rival->waiting || scan->vis.kind != ROSE_SNAPSHOT_MVCC)
		return false;
	if (weave == NULL)
	{
		weave = scan->weave = MemoryContextAlloc(scan->context, sizeof(RoseWeave));
		weave->open = false;
		weave->int_keys = rose_schema_key_width(schema) == 1 &&
			(schema->nkeys == 0 || schema->keys[0].int_order);
		weave->exact = weave->int_keys || rose_key_prefix_exact(schema);
	}
	Assert(!weave->open);
	weave->nstrands = 0;
	if (!may_begin(scan, source))
		return false;
	for (int i = 0; i < scan->nsources; i++)
	{
		if (scan->sources[i].state != ROSE_SOURCE_ROW)
			continue;
		add_strand(weave, scan, &scan->sources[i]);
	}
	find_pieces(weave, scan);
	if (weave->npieces == 0)
		return false;
	hold_strands(weave);
	weave->open = true;
	return rose_weave_next(scan);
}

bool
rose_weave_next(RoseScan *scan)
{
	RoseWeave  *weave = scan->weave;
	RoseStretch *stretch = &scan->stretch;
	const WeavePiece *piece;
	const WeaveStrand *strand;

	if (weave == NULL || !weave->open || weave->next == weave->npieces)
		return false;
	piece = &weave->pieces[weave->next++];
	strand = &weave->strands[piece->strand];
	stretch->leaf = strand->leaf;
	stretch->batch = strand->batch;
	stretch->first_tid = strand->first_tid;
	stretch->next = scan->stretch_first = piece->first;
	stretch->end = piece->end;
	scan->stretch_source = strand->source;
	return true;
}

bool
rose_weave_is_open(const RoseScan *scan)
{
	return scan->weave != NULL && scan->weave->open;
}

void
rose_weave_forget(RoseScan *scan)
{
	if (!rose_weave_is_open(scan))
		return;
	release_strands(scan->weave);
	scan->weave->open = false;
}

/*
 * The last row taken: the stretch is made to end with it.  False if none was.
 */
static bool
back_to_last_row(RoseScan *scan)
{
	RoseWeave  *weave = scan->weave;

	while (scan->stretch.next == scan->stretch_first)
	{
		if (weave->next < 2)
			return false;
		weave->next -= 2;
		(void) rose_weave_next(scan);
		scan->stretch.next = scan->stretch.end;
	}
	return true;
}

/* Move the sources behind what the weave took of them.  False: a memtable is gone. */
static bool
move_sources(RoseScan *scan, const WeaveStrand *strands, int n)
{
	bool		alive = true;

	for (int i = 0; i < n; i++)
	{
		RoseSource *source = strands[i].source;

		if (only_bounds(&strands[i]))
			continue;
		rose_source_goto(source, scan->tree, &scan->vis, strands[i].next);
		if (source->state == ROSE_SOURCE_GONE)
			alive = false;
	}
	return alive;
}

void
rose_weave_leave(RoseScan *scan)
{
	RoseWeave  *weave = scan->weave;
	int			n = weave->nstrands;
	bool		all = weave->next == weave->npieces && !rose_stretch_has_row(&scan->stretch);

	if (back_to_last_row(scan))
		rose_stretch_set_group(scan);
	rose_stretch_forget(scan);		/* lets go of leaves, which may be loaded anew then */
	if (!all || !move_sources(scan, weave->strands, n))
		scan->positioned = false;
}
