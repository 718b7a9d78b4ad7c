/*-------------------------------------------------------------------------
 *
 * rose_packed.h
 *	  Two frames of reference: what frame, linear, delta and decimal are made of.
 *
 * Each of these codecs turns its column into a sequence x of integers: the values, their
 * distances from a line, their differences, or scaled integers.  Most of x lies in a
 * narrow frame and is packed as
 *
 *		x = base + step * packed, packed in 'width' bits
 *
 * Those outside it are "wide", listed with their positions and packed in a frame of
 * their own, which may lie below the other or above it:
 *
 *		x = wide_base + step * packed, packed in 'wide_width' bits
 *
 * What does not fit that one either is a patch (rose_patch.h).  The segment:
 *
 *		uint8	width		0 .. 64
 *		uint8	flags		ROSE_PACKED_xxx
 *		varint	base		zigzag
 *		varint	step		with ROSE_PACKED_STEP only, else 1
 *		varint	slope		zigzag; with ROSE_PACKED_SLOPE only (linear)
 *		uint8	exponent	with ROSE_PACKED_EXPONENT only (decimal)
 *		with ROSE_PACKED_WIDE only:
 *			uint8	position_shift	rose_positions.h
 *			uint8	wide_width		0 .. 64
 *			varint	wide_base		zigzag
 *			varint	nwide
 *		anchors				with anchors only (delta), see rose_anchors.h
 *		bits	n values of width bits; 0 for wide ones and patches
 *		nwide positions, ascending
 *		bits	nwide values of wide_width bits
 *		patches				with ROSE_PACKED_PATCHED only
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PACKED_H
#define ROSE_PACKED_H

#include "util/rose_bitpack.h"
#include "codec/rose_codec.h"

/* Embedded on disk. */
#define ROSE_PACKED_PATCHED		0x01
#define ROSE_PACKED_STEP		0x02
#define ROSE_PACKED_WHOLE_SLOPE	0x04	/* the slope has no fraction */
#define ROSE_PACKED_EXPONENT	0x08
#define ROSE_PACKED_WIDE		0x10
#define ROSE_PACKED_SLOPE		0x20
#define ROSE_PACKED_ALL_FLAGS	0x3f

/* With an exponent: what stands in x for a word that is no decimal.  Never fits a frame. */
#define ROSE_PACKED_NOT_DECIMAL	PG_INT64_MIN

/* A slope is in so many bits' fractions, unless it is whole. */
#define ROSE_SLOPE_FRACTION_BITS	16

static inline int
rose_slope_fraction_bits(int flags)
{
	return flags & ROSE_PACKED_WHOLE_SLOPE ? 0 : ROSE_SLOPE_FRACTION_BITS;
}

/*
 * A line at i.  Where the product wraps the line jumps, which costs space but
 * does no harm, since writer and reader agree.
 */
static inline int64
rose_line_at(int64 slope, int fraction_bits, int i)
{
	/* right shift of a negative number is arithmetic on all our compilers */
	return rose_wrap_mul(slope, i) >> fraction_bits;
}


/* ---- Building: rose_packed_plan.c ---- */

/* Set x[0 .. n - from) to what values [from, n) of a column become under a plan. */
typedef void (*RosePackedFind) (const RoseColumnBuffer *col, const RosePlan *plan,
								int from, int n, int64 *x);

/*
 * Begin a plan for no values; its codec has set flags, exponent, slope and
 * anchors.interval.  patch_size: bytes of a patch.
 */
extern void rose_packed_begin(RosePlan *plan, const RoseColumnBuffer *col, int patch_size);

/*
 * Fix the parameters that suit x[0 .. n) best, and cover them.  with_step: look
 * for a common step.
 */
extern void rose_packed_fit(RosePlan *plan, const int64 *x, int n, bool with_step);

/* Begin with the parameters of another page's plan, but for the base. */
extern void rose_packed_restart(RosePlan *plan, const RosePlan *learned, int64 base);

/* Follow values [plan->n, n); find is NULL if they are x themselves. */
extern void rose_packed_extend(const RoseColumnBuffer *col, RosePlan *plan, RosePackedFind find,
							   int n);

/* Can no frame hold x? */
static inline bool
rose_packed_is_odd(const RosePlan *plan, int64 x)
{
	const RosePackedPlan *own = &plan->own.packed;
	uint64		distance = x < own->base ? (uint64) own->base - (uint64) x :
		(uint64) x - (uint64) own->base;

	if (own->flags & ROSE_PACKED_EXPONENT)
		return x == ROSE_PACKED_NOT_DECIMAL;
	return own->step != 1 && rose_divide(&own->divisor, distance) > own->divisor.limit;
}


/* ---- Writing ---- */

/*
 * Write a segment for values [0, plan->n).  A patch holds the word itself or, with
 * patch_x, its x.
 */
extern char *rose_packed_write(const RoseColumnBuffer *col, const RosePlan *plan,
							   RosePackedFind find, bool patch_x, char *out);


/* ---- Reading ---- */

/* Parse a segment into seg->packed and seg->patches.  NULL, or what is wrong. */
extern const char *rose_packed_open(RoseSegment *seg, int nanchors, int patch_size);

/* x[from .. from + n), but for patches. */
extern void rose_packed_decode(const RosePackedWords *packed, int from, int n, int64 *x);

/* What the wide ones among x[from .. to) exceed base by, in all, modulo 2^64. */
extern int64 rose_packed_sum_wide(const RosePackedWords *packed, int from, int to);

static inline int64
rose_packed_anchor(const RosePackedWords *packed, int k)
{
	int64		offset = (int64) rose_bitpack_get(packed->anchors, packed->anchor_width, k);

	return rose_wrap_add(packed->anchor_base, rose_wrap_mul(packed->anchor_step, offset));
}

static inline int64
rose_packed_wide_value(const RosePackedWords *packed, int k)
{
	int64		offset = (int64) rose_bitpack_get(packed->wide_bits, packed->wide_width, k);

	return rose_wrap_add(packed->wide_base, rose_wrap_mul(packed->step, offset));
}

/* x[i], of those that are neither wide nor patches. */
static inline int64
rose_packed_narrow(const RosePackedWords *packed, int i)
{
	int64		offset = (int64) rose_bitpack_get(packed->bits, packed->width, i);

	return rose_wrap_add(packed->base, rose_wrap_mul(packed->step, offset));
}

/* x[i], but for patches. */
static inline int64
rose_packed_get(const RosePackedWords *packed, int i)
{
	int			k;

	if (packed->nwide > 0 && rose_positions_find(&packed->positions, i, &k))
		return rose_packed_wide_value(packed, k);
	return rose_packed_narrow(packed, i);
}

/*
 * Least and greatest of x[from .. from + n), n > 0, patches included, which are x here; false if they are only known by decoding.
 */
extern bool rose_packed_extremes(const RosePackedWords *packed, const RosePatches *patches, int from, int n,
								 int64 *min, int64 *max);

/* Bounds of those x that are neither wide nor patches; false if they cannot be told. */
extern bool rose_packed_narrow_bounds(const RosePackedWords *packed, int64 *min, int64 *max);

/* Bounds of x, but for patches; false if they cannot be told. */
extern bool rose_packed_bounds(const RosePackedWords *packed, int64 *min, int64 *max);

extern const char *rose_packed_check(RoseSegment *seg);

#endif							/* ROSE_PACKED_H */
