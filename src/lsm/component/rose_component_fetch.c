/*-------------------------------------------------------------------------
 *
 * rose_component_fetch.c
 *	  What rows of a leaf have in overflow pages.
 *
 * What was fetched is kept with the leaf, because rows hand out pointers to it, until the
 * leaf goes on to another page; the builder bounds how much a leaf refers to.  How
 * values, whole rows and rows of narrow leaves are stored is in rose_component_format.h.
 * Which of them a column is to be found in is decided in rose_leaf.c.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"

#include "lsm/component/rose_component_internal.h"

/* What find_fetched has of a row besides its columns (from 1). */
#define WHOLE_ROW			0
#define NARROW_PRESENT		(-1)	/* which columns a PARTIAL in a narrow leaf has */

typedef struct RoseOverflowValue
{
	struct RoseOverflowValue *next;
	int			slot;
	AttrNumber	attno;
	Datum		value;
} RoseOverflowValue;

/* Something fetched for this slot before. */
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

void
rose_leaf_bad_overflow(RoseLeaf *leaf)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("bad overflow column in leaf at block %u of component %u",
					leaf->block, leaf->component_id)));
}

/* Bytes in overflow pages, as a varlena. */
static Datum
fetch_bytes(RoseLeaf *leaf, int slot, AttrNumber attno, const RoseOverflowPointerDisk *pointer)
{
	Datum	   *fetched = find_fetched(leaf, slot, attno);
	char	   *value;

	if (fetched != NULL)
		return *fetched;
	rose_overflow_check(leaf->component_id, pointer);
	value = MemoryContextAlloc(leaf->extra_context, VARHDRSZ + pointer->raw_bytes);
	SET_VARSIZE(value, VARHDRSZ + pointer->raw_bytes);
	rose_overflow_read(leaf->rel, leaf->component_id, pointer, VARDATA(value));
	keep_fetched(leaf, slot, attno, value);
	return PointerGetDatum(value);
}

Datum
rose_leaf_fetch_value(RoseLeaf *leaf, int slot, AttrNumber attno, Datum ref)
{
	struct varlena *bytes = (struct varlena *) DatumGetPointer(ref);
	RoseOverflowPointerDisk pointer;

	if (VARSIZE_ANY_EXHDR(bytes) != sizeof(pointer))
		rose_leaf_bad_overflow(leaf);
	memcpy(&pointer, VARDATA_ANY(bytes), sizeof(pointer));
	return fetch_bytes(leaf, slot, attno, &pointer);
}

MinimalTuple
rose_leaf_fetch_row(RoseLeaf *leaf, int slot, const char *pointer_bytes)
{
	Datum	   *fetched = find_fetched(leaf, slot, WHOLE_ROW);
	RoseOverflowPointerDisk pointer;
	MinimalTuple tuple;

	if (fetched != NULL)
		return (MinimalTuple) DatumGetPointer(*fetched);
	memcpy(&pointer, pointer_bytes, sizeof(pointer));
	rose_overflow_check(leaf->component_id, &pointer);
	if (pointer.raw_bytes < SizeofMinimalTupleHeader)
		rose_leaf_bad_overflow(leaf);
	tuple = MemoryContextAlloc(leaf->extra_context, pointer.raw_bytes);
	rose_overflow_read(leaf->rel, leaf->component_id, &pointer, (char *) tuple);
	if (tuple->t_len != pointer.raw_bytes || HeapTupleHeaderGetNatts(tuple) != leaf->rows.natts)
		rose_leaf_bad_overflow(leaf);
	keep_fetched(leaf, slot, WHOLE_ROW, tuple);
	return tuple;
}

/* One of the pointers of a row of a narrow leaf: 0 to the row, 1 to its bitmap. */
static void
narrow_pointer(RoseLeaf *leaf, int slot, int n, RoseOverflowPointerDisk *pointer)
{
	bool		isnull;
	Datum		column = rose_page_get(leaf->reader, ROSE_SYSCOL_OVERFLOW, slot, &isnull);
	struct varlena *bytes = (struct varlena *) DatumGetPointer(column);

	if (isnull || VARSIZE_ANY_EXHDR(bytes) % sizeof(*pointer) != 0 ||
		VARSIZE_ANY_EXHDR(bytes) < (n + 1) * sizeof(*pointer))
		rose_leaf_bad_overflow(leaf);
	memcpy(pointer, VARDATA_ANY(bytes) + n * sizeof(*pointer), sizeof(*pointer));
}

MinimalTuple
rose_leaf_fetch_narrow_row(RoseLeaf *leaf, int slot)
{
	RoseOverflowPointerDisk pointer;

	narrow_pointer(leaf, slot, 0, &pointer);
	return rose_leaf_fetch_row(leaf, slot, (char *) &pointer);
}

Datum
rose_leaf_fetch_narrow_present(RoseLeaf *leaf, int slot)
{
	RoseOverflowPointerDisk pointer;

	narrow_pointer(leaf, slot, 1, &pointer);
	return fetch_bytes(leaf, slot, NARROW_PRESENT, &pointer);
}
