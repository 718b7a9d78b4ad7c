/*-------------------------------------------------------------------------
 *
 * rose_codec_decimal.c
 *	  Floats that are decimal fractions, as a frame of scaled integers.
 *
 * Most floats that people store were written with a few digits.  As ALP does, look for
 * one exponent e such that (integer / 10^e) gives back the very same bits; what does not
 * (NaN, infinity, -0, true binary fractions) is a patch.  Multiplying by a power of ten
 * to get the integer may be off by one in the last digit, which is why the way back is
 * tried for each value; the way back is one correctly rounded division, so any machine
 * reproduces it.
 *
 * Backend-local.  Packing and patches are rose_packed.h's; numeric is no float, and no
 * word either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "codec/rose_kernels.h"
#include "codec/rose_packed.h"

#define MAX_EXPONENT	18
#define SAMPLE_SIZE		32

/* Adding and subtracting ROUNDER rounds numbers up to this to an integer. */
#define MAX_INTEGER		2251799813685248.0	/* 2^51 */
#define ROUNDER			6755399441055744.0	/* 1.5 * 2^52 */

/* Powers of ten up to 10^22 are exact in a double. */
static const double power_of_ten[MAX_EXPONENT + 1] = {
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18
};

static inline double
float_from_word(int64 word, int size)
{
	float		single;
	double		result;
	int32		word32 = (int32) word;

	if (size == 4)
	{
		memcpy(&single, &word32, 4);
		return single;
	}
	memcpy(&result, &word, 8);
	return result;
}

/* The word of integer / 10^exponent. */
static inline int64
word_from_decimal(int64 integer, int exponent, int size)
{
	double		value = (double) integer / power_of_ten[exponent];
	float		single;
	int64		word;
	int32		word32;

	if (size == 4)
	{
		single = (float) value;
		memcpy(&word32, &single, 4);
		return word32;
	}
	memcpy(&word, &value, 8);
	return word;
}

/* The integer, or ROSE_PACKED_NOT_DECIMAL. */
static inline int64
decimal_from_word(int64 word, int exponent, int size)
{
	double		scaled = float_from_word(word, size) * power_of_ten[exponent];
	int64		integer;

	/* false for NaN too */
	if (!(fabs(scaled) <= MAX_INTEGER))
		return ROSE_PACKED_NOT_DECIMAL;
	integer = (int64) ((scaled + ROUNDER) - ROUNDER);
	return word_from_decimal(integer, exponent, size) == word ? integer : ROSE_PACKED_NOT_DECIMAL;
}

/* The smallest exponent that suits most of a sample, or -1. */
static int
find_exponent(const RoseColumnBuffer *col)
{
	int			n = Min(col->nvalues, SAMPLE_SIZE);
	int			best = -1;
	int			best_hits = n * 3 / 4;
	int			exponent;

	for (exponent = 0; exponent <= MAX_EXPONENT && best_hits < n; exponent++)
	{
		int			hits = 0;
		int			k;

		for (k = 0; k < n; k++)
			hits += decimal_from_word(col->words[(Size) k * col->nvalues / n], exponent,
									  col->desc.attlen) != ROSE_PACKED_NOT_DECIMAL;
		if (hits > best_hits)
		{
			best = exponent;
			best_hits = hits;
		}
	}
	return best;
}

static void
find_integers(const RoseColumnBuffer *col, const RosePlan *plan, int from, int n, int64 *x)
{
	int			i;

	if (col->desc.attlen == sizeof(double))
	{
		rose_kernel_decimals((const double *) col->words + from, n - from,
							 power_of_ten[plan->own.packed.exponent], ROSE_PACKED_NOT_DECIMAL, x);
		return;
	}
	for (i = from; i < n; i++)
		x[i - from] = decimal_from_word(col->words[i], plan->own.packed.exponent, col->desc.attlen);
}

static bool
decimal_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	int64	   *x = col->scratch->words;

	if (request->stats.nruns < 2 || (plan->own.packed.exponent = find_exponent(col)) < 0)
		return false;
	plan->own.packed.flags = ROSE_PACKED_EXPONENT;
	rose_packed_begin(plan, col, col->desc.attlen);
	find_integers(col, plan, 0, col->nvalues, x);
	rose_packed_fit(plan, x, col->nvalues, false);
	return true;
}

static bool
decimal_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	rose_packed_extend(col, plan, find_integers, n);
	return true;
}

static bool
decimal_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	rose_packed_restart(plan, learned, learned->own.packed.base);
	return decimal_extend(col, plan, col->nvalues);
}

static char *
decimal_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	return rose_packed_write(col, plan, find_integers, false, out);
}

static const char *
decimal_open(RoseSegment *seg)
{
	const char *problem = rose_packed_open(seg, 0, seg->desc->attlen);

	if (problem == NULL && seg->packed.exponent > MAX_EXPONENT)
		problem = "decimal exponent is out of range";
	if (problem == NULL && seg->desc->attlen < 4)
		problem = "column is not a float";
	return problem;
}

static int64
decimal_get(const RoseSegment *seg, int i)
{
	int64		value;

	if (seg->patches.n > 0 && rose_patches_find(&seg->patches, i, &value))
		return value;
	return word_from_decimal(rose_packed_get(&seg->packed, i), seg->packed.exponent,
							 seg->desc->attlen);
}

static void
decimal_decode(const RoseSegment *seg, int from, int n, int64 *values)
{
	int			i;

	rose_packed_decode(&seg->packed, from, n, values);
	if (seg->desc->attlen != sizeof(double) ||
		!rose_kernel_from_decimals(values, n, power_of_ten[seg->packed.exponent]))
	{
		for (i = 0; i < n; i++)
			values[i] = word_from_decimal(values[i], seg->packed.exponent, seg->desc->attlen);
	}
	if (seg->patches.n > 0)
		rose_patches_apply(&seg->patches, from, n, values);
}

const RoseCodec rose_codec_decimal = {
	.id = ROSE_CODEC_DECIMAL,
	.name = "decimal",
	.suits = ROSE_SUITS_FLOATS,
	.handicap = 1,
	.plan = decimal_plan,
	.extend = decimal_extend,
	.follow = decimal_follow,
	.pack = decimal_pack,
	.open = decimal_open,
	.get = decimal_get,
	.decode = decimal_decode,
	.lower_bound = rose_codec_lower_bound,
	.check = rose_packed_check,
};
