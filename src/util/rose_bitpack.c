/*-------------------------------------------------------------------------
 *
 * rose_bitpack.c
 *	  Kernels for arrays of bit-packed integers.
 *
 * The layout is described in rose_bitpack.h.  The kernels are plain C.  Loops
 * over widths of whole bytes are kept apart, because the compiler turns those into
 * wide copies.  Eight values of any width begin at a byte and end at one: those of narrow ones
 * are made of the same few words each time, which processors do with several at once.
 *
 * Pure functions; no locks, no allocation, and no checks: callers know that the stream is
 * there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_bitpack.h"
#include "util/rose_vectorized.h"

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

/* Of so many values at a time several are in one word, whatever the bit that they begin at. */
#define MAX_WIDTH_OF_FOURS	16
#define MAX_WIDTH_OF_TWOS	28

/* Eight times so many values, of widths up to MAX_WIDTH_OF_FOURS. */
ROSE_VECTORIZED static void
read_fours(const char *p, int width, Size neights, uint64 *values)
{
	const uint64 mask = rose_width_mask(width);
	const uint64 shifts[4] = {0, width, 2 * width, 3 * width};
	const int	half = 4 * width;

	for (; neights > 0; neights--, p += width, values += 8)
	{
		const uint64 low = rose_load_le64(p);
		const uint64 high = rose_load_le64(p + half / 8) >> (half % 8);

		for (int i = 0; i < 4; i++)
			values[i] = (low >> shifts[i]) & mask;
		for (int i = 0; i < 4; i++)
			values[4 + i] = (high >> shifts[i]) & mask;
	}
}

/* The same up to MAX_WIDTH_OF_TWOS. */
static void
read_twos(const char *p, int width, Size neights, uint64 *values)
{
	const uint64 mask = rose_width_mask(width);

	for (; neights > 0; neights--, p += width, values += 8)
	{
		for (int i = 0; i < 4; i++)
		{
			const int	bit = 2 * width * i;
			const uint64 both = rose_load_le64(p + bit / 8) >> (bit % 8);

			values[2 * i] = both & mask;
			values[2 * i + 1] = (both >> width) & mask;
		}
	}
}

/* Those of any width that fits a word whatever the bit that it begins at. */
static inline void
read_each(const char *bits, int width, Size from, Size n, uint64 *values)
{
	const uint64 mask = rose_width_mask(width);
	Size		bit = from * width;

	for (Size i = 0; i < n; i++, bit += width)
		values[i] = (rose_load_le64(bits + (bit >> 3)) >> (bit & 7)) & mask;
}

static void
read_narrow(const char *bits, int width, Size from, Size n, uint64 *values)
{
	Size		head = Min((8 - from % 8) % 8, n);
	Size		neights = (n - head) / 8;
	const char *p = bits + (from + head) / 8 * width;

	read_each(bits, width, from, head, values);
	if (neights > 0 && width <= MAX_WIDTH_OF_FOURS)
		read_fours(p, width, neights, values + head);
	else if (neights > 0)
		read_twos(p, width, neights, values + head);
	head += neights * 8;
	read_each(bits, width, from + head, n - head, values + head);
}

void
rose_bitpack_read(const char *bits, int width, Size from, Size n, uint64 *values)
{
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
	else if (width <= MAX_WIDTH_OF_TWOS)
		read_narrow(bits, width, from, n, values);
	else if (width <= 57)
		read_each(bits, width, from, n, values);
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
