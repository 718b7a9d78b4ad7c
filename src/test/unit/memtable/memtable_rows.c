/*-------------------------------------------------------------------------
 *
 * memtable_rows.c
 *	  Schemas and rows for the memtable's unit test: a row holds a number, and what
 *	  else a version has follows from its sequence.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include "compat/rose_compat.h"
#include "compat/rose_compat_unit.h"
#include "util/rose_key_internal.h"

ROSE_UNIT_DEFINE_BACKEND_SLOT;
ROSE_UNIT_DEFINE_COMPACT_ATTRIBUTE_CHECK

RoseSchema	rowid_schema;
RoseSchema	bytes_schema;		/* one bytea key, ordered by its bytes */
RoseC0Shared c0;

/* two words of a prefix, and eight bytes that it does not hold */
#define BYTES_KEY_LEN 24

static int
compare_bytes(Datum x, Datum y, SortSupport ssup)
{
	return memcmp(VARDATA_ANY(x), VARDATA_ANY(y), BYTES_KEY_LEN);
}

void
make_schemas(void)
{
	TupleDesc	tupdesc = rose_unit_varlena_desc();

	rowid_schema.natts = 1;
	rowid_schema.tupdesc = tupdesc;
	rose_key_prefix_plan(&rowid_schema);

	bytes_schema.natts = 1;
	bytes_schema.tupdesc = tupdesc;
	bytes_schema.nkeys = 1;
	bytes_schema.keys[0].def.attno = 1;
	bytes_schema.keys[0].attlen = -1;
	bytes_schema.keys[0].ssup.comparator = compare_bytes;
	bytes_schema.keys[0].prefix_kind = ROSE_PREFIX_BYTES;
	rose_key_prefix_plan(&bytes_schema);
	CHECK(bytes_schema.prefix_wide && !rose_key_prefix_exact(&bytes_schema));
	CHECK(!rowid_schema.prefix_wide && rose_key_prefix_exact(&rowid_schema));
}

/* A row of one bytea column with the number in it, and padding behind. */
MinimalTuple
make_row(uint64 number, Size padding)
{
	Size		header = MAXALIGN(SizeofMinimalTupleHeader);
	Size		len = header + VARHDRSZ + BYTES_KEY_LEN + padding;
	MinimalTuple row = calloc(1, len + 1);	/* snprintf ends with a zero */
	char	   *value = (char *) row + header;

	row->t_len = len;
	row->t_infomask2 = 1;		/* natts */
	row->t_infomask = HEAP_HASVARWIDTH;
	row->t_hoff = header + MINIMAL_TUPLE_OFFSET;
	SET_VARSIZE(value, VARHDRSZ + BYTES_KEY_LEN + padding);
	/* 256 numbers share the first word of a prefix, 16 of them the second */
	snprintf(value + VARHDRSZ, BYTES_KEY_LEN + 1, "%08x%08x%08x",
			 (uint32) (number >> 8), (uint32) (number >> 4), (uint32) number);
	return row;
}

Datum
key_of(const RoseSchema *schema, MinimalTuple row, uint64 number)
{
	if (schema->nkeys == 0)
		return Int64GetDatum((int64) number);
	return PointerGetDatum((char *) row + MAXALIGN(SizeofMinimalTupleHeader));
}

bool
prepare(const RoseSchema *schema, uint64 number, uint64 seq, Size padding,
		RoseMemPending *pending)
{
	static RoseMemSpot hint;
	bool		found = false;
	MinimalTuple row = make_row(number, padding);
	Datum		key = key_of(schema, row, number);
	RoseVersion version = {0};
	const Datum *keys[] = {&key};
	bits8		present = 0x01;
	bool		ok;

	version.seq = seq;
	version.xid = FullTransactionIdFromU64(seq + 1000);
	version.op = seq % 3 == 0 ? ROSE_OP_PARTIAL : ROSE_OP_PUT;
	version.present = seq % 3 == 0 ? &present : NULL;
	version.moved_to = seq % 5 == 0 ? seq + 1 : 0;
	version.cid = seq;
	version.rowid = schema->nkeys == 0 ? (int64) number : 0;
	/* hints that are fresh, of another key, or none */
	if (seq % 4 == 0)
		rose_c0_probe(&c0, schema, keys, 1, seq % 8 == 0, &found, &hint);
	else if (seq % 4 == 1)
		memset(&hint, 0, sizeof(hint));
	ok = rose_c0_prepare_near(&c0, schema, &version, &key, row, &hint, NULL,
							  pending) == ROSE_MEM_PREPARED;
	free(row);
	return ok;
}

bool
put(const RoseSchema *schema, uint64 number, uint64 seq, Size padding)
{
	RoseMemPending pending;

	if (!prepare(schema, number, seq, padding, &pending))
		return false;
	rose_c0_link(&c0, &pending);
	return true;
}

uint64
number_of(const RoseSchema *schema, const RoseMemEntryRef *ref)
{
	char		digits[9] = {0};

	if (schema->nkeys == 0)
		return (uint64) ref->version.rowid;
	memcpy(digits, (char *) ref->row + MAXALIGN(SizeofMinimalTupleHeader) +
		   VARHDRSZ + 16, 8);
	return strtoul(digits, NULL, 16);
}

void
check_entry(const RoseSchema *schema, const RoseMemEntryRef *ref,
			uint64 number, uint64 seq)
{
	const RoseVersion *version = &ref->version;

	CHECK(number_of(schema, ref) == number);
	CHECK(version->seq == seq);
	CHECK(U64FromFullTransactionId(version->xid) == seq + 1000);
	CHECK(version->cid == (CommandId) seq);
	CHECK((version->present != NULL) == (seq % 3 == 0));
	CHECK(version->present == NULL || version->present[0] == 0x01);
	CHECK(version->moved_to == (seq % 5 == 0 ? seq + 1 : 0));
}
