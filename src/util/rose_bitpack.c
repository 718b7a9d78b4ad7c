/*-------------------------------------------------------------------------
 *
 * rose_bitpack.c
 *	  Kernels for arrays of bit-packed integers.
 *
 * The layout is described in rose_bitpack.h.  The kernels are plain C.  Loops
 * over widths of whole bytes are kept apart, because the compiler turns those into
 * wide copies.
 *
 * Pure functions; no locks, no allocation, and no checks: callers know that the stream is
 * there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_bitpack.h"

/* Values packed at a time; in any width that makes whole words. */
#define BLOCK_SIZE	64

static inline void
store_le64(char *p, uint64 word)
{
#ifdef WORDS_BIGENDIAN
	word = pg_bswap64(word);
#endif
	memcpy(p, &word, sizeof(word));
}

/* One value after the other. */
static void
write_values(char *out, int width, const uint64 *values, Size n)
{
	uint64		pending = 0;
	int			npending = 0;	/* bits in 'pending', below 64 */
	Size		i;

	for (i = 0; i < n; i++)
	{
		uint64		value = values[i];

		Assert((value & ~rose_width_mask(width)) == 0);

		pending |= value << npending;
		npending += width;
		if (npending >= 64)
		{
			store_le64(out, pending);
			out += sizeof(uint64);
			npending -= 64;
			/* what of 'value' did not fit; a shift by 64 would be undefined */
			pending = npending == 0 ? 0 : value >> (width - npending);
		}
	}
	for (; npending > 0; npending -= 8)
	{
		*out++ = (char) pending;
		pending >>= 8;
	}
}

/*
 * Narrow values are first put together pairwise, in loops without dependencies, until
 * they are more than half a word wide.
 */
static void
write_block(char *out, int width, const uint64 *values)
{
	uint64		merged[BLOCK_SIZE / 2];
	const uint64 *in = values;
	int			n = BLOCK_SIZE;

	while (width <= 32)
	{
		int			i;

		n /= 2;
		for (i = 0; i < n; i++)
			merged[i] = in[2 * i] | in[2 * i + 1] << width;
		width *= 2;
		in = merged;
	}
	write_values(out, width, in, n);
}

void
rose_bitpack_write(char *out, int width, const uint64 *values, Size n)
{
	if (width == 0)
		return;
	for (; n >= BLOCK_SIZE; n -= BLOCK_SIZE)
	{
		write_block(out, width, values);
		out += BLOCK_SIZE / 8 * width;
		values += BLOCK_SIZE;
	}
	write_values(out, width, values, n);
}

void
rose_bitpack_read(const char *bits, int width, Size from, Size n, uint64 *values)
{
	uint64		mask = rose_width_mask(width);
	Size		bit = from * width;
	Size		i;

	if (width == 0)
		memset(values, 0, n * sizeof(uint64));
	else if (width == 8)
	{
		const uint8 *p = (const uint8 *) bits + from;

		for (i = 0; i < n; i++)
			values[i] = p[i];
	}
	else if (width == 64)
	{
		for (i = 0; i < n; i++)
			values[i] = rose_load_le64(bits + (from + i) * 8);
	}
	else if (width <= 57)
	{
		for (i = 0; i < n; i++, bit += width)
			values[i] = (rose_load_le64(bits + (bit >> 3)) >> (bit & 7)) & mask;
	}
	else
	{
		for (i = 0; i < n; i++)
			values[i] = rose_bitpack_get(bits, width, from + i);
	}
}

/*
 * How to add up the narrow values of a word: a few times the odd ones are added to the
 * even ones, which leaves half as many of twice the width.  When they are wide enough for
 * the sum of all, a multiplication adds up all of them at its top.
 */
typedef struct SumRecipe
{
	int			nvalues;		/* in the 57 bits that one load gives for certain */
	int			nhalvings;
	int			final_width;
	int			final_shift;	/* of the topmost field */
	uint64		even[3];		/* the even ones, before each halving */
	uint64		ones;			/* the lowest bits of the final fields */
} SumRecipe;

/* The even fields of a word; the lowest bits of the fields that 57 bits have room for. */
#define EVEN(width) \
	((PG_UINT64_MAX >> 64 % (2 * (width))) / ((UINT64CONST(1) << 2 * (width)) - 1) * \
	 ((UINT64CONST(1) << (width)) - 1))
#define ONES(width) \
	((PG_UINT64_MAX >> (64 - 57 / (width) * (width))) / ((UINT64CONST(1) << (width)) - 1))
#define RECIPE(width, nhalvings) { \
	57 / ((width) << (nhalvings)) << (nhalvings), nhalvings, (width) << (nhalvings), \
	(57 / ((width) << (nhalvings)) - 1) * ((width) << (nhalvings)), \
	{EVEN(width), EVEN(2 * (width)), EVEN(4 * (width) > 31 ? 31 : 4 * (width))}, \
	ONES((width) << (nhalvings)) }

#define MAX_RECIPE_WIDTH	14

static const SumRecipe recipes[MAX_RECIPE_WIDTH + 1] = {
	{0}, RECIPE(1, 3), RECIPE(2, 2), RECIPE(3, 2), RECIPE(4, 1), RECIPE(5, 1), RECIPE(6, 1),
	RECIPE(7, 1), RECIPE(8, 1), RECIPE(9, 1), RECIPE(10, 1), RECIPE(11, 1), RECIPE(12, 1),
	RECIPE(13, 1), RECIPE(14, 1)
};

static uint64
sum_narrow(const char *bits, int width, Size from, Size n)
{
	const SumRecipe *recipe = &recipes[width];
	uint64		sum = 0;

	while (n > 0)
	{
		Size		m = Min(n, (Size) recipe->nvalues);
		Size		bit = from * width;
		uint64		word = (rose_load_le64(bits + (bit >> 3)) >> (bit & 7)) &
			rose_width_mask((int) m * width);
		int			k;

		for (k = 0; k < recipe->nhalvings; k++)
			word = (word & recipe->even[k]) + (word >> (width << k) & recipe->even[k]);
		sum += word * recipe->ones >> recipe->final_shift & rose_width_mask(recipe->final_width);
		from += m;
		n -= m;
	}
	return sum;
}

uint64
rose_bitpack_sum(const char *bits, int width, Size from, Size n)
{
	uint64		mask = rose_width_mask(width);
	Size		bit = from * width;
	uint64		sum = 0;
	Size		i;

	if (width == 0)
		return 0;
	if (width <= MAX_RECIPE_WIDTH)
		return sum_narrow(bits, width, from, n);
	if (width <= 57)
	{
		for (i = 0; i < n; i++, bit += width)
			sum += (rose_load_le64(bits + (bit >> 3)) >> (bit & 7)) & mask;
	}
	else
	{
		for (i = 0; i < n; i++)
			sum += rose_bitpack_get(bits, width, from + i);
	}
	return sum;
}
