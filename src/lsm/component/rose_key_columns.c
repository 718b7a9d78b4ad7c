/*-------------------------------------------------------------------------
 *
 * rose_key_columns.c
 *	  Columns and keys of component pages: physical column descriptions, key
 *	  bytes in the footer, reusable key buffers, and searching a sorted page.
 *
 * A key in the footer is, for each key column, a MAXALIGNed value: the Datum
 * of a by-value type as eight bytes, otherwise a length (eight bytes) and the
 * value's own bytes.  A column that is NULL by its rank has nothing there.
 *
 * No locks; all memory is the caller's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/datum.h"

#include "lsm/component/rose_component_internal.h"

/* ---- column descriptions ---- */

/* Codes of column kinds in the footer.  Embedded on disk: never renumber. */
static const uint8 kind_codes[] = {
	[ROSE_COLUMN_INT] = 1,
	[ROSE_COLUMN_FLOAT] = 2,
	[ROSE_COLUMN_FIXED] = 3,
	[ROSE_COLUMN_VARLEN] = 4,
	[ROSE_COLUMN_CSTRING] = 5
};

uint8
rose_column_kind_code(uint8 kind)
{
	return kind_codes[kind];
}

static uint8
kind_from_code(uint8 code)
{
	for (int kind = 0; kind < lengthof(kind_codes); kind++)
		if (kind_codes[kind] == code)
			return kind;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("unknown column kind %u in the footer of a component", code)));
}

static bool
is_float(Oid typid)
{
	return typid == FLOAT4OID || typid == FLOAT8OID;
}

static RoseColumnDesc
attribute_desc(TupleDesc tupdesc, AttrNumber attno, Oid typid)
{
	Form_pg_attribute att = TupleDescAttr(tupdesc, attno - 1);
	RoseColumnDesc desc = rose_column_desc(att->attlen, att->attbyval, att->attalign,
										   is_float(typid));

	/* functions of such types do not expect short headers, as heap makes none */
	desc.long_headers = att->attlen == -1 && att->attstorage == TYPSTORAGE_PLAIN;
	return desc;
}

static bool
stored_alike(const RoseSchema *schema, const RoseLayoutColumnDisk *stored, AttrNumber attno)
{
	const RoseLayoutColumnDisk *now = &schema->layout->columns[attno - 1];
	const RoseLayoutColumnDisk *then = &stored[attno - 1];

	return now->attlen == then->attlen && now->attalign == then->attalign &&
		((now->flags ^ then->flags) & ROSE_LAYOUT_BYVAL) == 0;
}

/* A column that is not the table's: ALTER TABLE ADD COLUMN was rolled back. */
static RoseColumnDesc
stored_desc(const RoseLayoutColumnDisk *column)
{
	return rose_column_desc(column->attlen, (column->flags & ROSE_LAYOUT_BYVAL) != 0,
							(char) column->attalign, is_float(column->typid));
}

RoseColumnDesc *
rose_leaf_column_descs(const RoseSchema *schema, int natts, const uint8 *kinds,
					   const RoseLayoutColumnDisk *stored, MemoryContext context)
{
	RoseColumnDesc *descs = MemoryContextAllocZero(context,
												   (ROSE_SYSCOLS + natts) * sizeof(RoseColumnDesc));
	RoseColumnDesc int8_desc = rose_column_desc(8, true, TYPALIGN_DOUBLE, false);
	RoseColumnDesc int4_desc = rose_column_desc(4, true, TYPALIGN_INT, false);
	RoseColumnDesc bytea_desc = rose_column_desc(-1, false, TYPALIGN_INT, false);

	descs[ROSE_SYSCOL_SEQ] = int8_desc;
	descs[ROSE_SYSCOL_XID] = int8_desc;
	descs[ROSE_SYSCOL_OP] = rose_column_desc(2, true, TYPALIGN_SHORT, false);
	descs[ROSE_SYSCOL_PRESENT] = bytea_desc;
	descs[ROSE_SYSCOL_MOVED] = int8_desc;
	descs[ROSE_SYSCOL_OVERFLOW] = bytea_desc;
	descs[ROSE_SYSCOL_SUBXID] = int4_desc;
	descs[ROSE_SYSCOL_CID] = int4_desc;
	descs[ROSE_SYSCOL_ROWID] = int8_desc;

	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		RoseColumnDesc *desc = &descs[ROSE_SYSCOLS + attno - 1];

		if (attno > schema->natts || (stored != NULL && !stored_alike(schema, stored, attno)))
			*desc = stored_desc(&stored[attno - 1]);
		else
			*desc = attribute_desc(schema->tupdesc, attno,
								   TupleDescAttr(schema->tupdesc, attno - 1)->atttypid);
	}

	/* a dropped column has no type any more: believe the footer */
	for (int i = 0; kinds != NULL && i < ROSE_SYSCOLS + natts; i++)
		descs[i].kind = kind_from_code(kinds[i]);
	return descs;
}

/* The type that a key column had when the component was built: it may have been dropped since. */
static RoseColumnDesc
key_desc(const RoseSchema *schema, int j, const RoseLayoutColumnDisk *stored)
{
	AttrNumber	attno = schema->keys[j].def.attno;
	Form_pg_attribute att = TupleDescAttr(schema->tupdesc, attno - 1);
	Oid			typid = att->attisdropped ? schema->keys[j].def.opcintype : att->atttypid;

	if (stored != NULL)
		typid = stored[attno - 1].typid;
	return attribute_desc(schema->tupdesc, attno, typid);
}

RoseColumnDesc *
rose_inner_column_descs(const RoseSchema *schema, const RoseLayoutColumnDisk *stored, int *ncols,
						MemoryContext context)
{
	int			width = rose_schema_key_width(schema);
	RoseColumnDesc *descs = MemoryContextAllocZero(context,
												   (ROSE_INNERCOLS + width) * sizeof(RoseColumnDesc));
	RoseColumnDesc int8_desc = rose_column_desc(8, true, TYPALIGN_DOUBLE, false);

	descs[ROSE_INNERCOL_CHILD] = int8_desc;
	descs[ROSE_INNERCOL_ORDINAL] = int8_desc;
	descs[ROSE_INNERCOL_SEQ] = int8_desc;
	for (int j = 0; j < width; j++)
		descs[ROSE_INNERCOLS + j] = schema->nkeys > 0 ? key_desc(schema, j, stored) : int8_desc;
	*ncols = ROSE_INNERCOLS + width;
	return descs;
}

/* ---- physical facts of a key column ---- */

static void
key_column_storage(const RoseSchema *schema, int j, bool *byval, int16 *len)
{
	*byval = schema->nkeys > 0 ? schema->keys[j].attbyval : true;
	*len = schema->nkeys > 0 ? schema->keys[j].attlen : sizeof(int64);
}

/* ---- keys in the footer ---- */

static void
write_aligned(StringInfo out, const void *bytes, Size length)
{
	static const char zeros[MAXIMUM_ALIGNOF] = {0};

	appendBinaryStringInfo(out, bytes, length);
	appendBinaryStringInfo(out, zeros, MAXALIGN(length) - length);
}

void
rose_key_write(const RoseSchema *schema, const Datum *key, StringInfo out)
{
	for (int j = 0; j < rose_schema_key_width(schema); j++)
	{
		bool		byval;
		int16		len;
		uint64		word;

		if (rose_key_is_null(schema, key, j))
			continue;
		key_column_storage(schema, j, &byval, &len);
		word = byval ? (uint64) key[j] : datumGetSize(key[j], false, len);
		write_aligned(out, &word, sizeof(word));
		if (!byval)
			write_aligned(out, DatumGetPointer(key[j]), word);
	}
}

static void
key_read_error(uint32 component_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("bad key in the footer of component %u", component_id)));
}

/* bytes must be MAXALIGNed and stay in place: by-reference Datums point into it. */
void
rose_key_read(const RoseSchema *schema, char *bytes, Size length, Datum *key,
			  uint32 component_id)
{
	Size		at = 0;

	for (int j = 0; j < rose_schema_key_width(schema); j++)
	{
		bool		byval;
		int16		len;
		uint64		word;

		if (rose_key_is_null(schema, key, j))
		{
			key[j] = (Datum) 0;
			continue;
		}
		key_column_storage(schema, j, &byval, &len);
		if (length - at < sizeof(word))
			key_read_error(component_id);
		memcpy(&word, bytes + at, sizeof(word));
		at += sizeof(word);
		if (byval)
		{
			key[j] = (Datum) word;
			continue;
		}
		if (word == 0 || word > length - at || MAXALIGN(word) > length - at)
			key_read_error(component_id);
		key[j] = PointerGetDatum(bytes + at);
		if (len == -1 && (VARATT_IS_EXTERNAL(bytes + at) || VARSIZE_ANY(bytes + at) != word))
			key_read_error(component_id);
		if (len > 0 && word != len)
			key_read_error(component_id);
		at += MAXALIGN(word);
	}
}

/* ---- key buffers ---- */

void
rose_key_buffer_init(RoseKeyBuffer *buffer, MemoryContext context)
{
	memset(buffer, 0, sizeof(*buffer));
	buffer->context = context;
}

void
rose_key_buffer_set_prefix(RoseKeyBuffer *buffer, const RoseSchema *schema,
						   const Datum *key, int ncols)
{
	for (int j = 0; j < ncols; j++)
	{
		bool		byval;
		int16		len;
		Size		size;

		key_column_storage(schema, j, &byval, &len);
		if (byval || rose_key_is_null(schema, key, j))
		{
			buffer->key[j] = key[j];
			continue;
		}
		size = datumGetSize(key[j], false, len);
		if (size > buffer->capacity[j])
		{
			if (buffer->data[j])
				pfree(buffer->data[j]);
			buffer->capacity[j] = Max(64, size * 2);
			buffer->data[j] = MemoryContextAlloc(buffer->context, buffer->capacity[j]);
		}
		memcpy(buffer->data[j], DatumGetPointer(key[j]), size);
		buffer->key[j] = PointerGetDatum(buffer->data[j]);
	}
	buffer->valid = true;
}

void
rose_key_buffer_set(RoseKeyBuffer *buffer, const RoseSchema *schema, const Datum *key)
{
	rose_key_buffer_set_prefix(buffer, schema, key, rose_schema_key_width(schema));
	buffer->prefix = rose_key_prefix(schema, key);
}

/* ---- searching a page by key ---- */

static int
compare_with_sortsupport(Datum stored, Datum value, void *arg)
{
	return ApplySortComparator(stored, false, value, false, (SortSupport) arg);
}

bool
rose_page_narrow(RosePageReader *reader, const RoseSchema *schema, bool inner,
				 const Datum *key, int ncols, int *lo, int *hi)
{
	for (int j = 0; j < ncols && *lo < *hi; j++)
	{
		int			col = inner ? ROSE_INNERCOLS + j : rose_leaf_key_column(schema, j);
		RoseDatumCompare compare = NULL;
		void	   *arg = NULL;
		int			from = *lo;
		bool		isnull = false;

		if (rose_key_is_null(schema, key, j))
			continue;			/* in all of these rows, as their rank says */
		if (schema->nkeys > 0 && !schema->keys[j].int_order)
		{
			compare = compare_with_sortsupport;
			arg = (void *) &schema->keys[j].ssup;
		}
		if (inner)
			(void) rose_page_get(reader, col, from, &isnull);
		if (isnull)
			from++;
		rose_page_search(reader, col, from, *hi, key[j], compare, arg, lo, hi);
	}
	return *lo < *hi;
}

static int
compare_descending(Datum stored, Datum value, void *arg)
{
	int64		a = DatumGetInt64(stored);
	int64		b = DatumGetInt64(value);

	return a > b ? -1 : a < b ? 1 : 0;
}

int
rose_page_search_seq(RosePageReader *reader, int col, int lo, int hi, uint64 seq)
{
	int			first;
	int			last;

	rose_page_search(reader, col, lo, hi,
					 Int64GetDatum((int64) Min(seq, (uint64) PG_INT64_MAX)),
					 compare_descending, NULL, &first, &last);
	return first;
}
