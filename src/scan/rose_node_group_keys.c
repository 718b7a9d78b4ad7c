/*-------------------------------------------------------------------------
 *
 * rose_node_group_keys.c
 *	  Keys of groups: from a column's values to words that are equal when these are.
 *
 * Values by reference are numbered (rose_node_group_intern.h).  Those of a dictionary stand in one place of the page, so a
 * vector's value is mostly known by where it stands, and a dictionary's entries are looked up once a vector, not once a row.
 * What stands there is the same until the next rows are at hand.
 *
 * Where there is no room for more groups values are looked up, and those that are of none are not numbered.  By the hash of its keys a row is with all
 * others of its group, whatever is numbered when.
 *
 * Of values that are equal, and differ, that of the group's row that came first is given out, as core does.  They have one number, so those that
 * look otherwise than the first one with it are kept beside it: another key may put them into other groups.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "common/hashfn.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"

#include "compat/rose_compat_varatt.h"
#include "vector/rose_vec_kernels.h"
#include "scan/rose_node_group.h"

/* In the place of a number: there is none. */
#define UNKNOWN			PG_UINT32_MAX

/* Places of values that are remembered; a power of 2. */
#define MEMO_BITS		9
#define MEMO_ENTRIES	(1 << MEMO_BITS)

void
rose_node_group_key_init(RoseNodeGroupKey *key)
{
	if (key->kind == ROSE_KEY_WORD)
		return;
	key->words = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(int64));
	if (key->kind == ROSE_KEY_FLOAT4 || key->kind == ROSE_KEY_FLOAT8)
		return;
	key->intern = rose_node_intern_create();
	key->memo = palloc0(MEMO_ENTRIES * sizeof(RoseNodeKeyMemo));
	if (key->kind == ROSE_KEY_BPCHAR || key->kind == ROSE_KEY_NUMERIC)
		key->forms = rose_node_intern_create();
}

void
rose_node_group_key_start(RoseNodeGroupKey *key)
{
	if (key->memo == NULL)
		return;
	if (++key->stamp == 0)
	{
		memset(key->memo, 0, MEMO_ENTRIES * sizeof(RoseNodeKeyMemo));
		key->stamp = 1;
	}
}

/* ---- by reference ---- */

static Size
length_without_blanks(const char *bytes, Size length)
{
	while (length > 0 && bytes[length - 1] == ' ')
		length--;
	return length;
}

/* Numbers without zeros at the end are equal if their bytes are. */
static uint32
number_of_numeric(RoseNodeGroupKey *key, Datum value, const char *bytes, Size length)
{
	Datum		shortest = DirectFunctionCall1(numeric_trim_scale, value);
	struct varlena *varlena = (struct varlena *) DatumGetPointer(shortest);
	const char *its_bytes = VARDATA_ANY(varlena);
	Size		its_length = VARSIZE_ANY_EXHDR(varlena);
	uint32		number;

	if (!rose_node_intern_find(key->intern, its_bytes, its_length, &number))
		number = rose_node_intern_add(key->intern, its_bytes, its_length, value, key->typlen);
	if (its_length != length || memcmp(its_bytes, bytes, length) != 0)
		rose_node_intern_add_alias(key->intern, bytes, length, number);
	return number;
}

static uint32
number_of_bytes(RoseNodeGroupKey *key, Datum value, const char *bytes, Size length)
{
	uint32		number;

	if (key->kind == ROSE_KEY_BPCHAR)
		length = length_without_blanks(bytes, length);
	if (rose_node_intern_find(key->intern, bytes, length, &number))
		return number;
	if (key->kind == ROSE_KEY_NUMERIC)
		return number_of_numeric(key, value, bytes, length);
	return rose_node_intern_add(key->intern, bytes, length, value, key->typlen);
}

/* Does the value of this number look like this? */
static bool
looks_like(const RoseNodeGroupKey *key, uint32 number, const char *bytes, Size length)
{
	const struct varlena *first = (struct varlena *) DatumGetPointer(rose_node_intern_value(key->intern, number));

	return VARSIZE_ANY_EXHDR(first) == length && memcmp(VARDATA_ANY(first), bytes, length) == 0;
}

static uint32
number_of(RoseNodeGroupKey *key, Datum value)
{
	const char *bytes = DatumGetPointer(value);
	Size		length = key->typlen;
	uint32		number;
	uint32		form;

	if (key->typlen == -1)
	{
		struct varlena *varlena = PG_DETOAST_DATUM_PACKED(value);

		value = PointerGetDatum(varlena);
		bytes = VARDATA_ANY(varlena);
		length = VARSIZE_ANY_EXHDR(varlena);
	}
	number = number_of_bytes(key, value, bytes, length);
	if (key->forms != NULL && !looks_like(key, number, bytes, length) &&
		!rose_node_intern_find(key->forms, bytes, length, &form))
		(void) rose_node_intern_add(key->forms, bytes, length, value, key->typlen);
	return number;
}

Size
rose_node_group_key_memory(const RoseNodeGroupKey *key)
{
	Size		bytes = 0;

	if (key->intern != NULL)
		bytes += rose_node_intern_memory(key->intern);
	if (key->forms != NULL)
		bytes += rose_node_intern_memory(key->forms);
	return bytes;
}

Size
rose_node_group_key_needs(const RoseNodeGroupKey *key)
{
	Size		bytes = 0;

	if (key->intern != NULL)
		bytes += rose_node_intern_needs(key->intern);
	if (key->forms != NULL)
		bytes += rose_node_intern_memory(key->forms);
	return bytes;
}

Datum
rose_node_group_key_kept(const RoseNodeGroupKey *key, Datum value, int64 word)
{
	struct varlena *varlena;
	uint32		form;
	Datum		kept;

	if (key->intern == NULL)
		return value;
	kept = rose_node_intern_value(key->intern, (uint32) word);
	if (key->forms == NULL || rose_node_intern_memory(key->forms) == 0)
		return kept;
	varlena = PG_DETOAST_DATUM_PACKED(value);
	if (rose_node_intern_find(key->forms, VARDATA_ANY(varlena), VARSIZE_ANY_EXHDR(varlena), &form))
		kept = rose_node_intern_value(key->forms, form);
	if (varlena != (struct varlena *) DatumGetPointer(value))
		pfree(varlena);
	return kept;
}

void
rose_node_group_key_reset(RoseNodeGroupKey *key)
{
	if (key->intern != NULL)
		rose_node_intern_reset(key->intern);
	if (key->forms != NULL)
		rose_node_intern_reset(key->forms);
	rose_node_group_key_start(key);
}

/* Its number is another one then. */
void
rose_node_group_key_forget(RoseNodeGroupKey *key, int64 *word)
{
	Datum		value;

	if (key->intern == NULL)
		return;
	value = datumCopy(key->values[0], false, key->typlen);
	rose_node_group_key_reset(key);
	*word = number_of(key, value);
	key->values[0] = rose_node_intern_value(key->intern, (uint32) *word);
	pfree(DatumGetPointer(value));
}

static int
words_of_bytes(RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int from, int to,
			   Size limit)
{
	const bool *nulls = column->any_null ? column->nulls : NULL;
	RoseNodeKeyMemo *memos = key->memo;
	int64	   *words = key->words;
	const uint32 stamp = key->stamp;

	for (int i = from; i < to; i++)
	{
		Datum		value = (Datum) column->values[i];
		RoseNodeKeyMemo *memo = &memos[(uint64) value * UINT64CONST(0x9E3779B97F4A7C15) >> (64 - MEMO_BITS)];

		if (nulls != NULL && nulls[i])
		{
			words[i] = 0;
			continue;
		}
		if (unlikely(memo->stamp != stamp || memo->value != value))
		{
			if (i > from && rose_node_group_key_needs(key) > limit)
				return i;
			memo->number = number_of(key, value);
			memo->value = value;
			memo->stamp = stamp;
		}
		words[i] = memo->number;
	}
	return to;
}

/* ---- looking up ---- */

/* The number of a value; UNKNOWN: it has none. */
static uint32
known_number(const RoseNodeGroupKey *key, Datum value)
{
	const char *bytes = DatumGetPointer(value);
	Size		length = key->typlen;
	uint32		number;

	if (key->typlen == -1)
	{
		struct varlena *varlena = PG_DETOAST_DATUM_PACKED(value);

		value = PointerGetDatum(varlena);
		bytes = VARDATA_ANY(varlena);
		length = VARSIZE_ANY_EXHDR(varlena);
	}
	if (key->kind == ROSE_KEY_BPCHAR)
		length = length_without_blanks(bytes, length);
	if (rose_node_intern_find(key->intern, bytes, length, &number))
		return number;
	if (key->kind == ROSE_KEY_NUMERIC)
	{
		const struct varlena *shortest = (struct varlena *) DatumGetPointer(DirectFunctionCall1(numeric_trim_scale, value));

		if (rose_node_intern_find(key->intern, VARDATA_ANY(shortest), VARSIZE_ANY_EXHDR(shortest), &number))
			return number;
	}
	return UNKNOWN;
}

static void
look_up_bytes(RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int from, int to, bool *unknown)
{
	const bool *nulls = column->any_null ? column->nulls : NULL;

	for (int i = from; i < to; i++)
	{
		Datum		value = (Datum) column->values[i];
		RoseNodeKeyMemo *memo = &key->memo[(uint64) value * UINT64CONST(0x9E3779B97F4A7C15) >> (64 - MEMO_BITS)];

		key->words[i] = 0;
		if (nulls != NULL && nulls[i])
			continue;
		if (memo->stamp != key->stamp || memo->value != value)
		{
			memo->number = known_number(key, value);
			memo->value = value;
			memo->stamp = key->stamp;
		}
		unknown[i - from] |= memo->number == UNKNOWN;
		key->words[i] = memo->number;
	}
}

/* ---- floats ---- */

/* -0 is -1, as a word in order. */
static void
words_of_floats(RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int from, int n)
{
	int64	   *words = key->words + from;

	memcpy(words, column->values + from, n * sizeof(int64));
	if (key->kind == ROSE_KEY_FLOAT4)
		rose_vec_float4_words(words, n);
	else
		rose_vec_float8_words(words, n);
	for (int i = 0; i < n; i++)
		words[i] += words[i] == -1;
}

int
rose_node_group_key_words(RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int from, int to,
						  Size limit)
{
	if (key->kind == ROSE_KEY_WORD)
		return to;
	if (key->intern != NULL)
		return words_of_bytes(key, column, from, to, limit);
	words_of_floats(key, column, from, to - from);
	return to;
}

void
rose_node_group_key_look_up(RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int from, int to, bool *unknown)
{
	if (key->intern != NULL)
		look_up_bytes(key, column, from, to, unknown);
	else if (key->kind != ROSE_KEY_WORD)
		words_of_floats(key, column, from, to - from);
}

/* ---- hashes ---- */

static inline uint64
mix(uint64 seed, uint64 word)
{
	uint64		hash = (seed ^ word) * UINT64CONST(0x9E3779B97F4A7C15);

	return hash ^ (hash >> 32);
}

static uint64
hash_of_bytes(const RoseNodeGroupKey *key, Datum value, uint64 seed)
{
	struct varlena *varlena;
	Size		length;
	uint64		hash;

	if (key->kind == ROSE_KEY_NUMERIC)
		return DatumGetUInt64(DirectFunctionCall2(hash_numeric_extended, value, UInt64GetDatum(seed)));
	if (key->typlen != -1)
		return hash_bytes_extended((const unsigned char *) DatumGetPointer(value), key->typlen, seed);
	varlena = PG_DETOAST_DATUM_PACKED(value);
	length = VARSIZE_ANY_EXHDR(varlena);
	if (key->kind == ROSE_KEY_BPCHAR)
		length = length_without_blanks(VARDATA_ANY(varlena), length);
	hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(varlena), (int) length, seed);
	if (PointerGetDatum(varlena) != value)
		pfree(varlena);
	return hash;
}

uint64
rose_node_group_key_hash(const RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int row, uint64 seed)
{
	if (column->any_null && column->nulls[row])
		return mix(seed, 1);
	if (key->intern != NULL)
		return mix(hash_of_bytes(key, (Datum) column->values[row], seed), 0);
	return mix(seed, (uint64) (key->words != NULL ? key->words : column->values)[row]);
}

void
rose_node_group_find_flags(RoseNodeGroup *group, int from, int to)
{
	bool		any = false;

	for (int k = 0; k < group->table.nkeys; k++)
	{
		const RoseNodeGroupColumn *column = &group->columns.columns[group->table.keys[k].column];

		if (!column->any_null)
			continue;
		if (!any)
			memset(group->flags, 0, (to - from) * sizeof(uint32));
		any = true;
		for (int i = from; i < to; i++)
			group->flags[i - from] |= (uint32) column->nulls[i] << k;
	}
	group->keys.flags = any ? group->flags : NULL;
}

Datum
rose_node_group_key_value(const RoseNodeGroupKey *key, const RoseVecGroups *groups, uint32 group,
						  int number, bool *isnull)
{
	*isnull = (rose_vec_group_flags(groups, group) >> number & 1) != 0;
	if (*isnull)
		return (Datum) 0;
	if (key->values != NULL)
		return key->values[group];
	return (Datum) rose_vec_group_key(groups, group)[number];
}
