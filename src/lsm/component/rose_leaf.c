/*-------------------------------------------------------------------------
 *
 * rose_leaf.c
 *	  Private copies of leaves: rows of a component that stay in place (rose_rows.h).
 *
 * A leaf is copied from its buffer once and then read without pin or lock; that may be
 * put off until somebody needs more of it than its number of rows.  Who looks at it for a
 * moment only has it read where it is, under a pin (rose_leaf_borrow).  Values are read one
 * at a time when a row was looked up.  When a cursor walks the leaf it puts a window of
 * rows around its place, and a column of which many values are asked for is decoded for
 * the whole window.
 *
 * Backend-local.  A leaf is freed when its last holder lets go.  While its cursor lives
 * it belongs to the cursor's memory, so that it goes with it after an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc_details.h"
#include "catalog/pg_type.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "store/rose_block.h"
#include "lsm/component/rose_component_internal.h"

/* Rows of a cursor's first window, and by how much the next ones are larger. */
#define WINDOW_FIRST		32
#define WINDOW_GROWTH		4

/* One in so many values of a window is read singly before all are decoded. */
#define GETS_BEFORE_DECODE	16
#define EAGER_WINDOWS		15

static const RoseRowsOps leaf_rows_ops;

/* ---- life of a leaf ---- */

RoseLeaf *
rose_leaf_create(RoseComponent *component, Relation rel, const RoseSchema *schema,
				 MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose leaf", ALLOCSET_DEFAULT_SIZES);
	RoseLeaf   *leaf = MemoryContextAllocZero(own, sizeof(RoseLeaf));
	RoseColumnDesc *descs = MemoryContextAlloc(own, component->ncols * sizeof(RoseColumnDesc));

	/* a copy: a held leaf may outlive the component's handle */
	memcpy(descs, component->descs, component->ncols * sizeof(RoseColumnDesc));
	leaf->rows.ops = &leaf_rows_ops;
	leaf->rows.refcount = 1;
	leaf->rows.context = own;
	leaf->rel = rel;
	leaf->rows.schema = schema;
	leaf->component_id = component->info.entry.id;
	leaf->rows.natts = component->info.natts;
	leaf->reader = rose_page_reader_create(component->ncols, descs, own);
	leaf->borrowed = InvalidBuffer;
	leaf->block = InvalidBlockNumber;
	leaf->columns = MemoryContextAllocZero(own, component->ncols * sizeof(RoseRowsColumn));
	leaf->rows.columns = leaf->columns + ROSE_SYSCOLS;
	leaf->rows.stamp = 1;
	leaf->window_size = WINDOW_FIRST;
	leaf->extra_context = AllocSetContextCreate(own, "rose leaf values",
												ALLOCSET_SMALL_SIZES);
	return leaf;
}

void
rose_leaf_abandon(RoseLeaf *leaf)
{
	if (leaf == NULL)
		return;
	if (leaf->rows.refcount > 1)
		rose_leaf_need(leaf);
	rose_rows_abandon(&leaf->rows);
}

/* Let go of the page that it has. */
static void
leaf_forget(RoseLeaf *leaf)
{
	Assert(leaf->rows.refcount == 1);
	rose_page_reader_close(leaf->reader);
	leaf->block = InvalidBlockNumber;
	leaf->pending = false;
	leaf->read = ROSE_LEAF_NOT_READ;
	leaf->rows.window_rows = 0;
	leaf->rows.stamp++;
	leaf->overflow_values = NULL;
	MemoryContextReset(leaf->extra_context);
}

/* Columns that the page must have. */
static int
leaf_ncols(const RoseLeaf *leaf, const RosePageHeaderDisk *header)
{
	return (header->flags & ROSE_LEAF_NARROW) != 0 ? rose_fit_narrow_columns(leaf->rows.schema) :
		ROSE_SYSCOLS + leaf->rows.natts;
}

/* The page was read, and is in place. */
static void
leaf_attach(RoseLeaf *leaf, BlockNumber block, const char *page)
{
	const RosePageHeaderDisk *header;

	rose_page_reader_init(leaf->reader, page);
	header = rose_page_reader_header(leaf->reader);
	leaf->rows.nrows = rose_page_reader_nrows(leaf->reader);
	if (leaf->rows.nrows == 0 || rose_page_reader_ncols(leaf->reader) != leaf_ncols(leaf, header))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("leaf at block %u of component %u has %d rows of %d columns",
						block, leaf->component_id, leaf->rows.nrows,
						rose_page_reader_ncols(leaf->reader))));
	leaf->prev = header->prev;
	leaf->next = header->next;
	leaf->first_ordinal = header->first_ordinal;
	leaf->flags = header->flags;
	leaf->rows.plain = (leaf->flags & ROSE_LEAF_HAS_OVERFLOW) == 0;
}

static void
leaf_read(RoseLeaf *leaf, BlockNumber block, BufferAccessStrategy strategy)
{
	int64		reads = pgBufferUsage.shared_blks_read;

	CHECK_FOR_INTERRUPTS();
	if (leaf->image == NULL)
		leaf->image = MemoryContextAlloc(leaf->rows.context, BLCKSZ);
	rose_component_read_page(leaf->rel, leaf->component_id, block, ROSE_PAGE_LEAF,
							 leaf->image, strategy);
	leaf_attach(leaf, block, leaf->image);
	leaf->read = pgBufferUsage.shared_blks_read == reads ? ROSE_LEAF_CACHED : ROSE_LEAF_MISSED;
}

void
rose_leaf_load(RoseLeaf *leaf, BlockNumber block, BufferAccessStrategy strategy)
{
	leaf_forget(leaf);
	leaf_read(leaf, block, strategy);
	leaf->block = block;
}

void
rose_leaf_borrow(RoseLeaf *leaf, BlockNumber block)
{
	rose_leaf_give_back(leaf);
	CHECK_FOR_INTERRUPTS();
	leaf->borrowed = rose_block_pin_owned(leaf->rel, block, leaf->component_id);
	rose_component_check_page_kind(leaf->rel, block, ROSE_PAGE_LEAF, BufferGetPage(leaf->borrowed));
	leaf_attach(leaf, block, BufferGetPage(leaf->borrowed));
	leaf->block = block;
}

void
rose_leaf_give_back(RoseLeaf *leaf)
{
	leaf_forget(leaf);
	if (BufferIsValid(leaf->borrowed))
		ReleaseBuffer(leaf->borrowed);
	leaf->borrowed = InvalidBuffer;
}

void
rose_leaf_expect(RoseLeaf *leaf, BlockNumber block, uint64 first_ordinal, int nrows,
				 BufferAccessStrategy strategy)
{
	leaf_forget(leaf);
	leaf->block = block;
	leaf->pending = true;
	leaf->strategy = strategy;
	leaf->first_ordinal = first_ordinal;
	leaf->rows.nrows = nrows;
}

void
rose_leaf_read_pending(RoseLeaf *leaf)
{
	uint64		first_ordinal = leaf->first_ordinal;
	int			nrows = leaf->rows.nrows;

	Assert(leaf->pending);
	leaf_read(leaf, leaf->block, leaf->strategy);
	if (leaf->first_ordinal != first_ordinal || leaf->rows.nrows != nrows)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("leaf at block %u of component %u has rows " UINT64_FORMAT " to " UINT64_FORMAT ", expected " UINT64_FORMAT " to " UINT64_FORMAT,
						leaf->block, leaf->component_id, leaf->first_ordinal,
						leaf->first_ordinal + leaf->rows.nrows, first_ordinal,
						first_ordinal + nrows)));
	leaf->pending = false;
}

/* ---- windows ---- */

void
rose_leaf_set_window(RoseLeaf *leaf, int slot, bool forward)
{
	int			n = leaf->window_size;

	rose_leaf_need(leaf);
	if (rose_rows_in_window(&leaf->rows, slot))
		return;
	leaf->rows.window_first = forward ? slot : Max(0, slot + 1 - n);
	leaf->rows.window_rows = Min(n, leaf->rows.nrows - leaf->rows.window_first);
	leaf->window_size = Min(n * WINDOW_GROWTH, ROSE_LEAF_WINDOW);
	leaf->rows.stamp++;
}

void
rose_leaf_reset_window(RoseLeaf *leaf)
{
	leaf->rows.window_rows = 0;
	leaf->window_size = WINDOW_FIRST;
}

/* Decode a column of the window. */
static void
decode_column(RoseLeaf *leaf, int col)
{
	RoseRowsColumn *column = &leaf->columns[col];
	int			n = leaf->rows.window_rows;

	if (column->capacity < n)
	{
		if (column->values)
			pfree(column->values);
		column->capacity = 0;
		column->values = MemoryContextAlloc(leaf->rows.context, n * (sizeof(Datum) + sizeof(bool)));
		column->nulls = (bool *) (column->values + n);
		column->capacity = n;
	}
	rose_page_decode(leaf->reader, col, leaf->rows.window_first, n, column->values, column->nulls);
	column->stamp = leaf->rows.stamp;
}

/*
 * Is a column in which a value of the window is asked for to be decoded?  Once
 * some values of it were asked for one by one; and then without counting for the
 * next windows, in which a scan will do what it did in this one.
 */
static bool
column_is_wanted(RoseLeaf *leaf, RoseRowsColumn *column)
{
	if (column->eager_windows > 0)
	{
		column->eager_windows--;
		return true;
	}
	if (column->get_stamp != leaf->rows.stamp)
	{
		column->get_stamp = leaf->rows.stamp;
		column->gets = 0;
	}
	if (column->gets++ < leaf->rows.window_rows / GETS_BEFORE_DECODE)
		return false;
	column->eager_windows = EAGER_WINDOWS;
	return true;
}

/* A value as it is in the page, from the window if that pays. */
static inline Datum
leaf_value(RoseLeaf *leaf, int col, int slot, bool *isnull)
{
	RoseRowsColumn *column = &leaf->columns[col];

	if (!rose_rows_in_window(&leaf->rows, slot))
		return rose_page_get(leaf->reader, col, slot, isnull);
	if (column->stamp != leaf->rows.stamp)
	{
		if (!column_is_wanted(leaf, column))
			return rose_page_get(leaf->reader, col, slot, isnull);
		decode_column(leaf, col);
	}
	*isnull = column->nulls[slot - leaf->rows.window_first];
	return column->values[slot - leaf->rows.window_first];
}

/* ---- rows ---- */

/* 0 for NULL. */
static inline Datum
leaf_get(RoseLeaf *leaf, int col, int slot)
{
	bool		isnull;
	Datum		value = leaf_value(leaf, col, slot, &isnull);

	return isnull ? (Datum) 0 : value;
}

/*
 * A bitmap column as readers want it: for all columns of the schema.  The
 * stored one is shorter when columns were added since.
 */
static const bits8 *
leaf_get_present(RoseLeaf *leaf, int slot)
{
	bool		isnull = false;
	Datum		value = (leaf->flags & ROSE_LEAF_NARROW) != 0 ? rose_leaf_fetch_narrow_present(leaf, slot) :
		rose_page_get(leaf->reader, ROSE_SYSCOL_PRESENT, slot, &isnull);
	struct varlena *bytes = (struct varlena *) DatumGetPointer(value);
	Size		need = ROSE_PRESENT_BYTES(leaf->rows.schema->natts);
	bits8	   *wide;

	if (isnull)
		return NULL;
	if (VARSIZE_ANY_EXHDR(bytes) != ROSE_PRESENT_BYTES(leaf->rows.natts))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("bad column bitmap in leaf at block %u of component %u",
						leaf->block, leaf->component_id)));
	if (VARSIZE_ANY_EXHDR(bytes) >= need)
		return (bits8 *) VARDATA_ANY(bytes);
	wide = MemoryContextAllocZero(leaf->extra_context, need);
	memcpy(wide, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	return wide;
}

/* The columns that few versions have. */
static void
leaf_get_rare(RoseLeaf *leaf, int slot, RoseVersion *version)
{
	if (leaf->flags & ROSE_LEAF_HAS_PRESENT)
		version->present = leaf_get_present(leaf, slot);
	if (leaf->flags & ROSE_LEAF_HAS_MOVED)
		version->moved_to = (uint64) DatumGetInt64(leaf_get(leaf, ROSE_SYSCOL_MOVED, slot));
	if (leaf->flags & ROSE_LEAF_HAS_WRITER)
	{
		version->subxid = (TransactionId) DatumGetInt32(leaf_get(leaf, ROSE_SYSCOL_SUBXID, slot));
		version->cid = (CommandId) DatumGetInt32(leaf_get(leaf, ROSE_SYSCOL_CID, slot));
	}
	if (version->op == ROSE_OP_LOCK)
	{
		version->lockmode = (uint8) version->moved_to;
		version->moved_to = 0;
	}
}

void
rose_leaf_get_key(RoseLeaf *leaf, int slot, Datum *key)
{
	int			width = rose_schema_key_width(leaf->rows.schema);

	rose_leaf_need(leaf);
	for (int j = 0; j < width; j++)
		key[j] = leaf_get(leaf, rose_leaf_key_column(leaf->rows.schema, j), slot);
}

const Datum *
rose_leaf_window_column(RoseLeaf *leaf, int col, const bool **nulls)
{
	Assert(leaf->rows.window_rows > 0);
	if (leaf->columns[col].stamp != leaf->rows.stamp)
		decode_column(leaf, col);
	*nulls = leaf->columns[col].nulls;
	return leaf->columns[col].values;
}

void
rose_leaf_get_version(RoseLeaf *leaf, int slot, RoseVersion *version)
{
	rose_leaf_need(leaf);
	memset(version, 0, sizeof(*version));
	version->seq = (uint64) DatumGetInt64(leaf_get(leaf, ROSE_SYSCOL_SEQ, slot));
	version->xid = FullTransactionIdFromU64((uint64)
											DatumGetInt64(leaf_get(leaf, ROSE_SYSCOL_XID, slot)));
	version->op = (uint8) DatumGetInt16(leaf_get(leaf, ROSE_SYSCOL_OP, slot));
	if (leaf->flags != 0)
		leaf_get_rare(leaf, slot, version);
	if (leaf->rows.schema->nkeys == 0)
		version->rowid = DatumGetInt64(leaf_get(leaf, ROSE_SYSCOL_ROWID, slot));
}

void
rose_leaf_get_keyed_row(RoseLeaf *leaf, int slot, RoseRow *row, Datum *key)
{
	Assert(slot >= 0 && slot < leaf->rows.nrows);
	rose_leaf_get_key(leaf, slot, key);
	row->version.op = 0;
	row->key = key;
	row->tuple = NULL;
	row->rows = &leaf->rows;
	row->slot = slot;
	row->component = leaf->component_id;
	row->ordinal = leaf->first_ordinal + slot;
}

void
rose_leaf_get_row(RoseLeaf *leaf, int slot, RoseRow *row, Datum *key)
{
	rose_leaf_get_keyed_row(leaf, slot, row, key);
	rose_leaf_get_version(leaf, slot, &row->version);
}

/* ---- searching ---- */

/*
 * The same for keys of one integer column, over decoded values: first in steps that
 * double, then by halves.
 */
static int
find_int(RoseLeaf *leaf, int slot, Datum key, bool after)
{
	const RoseSchema *schema = leaf->rows.schema;
	int			col = rose_leaf_key_column(schema, 0);
	int			lo = slot;
	int			hi;
	int			step = 1;
	int64		bound = schema->nkeys > 0 ? rose_key_int(&schema->keys[0], key) :
		DatumGetInt64(key);

#define PRECEDES(i) ((int64) leaf_get(leaf, col, (i)) < bound || \
					 (after && (int64) leaf_get(leaf, col, (i)) == bound))

	while (lo + step < leaf->rows.nrows && PRECEDES(lo + step - 1))
	{
		lo += step;
		step *= 2;
	}
	hi = Min(lo + step, leaf->rows.nrows);
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (PRECEDES(mid))
			lo = mid + 1;
		else
			hi = mid;
	}
#undef PRECEDES
	return lo;
}

int
rose_leaf_find(RoseLeaf *leaf, int slot, const Datum *key, int ncols, bool after)
{
	const RoseSchema *schema = leaf->rows.schema;
	int			hi = leaf->rows.nrows;
	Datum		last[INDEX_MAX_KEYS];
	int			order;

	rose_leaf_need(leaf);
	if (rose_schema_key_width(schema) == 1 && (schema->nkeys == 0 || schema->keys[0].int_order))
		return find_int(leaf, slot, key[0], after);

	rose_leaf_get_key(leaf, hi - 1, last);
	order = rose_key_compare(schema, last, key, ncols);
	if (order < 0 || (after && order == 0))
		return hi;
	return rose_page_narrow(leaf->reader, schema, false, key, ncols, &slot, &hi) && after ?
		hi : slot;
}

/* ---- what all rows have in common ---- */

bool
rose_leaf_only_puts(RoseLeaf *leaf)
{
	int64		min;
	int64		max;

	rose_leaf_need(leaf);
	return rose_page_minmax(leaf->reader, ROSE_SYSCOL_OP, &min, &max) &&
		min == ROSE_OP_PUT && max == ROSE_OP_PUT;
}

/* The value that all rows have in a column of integers. */
static bool
only_value(RoseLeaf *leaf, int col, int64 *value)
{
	int64		max;

	return rose_page_minmax(leaf->reader, col, value, &max) && *value == max;
}

bool
rose_leaf_common_version(RoseLeaf *leaf, RoseVersion *version)
{
	int64		xid;
	int64		op;

	Assert(rose_leaf_is_self_contained(leaf));
	if (leaf->flags != 0 || !only_value(leaf, ROSE_SYSCOL_OP, &op) ||
		!only_value(leaf, ROSE_SYSCOL_XID, &xid))
		return false;
	memset(version, 0, sizeof(*version));
	version->xid = FullTransactionIdFromU64((uint64) xid);
	version->op = (uint8) op;
	return true;
}

void
rose_leaf_gather_seq(RoseLeaf *leaf, const int *slots, int n, Datum *seqs, bool *nulls)
{
	rose_page_gather(leaf->reader, ROSE_SYSCOL_SEQ, slots, n, seqs, nulls);
}

bool
rose_leaf_is_self_contained(const RoseLeaf *leaf)
{
	return (leaf->flags & ~ROSE_LEAF_HAS_WRITER) == 0;
}

bool
rose_leaf_precedes(RoseLeaf *leaf, FullTransactionId xmin)
{
	int64		min;
	int64		max;

	rose_leaf_need(leaf);
	return rose_page_minmax(leaf->reader, ROSE_SYSCOL_XID, &min, &max) &&
		min >= 0 && (uint64) max < U64FromFullTransactionId(xmin);
}

/* ---- a row's columns ---- */

/*
 * If the column is not in a narrow leaf, but only in overflow pages: true and its value.
 */
static bool
narrow_get_overflow(RoseLeaf *leaf, int slot, AttrNumber attno, Datum *value, bool *isnull)
{
	HeapTupleData htup;

	if (rose_fit_is_key(leaf->rows.schema, attno))
		return false;
	rose_tuple_header(rose_leaf_fetch_narrow_row(leaf, slot), &htup);
	*value = fastgetattr(&htup, attno, leaf->rows.schema->tupdesc, isnull);
	return true;
}

/*
 * If the column is in overflow pages: true and its value.
 */
static bool
leaf_get_overflow(RoseLeaf *leaf, int slot, AttrNumber attno, Datum *value, bool *isnull)
{
	Size		bitmap_bytes = ROSE_PRESENT_BYTES(leaf->rows.natts);
	Datum		column;
	struct varlena *bytes;
	HeapTupleData htup;

	if (leaf->flags & ROSE_LEAF_NARROW)
		return narrow_get_overflow(leaf, slot, attno, value, isnull);
	column = rose_page_get(leaf->reader, ROSE_SYSCOL_OVERFLOW, slot, isnull);
	bytes = (struct varlena *) DatumGetPointer(column);
	if (*isnull)
		return false;
	if (VARSIZE_ANY_EXHDR(bytes) < bitmap_bytes)
		rose_leaf_bad_overflow(leaf);
	if (!rose_present_test((bits8 *) VARDATA_ANY(bytes), attno))
		return false;

	if (VARSIZE_ANY_EXHDR(bytes) == bitmap_bytes)
	{
		*value = rose_page_get(leaf->reader, ROSE_SYSCOLS + attno - 1, slot, isnull);
		if (*isnull || TupleDescAttr(leaf->rows.schema->tupdesc, attno - 1)->attlen != -1)
			rose_leaf_bad_overflow(leaf);
		*value = rose_leaf_fetch_value(leaf, slot, attno, *value);
		return true;
	}
	if (VARSIZE_ANY_EXHDR(bytes) != bitmap_bytes + sizeof(RoseOverflowPointerDisk))
		rose_leaf_bad_overflow(leaf);
	rose_tuple_header(rose_leaf_fetch_row(leaf, slot, VARDATA_ANY(bytes) + bitmap_bytes), &htup);
	*value = fastgetattr(&htup, attno, leaf->rows.schema->tupdesc, isnull);
	if (*isnull)
		rose_leaf_bad_overflow(leaf);
	return true;
}

static Datum
leaf_attr(RoseRows *rows, int slot, AttrNumber attno, bool *isnull)
{
	RoseLeaf   *leaf = (RoseLeaf *) rows;
	const RoseSchema *schema = rows->schema;
	Datum		value;

	Assert(attno >= 1 && attno <= schema->natts);
	if (TupleDescAttr(schema->tupdesc, attno - 1)->attisdropped)
	{
		*isnull = true;
		return (Datum) 0;
	}
	if (attno > rows->natts)
		return rose_row_missing_value(schema, attno, isnull);
	rose_leaf_need(leaf);
	if ((leaf->flags & ROSE_LEAF_HAS_OVERFLOW) &&
		leaf_get_overflow(leaf, slot, attno, &value, isnull))
		return value;
	return leaf_value(leaf, ROSE_SYSCOLS + attno - 1, slot, isnull);
}

static int
leaf_attrs(RoseRows *rows, int slot, AttrNumber from, AttrNumber to, Datum *values, bool *nulls)
{
	for (AttrNumber attno = from; attno <= to; attno++)
		values[attno - 1] = leaf_attr(rows, slot, attno, &nulls[attno - 1]);
	return to;
}

void
rose_leaf_gather(RoseLeaf *leaf, AttrNumber attno, const int *slots, int n, Datum *values,
				 bool *nulls)
{
	const RoseSchema *schema = leaf->rows.schema;

	Assert(rose_leaf_is_self_contained(leaf));
	if (attno <= leaf->rows.natts && !TupleDescAttr(schema->tupdesc, attno - 1)->attisdropped)
	{
		rose_page_gather(leaf->reader, ROSE_SYSCOLS + attno - 1, slots, n, values, nulls);
		return;
	}
	for (int i = 0; i < n; i++)
		values[i] = leaf_attr(&leaf->rows, slots[i], attno, &nulls[i]);
}

/* ---- leaves as rows ---- */

static void
leaf_key(RoseRows *rows, int slot, Datum *key)
{
	rose_leaf_get_key((RoseLeaf *) rows, slot, key);
}

static void
leaf_version(RoseRows *rows, int slot, RoseVersion *version)
{
	rose_leaf_get_version((RoseLeaf *) rows, slot, version);
}

static const Datum *
leaf_column(RoseRows *rows, AttrNumber attno, int slot, int *n, const bool **nulls)
{
	RoseLeaf   *leaf = (RoseLeaf *) rows;
	int			col = attno == ROSE_ROWS_ROWID ? ROSE_SYSCOL_ROWID : ROSE_SYSCOLS + attno - 1;
	const Datum *values;
	int			at;

	if (attno != ROSE_ROWS_ROWID &&
		(attno > rows->natts || !TupleDescAttr(rows->schema->tupdesc, attno - 1)->attbyval ||
		 TupleDescAttr(rows->schema->tupdesc, attno - 1)->attisdropped))
		return NULL;
	rose_leaf_set_window(leaf, slot, true);
	if (!rows->plain && attno != ROSE_ROWS_ROWID && !rose_schema_is_key_column(rows->schema, attno))
		return NULL;
	at = slot - rows->window_first;
	*n = Min(*n, rows->window_rows - at);
	values = rose_leaf_window_column(leaf, col, nulls);
	*nulls += at;
	return values + at;
}

/* Has the page what the column is, as it is? */
static bool
is_in_page(RoseLeaf *leaf, AttrNumber attno)
{
	if (attno > leaf->rows.natts || TupleDescAttr(leaf->rows.schema->tupdesc, attno - 1)->attisdropped)
		return false;
	rose_leaf_need(leaf);
	return leaf->rows.plain;
}

static void
leaf_decode(RoseRows *rows, AttrNumber attno, int slot, int n, const Bitmapset *also,
			Datum *values, bool *nulls)
{
	RoseLeaf   *leaf = (RoseLeaf *) rows;

	if (likely(is_in_page(leaf, attno)))
		rose_page_decode(leaf->reader, ROSE_SYSCOLS + attno - 1, slot, n, values, nulls);
	else
		for (int i = 0; i < n; i++)
			values[i] = leaf_attr(rows, slot + i, attno, &nulls[i]);
}

static int
leaf_runs(RoseRows *rows, AttrNumber attno, int slot, int n, int max_runs, int64 *values,
		  uint16 *starts)
{
	RoseLeaf   *leaf = (RoseLeaf *) rows;

	if (!is_in_page(leaf, attno))
		return 0;
	return rose_page_runs(leaf->reader, ROSE_SYSCOLS + attno - 1, slot, n, max_runs, values, starts);
}

static bool
leaf_extremes(RoseRows *rows, AttrNumber attno, int slot, int n, int64 *min, int64 *max)
{
	RoseLeaf   *leaf = (RoseLeaf *) rows;

	if (!is_in_page(leaf, attno))
		return false;
	return rose_page_extremes(leaf->reader, ROSE_SYSCOLS + attno - 1, slot, n, min, max);
}

static const Datum *
leaf_codes(RoseRows *rows, AttrNumber attno, int slot, int n, uint16 *codes, int *nentries)
{
	RoseLeaf   *leaf = (RoseLeaf *) rows;

	if (!is_in_page(leaf, attno))
		return NULL;
	return rose_page_codes(leaf->reader, ROSE_SYSCOLS + attno - 1, slot, n, codes, nentries);
}

/* Slots that are handed on together. */
#define PICK_SLOTS	128

static void
leaf_pick(RoseRows *rows, AttrNumber attno, int slot, const uint16 *offsets, int n,
		  Datum *values, bool *nulls)
{
	RoseLeaf   *leaf = (RoseLeaf *) rows;
	int			slots[PICK_SLOTS];

	if (unlikely(!is_in_page(leaf, attno)))
	{
		for (int i = 0; i < n; i++)
			values[i] = leaf_attr(rows, slot + offsets[i], attno, &nulls[i]);
		return;
	}
	for (int done = 0; done < n; done += PICK_SLOTS)
	{
		int			some = Min(n - done, PICK_SLOTS);

		for (int i = 0; i < some; i++)
			slots[i] = slot + offsets[done + i];
		rose_page_gather(leaf->reader, ROSE_SYSCOLS + attno - 1, slots, some, values + done,
						 nulls + done);
	}
}

static void
leaf_ahead(RoseRows *rows, int slot)
{
	rose_leaf_set_window((RoseLeaf *) rows, slot, true);
}

static int
leaf_find(RoseRows *rows, int slot, const Datum *key, int ncols, const uint64 *prefix, bool after)
{
	return rose_leaf_find((RoseLeaf *) rows, slot, key, ncols, after);
}

static const RoseRowsOps leaf_rows_ops = {
	.key = leaf_key,
	.version = leaf_version,
	.attr = leaf_attr,
	.attrs = leaf_attrs,
	.column = leaf_column,
	.decode = leaf_decode,
	.runs = leaf_runs,
	.extremes = leaf_extremes,
	.codes = leaf_codes,
	.pick = leaf_pick,
	.ahead = leaf_ahead,
	.find = leaf_find
};
