/*-------------------------------------------------------------------------
 *
 * rose_gather.c
 *	  Rows picked from several places, in the order of a scan, as one batch.
 *
 * Pieces are some rows in place, one behind the other, or tuples.  A place that pieces come
 * from again and again is a strand: a leaf of a large component with rows of newer ones
 * between its own.  Of a column that is asked for, the part that a strand's pieces lie in is
 * decoded in one go, if they make up enough of it, and put together from there.
 *
 * Tuples are taken apart once for all columns that will be asked for.
 *
 * Backend-local, no locks.  Rows that are held belong to who made them, or to the
 * transaction, so that nothing is left of them after an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lsm/read/rose_gather.h"
#include "lsm/read/rose_scan.h"

#define GATHER_ROWS		1024	/* after so many it is full */
#define GATHER_PIECES	256
#define GATHER_STRANDS	32
#define GATHER_BYTES	(1024 * 1024)	/* of tuples, but for the last one */

/* A row whose values are in overflow pages: they are held together with others' when they are asked for. */
#define OVERFLOW_BYTES	(GATHER_BYTES / 8)

#define ROWS_MAX		(GATHER_ROWS + ROSE_GATHER_LONG)

/* One row in so many of a strand pays for decoding all between its pieces. */
#define SPAN_FACTOR		4

typedef struct GatherStrand
{
	RoseRows   *rows;			/* held; NULL: tuples */

	/* while a column is decoded: of slots [lo, hi), of which so many are used */
	int			lo;
	int			hi;
	int			used;
	const Datum *values;		/* by slot - lo; NULL: decode pieces one by one */
	const bool *nulls;
} GatherStrand;

typedef struct GatherPiece
{
	int			strand;
	int			first;			/* slot of rows, or number of the tuple */
	int			at;				/* number in the gather of its first row; the next piece's is its end */
	bool		single;			/* rows that came by themselves: tids has their names */
	uint64		first_tid;		/* of others, as in RoseStretch */
} GatherPiece;

/* A column of the tuples, by number. */
typedef struct TupleColumn
{
	uint32		stamp;			/* there if it is the gather's */
	Datum	   *values;
	bool	   *nulls;
} TupleColumn;

struct RoseGather
{
	const RoseSchema *schema;
	MemoryContext context;
	uint32		stamp;			/* counts resets */
	bool		named;
	int			nrows;
	int			npieces;
	GatherPiece pieces[GATHER_PIECES + 1];	/* and the end of the last one */
	int			nstrands;
	GatherStrand strands[GATHER_STRANDS];

	ItemPointerData *tids;		/* by row */
	int			ntuples;
	Size		bytes;			/* that tuples take, and values in overflow pages may */
	MinimalTuple *tuples;
	RoseVersion *versions;
	TupleColumn *columns;		/* by attribute number - 1 */
	Datum	   *row_values;		/* room for a row's columns */
	bool	   *row_nulls;
	MemoryContext data;			/* tuples */

	Datum	   *span_values;	/* room for decoded spans */
	bool	   *span_nulls;
	int			span_capacity;
};

/* ---- life ---- */

RoseGather *
rose_gather_create(const RoseSchema *schema, bool named, MemoryContext context)
{
	RoseGather *gather = MemoryContextAllocZero(context, sizeof(RoseGather));

	gather->schema = schema;
	gather->context = context;
	gather->named = named;
	gather->stamp = 1;
	gather->data = AllocSetContextCreate(context, "rose gathered tuples", ALLOCSET_DEFAULT_SIZES);
	return gather;
}

void
rose_gather_reset(RoseGather *gather)
{
	for (int i = 0; i < gather->nstrands; i++)
		rose_rows_release(gather->strands[i].rows);
	if (gather->ntuples > 0)
		MemoryContextReset(gather->data);
	gather->nrows = gather->npieces = gather->nstrands = gather->ntuples = 0;
	gather->bytes = 0;
	gather->pieces[0].at = 0;
	gather->stamp++;
}

int
rose_gather_count(const RoseGather *gather)
{
	return gather->nrows;
}

bool
rose_gather_is_full(const RoseGather *gather)
{
	return gather->nrows >= GATHER_ROWS || gather->npieces == GATHER_PIECES ||
		gather->nstrands == GATHER_STRANDS || gather->bytes >= GATHER_BYTES;
}

/* ---- filling ---- */

/* The strand of these rows; the last ones are those that come again. */
static int
find_strand(RoseGather *gather, RoseRows *rows)
{
	for (int i = gather->nstrands - 1; i >= 0; i--)
		if (gather->strands[i].rows == rows)
			return i;
	Assert(gather->nstrands < GATHER_STRANDS);
	rose_rows_hold(rows);
	gather->strands[gather->nstrands].rows = rows;
	return gather->nstrands++;
}

/* More rows at the end: of the last piece, if they go on there. */
static void
add_piece(RoseGather *gather, RoseRows *rows, int first, int n, bool single, uint64 first_tid)
{
	int			strand = find_strand(gather, rows);
	GatherPiece *piece = &gather->pieces[gather->npieces];

	if (gather->npieces == 0 || piece[-1].strand != strand ||
		piece[-1].first + (gather->nrows - piece[-1].at) != first ||
		piece[-1].single != single || piece[-1].first_tid != first_tid)
	{
		piece->strand = strand;
		piece->first = first;
		piece->single = single;
		piece->first_tid = first_tid;
		gather->npieces++;
	}
	gather->nrows += n;
	gather->pieces[gather->npieces].at = gather->nrows;
}

void
rose_gather_add_rows(RoseGather *gather, RoseRows *rows, int first, int n, uint64 first_tid)
{
	Assert(n < ROSE_GATHER_LONG && !rose_gather_is_full(gather));
	add_piece(gather, rows, first, n, false, first_tid);
	if (!rows->plain)
		gather->bytes += n * (Size) OVERFLOW_BYTES;
}

static void
make_room_for_tuples(RoseGather *gather)
{
	if (gather->tuples != NULL)
		return;
	gather->tuples = MemoryContextAlloc(gather->context, ROWS_MAX * sizeof(MinimalTuple));
	gather->versions = MemoryContextAlloc(gather->context, ROWS_MAX * sizeof(RoseVersion));
	gather->columns = MemoryContextAllocZero(gather->context,
											 gather->schema->natts * sizeof(TupleColumn));
	gather->row_values = MemoryContextAlloc(gather->context, gather->schema->natts * sizeof(Datum));
	gather->row_nulls = MemoryContextAlloc(gather->context, gather->schema->natts * sizeof(bool));
}

static int
add_tuple(RoseGather *gather, const RoseRow *row)
{
	int			i = gather->ntuples++;

	make_room_for_tuples(gather);
	gather->tuples[i] = MemoryContextAllocHuge(gather->data, row->tuple->t_len);
	memcpy(gather->tuples[i], row->tuple, row->tuple->t_len);
	gather->bytes += row->tuple->t_len;
	gather->versions[i] = row->version;
	gather->versions[i].present = NULL;
	return i;
}

void
rose_gather_add_row(RoseGather *gather, const RoseRow *row, const ItemPointerData *tid)
{
	Assert(!rose_gather_is_full(gather));
	if (gather->named)
	{
		if (gather->tids == NULL)
			gather->tids = MemoryContextAlloc(gather->context, ROWS_MAX * sizeof(ItemPointerData));
		gather->tids[gather->nrows] = *tid;
	}
	if (row->tuple == NULL)
	{
		add_piece(gather, row->rows, row->slot, 1, true, 0);
		if (!row->rows->plain)
			gather->bytes += OVERFLOW_BYTES;
	}
	else
		add_piece(gather, NULL, add_tuple(gather, row), 1, true, 0);
}

/* ---- columns ---- */

/* The piece that has a row. */
static int
find_piece(const RoseGather *gather, int row)
{
	int			lo = 0;
	int			hi = gather->npieces - 1;

	Assert(row >= 0 && row < gather->nrows);
	while (lo < hi)
	{
		int			mid = (lo + hi + 1) / 2;

		if (gather->pieces[mid].at <= row)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

/* Which slots of a piece are rows [first, end) of the gather?  Returns their number. */
static inline int
slots_of_piece(const GatherPiece *piece, int first, int end, int *slot, int *at)
{
	int			from = Max(piece->at, first);

	*slot = piece->first + (from - piece->at);
	*at = from - first;
	return Min(piece[1].at, end) - from;
}

static TupleColumn *
start_tuple_column(RoseGather *gather, AttrNumber attno)
{
	TupleColumn *column = &gather->columns[attno - 1];

	if (column->values == NULL)
	{
		column->values = MemoryContextAlloc(gather->context, ROWS_MAX * (sizeof(Datum) + sizeof(bool)));
		column->nulls = (bool *) (column->values + ROWS_MAX);
	}
	column->stamp = gather->stamp;
	return column;
}

/* Take the tuples apart, as far as is wanted. */
static const TupleColumn *
tuple_column(RoseGather *gather, AttrNumber attno, const Bitmapset *also)
{
	AttrNumber	upto = attno;
	int			c;

	if (gather->columns[attno - 1].stamp == gather->stamp)
		return &gather->columns[attno - 1];
	(void) start_tuple_column(gather, attno);
	for (c = -1; (c = bms_next_member(also, c)) >= 0; upto = Max(upto, c))
		(void) start_tuple_column(gather, c);
	for (int i = 0; i < gather->ntuples; i++)
	{
		rose_tuple_deform(gather->tuples[i], gather->schema, upto, gather->row_values,
						  gather->row_nulls);
		gather->columns[attno - 1].values[i] = gather->row_values[attno - 1];
		gather->columns[attno - 1].nulls[i] = gather->row_nulls[attno - 1];
		for (c = -1; (c = bms_next_member(also, c)) >= 0;)
		{
			gather->columns[c - 1].values[i] = gather->row_values[c - 1];
			gather->columns[c - 1].nulls[i] = gather->row_nulls[c - 1];
		}
	}
	return &gather->columns[attno - 1];
}

/* Which part of each strand do rows [first, end) lie in? */
static void
find_spans(RoseGather *gather, const GatherPiece *piece, int first, int end)
{
	for (int i = 0; i < gather->nstrands; i++)
		gather->strands[i].used = 0;
	for (; piece->at < end && piece < gather->pieces + gather->npieces; piece++)
	{
		GatherStrand *strand = &gather->strands[piece->strand];
		int			slot;
		int			at;
		int			n = slots_of_piece(piece, first, end, &slot, &at);

		strand->lo = strand->used == 0 ? slot : Min(strand->lo, slot);
		strand->hi = strand->used == 0 ? slot + n : Max(strand->hi, slot + n);
		strand->used += n;
	}
}

/* Values in overflow pages are not fetched for nothing. */
static bool
span_pays(const GatherStrand *strand)
{
	return strand->rows != NULL && strand->rows->plain && strand->hi - strand->lo <= strand->used * SPAN_FACTOR;
}

static void
make_room_for_spans(RoseGather *gather)
{
	int			need = 0;

	for (int i = 0; i < gather->nstrands; i++)
		if (gather->strands[i].used > 0 && span_pays(&gather->strands[i]))
			need += gather->strands[i].hi - gather->strands[i].lo;
	if (need <= gather->span_capacity)
		return;
	if (gather->span_values != NULL)
		pfree(gather->span_values);
	gather->span_values = NULL;
	gather->span_capacity = 0;
	gather->span_values = MemoryContextAlloc(gather->context, need * (sizeof(Datum) + sizeof(bool)));
	gather->span_nulls = (bool *) (gather->span_values + need);
	gather->span_capacity = need;
}

/* Decode what lies together. */
static void
decode_spans(RoseGather *gather, AttrNumber attno, const Bitmapset *also)
{
	int			done = 0;

	make_room_for_spans(gather);
	for (int i = 0; i < gather->nstrands; i++)
	{
		GatherStrand *strand = &gather->strands[i];

		strand->values = NULL;
		if (strand->used == 0)
			continue;
		if (strand->rows == NULL)
		{
			const TupleColumn *column = tuple_column(gather, attno, also);

			strand->values = column->values + strand->lo;
			strand->nulls = column->nulls + strand->lo;
		}
		else if (span_pays(strand))
		{
			strand->values = gather->span_values + done;
			strand->nulls = gather->span_nulls + done;
			strand->rows->ops->decode(strand->rows, attno, strand->lo, strand->hi - strand->lo, also,
									  gather->span_values + done, gather->span_nulls + done);
			done += strand->hi - strand->lo;
		}
	}
}

void
rose_gather_decode(RoseGather *gather, AttrNumber attno, int first, int n, const Bitmapset *also,
				   Datum *values, bool *nulls)
{
	const GatherPiece *piece = &gather->pieces[find_piece(gather, first)];
	int			end = first + n;

	find_spans(gather, piece, first, end);
	decode_spans(gather, attno, also);
	for (; piece->at < end && piece < gather->pieces + gather->npieces; piece++)
	{
		GatherStrand *strand = &gather->strands[piece->strand];
		int			slot;
		int			at;
		int			some = slots_of_piece(piece, first, end, &slot, &at);

		if (strand->values == NULL)
		{
			strand->rows->ops->decode(strand->rows, attno, slot, some, also, values + at, nulls + at);
			continue;
		}
		memcpy(values + at, strand->values + (slot - strand->lo), some * sizeof(Datum));
		memcpy(nulls + at, strand->nulls + (slot - strand->lo), some * sizeof(bool));
	}
}

/* ---- rows ---- */

/* Where a row is: in these rows, or a tuple (NULL). */
static RoseRows *
find_row(const RoseGather *gather, int row, int *slot)
{
	const GatherPiece *piece = &gather->pieces[find_piece(gather, row)];

	*slot = piece->first + (row - piece->at);
	return gather->strands[piece->strand].rows;
}

Datum
rose_gather_value(RoseGather *gather, AttrNumber attno, int row, bool *isnull)
{
	int			slot;
	RoseRows   *rows = find_row(gather, row, &slot);
	RoseRow		of_tuple;

	if (rows != NULL)
		return rows->ops->attr(rows, slot, attno, isnull);
	of_tuple.tuple = gather->tuples[slot];
	return rose_row_getattr(&of_tuple, gather->schema, attno, isnull);
}

void
rose_gather_tid(const RoseGather *gather, int row, ItemPointer tid)
{
	const GatherPiece *piece = &gather->pieces[find_piece(gather, row)];
	RoseStretch stretch;

	if (piece->single)
	{
		if (!gather->named)
			elog(ERROR, "rows of a batch have no names");
		*tid = gather->tids[row];
		return;
	}
	stretch.rows = gather->strands[piece->strand].rows;
	stretch.first_tid = piece->first_tid;
	rose_stretch_tid(&stretch, piece->first + (row - piece->at), tid);
}

void
rose_gather_version(const RoseGather *gather, int row, RoseVersion *version)
{
	int			slot;
	RoseRows   *rows = find_row(gather, row, &slot);

	if (rows != NULL)
		rows->ops->version(rows, slot, version);
	else
		*version = gather->versions[slot];
}

void
rose_gather_key(const RoseGather *gather, int row, Datum *key)
{
	int			slot;
	RoseRows   *rows = find_row(gather, row, &slot);

	if (rows != NULL)
		rows->ops->key(rows, slot, key);
	else
		rose_key_from_tuple(gather->schema, gather->tuples[slot], gather->versions[slot].rowid, key);
}
