/*-------------------------------------------------------------------------
 *
 * rose_weave.c
 *	  Weaves: the stretches of several sources that a forward scan passes on in turns.
 *
 * Where newer runs or C0 have keys between those of a large component, or newer
 * versions of the same ones, stretches are short, and going back to the merge after each
 * costs more than its rows.  So as long as sources stand on rows that need no further
 * judgement (those that stretches are made of), their keys are compared here in one go, and
 * what is found are pieces: "this many rows of those in place there".  Of equal keys the newest source's is
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
	RoseRows   *rows;			/* NULL: it only bounds the weave */
	uint64		first_tid;
	int			next;			/* row that it stands on */
	int			end;			/* rows at hand */

	/* that row's place among all: by rank, and if that does not decide, by key */
	uint64		rank;			/* rose_key_prefix */
	bool		has_key;		/* key is that of the row */
	Datum		key[INDEX_MAX_KEYS];

	/* ranks of rows at hand, or NULL: made of keys */
	const uint64 *prefixes;		/* by row */
	const Datum *ints;			/* keys by row - first, if they are one integer */
	int			first;
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
	int			int_shift;		/* ... and how they go into ranks */
	AttrNumber	key_attno;
	bool		exact;			/* equal ranks mean equal keys */
	int			npieces;
	int			next;			/* piece to take next */
	WeavePiece	pieces[WEAVE_PIECES];
	int			nstrands;
	WeaveStrand strands[ROSE_SCAN_MAX_SOURCES];
};

/* ---- keys ---- */

/* The rank of an integer key: rose_key_prefix makes the same of it. */
static inline uint64
rank_of_int(const RoseWeave *weave, Datum key)
{
	return ((uint64) key << weave->int_shift) ^ (UINT64CONST(1) << 63);
}

static void
set_key(const RoseSchema *schema, WeaveStrand *strand, const Datum *key)
{
	memcpy(strand->key, key, rose_schema_key_width(schema) * sizeof(Datum));
	strand->has_key = true;
	strand->rank = rose_key_prefix(schema, key);
}

static inline bool
has_ranks(const WeaveStrand *strand)
{
	return strand->prefixes != NULL || strand->ints != NULL;
}

/* REQUIRES has_ranks. */
static inline uint64
rank_at(const RoseWeave *weave, const WeaveStrand *strand, int row)
{
	return strand->prefixes != NULL ? strand->prefixes[row] :
		rank_of_int(weave, strand->ints[row - strand->first]);
}

/* The strand has moved. */
static void
read_rank(const RoseWeave *weave, const RoseSchema *schema, WeaveStrand *strand)
{
	Datum		key[INDEX_MAX_KEYS];

	if (has_ranks(strand))
	{
		strand->rank = rank_at(weave, strand, strand->next);
		strand->has_key = false;
		return;
	}
	strand->rows->ops->key(strand->rows, strand->next, key);
	set_key(schema, strand, key);
}

static const Datum *
strand_key(WeaveStrand *strand)
{
	if (!strand->has_key)
		strand->rows->ops->key(strand->rows, strand->next, strand->key);
	strand->has_key = true;
	return strand->key;
}

static inline int
compare_strands(const RoseWeave *weave, RoseScan *scan, WeaveStrand *a, WeaveStrand *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return weave->exact ? 0 : scan_compare_keys(scan, strand_key(a), strand_key(b));
}

/* First in steps that double, then by halves. */
static int
find_rank(const RoseWeave *weave, const WeaveStrand *strand, uint64 rank)
{
	int			lo = strand->next;
	int			hi;
	int			step = 1;

	while (lo + step < strand->end && rank_at(weave, strand, lo + step - 1) < rank)
	{
		lo += step;
		step *= 2;
	}
	hi = Min(lo + step, strand->end);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (rank_at(weave, strand, mid) < rank)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* First row of a strand, from its next one on, that is not before the other's. */
static int
find_end(const RoseWeave *weave, RoseScan *scan, const WeaveStrand *strand, WeaveStrand *other)
{
	RoseRows   *rows = strand->rows;

	if (weave->exact && has_ranks(strand))
		return find_rank(weave, strand, other->rank);
	return Min(strand->end,
			   rows->ops->find(rows, strand->next, strand_key(other),
							   rose_schema_key_width(scan->tree->schema), &other->rank, false));
}

/* ---- strands ---- */

/* Of the source's rows in place, those that are results without more ado; none if it returns false. */
static bool
rows_at_hand(RoseScan *scan, RoseSource *source, WeaveStrand *strand)
{
	RoseLeaf   *leaf;

	if (source->cursor == NULL)
	{
		RoseMemBatch *batch = source->batch;

		strand->rows = &batch->rows;
		strand->end = rose_stretch_batch_end(scan, source, &strand->next);
		if (strand->end <= strand->next)
			return false;
		strand->first_tid = rose_tid_memory_salt(scan->tree, batch->min_seq, batch->max_seq);
		return true;
	}
	strand->end = rose_stretch_leaf_end(scan, source, &leaf, &strand->next);
	strand->rows = &leaf->rows;
	if (strand->end <= strand->next || (source->entry.flags & ROSE_COMPONENT_UNIQUE_KEYS) == 0 ||
		!rose_tid_first_number(scan->tree, &source->entry, &strand->first_tid))
		return false;
	strand->first_tid += leaf->first_ordinal;
	return true;
}

static void
add_strand(RoseWeave *weave, RoseScan *scan, RoseSource *source)
{
	const RoseSchema *schema = scan->tree->schema;
	WeaveStrand *strand = &weave->strands[weave->nstrands++];
	RoseRows   *rows;

	strand->source = source;
	strand->prefixes = NULL;
	strand->ints = NULL;
	set_key(schema, strand, source->row->key);
	if (source->waiting || !rows_at_hand(scan, source, strand))
	{
		strand->rows = NULL;
		return;
	}

	/* the window stays as it is until all pieces are taken */
	rows = strand->rows;
	if (!rose_rows_in_window(rows, strand->next))
		rows->ops->ahead(rows, strand->next);
	strand->end = Min(strand->end, rows->window_first + rows->window_rows);
	strand->prefixes = rows->prefixes;
	if (weave->int_keys && rows->prefixes == NULL)
	{
		int			n = strand->end - strand->next;
		const bool *nulls;

		strand->first = strand->next;
		strand->ints = rows->ops->column(rows, weave->key_attno, strand->next, &n, &nulls);
	}
}

static inline bool
only_bounds(const WeaveStrand *strand)
{
	return strand->rows == NULL;
}

/* Of the row that a memtable's strand stands on. */
static uint64
sequence_of(const WeaveStrand *strand)
{
	return only_bounds(strand) ? strand->source->row->version.seq :
		strand->rows->seqs[strand->next];
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
	read_rank(weave, schema, strand);
	return true;
}

/* Pass by the versions that others have of the key at hand; false: the weave ends. */
static bool
pass_key(RoseWeave *weave, RoseScan *scan, WeaveStrand *of)
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
		rose_rows_hold(weave->strands[i].rows);
}

static void
release_strands(RoseWeave *weave)
{
	for (int i = 0; i < weave->nstrands; i++)
		rose_rows_release(weave->strands[i].rows);
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
		weave->int_shift = schema->nkeys > 0 ? 64 - 8 * schema->keys[0].attlen : 0;
		weave->key_attno = schema->nkeys > 0 ? schema->keys[0].def.attno : ROSE_ROWS_ROWID;
		weave->exact = rose_key_prefix_exact(schema);
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
	stretch->rows = strand->rows;
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
