/*-------------------------------------------------------------------------
 *
 * rose_component_leaf.c
 *	  Private copies of leaves, and access to a row's columns.
 *
 * A leaf is copied from its buffer once and then read without pin or lock.
 * System and key columns are decoded in windows of rows when a cursor walks
 * the leaf, one at a time when it was only looked up.  User columns are
 * decoded when asked for.
 *
 * Values from overflow pages are kept with the leaf, because rows hand out
 * pointers to them; the builder bounds how much a leaf refers to.
 *
 * Backend-local.  A leaf is freed when its last holder lets go.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_component_internal.h"

#include "access/htup_details.h"
#include "access/tupdesc_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/memutils.h"

typedef struct RoseOverflowValue
{
	struct RoseOverflowValue *next;
	int			slot;
	AttrNumber	attno;
	Datum		value;
} RoseOverflowValue;

/* ---- life of a leaf ---- */

RoseLeaf *
rose_leaf_create(RoseComponent *component, Relation rel, const RoseSchema *schema,
				 MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose leaf", ALLOCSET_DEFAULT_SIZES);
	RoseLeaf   *leaf = MemoryContextAllocZero(own, sizeof(RoseLeaf));
	int			width = rose_schema_key_width(schema);
	RoseColumnDesc *descs = MemoryContextAlloc(own, component->ncols * sizeof(RoseColumnDesc));

	/* a copy: a held leaf may outlive the component's handle */
	memcpy(descs, component->descs, component->ncols * sizeof(RoseColumnDesc));
	leaf->refcount = 1;
	leaf->context = own;
	leaf->rel = rel;
	leaf->schema = schema;
	leaf->component_id = component->info.entry.id;
	leaf->natts = component->info.natts;
	leaf->reader = rose_page_reader_create(component->ncols, descs, own);
	leaf->image = MemoryContextAlloc(own, BLCKSZ);
	leaf->block = InvalidBlockNumber;
	leaf->seqs = MemoryContextAlloc(own, (3 + width) * ROSE_LEAF_WINDOW * sizeof(Datum));
	leaf->xids = leaf->seqs + ROSE_LEAF_WINDOW;
	leaf->ops = leaf->xids + ROSE_LEAF_WINDOW;
	leaf->keys = leaf->ops + ROSE_LEAF_WINDOW;
	leaf->nulls = MemoryContextAlloc(own, ROSE_LEAF_WINDOW * sizeof(bool));
	leaf->extra_context = AllocSetContextCreate(own, "rose leaf values",
												ALLOCSET_SMALL_SIZES);
	return leaf;
}

void
rose_leaf_hold(RoseLeaf *leaf)
{
	if (leaf == NULL)
		return;
	/* a holder, such as a tuple slot, may outlive the cursor's memory */
	if (leaf->refcount == 1)
		MemoryContextSetParent(leaf->context, TopTransactionContext);
	leaf->refcount++;
}

void
rose_leaf_release(RoseLeaf *leaf)
{
	if (leaf == NULL)
		return;
	Assert(leaf->refcount > 0);
	if (--leaf->refcount == 0)
		MemoryContextDelete(leaf->context);
}

void
rose_leaf_load(RoseLeaf *leaf, BlockNumber block, BufferAccessStrategy strategy)
{
	const RosePageHeaderDisk *header;

	Assert(leaf->refcount == 1);
	CHECK_FOR_INTERRUPTS();

	rose_page_reader_close(leaf->reader);
	leaf->block = InvalidBlockNumber;
	leaf->window_rows = 0;
	leaf->overflow_values = NULL;
	MemoryContextReset(leaf->extra_context);

	rose_component_read_page(leaf->rel, leaf->component_id, block, ROSE_PAGE_LEAF,
							 leaf->image, strategy);
	rose_page_reader_init(leaf->reader, leaf->image);
	header = rose_page_reader_header(leaf->reader);
	leaf->nrows = rose_page_reader_nrows(leaf->reader);
	if (leaf->nrows == 0 || rose_page_reader_ncols(leaf->reader) != ROSE_SYSCOLS + leaf->natts)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("leaf at block %u of component %u has %d rows of %d columns",
						block, leaf->component_id, leaf->nrows,
						rose_page_reader_ncols(leaf->reader))));
	leaf->prev = header->prev;
	leaf->next = header->next;
	leaf->first_ordinal = header->first_ordinal;
	leaf->flags = header->flags;
	leaf->block = block;
}

/* ---- rows ---- */

void
rose_leaf_decode_window(RoseLeaf *leaf, int slot, bool forward)
{
	int			width = rose_schema_key_width(leaf->schema);
	int			from;
	int			n;

	if (slot >= leaf->window_first && slot < leaf->window_first + leaf->window_rows)
		return;
	from = forward ? slot : Max(0, slot + 1 - ROSE_LEAF_WINDOW);
	n = Min(ROSE_LEAF_WINDOW, leaf->nrows - from);

	rose_page_decode(leaf->reader, ROSE_SYSCOL_SEQ, from, n, leaf->seqs, leaf->nulls);
	rose_page_decode(leaf->reader, ROSE_SYSCOL_XID, from, n, leaf->xids, leaf->nulls);
	rose_page_decode(leaf->reader, ROSE_SYSCOL_OP, from, n, leaf->ops, leaf->nulls);
	for (int j = 0; j < width; j++)
		rose_page_decode(leaf->reader, rose_leaf_key_column(leaf->schema, j), from, n,
						 leaf->keys + j * ROSE_LEAF_WINDOW, leaf->nulls);
	leaf->window_first = from;
	leaf->window_rows = n;
}

static Datum
leaf_get(RoseLeaf *leaf, int col, int slot)
{
	bool		isnull;
	Datum		value = rose_page_get(leaf->reader, col, slot, &isnull);

	return isnull ? (Datum) 0 : value;
}

/*
 * A bitmap column as readers want it: for all columns of the schema.  The
 * stored one is shorter when columns were added since.
 */
static const bits8 *
leaf_get_present(RoseLeaf *leaf, int slot)
{
	bool		isnull;
	Datum		value = rose_page_get(leaf->reader, ROSE_SYSCOL_PRESENT, slot, &isnull);
	struct varlena *bytes = (struct varlena *) DatumGetPointer(value);
	Size		need = ROSE_PRESENT_BYTES(leaf->schema->natts);
	bits8	   *wide;

	if (isnull)
		return NULL;
	if (VARSIZE_ANY_EXHDR(bytes) != ROSE_PRESENT_BYTES(leaf->natts))
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
rose_leaf_get_row(RoseLeaf *leaf, int slot, RoseRow *row, Datum *key)
{
	int			width = rose_schema_key_width(leaf->schema);
	int			at = slot - leaf->window_first;
	RoseVersion *version = &row->version;

	Assert(slot >= 0 && slot < leaf->nrows);
	memset(row, 0, sizeof(*row));
	if (at >= 0 && at < leaf->window_rows)
	{
		version->seq = (uint64) DatumGetInt64(leaf->seqs[at]);
		version->xid = FullTransactionIdFromU64((uint64) DatumGetInt64(leaf->xids[at]));
		version->op = (uint8) DatumGetInt16(leaf->ops[at]);
		for (int j = 0; j < width; j++)
			key[j] = leaf->keys[j * ROSE_LEAF_WINDOW + at];
	}
	else
	{
		version->seq = (uint64) DatumGetInt64(leaf_get(leaf, ROSE_SYSCOL_SEQ, slot));
		version->xid = FullTransactionIdFromU64((uint64)
												DatumGetInt64(leaf_get(leaf, ROSE_SYSCOL_XID, slot)));
		version->op = (uint8) DatumGetInt16(leaf_get(leaf, ROSE_SYSCOL_OP, slot));
		for (int j = 0; j < width; j++)
			key[j] = leaf_get(leaf, rose_leaf_key_column(leaf->schema, j), slot);
	}
	if (leaf->flags != 0)
		leaf_get_rare(leaf, slot, version);
	if (leaf->schema->nkeys == 0)
		version->rowid = DatumGetInt64(key[0]);

	row->key = key;
	row->leaf = leaf;
	row->slot = slot;
	row->component = leaf->component_id;
	row->ordinal = leaf->first_ordinal + slot;
}

/* ---- a row's columns ---- */

static void
tuple_header(MinimalTuple tuple, HeapTupleData *htup)
{
	memset(htup, 0, sizeof(*htup));
	htup->t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
	htup->t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
}

/* Something fetched for this slot before; attno 0: the whole row. */
static Datum *
find_fetched(RoseLeaf *leaf, int slot, AttrNumber attno)
{
	for (RoseOverflowValue *entry = leaf->overflow_values; entry != NULL; entry = entry->next)
		if (entry->slot == slot && entry->attno == attno)
			return &entry->value;
	return NULL;
}

static void
keep_fetched(RoseLeaf *leaf, int slot, AttrNumber attno, void *value)
{
	RoseOverflowValue *entry = MemoryContextAlloc(leaf->extra_context,
												  sizeof(RoseOverflowValue));

	entry->slot = slot;
	entry->attno = attno;
	entry->value = PointerGetDatum(value);
	entry->next = leaf->overflow_values;
	leaf->overflow_values = entry;
}

static void
bad_overflow(RoseLeaf *leaf)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("bad overflow column in leaf at block %u of component %u",
					leaf->block, leaf->component_id)));
}

/* The value of a column that overflowed; ref stands for it in the leaf. */
static Datum
fetch_value(RoseLeaf *leaf, int slot, AttrNumber attno, Datum ref)
{
	struct varlena *bytes = (struct varlena *) DatumGetPointer(ref);
	Datum	   *fetched = find_fetched(leaf, slot, attno);
	RoseOverflowPointerDisk pointer;
	char	   *value;

	if (fetched != NULL)
		return *fetched;
	if (VARSIZE_ANY_EXHDR(bytes) != sizeof(pointer))
		bad_overflow(leaf);
	memcpy(&pointer, VARDATA_ANY(bytes), sizeof(pointer));
	rose_overflow_check(leaf->component_id, &pointer);
	value = MemoryContextAlloc(leaf->extra_context, VARHDRSZ + pointer.raw_bytes);
	SET_VARSIZE(value, VARHDRSZ + pointer.raw_bytes);
	rose_overflow_read(leaf->rel, leaf->component_id, &pointer, VARDATA(value));
	keep_fetched(leaf, slot, attno, value);
	return PointerGetDatum(value);
}

/* A row that overflowed as a whole. */
static MinimalTuple
fetch_row(RoseLeaf *leaf, int slot, const char *pointer_bytes)
{
	Datum	   *fetched = find_fetched(leaf, slot, 0);
	RoseOverflowPointerDisk pointer;
	MinimalTuple tuple;

	if (fetched != NULL)
		return (MinimalTuple) DatumGetPointer(*fetched);
	memcpy(&pointer, pointer_bytes, sizeof(pointer));
	rose_overflow_check(leaf->component_id, &pointer);
	if (pointer.raw_bytes < SizeofMinimalTupleHeader)
		bad_overflow(leaf);
	tuple = MemoryContextAlloc(leaf->extra_context, pointer.raw_bytes);
	rose_overflow_read(leaf->rel, leaf->component_id, &pointer, (char *) tuple);
	if (tuple->t_len != pointer.raw_bytes || HeapTupleHeaderGetNatts(tuple) != leaf->natts)
		bad_overflow(leaf);
	keep_fetched(leaf, slot, 0, tuple);
	return tuple;
}

/*
 * If the column is in overflow pages: true and its value.
 */
static bool
leaf_get_overflow(RoseLeaf *leaf, int slot, AttrNumber attno, Datum *value)
{
	Size		bitmap_bytes = ROSE_PRESENT_BYTES(leaf->natts);
	bool		isnull;
	Datum		column = rose_page_get(leaf->reader, ROSE_SYSCOL_OVERFLOW, slot, &isnull);
	struct varlena *bytes = (struct varlena *) DatumGetPointer(column);
	HeapTupleData htup;

	if (isnull)
		return false;
	if (VARSIZE_ANY_EXHDR(bytes) < bitmap_bytes)
		bad_overflow(leaf);
	if (!rose_present_test((bits8 *) VARDATA_ANY(bytes), attno))
		return false;

	if (VARSIZE_ANY_EXHDR(bytes) == bitmap_bytes)
	{
		*value = rose_page_get(leaf->reader, ROSE_SYSCOLS + attno - 1, slot, &isnull);
		if (isnull || TupleDescAttr(leaf->schema->tupdesc, attno - 1)->attlen != -1)
			bad_overflow(leaf);
		*value = fetch_value(leaf, slot, attno, *value);
		return true;
	}
	if (VARSIZE_ANY_EXHDR(bytes) != bitmap_bytes + sizeof(RoseOverflowPointerDisk))
		bad_overflow(leaf);
	tuple_header(fetch_row(leaf, slot, VARDATA_ANY(bytes) + bitmap_bytes), &htup);
	*value = fastgetattr(&htup, attno, leaf->schema->tupdesc, &isnull);
	if (isnull)
		bad_overflow(leaf);
	return true;
}

static Datum
leaf_getattr(RoseLeaf *leaf, int slot, AttrNumber attno, bool *isnull)
{
	Datum		value;

	if ((leaf->flags & ROSE_LEAF_HAS_OVERFLOW) &&
		leaf_get_overflow(leaf, slot, attno, &value))
	{
		*isnull = false;
		return value;
	}
	return rose_page_get(leaf->reader, ROSE_SYSCOLS + attno - 1, slot, isnull);
}

/* What a column added after the row was stored has: its default, or NULL. */
static Datum
missing_value(const RoseSchema *schema, AttrNumber attno, bool *isnull)
{
	TupleConstr *constr = schema->tupdesc->constr;

	if (constr != NULL && constr->missing != NULL && constr->missing[attno - 1].am_present)
	{
		*isnull = false;
		return constr->missing[attno - 1].am_value;
	}
	*isnull = true;
	return (Datum) 0;
}

Datum
rose_row_getattr(const RoseRow *row, const RoseSchema *schema, AttrNumber attno,
				 bool *isnull)
{
	HeapTupleData htup;

	Assert(attno >= 1 && attno <= schema->natts);
	if (TupleDescAttr(schema->tupdesc, attno - 1)->attisdropped)
	{
		*isnull = true;
		return (Datum) 0;
	}
	if (row->tuple == NULL)
	{
		if (attno > row->leaf->natts)
			return missing_value(schema, attno, isnull);
		return leaf_getattr(row->leaf, row->slot, attno, isnull);
	}
	if (attno > HeapTupleHeaderGetNatts(row->tuple))
		return missing_value(schema, attno, isnull);
	tuple_header(row->tuple, &htup);
	return fastgetattr(&htup, attno, schema->tupdesc, isnull);
}

/* All columns of a tuple row, without looking for each from the start. */
static void
deform_tuple(const RoseRow *row, const RoseSchema *schema, Datum *values, bool *nulls)
{
	HeapTupleData htup;

	tuple_header(row->tuple, &htup);
	heap_deform_tuple(&htup, schema->tupdesc, values, nulls);
	for (int i = 0; i < schema->natts; i++)
		if (TupleDescAttr(schema->tupdesc, i)->attisdropped)
		{
			nulls[i] = true;
			values[i] = (Datum) 0;
		}
}

void
rose_row_deform(const RoseRow *row, const RoseSchema *schema, AttrNumber from,
				AttrNumber to, Datum *values, bool *nulls)
{
	if (row->tuple != NULL && from == 1 && to == schema->natts)
	{
		deform_tuple(row, schema, values, nulls);
		return;
	}
	for (AttrNumber attno = from; attno <= to; attno++)
		values[attno - 1] = rose_row_getattr(row, schema, attno, &nulls[attno - 1]);
}

bool
rose_row_is_present(const RoseRow *row, AttrNumber attno)
{
	int			natts;

	if (row->version.op != ROSE_OP_PARTIAL || row->version.present == NULL)
		return true;
	natts = row->tuple ? HeapTupleHeaderGetNatts(row->tuple) : row->leaf->natts;
	return attno <= natts && rose_present_test(row->version.present, attno);
}
