/*-------------------------------------------------------------------------
 *
 * rose_key.c
 *	  Keys at run time: compare, prefix, hash, copy, extract.
 *
 * Works on a finished RoseSchema only (rose_schema.c makes it), so nothing
 * here looks at the catalog.  What a type's own comparison or hash function
 * does is its own affair: it may allocate in the current context, and raise
 * errors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "port/pg_bswap.h"
#include "util/rose_key_internal.h"
#include "util/rose_schema.h"
#include "utils/datum.h"
#include "utils/uuid.h"

/* Bloom filters on disk depend on this; frozen. */
#define ROSE_KEY_HASH_SEED	UINT64CONST(0x8a5cd789635d2dff)

#define ROSE_SIGN_BIT	(UINT64CONST(1) << 63)

int
rose_key_compare_column(const RoseSchema *schema, int column, Datum a, Datum b)
{
	const RoseKeyColumn *keycol = &schema->keys[column];

	if (keycol->int_order)
	{
		int64		x = rose_key_int(keycol, a);
		int64		y = rose_key_int(keycol, b);

		return (x > y) - (x < y);
	}
	return keycol->ssup.comparator(a, b, unconstify(SortSupportData *, &keycol->ssup));
}

int
rose_key_compare(const RoseSchema *schema, const Datum *a, const Datum *b,
				 int ncols)
{
	if (schema->nkeys == 0)
	{
		int64		x = DatumGetInt64(a[0]);
		int64		y = DatumGetInt64(b[0]);

		return ncols == 0 ? 0 : (x > y) - (x < y);
	}
	for (int i = 0; i < ncols; i++)
	{
		int			cmp = rose_key_compare_column(schema, i, a[i], b[i]);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

/* The first eight bytes as a big-endian number, padded with zeros. */
static uint64
prefix_of_bytes(const char *data, Size len)
{
	uint64		word = 0;

	memcpy(&word, data, Min(len, sizeof(word)));
	return pg_ntoh64(word);
}

/*
 * A query's value may be compressed or out of line, unlike stored keys, so
 * detoast it; a short header is fine.
 */
static uint64
prefix_of_varlena(Datum value, bool blank_padded)
{
	struct varlena *raw = (struct varlena *) DatumGetPointer(value);
	struct varlena *plain = pg_detoast_datum_packed(raw);
	const char *data = VARDATA_ANY(plain);
	Size		len = VARSIZE_ANY_EXHDR(plain);
	uint64		prefix;

	if (blank_padded)
		while (len > 0 && data[len - 1] == ' ')
			len--;
	prefix = prefix_of_bytes(data, len);
	if (plain != raw)
		pfree(plain);
	return prefix;
}

/* NaN sorts after everything else, and both zeros are equal. */
static uint64
prefix_of_float(float8 value)
{
	uint64		bits;

	if (isnan(value))
		return PG_UINT64_MAX;
	if (value == 0)
		value = 0;
	memcpy(&bits, &value, sizeof(bits));
	return (bits & ROSE_SIGN_BIT) ? ~bits : bits | ROSE_SIGN_BIT;
}

uint64
rose_key_prefix(const RoseSchema *schema, const Datum *key)
{
	switch ((RosePrefixKind) schema->prefix_kind)
	{
		case ROSE_PREFIX_NONE:
			return 0;
		case ROSE_PREFIX_ROWID:
			return (uint64) DatumGetInt64(key[0]) ^ ROSE_SIGN_BIT;
		case ROSE_PREFIX_INT:
			return (uint64) rose_key_int(&schema->keys[0], key[0]) ^ ROSE_SIGN_BIT;
		case ROSE_PREFIX_OID:
			return DatumGetObjectId(key[0]);
		case ROSE_PREFIX_FLOAT4:
			return prefix_of_float(DatumGetFloat4(key[0]));
		case ROSE_PREFIX_FLOAT8:
			return prefix_of_float(DatumGetFloat8(key[0]));
		case ROSE_PREFIX_BYTES:
			return prefix_of_varlena(key[0], false);
		case ROSE_PREFIX_BLANK_PADDED:
			return prefix_of_varlena(key[0], true);
		case ROSE_PREFIX_UUID:
			return prefix_of_bytes((const char *) DatumGetUUIDP(key[0])->data, UUID_LEN);
	}
	elog(ERROR, "unrecognized key prefix kind: %d", schema->prefix_kind);
	return 0;
}

bool
rose_key_prefix_exact(const RoseSchema *schema)
{
	return schema->prefix_injective && schema->nkeys <= 1;
}

/* Finaliser of splitmix64: every input bit reaches every output bit. */
static inline uint64
mix64(uint64 x)
{
	x ^= x >> 30;
	x *= UINT64CONST(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64CONST(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64
rose_key_hash(const RoseSchema *schema, const Datum *key)
{
	uint64		hash = ROSE_KEY_HASH_SEED;

	if (!schema->hashable)
		return 0;
	if (schema->nkeys == 0)
		return mix64(hash + (uint64) DatumGetInt64(key[0]));

	for (int i = 0; i < schema->nkeys; i++)
	{
		const RoseKeyColumn *keycol = &schema->keys[i];
		Datum		h;

		if (!keycol->hashable)
			continue;
		h = FunctionCall2Coll(unconstify(FmgrInfo *, &keycol->hashfn),
							  keycol->def.collation, key[i],
							  UInt64GetDatum(ROSE_KEY_HASH_SEED));
		/* position matters: (1, 2) and (2, 1) are different keys */
		hash = mix64(hash * 31 + DatumGetUInt64(h));
	}
	return hash;
}

void
rose_key_copy(const RoseSchema *schema, Datum *dst, const Datum *src,
			  MemoryContext context)
{
	MemoryContext oldcontext;

	if (schema->nkeys == 0)
	{
		dst[0] = src[0];
		return;
	}
	oldcontext = MemoryContextSwitchTo(context);
	for (int i = 0; i < schema->nkeys; i++)
		dst[i] = datumCopy(src[i], schema->keys[i].attbyval, schema->keys[i].attlen);
	MemoryContextSwitchTo(oldcontext);
}

Datum
rose_key_column_of_tuple(const RoseSchema *schema, MinimalTuple tuple, int column)
{
	int			attno = schema->keys[column].def.attno;
	HeapTupleData htup;
	Datum		value;
	bool		isnull;

	/* a minimal tuple is a heap tuple without its first bytes */
	htup.t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
	htup.t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);

	/*
	 * heap_getattr() without what minor releases have put into it since: its
	 * inlined code would tie this library to servers that are as new as the
	 * headers.
	 */
	if (attno > HeapTupleHeaderGetNatts(htup.t_data))
		value = getmissingattr(schema->tupdesc, attno, &isnull);
	else
		value = fastgetattr(&htup, attno, schema->tupdesc, &isnull);
	if (unlikely(isnull))
		elog(ERROR, "key column %d of a rose row is null", column + 1);
	return value;
}

void
rose_key_from_tuple(const RoseSchema *schema, MinimalTuple tuple, int64 rowid,
					Datum *key)
{
	if (schema->nkeys == 0)
		key[0] = Int64GetDatum(rowid);
	for (int i = 0; i < schema->nkeys; i++)
		key[i] = rose_key_column_of_tuple(schema, tuple, i);
}

void
rose_key_from_values(const RoseSchema *schema, const Datum *values, int64 rowid,
					 Datum *key)
{
	if (schema->nkeys == 0)
		key[0] = Int64GetDatum(rowid);
	for (int i = 0; i < schema->nkeys; i++)
		key[i] = values[schema->keys[i].def.attno - 1];
}
