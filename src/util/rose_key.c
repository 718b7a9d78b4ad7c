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
 * Backend-local; no locks.  Calls into functions of users are guarded when the schema is
 * made (rose_schema.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "port/pg_bswap.h"
#include "utils/datum.h"
#include "utils/uuid.h"

#include "util/rose_key_internal.h"
#include "util/rose_schema.h"

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

/* ---- prefixes ---- */

#define PREFIX_BYTES ((int) sizeof(((RoseKeyPrefix *) NULL)->word))

/* A prefix that is being made: big-endian numbers and bytes, padded with zeros. */
typedef struct PrefixBytes
{
	unsigned char data[PREFIX_BYTES + sizeof(uint64)];
	int			len;			/* may be more than there is room for */
} PrefixBytes;

static inline void
put_number(PrefixBytes *bytes, uint64 value, int width)
{
	uint64		word = pg_hton64(value << (64 - 8 * width));

	memcpy(bytes->data + bytes->len, &word, sizeof(word));
	bytes->len += width;
}

/* The rest of the prefix. */
static void
put_bytes(PrefixBytes *bytes, const char *data, Size len)
{
	Size		room = PREFIX_BYTES - bytes->len;

	memcpy(bytes->data + bytes->len, data, Min(len, room));
	bytes->len = PREFIX_BYTES;
}

/*
 * A query's value may be compressed or out of line, unlike stored keys, so
 * detoast it; a short header is fine.
 */
static void
put_varlena(PrefixBytes *bytes, Datum value, bool blank_padded)
{
	struct varlena *raw = (struct varlena *) DatumGetPointer(value);
	struct varlena *plain = pg_detoast_datum_packed(raw);
	const char *data = VARDATA_ANY(plain);
	Size		len = VARSIZE_ANY_EXHDR(plain);

	if (blank_padded)
		while (len > 0 && data[len - 1] == ' ')
			len--;
	put_bytes(bytes, data, len);
	if (plain != raw)
		pfree(plain);
}

/* NaN sorts after everything else, and both zeros are equal. */
static uint64
float_bits(float8 value)
{
	uint64		bits;

	if (isnan(value))
		return PG_UINT64_MAX;
	if (value == 0)
		value = 0;
	memcpy(&bits, &value, sizeof(bits));
	return (bits & ROSE_SIGN_BIT) ? ~bits : bits | ROSE_SIGN_BIT;
}

/* A rank is one of -1, 0 and 1. */
static inline uint64
rank_byte(Datum value)
{
	return (uint8) (DatumGetInt16(value) + 128);
}

/* Append a column as if it ascended; false if the prefix ends there. */
static pg_attribute_always_inline bool
put_ascending(PrefixBytes *bytes, const RoseKeyColumn *column, Datum value)
{
	switch ((RosePrefixKind) column->prefix_kind)
	{
		case ROSE_PREFIX_NONE:
			return false;
		case ROSE_PREFIX_INT:
			put_number(bytes, (uint64) rose_key_int(column, value) ^
					   (UINT64CONST(1) << (8 * column->attlen - 1)), column->attlen);
			return true;
		case ROSE_PREFIX_RANK:
			put_number(bytes, rank_byte(value), 1);
			return true;
		case ROSE_PREFIX_OID:
			put_number(bytes, DatumGetObjectId(value), sizeof(Oid));
			return true;
		case ROSE_PREFIX_FLOAT4:
			put_number(bytes, float_bits(DatumGetFloat4(value)), sizeof(float8));
			return true;
		case ROSE_PREFIX_FLOAT8:
			put_number(bytes, float_bits(DatumGetFloat8(value)), sizeof(float8));
			return true;
		case ROSE_PREFIX_BYTES:
			put_varlena(bytes, value, false);
			return false;
		case ROSE_PREFIX_BLANK_PADDED:
			put_varlena(bytes, value, true);
			return false;
		case ROSE_PREFIX_UUID:
			put_bytes(bytes, (const char *) DatumGetUUIDP(value)->data, UUID_LEN);
			return false;
	}
	elog(ERROR, "unrecognized key prefix kind: %d", column->prefix_kind);
	return false;
}

/* Bytes of a column in prefixes, if it is one that goes in whole; else 0. */
static int
whole_column_width(const RoseKeyColumn *column)
{
	switch ((RosePrefixKind) column->prefix_kind)
	{
		case ROSE_PREFIX_INT:
			return column->attlen;
		case ROSE_PREFIX_RANK:
			return 1;
		case ROSE_PREFIX_OID:
			return sizeof(Oid);
		case ROSE_PREFIX_FLOAT4:
		case ROSE_PREFIX_FLOAT8:
			return sizeof(float8);
		default:
			return 0;
	}
}

/*
 * Append a column, in its direction; false if the prefix ends there.  The Datum of a NULL is
 * 0: of a type that goes in whole that is as good as any other value, since its rank has
 * decided.
 */
static bool
put_column(PrefixBytes *bytes, const RoseKeyColumn *column, Datum value)
{
	int			from = bytes->len;
	bool		more;

	if (unlikely(column->nullable && !column->attbyval && DatumGetPointer(value) == NULL))
		return false;
	more = put_ascending(bytes, column, value);
	if (unlikely((column->def.flags & ROSE_KEY_DESCENDING) != 0))
		for (int i = from; i < Min(bytes->len, PREFIX_BYTES); i++)
			bytes->data[i] = ~bytes->data[i];
	return more;
}

/* Does a key that begins with such columns go into its first word as a number? */
static bool
is_number(const RoseKeyColumn *column)
{
	return (column->def.flags & ROSE_KEY_DESCENDING) == 0 &&
		(column->prefix_kind == ROSE_PREFIX_INT || column->prefix_kind == ROSE_PREFIX_OID ||
		 column->prefix_kind == ROSE_PREFIX_RANK);
}

static int
count_prefix_numbers(const RoseSchema *schema)
{
	int			width = 0;
	int			n = 0;

	while (n < schema->nkeys && width < (int) sizeof(uint64))
	{
		if (!is_number(&schema->keys[n]))
			return 0;
		width += whole_column_width(&schema->keys[n++]);
	}
	return n;
}

void
rose_key_prefix_plan(RoseSchema *schema)
{
	int			width = 0;

	for (int i = 0; i < schema->nkeys; i++)
		schema->keys[i].prefix_bits = 8 * whole_column_width(&schema->keys[i]);
	schema->prefix_numbers = count_prefix_numbers(schema);

	schema->prefix_columns = 0;
	schema->prefix_wide = false;
	for (int i = 0; i < schema->nkeys && width <= (int) sizeof(uint64); i++)
	{
		int			whole = whole_column_width(&schema->keys[i]);

		if (whole == 0 || width + whole > (int) sizeof(uint64))
		{
			schema->prefix_wide = schema->keys[i].prefix_kind != ROSE_PREFIX_NONE;
			break;
		}
		width += whole;
		schema->prefix_columns++;
	}
}

/* The first n bytes of a prefix as masks. */
static void
mask_bytes(uint64 *mask, int n)
{
	for (int i = 0; i < 2; i++, n -= sizeof(uint64))
	{
		if (n >= (int) sizeof(uint64))
			mask[i] = PG_UINT64_MAX;
		else
			mask[i] = n <= 0 ? 0 : PG_UINT64_MAX << (64 - 8 * n);
	}
}

void
rose_key_prefix_make(const RoseSchema *schema, const Datum *key, int ncols,
					 RoseKeyPrefix *prefix)
{
	PrefixBytes bytes = {{0}, 0};
	bool		more = true;

	prefix->mask[0] = prefix->mask[1] = PG_UINT64_MAX;
	if (schema->nkeys == 0)
	{
		prefix->word[0] = ncols == 0 ? 0 : (uint64) DatumGetInt64(key[0]) ^ ROSE_SIGN_BIT;
		prefix->word[1] = 0;
		if (ncols == 0)
			prefix->mask[0] = 0;
		return;
	}
	if (unlikely(schema->ranked || schema->turned))
		for (int i = 0; i < ncols && more && bytes.len < PREFIX_BYTES; i++)
			more = put_column(&bytes, &schema->keys[i], key[i]);
	else
		for (int i = 0; i < ncols && more && bytes.len < PREFIX_BYTES; i++)
			more = put_ascending(&bytes, &schema->keys[i], key[i]);
	memcpy(prefix->word, bytes.data, PREFIX_BYTES);
	prefix->word[0] = pg_ntoh64(prefix->word[0]);
	prefix->word[1] = pg_ntoh64(prefix->word[1]);
	if (ncols < schema->nkeys && more)
		mask_bytes(prefix->mask, bytes.len);
}

/* The first word that rose_key_prefix_make makes, of a key of numbers alone. */
static inline uint64
first_word_of_numbers(const RoseSchema *schema, const Datum *key)
{
	uint64		word = 0;
	int			room = 64;

	for (int i = 0; i < schema->prefix_numbers; i++)
	{
		const RoseKeyColumn *column = &schema->keys[i];
		int			bits = column->prefix_bits;
		uint64		value = column->prefix_kind == ROSE_PREFIX_OID ? DatumGetObjectId(key[i]) :
			(uint64) rose_key_int(column, key[i]) ^ (UINT64CONST(1) << (bits - 1));

		/* to the top, and behind what is there; what does not fit falls off */
		word |= value << (64 - bits) >> (64 - room);
		room -= Min(bits, room);
	}
	return word;
}

uint64
rose_key_prefix(const RoseSchema *schema, const Datum *key)
{
	RoseKeyPrefix prefix;

	if (schema->prefix_numbers > 0)
		return first_word_of_numbers(schema, key);

	rose_key_prefix_make(schema, key, rose_schema_key_width(schema), &prefix);
	return prefix.word[0];
}

bool
rose_key_prefix_exact(const RoseSchema *schema)
{
	return schema->prefix_columns == schema->nkeys;
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

/* What the extended hash function of core for this kind of column returns. */
static inline uint64
hash_column(const RoseKeyColumn *column, Datum value)
{
	int64		number;

	switch ((RoseHashKind) column->hash_kind)
	{
		case ROSE_HASH_FUNCTION:
			break;
		case ROSE_HASH_INT2:
			return hash_bytes_uint32_extended((uint32) DatumGetInt16(value), ROSE_KEY_HASH_SEED);
		case ROSE_HASH_INT4:
			return hash_bytes_uint32_extended((uint32) DatumGetInt32(value), ROSE_KEY_HASH_SEED);
		case ROSE_HASH_INT8:
			/* so that small numbers hash as those of the other types */
			number = DatumGetInt64(value);
			return hash_bytes_uint32_extended((uint32) number ^
											  (uint32) ((number >= 0 ? number : ~number) >> 32),
											  ROSE_KEY_HASH_SEED);
	}
	return DatumGetUInt64(FunctionCall2Coll(unconstify(FmgrInfo *, &column->hashfn),
											column->def.collation, value,
											UInt64GetDatum(ROSE_KEY_HASH_SEED)));
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

		if (!keycol->hashable || rose_key_is_null(schema, key, i))
			continue;
		Assert(keycol->hash_kind == ROSE_HASH_FUNCTION ||
			   hash_column(keycol, key[i]) ==
			   DatumGetUInt64(FunctionCall2Coll(unconstify(FmgrInfo *, &keycol->hashfn),
												keycol->def.collation, key[i],
												UInt64GetDatum(ROSE_KEY_HASH_SEED))));
		/* position matters: (1, 2) and (2, 1) are different keys */
		hash = mix64(hash * 31 + hash_column(keycol, key[i]));
	}
	return hash;
}

/* A column of rose_key_hash_many, some values of which may be NULL. */
static void
hash_nullable(const RoseKeyColumn *keycol, const Datum *ranks, const Datum *values, int n,
			  uint64 *hashes)
{
	for (int i = 0; i < n; i++)
		if (DatumGetInt16(ranks[i]) == 0)
			hashes[i] = mix64(hashes[i] * 31 + hash_column(keycol, values[i]));
}

/* Column by column; in order, most values of the leading ones are those of the row before. */
void
rose_key_hash_many(const RoseSchema *schema, const Datum *const *columns, int n, uint64 *hashes)
{
	for (int i = 0; i < n; i++)
		hashes[i] = ROSE_KEY_HASH_SEED;
	for (int j = 0; j < schema->nkeys; j++)
	{
		const RoseKeyColumn *keycol = &schema->keys[j];
		const Datum *values = columns[j];
		uint64		hash = 0;

		if (!keycol->hashable)
			continue;
		if (keycol->nullable)
		{
			hash_nullable(keycol, columns[j - 1], values, n, hashes);
			continue;
		}
		for (int i = 0; i < n; i++)
		{
			if (i == 0 || !keycol->attbyval || values[i] != values[i - 1])
				hash = hash_column(keycol, values[i]);
			hashes[i] = mix64(hashes[i] * 31 + hash);
		}
	}
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
	{
		const RoseKeyColumn *column = &schema->keys[i];

		if (rose_key_is_null(schema, src, i))
			dst[i] = (Datum) 0;
		else
			dst[i] = column->attbyval ? src[i] : datumCopy(src[i], false, column->attlen);
	}
	MemoryContextSwitchTo(oldcontext);
}

/* A key column that is NULL in a row: that is as it should be if its rank says so. */
static pg_noinline Datum
null_of_tuple(const RoseSchema *schema, MinimalTuple tuple, int column)
{
	if (!schema->keys[column].nullable ||
		DatumGetInt16(rose_key_column_of_tuple(schema, tuple, column - 1)) == 0)
		elog(ERROR, "key column %d of a rose row is null", column + 1);
	return (Datum) 0;
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
		return null_of_tuple(schema, tuple, column);
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
	for (int i = 1; schema->ranked && i < schema->nkeys; i++)
		if (rose_key_is_null(schema, key, i))
			key[i] = (Datum) 0;
}
