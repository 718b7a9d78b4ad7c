/*-------------------------------------------------------------------------
 *
 * rose_vec_kernels.c
 *	  Loops over arrays of values: to words in order, and to masks.
 *
 * The Makefile compiles this file with -O3; as in codec/rose_kernels.c, loops are compiled twice and
 * the better one is chosen when rose is loaded.
 *
 * Pure functions; no locks and no allocation.  What the words mean is for who asks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_mask.h"
#include "vector/rose_vec_kernels.h"

/* sanitizers are not ready yet when such a choice is made */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && \
	defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define VECTORIZED	__attribute__((target_clones("avx2", "default")))
#else
#define VECTORIZED
#endif

/* Sets of up to so many ranges are compared range by range. */
#define FEW_RANGES		4

/* Rows that go through an array of bytes together. */
#define STRIDE			ROSE_MASK_BITS

#define INFINITY_BITS	INT64CONST(0x7FF0000000000000)

static inline int64
word_of_bits(int64 bits)
{
	int64		magnitude = bits & PG_INT64_MAX;
	int64		word = bits < 0 ? ~magnitude : magnitude;

	return magnitude > INFINITY_BITS ? PG_INT64_MAX : word;
}

int64
rose_vec_float8_word(double value)
{
	int64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return word_of_bits(bits);
}

VECTORIZED void
rose_vec_float8_words(int64 *words, int n)
{
	for (int i = 0; i < n; i++)
		words[i] = word_of_bits(words[i]);
}

void
rose_vec_float4_words(int64 *words, int n)
{
	for (int i = 0; i < n; i++)
	{
		int32		bits = (int32) words[i];
		float		value;

		memcpy(&value, &bits, sizeof(value));
		words[i] = rose_vec_float8_word((double) value);
	}
}

/* Of n <= STRIDE bytes, which are 0 or 1. */
static inline uint64
bits_of_bytes(const uint8 *bytes, int n)
{
	uint64		bits = 0;

	for (int i = 0; i < n; i++)
		bits |= (uint64) bytes[i] << i;
	return bits;
}

VECTORIZED static void
compare_range(const int64 *x, int n, int64 low, int64 high, uint8 *bytes)
{
	for (int i = 0; i < n; i++)
		bytes[i] |= (x[i] >= low) & (x[i] <= high);
}

static void
compare_list(const int64 *x, int n, const RoseWordSet *set, uint8 *bytes)
{
	for (int i = 0; i < n; i++)
		bytes[i] = rose_wordset_has(set, x[i]);
}

void
rose_vec_select(const int64 *x, int n, const RoseWordSet *set, uint64 *mask)
{
	for (int at = 0; at < n; at += STRIDE)
	{
		int			count = Min(STRIDE, n - at);
		uint8		bytes[STRIDE] = {0};

		if (set->nranges > FEW_RANGES)
			compare_list(x + at, count, set, bytes);
		else
		{
			for (int r = 0; r < set->nranges; r++)
				compare_range(x + at, count, set->ranges[r].low, set->ranges[r].high, bytes);
		}
		mask[at / STRIDE] = bits_of_bytes(bytes, count);
	}
}

void
rose_vec_mask_of_bools(const bool *x, int n, uint64 *mask)
{
	for (int at = 0; at < n; at += STRIDE)
		mask[at / STRIDE] = bits_of_bytes((const uint8 *) x + at, Min(STRIDE, n - at));
}
