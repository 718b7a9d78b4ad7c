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

#include "port/pg_bswap.h"

#include "util/rose_mask.h"
#include "util/rose_vectorized.h"
#include "vector/rose_vec_kernels.h"

/* Sets of up to so many ranges are compared range by range. */
#define FEW_RANGES		4

/* Rows that go through an array of bytes together: those of a word of a mask. */
#define STRIDE			ROSE_MASK_BITS

#define INFINITY_BITS	INT64CONST(0x7FF0000000000000)

#define SIGN_BIT		(UINT64CONST(1) << 63)

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

ROSE_VECTORIZED void
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

/* Of eight bytes, which are 0 or 1. */
static inline uint64
bits_of_eight(const uint8 *bytes)
{
	uint64		word;

	memcpy(&word, bytes, sizeof(word));
#ifdef WORDS_BIGENDIAN
	word = pg_bswap64(word);
#endif
	/* bit 8 * i of the word goes to bit 56 + i of the product */
	return word * UINT64CONST(0x0102040810204080) >> 56;
}

/* Of STRIDE bytes, which are 0 or 1. */
static inline uint64
bits_of_bytes(const uint8 *bytes)
{
	uint64		bits = 0;

	for (int i = 0; i < STRIDE; i += 8)
		bits |= bits_of_eight(bytes + i) << i;
	return bits;
}

/* The bit of each row in the word of a mask. */
#define BITS_4(i)	UINT64CONST(1) << (i), UINT64CONST(1) << ((i) + 1), UINT64CONST(1) << ((i) + 2), UINT64CONST(1) << ((i) + 3)
#define BITS_16(i)	BITS_4(i), BITS_4((i) + 4), BITS_4((i) + 8), BITS_4((i) + 12)

static const uint64 bit_of_row[STRIDE] = {BITS_16(0), BITS_16(16), BITS_16(32), BITS_16(48)};

/*
 * Add what is in the range to the mask.  Seen from the least word as 0 a range is what is no greater than its last one, without signs; many
 * processors compare words with signs only, so all are moved by half of what there is.
 */
ROSE_VECTORIZED static void
select_range(const int64 *x, int n, int64 low, int64 high, uint64 *mask)
{
	const uint64 shift = SIGN_BIT - (uint64) low;
	const int64 last = (int64) ((uint64) high + shift);
	int			whole = n - n % STRIDE;

	for (const int64 *end = x + whole; x < end; x += STRIDE)
	{
		uint64		bits = 0;

		for (int i = 0; i < STRIDE; i++)
			bits |= (int64) ((uint64) x[i] + shift) <= last ? bit_of_row[i] : 0;
		*mask++ |= bits;
	}
	if (whole < n)
	{
		uint64		bits = 0;

		for (int i = 0; i < n - whole; i++)
			bits |= (int64) ((uint64) x[i] + shift) <= last ? bit_of_row[i] : 0;
		*mask |= bits;
	}
}

static void
select_list(const int64 *x, int n, const RoseWordSet *set, uint64 *mask)
{
	for (int i = 0; i < n; i++)
		mask[i / STRIDE] |= (uint64) rose_wordset_has(set, x[i]) << (i % STRIDE);
}

void
rose_vec_select(const int64 *x, int n, const RoseWordSet *set, uint64 *mask)
{
	rose_mask_clear(mask, n);
	if (set->nranges > FEW_RANGES)
		select_list(x, n, set, mask);
	else
	{
		for (int r = 0; r < set->nranges; r++)
			select_range(x, n, set->ranges[r].low, set->ranges[r].high, mask);
	}
}

void
rose_vec_select_codes(const uint16 *codes, int n, const uint64 *entries, int nentries, uint64 *mask)
{
	uint8		selected[ROSE_VEC_MAX_ENTRIES];
	int			whole = n - n % STRIDE;
	uint8		bytes[STRIDE];

	Assert(nentries <= ROSE_VEC_MAX_ENTRIES);
	for (int i = 0; i < nentries; i++)
		selected[i] = rose_mask_has(entries, i) ? 1 : 0;
	for (const uint16 *end = codes + whole; codes < end; codes += STRIDE)
	{
		for (int i = 0; i < STRIDE; i++)
			bytes[i] = selected[codes[i]];
		*mask++ = bits_of_bytes(bytes);
	}
	if (whole == n)
		return;
	memset(bytes, 0, sizeof(bytes));
	for (int i = 0; i < n - whole; i++)
		bytes[i] = selected[codes[i]];
	*mask = bits_of_bytes(bytes);
}

void
rose_vec_mask_of_bools(const bool *x, int n, uint64 *mask)
{
	int			whole = n - n % STRIDE;

	for (int at = 0; at < whole; at += STRIDE)
		mask[at / STRIDE] = bits_of_bytes((const uint8 *) x + at);
	if (whole < n)
		mask[whole / STRIDE] = 0;
	for (int i = whole; i < n; i++)
		mask[whole / STRIDE] |= (uint64) x[i] << (i - whole);
}
