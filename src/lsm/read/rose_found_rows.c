/*-------------------------------------------------------------------------
 *
 * rose_found_rows.c
 *	  Rows that were looked up together, as rows in place.  See rose_found_rows.h.
 *
 * Of a row the first columns are taken over when it is found, while its leaf is at hand:
 * as many as were asked for of the rows before.  The first time nobody knows how many
 * that will be.  Columns behind them are read from the row's place in its component, which
 * the transaction's pin keeps.
 *
 * Backend-local, no locks.  The rows are freed when their last holder lets go.  While who
 * made them lives they belong to his memory, so that they go with it after an error.
 *
 * They are not the rows of a source: what only scans ask of rows is not there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "lsm/component/rose_component.h"
#include "lsm/read/rose_found_rows.h"

/* All of them take about so much memory; then no more rows are taken. */
#define BYTES_MAX	(2 * 1024 * 1024)

/* Values by reference share pieces of so much. */
#define ROOM_BYTES	4096

/* A row, but for its columns. */
typedef struct FoundRow
{
	RoseVersion version;
	RoseComponent *component;	/* until the end of the transaction */
	uint64		ordinal;
} FoundRow;

struct RoseFoundRows
{
	RoseRows	rows;
	RoseTree   *tree;
	int			width;			/* of keys */
	int			capacity;		/* slots */
	int			ntaken;			/* columns that are taken over ... */
	AttrNumber *taken;			/* ... and which */
	AttrNumber	asked;
	Size		bytes;			/* of values by reference ... */
	char	   *room;			/* ... for more of which there is room here */
	Size		room_bytes;
	Datum	   *keys;			/* width for each slot */
	FoundRow   *places;
	Datum	   *values;			/* of a row that is being taken over */
	bool	   *nulls;

	RoseComponentCursor *cursor;	/* for columns that were not; or NULL */
	RoseComponent *cursor_component;
};

static const RoseRowsOps found_rows_ops;

/* Which columns are taken over. */
static void
choose_columns(RoseFoundRows *found, const RoseWanted *wanted, MemoryContext own)
{
	AttrNumber	asked = found->asked;

	if (wanted == NULL)
	{
		found->taken = MemoryContextAlloc(own, Max(1, asked) * sizeof(AttrNumber));
		for (found->ntaken = 0; found->ntaken < asked; found->ntaken++)
			found->taken[found->ntaken] = (AttrNumber) (found->ntaken + 1);
		return;
	}
	found->taken = MemoryContextAlloc(own, wanted->n * sizeof(AttrNumber));
	for (int i = 0; i < wanted->n && (asked == 0 || wanted->attnos[i] <= asked); i++)
		found->taken[found->ntaken++] = wanted->attnos[i];
}

static void
make_columns(RoseFoundRows *found, MemoryContext own)
{
	RoseRows   *rows = &found->rows;
	char	   *memory = MemoryContextAllocHuge(own, Max(1, (Size) found->ntaken * found->capacity *
														 (sizeof(Datum) + sizeof(bool))));

	rows->columns = MemoryContextAllocZero(own, rows->natts * sizeof(RoseRowsColumn));
	rows->stamp = 1;
	for (int i = 0; i < found->ntaken; i++)
	{
		RoseRowsColumn *column = &rows->columns[found->taken[i] - 1];

		column->stamp = rows->stamp;
		column->capacity = found->capacity;
		column->values = (Datum *) memory + (Size) i * found->capacity;
		column->nulls = (bool *) ((Datum *) memory + (Size) found->ntaken * found->capacity) +
			(Size) i * found->capacity;
	}
}

RoseFoundRows *
rose_found_rows_create(RoseTree *tree, int nslots, AttrNumber asked, const RoseWanted *wanted,
					   MemoryContext context)
{
	const RoseSchema *schema = tree->schema;
	MemoryContext own = AllocSetContextCreate(context, "rose found rows", ALLOCSET_DEFAULT_SIZES);
	RoseFoundRows *found = MemoryContextAllocZero(own, sizeof(RoseFoundRows));

	found->tree = tree;
	found->width = rose_schema_key_width(schema);
	found->capacity = nslots;
	found->asked = Min(asked, schema->natts);
	found->keys = MemoryContextAlloc(own, nslots * found->width * sizeof(Datum));
	found->places = MemoryContextAlloc(own, nslots * sizeof(FoundRow));
	found->values = MemoryContextAlloc(own, schema->natts * sizeof(Datum));
	found->nulls = MemoryContextAlloc(own, schema->natts * sizeof(bool));
	found->rows.ops = &found_rows_ops;
	found->rows.refcount = 1;
	found->rows.context = own;
	found->rows.schema = schema;
	found->rows.natts = schema->natts;
	found->rows.plain = true;
	choose_columns(found, wanted, own);
	make_columns(found, own);
	return found;
}

void
rose_found_rows_abandon(RoseFoundRows *found)
{
	rose_rows_abandon(&found->rows);
}

AttrNumber
rose_found_rows_asked(const RoseFoundRows *found)
{
	return found->asked;
}

/* ---- slots ---- */

void
rose_found_rows_add_key(RoseFoundRows *found, const Datum *key)
{
	RoseRows   *rows = &found->rows;

	Assert(rows->nrows < found->capacity);
	rose_key_copy(rows->schema, found->keys + rows->nrows * found->width, key, rows->context);
	rows->nrows++;
	rows->window_rows = rows->nrows;
}

int
rose_found_rows_count(const RoseFoundRows *found)
{
	return found->rows.nrows;
}

const Datum *
rose_found_rows_key(const RoseFoundRows *found, int slot)
{
	return found->keys + slot * found->width;
}

static char *
room_for(RoseFoundRows *found, Size size)
{
	char	   *room;

	size = MAXALIGN(size);
	found->bytes += size;
	if (size > ROOM_BYTES / 4)
		return MemoryContextAllocHuge(found->rows.context, size);
	if (size > found->room_bytes)
	{
		found->room = MemoryContextAlloc(found->rows.context, ROOM_BYTES);
		found->room_bytes = ROOM_BYTES;
	}
	room = found->room;
	found->room += size;
	found->room_bytes -= size;
	return room;
}

/* A value of a leaf's. */
static Datum
keep_value(RoseFoundRows *found, AttrNumber attno, Datum value)
{
	const RoseTupleColumn *column = &found->rows.schema->tuple_columns[attno - 1];
	Size		size;
	char	   *copy;

	if (column->attbyval)
		return value;
	size = datumGetSize(value, false, column->attlen);
	copy = room_for(found, size);
	memcpy(copy, DatumGetPointer(value), size);
	return PointerGetDatum(copy);
}

bool
rose_found_rows_set(RoseFoundRows *found, int slot, const RoseVersion *version,
					RoseComponent *component, uint64 ordinal)
{
	FoundRow   *place = &found->places[slot];

	if (found->bytes >= BYTES_MAX)
		return false;
	Assert(version->op == ROSE_OP_PUT);
	place->version = *version;
	place->component = component;
	place->ordinal = ordinal;
	return true;
}

void
rose_found_rows_take(RoseFoundRows *found, RoseLeaf *leaf, const int *leaf_slots, const int *slots,
					 int n, bool seqs)
{
	Datum		values[ROSE_FOUND_ROWS_TAKE];
	bool		nulls[ROSE_FOUND_ROWS_TAKE];

	Assert(n <= ROSE_FOUND_ROWS_TAKE);
	if (seqs)
		rose_leaf_gather_seq(leaf, leaf_slots, n, values, nulls);
	for (int i = 0; seqs && i < n; i++)
		found->places[slots[i]].version.seq = nulls[i] ? 0 : (uint64) DatumGetInt64(values[i]);
	for (int t = 0; t < found->ntaken; t++)
	{
		AttrNumber	attno = found->taken[t];
		const RoseTupleColumn *tuple_column = &found->rows.schema->tuple_columns[attno - 1];
		RoseRowsColumn *column = &found->rows.columns[attno - 1];

		rose_leaf_gather(leaf, attno, leaf_slots, n, values, nulls);
		if (tuple_column->attbyval)
			for (int i = 0; i < n; i++)
			{
				column->nulls[slots[i]] = nulls[i];
				column->values[slots[i]] = values[i];
			}
		else
			for (int i = 0; i < n; i++)
			{
				column->nulls[slots[i]] = nulls[i];
				column->values[slots[i]] = nulls[i] ? (Datum) 0 : keep_value(found, attno, values[i]);
			}
	}
}

void
rose_found_rows_get(RoseFoundRows *found, int slot, RoseRow *row)
{
	const FoundRow *place = &found->places[slot];

	row->version = place->version;
	row->key = rose_found_rows_key(found, slot);
	row->tuple = NULL;
	row->rows = &found->rows;
	row->slot = slot;
	row->component = rose_component_info(place->component)->entry.id;
	row->ordinal = place->ordinal;
}

/* ---- as rows in place ---- */

static void
found_key(RoseRows *rows, int slot, Datum *key)
{
	RoseFoundRows *found = (RoseFoundRows *) rows;

	memcpy(key, rose_found_rows_key(found, slot), found->width * sizeof(Datum));
}

static void
found_version(RoseRows *rows, int slot, RoseVersion *version)
{
	*version = ((RoseFoundRows *) rows)->places[slot].version;
}

/* The row in its component. */
static const RoseRow *
row_in_component(RoseFoundRows *found, int slot)
{
	const FoundRow *place = &found->places[slot];

	if (found->cursor != NULL && found->cursor_component != place->component)
	{
		rose_component_cursor_free(found->cursor);
		found->cursor = NULL;
	}
	if (found->cursor == NULL)
		found->cursor = rose_component_cursor_create(place->component, found->tree->rel,
													 found->rows.schema, NULL, found->rows.context);
	found->cursor_component = place->component;
	rose_component_cursor_rebind(found->cursor, found->tree->rel);
	if (!rose_component_cursor_seek_ordinal(found->cursor, place->ordinal))
		elog(ERROR, "row " UINT64_FORMAT " of component %u has gone", place->ordinal,
			 rose_component_info(place->component)->entry.id);
	return rose_component_cursor_row(found->cursor);
}

static int
found_attrs(RoseRows *rows, int slot, AttrNumber from, AttrNumber to, Datum *values, bool *nulls)
{
	RoseFoundRows *found = (RoseFoundRows *) rows;
	const RoseRow *row = NULL;

	found->asked = Max(found->asked, to);
	for (AttrNumber attno = from; attno <= to; attno++)
	{
		int			i = attno - 1;

		if (rows->columns[i].stamp == rows->stamp)
		{
			values[i] = rows->columns[i].values[slot];
			nulls[i] = rows->columns[i].nulls[slot];
			continue;
		}
		if (row == NULL)
			row = row_in_component(found, slot);
		values[i] = rose_row_getattr(row, rows->schema, attno, &nulls[i]);
		if (!nulls[i])
			values[i] = keep_value(found, attno, values[i]);
	}
	return to;
}

static Datum
found_attr(RoseRows *rows, int slot, AttrNumber attno, bool *isnull)
{
	RoseFoundRows *found = (RoseFoundRows *) rows;

	(void) found_attrs(rows, slot, attno, attno, found->values, found->nulls);
	*isnull = found->nulls[attno - 1];
	return found->values[attno - 1];
}

static const RoseRowsOps found_rows_ops = {
	.key = found_key,
	.version = found_version,
	.attr = found_attr,
	.attrs = found_attrs
};
