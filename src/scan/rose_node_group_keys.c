/*-------------------------------------------------------------------------
 *
 * rose_node_group_keys.c
 *	  Keys of groups: from a column's values to words that are equal when these are.
 *
 * Values by reference are numbered (rose_node_group_intern.h).  Those of a dictionary stand in one place of the page, so a
 * vector's value is mostly known by where it stands, and a dictionary's entries are looked up once a vector, not once a row.
 * What stands there is the same until the next rows are at hand.
 *
 * Of values that are equal, and differ, that of the row that came first is given out, as core does.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "utils/datum.h"
#include "utils/fmgrprotos.h"

#include "compat/rose_compat_varatt.h"
#include "vector/rose_vec_kernels.h"
#include "scan/rose_node_group.h"

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
number_of(RoseNodeGroupKey *key, Datum value)
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
		return number_of_numeric(key, value, bytes, length);
	return rose_node_intern_add(key->intern, bytes, length, value, key->typlen);
}

/* Its number is another one then. */
void
rose_node_group_key_forget(RoseNodeGroupKey *key, int64 *word)
{
	Datum		value;

	if (key->intern == NULL)
		return;
	value = datumCopy(key->values[0], false, key->typlen);
	rose_node_intern_reset(key->intern);
	rose_node_group_key_start(key);
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
			if (i > from && rose_node_intern_memory(key->intern) > limit)
				return i;
			memo->number = number_of(key, value);
			memo->value = value;
			memo->stamp = stamp;
		}
		words[i] = memo->number;
	}
	return to;
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
