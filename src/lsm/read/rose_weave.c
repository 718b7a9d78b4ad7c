/*-------------------------------------------------------------------------
 *
 * rose_weave.c
 *	  Weaves: the stretches of several sources that a forward scan passes on in turns.
 *
 * Where newer runs or C0 have keys between those of a large component, or newer versions
 * of the same ones, stretches are short, and going back to the merge after each costs
 * more than its rows.  So as long as sources stand on rows that need no further judgement
 * (those that stretches are made of), their keys are compared here in one go, and what is
 * found are pieces: "this many rows of those in place there".  Of equal keys the newest
 * source's is taken and the others are passed by.
 *
 * A weave ends where one of its sources has no more rows at hand in their window, or at
 * the key of a source that cannot take part: one that is waiting, or has rows in that
 * place which must be judged singly.
 *
 * Keys are compared by ranks, which are words that tell most of them apart.  Keys of several integers are compared as
 * such, column by column, where all sources have these decoded for their window: of rows that agree in their first
 * columns ranks say little.  Then rows of which each one replaces the next one of another source are found many at a time.
 *
 * While a weave is open, its sources stay where they were, and their rows are held.  When
 * all of its pieces were taken, sources are moved behind them; if it is left earlier,
 * they are positioned anew.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lsm/read/rose_output.h"

#define WEAVE_PIECES	128

/* Most columns of keys that are compared column by column. */
#define WEAVE_COLUMNS	4

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

	/* by_columns: keys by row - first, of each column; of who only bounds they are in key */
	const Datum *columns[WEAVE_COLUMNS];
} WeaveStrand;

typedef struct WeavePiece
{
	int			strand;
	int			first;
	int			end;
} WeavePiece;

struct RoseWeave
{
	const RoseSchema *schema;
	bool		open;
	bool		int_keys;		/* one key column, and its order is that of integers */
	int			int_shift;		/* ... and how they go into ranks */
	AttrNumber	key_attno;
	bool		exact;			/* equal ranks mean equal keys */
	int			ncolumns;		/* of keys that may be compared column by column; 0: they may not */
	int			shifts[WEAVE_COLUMNS];	/* of these, 64 - the width in bits */
	bool		by_columns;		/* this weave's are */
	int			npieces;
	int			next;			/* piece to take next */
	WeavePiece	pieces[WEAVE_PIECES];
	int			nstrands;
	WeaveStrand strands[ROSE_SOURCES_MAX];
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
read_rank(const RoseWeave *weave, WeaveStrand *strand)
{
	Datum		key[INDEX_MAX_KEYS];

	if (weave->by_columns)
	{
		strand->has_key = false;
		return;
	}
	if (has_ranks(strand))
	{
		strand->rank = rank_at(weave, strand, strand->next);
		strand->has_key = false;
		return;
	}
	strand->rows->ops->key(strand->rows, strand->next, key);
	set_key(weave->schema, strand, key);
}

static const Datum *
strand_key(WeaveStrand *strand)
{
	if (!strand->has_key)
		strand->rows->ops->key(strand->rows, strand->next, strand->key);
	strand->has_key = true;
	return strand->key;
}

/* REQUIRES by_columns: in the order of a column's integers; above their width Datums say nothing. */
static inline int64
int_at(const RoseWeave *weave, const WeaveStrand *strand, int column, int row)
{
	return (int64) (strand->columns[column][row - strand->first] << weave->shifts[column]);
}

/* REQUIRES by_columns */
static inline int
compare_rows(const RoseWeave *weave, const WeaveStrand *a, int row_a, const WeaveStrand *b, int row_b)
{
	for (int c = 0; c < weave->ncolumns; c++)
	{
		int64		x = int_at(weave, a, c, row_a);
		int64		y = int_at(weave, b, c, row_b);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

static inline int
compare_strands(const RoseWeave *weave, WeaveStrand *a, WeaveStrand *b)
{
	if (weave->by_columns)
		return compare_rows(weave, a, a->next, b, b->next);
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return weave->exact ? 0 : rose_key_compare(weave->schema, strand_key(a), strand_key(b),
											   rose_schema_key_width(weave->schema));
}

/* Is a row of a strand before the other's? */
static inline bool
precedes(const RoseWeave *weave, const WeaveStrand *strand, int row, const WeaveStrand *other)
{
	if (weave->by_columns)
		return compare_rows(weave, strand, row, other, other->next) < 0;
	return rank_at(weave, strand, row) < other->rank;
}

/* First in steps that double, then by halves. */
static int
find_step(const RoseWeave *weave, const WeaveStrand *strand, const WeaveStrand *other)
{
	int			lo = strand->next;
	int			hi;
	int			step = 1;

	while (lo + step < strand->end && precedes(weave, strand, lo + step - 1, other))
	{
		lo += step;
		step *= 2;
	}
	hi = Min(lo + step, strand->end);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (precedes(weave, strand, mid, other))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* First row of a strand, from its next one on, that is not before the other's. */
static int
find_end(const RoseWeave *weave, const WeaveStrand *strand, WeaveStrand *other)
{
	RoseRows   *rows = strand->rows;

	if (weave->by_columns || (weave->exact && has_ranks(strand)))
		return find_step(weave, strand, other);
	return Min(strand->end,
			   rows->ops->find(rows, strand->next, strand_key(other),
							   rose_schema_key_width(weave->schema), &other->rank, false));
}

/* ---- strands ---- */

/* Have the columns of keys of the rows at hand. */
static void
read_columns(RoseWeave *weave, WeaveStrand *strand)
{
	RoseRows   *rows = strand->rows;

	strand->first = strand->next;
	for (int c = 0; c < weave->ncolumns && weave->by_columns; c++)
	{
		int			n = strand->end - strand->next;
		const bool *nulls;

		strand->columns[c] = rows->ops->column(rows, weave->schema->keys[c].def.attno, strand->next, &n, &nulls);
		if (strand->columns[c] == NULL || n < strand->end - strand->next)
			weave->by_columns = false;
	}
}

/* Of who only bounds, the key is there. */
static void
set_columns(WeaveStrand *strand)
{
	strand->first = strand->next = 0;
	for (int c = 0; c < WEAVE_COLUMNS; c++)
		strand->columns[c] = &strand->key[c];
}

static void
add_strand(RoseWeave *weave, RoseSource *source)
{
	WeaveStrand *strand = &weave->strands[weave->nstrands++];
	RoseStretch stretch;
	RoseRows   *rows;

	strand->source = source;
	strand->rows = NULL;
	strand->prefixes = NULL;
	strand->ints = NULL;
	set_key(weave->schema, strand, source->row->key);
	set_columns(strand);
	if (source->waiting || source->repeats || !source->ops->at_hand(source, NULL, &stretch))
		return;
	strand->rows = rows = stretch.rows;
	strand->first_tid = stretch.first_tid;
	strand->next = stretch.next;

	/* the window stays as it is until all pieces are taken */
	if (!rose_rows_in_window(rows, strand->next))
		rows->ops->ahead(rows, strand->next);
	strand->end = Min(stretch.end, rows->window_first + rows->window_rows);
	strand->prefixes = rows->prefixes;
	if (weave->int_keys && rows->prefixes == NULL)
	{
		int			n = strand->end - strand->next;
		const bool *nulls;

		strand->first = strand->next;
		strand->ints = rows->ops->column(rows, weave->key_attno, strand->next, &n, &nulls);
	}
	if (weave->by_columns)
		read_columns(weave, strand);
}

static inline bool
only_bounds(const WeaveStrand *strand)
{
	return strand->rows == NULL;
}

/* Of the row that a memtable's strand stands on; others have none at hand. */
static uint64
sequence_of(const WeaveStrand *strand)
{
	if (strand->source->entry != NULL)
		return 0;
	return only_bounds(strand) ? strand->source->row->version.seq :
		strand->rows->seqs[strand->next];
}

/* Is a's version of a key that both have the newer one? */
static bool
is_newer(const WeaveStrand *a, const WeaveStrand *b)
{
	return rose_source_is_newer(a->source, sequence_of(a), b->source, sequence_of(b));
}

/* The strand whose row comes first, and the next one (NULL: there is none). */
static WeaveStrand *
best_strand(RoseWeave *weave, WeaveStrand **second)
{
	WeaveStrand *best = &weave->strands[0];

	*second = NULL;
	for (int i = 1; i < weave->nstrands; i++)
	{
		WeaveStrand *strand = &weave->strands[i];
		int			cmp = compare_strands(weave, strand, best);

		if (cmp < 0 || (cmp == 0 && is_newer(strand, best)))
		{
			*second = best;
			best = strand;
		}
		else if (*second == NULL || compare_strands(weave, strand, *second) < 0)
			*second = strand;
	}
	return best;
}

/* ---- pieces ---- */

/* Move a strand; false if it has no more rows at hand. */
static bool
move_strand(RoseWeave *weave, WeaveStrand *strand, int next)
{
	strand->next = next;
	if (next >= strand->end)
		return false;
	read_rank(weave, strand);
	return true;
}

/* Pass by the versions that others have of the key at hand; false: the weave ends. */
static bool
pass_key(RoseWeave *weave, WeaveStrand *of)
{
	bool		more = true;

	for (int i = 0; i < weave->nstrands; i++)
	{
		WeaveStrand *strand = &weave->strands[i];

		if (strand == of || compare_strands(weave, strand, of) != 0)
			continue;
		if (only_bounds(strand) || !move_strand(weave, strand, strand->next + 1))
			more = false;
	}
	return more;
}

/*
 * Both strands are at the same key: how many rows from there on are of the same keys in both, if no other strand
 * has one of these?  At least the first one is, whoever else has that.
 */
static int
count_same(const RoseWeave *weave, const WeaveStrand *a, const WeaveStrand *b)
{
	int			n = Min(a->end - a->next, b->end - b->next);
	int			same = 1;

	/* of two memtables each row may be the newer one of either */
	if (!weave->by_columns || only_bounds(b) || (a->source->entry == NULL && b->source->entry == NULL))
		return 1;
	for (int i = 0; i < weave->nstrands; i++)
	{
		const WeaveStrand *other = &weave->strands[i];

		if (other != a && other != b)
			n = Min(n, find_step(weave, a, other) - a->next);
	}
	while (same < n && compare_rows(weave, a, a->next + same, b, b->next + same) == 0)
		same++;
	return same;
}

/* Pass by what others have of the keys of its first rows, which are its own then; returns how many. *more: false, the weave ends. */
static int
replace_rows(RoseWeave *weave, WeaveStrand *best, WeaveStrand *second, bool *more)
{
	int			n = count_same(weave, best, second);

	*more = n == 1 ? pass_key(weave, best) : move_strand(weave, second, second->next + n);
	return n;
}

/* Rows of a strand from the next one on: they are of the last piece, if that is of the same strand. */
static void
add_piece(RoseWeave *weave, const WeaveStrand *strand, int end)
{
	int			number = strand - weave->strands;
	WeavePiece *piece = &weave->pieces[weave->npieces];

	Assert(end > strand->next);
	if (weave->npieces > 0 && piece[-1].strand == number)
	{
		/* rows that are passed by have another strand's in their place */
		Assert(piece[-1].end == strand->next);
		piece[-1].end = end;
		return;
	}
	*piece = (WeavePiece) {number, strand->next, end};
	weave->npieces++;
}

static void
find_pieces(RoseWeave *weave)
{
	bool		more = true;

	weave->npieces = weave->next = 0;
	while (more && weave->npieces < WEAVE_PIECES)
	{
		WeaveStrand *second;
		WeaveStrand *best = best_strand(weave, &second);
		int			end;

		if (only_bounds(best))
			break;
		if (second == NULL)
			end = best->end;
		else if (compare_strands(weave, best, second) == 0)
			end = best->next + replace_rows(weave, best, second, &more);
		else
			end = find_end(weave, best, second);
		add_piece(weave, best, end);
		if (!move_strand(weave, best, end))
			more = false;
	}
}

static void
hold_strands(RoseWeave *weave)
{
	for (int i = 0; i < weave->nstrands; i++)
		rose_rows_hold(weave->strands[i].rows);
}

/* ---- life of a weave ---- */

/* Are keys to be compared column by column, if they can be? */
static void
set_key_columns(RoseWeave *weave)
{
	const RoseSchema *schema = weave->schema;

	weave->ncolumns = 0;
	if (schema->nkeys < 2 || schema->nkeys > WEAVE_COLUMNS || schema->ranked)
		return;
	for (int c = 0; c < schema->nkeys; c++)
	{
		if (!schema->keys[c].int_order)
			return;
		weave->shifts[c] = 64 - 8 * schema->keys[c].attlen;
	}
	weave->ncolumns = schema->nkeys;
}

static RoseWeave *
make_weave(const RoseOutput *output)
{
	const RoseSchema *schema = output->reading->tree->schema;
	RoseWeave  *weave = MemoryContextAlloc(output->context, sizeof(RoseWeave));

	weave->schema = schema;
	weave->open = false;
	weave->int_keys = rose_schema_key_width(schema) == 1 &&
		(schema->nkeys == 0 || schema->keys[0].int_order);
	weave->int_shift = schema->nkeys > 0 ? 64 - 8 * schema->keys[0].attlen : 0;
	weave->key_attno = schema->nkeys > 0 ? schema->keys[0].def.attno : ROSE_ROWS_ROWID;
	weave->exact = rose_key_prefix_exact(schema);
	set_key_columns(weave);
	return weave;
}

bool
rose_weave_begin(RoseOutput *output, RoseSource **sources, int nsources, RoseSource *best,
				 const RoseSource *rival)
{
	RoseWeave  *weave = output->weave;

	if (rival == NULL || rival->waiting)
		return false;
	if (weave == NULL)
		weave = output->weave = make_weave(output);
	Assert(!weave->open);
	weave->nstrands = 0;
	weave->by_columns = weave->ncolumns > 0;
	add_strand(weave, best);
	if (only_bounds(&weave->strands[0]))
		return false;
	for (int i = 0; i < nsources; i++)
		if (sources[i] != best && sources[i]->state == ROSE_SOURCE_ROW)
			add_strand(weave, sources[i]);
	find_pieces(weave);
	if (weave->npieces == 0)
		return false;
	hold_strands(weave);
	weave->open = true;
	return rose_weave_next(output);
}

bool
rose_weave_next(RoseOutput *output)
{
	RoseWeave  *weave = output->weave;
	RoseStretch *stretch = &output->stretch;
	const WeavePiece *piece;
	const WeaveStrand *strand;

	if (weave == NULL || !weave->open || weave->next == weave->npieces)
		return false;
	piece = &weave->pieces[weave->next++];
	strand = &weave->strands[piece->strand];
	stretch->rows = strand->rows;
	stretch->first_tid = strand->first_tid;
	stretch->next = output->first = piece->first;
	stretch->end = piece->end;
	stretch->last = false;
	output->source = strand->source;
	return true;
}

bool
rose_weave_is_open(const RoseOutput *output)
{
	return output->weave != NULL && output->weave->open;
}

bool
rose_weave_is_done(const RoseOutput *output)
{
	return output->weave->next == output->weave->npieces &&
		!rose_stretch_has_row(&output->stretch);
}

bool
rose_weave_last_taken(RoseOutput *output)
{
	RoseWeave  *weave = output->weave;

	while (output->stretch.next == output->first)
	{
		if (weave->next < 2)
			return false;
		weave->next -= 2;
		(void) rose_weave_next(output);
		output->stretch.next = output->stretch.end;
	}
	return true;
}

/* Move the sources behind what the weave took of them.  False: a memtable is gone. */
static bool
move_sources(const RoseWeave *weave)
{
	bool		alive = true;

	for (int i = 0; i < weave->nstrands; i++)
	{
		const WeaveStrand *strand = &weave->strands[i];
		RoseSource *source = strand->source;

		if (only_bounds(strand))
			continue;
		source->ops->go_to(source, strand->next);
		if (source->state == ROSE_SOURCE_GONE)
			alive = false;
	}
	return alive;
}

bool
rose_weave_close(RoseOutput *output, bool move)
{
	RoseWeave  *weave = output->weave;

	if (!rose_weave_is_open(output))
		return true;
	weave->open = false;
	for (int i = 0; i < weave->nstrands; i++)
		rose_rows_release(weave->strands[i].rows);
	return !move || move_sources(weave);
}
