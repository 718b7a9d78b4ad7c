/*-------------------------------------------------------------------------
 *
 * rose_packed.h
 *	  The segment that frame, linear, delta and decimal have in common: small
 *	  unsigned integers around something that can be computed.
 *
 *		uint8	width		bits of a packed value, 0 .. 64
 *		uint8	flags		ROSE_PACKED_xxx
 *		varint	base		zigzag
 *		varint	step		zigzag; with ROSE_PACKED_STEP only, else 1
 *		uint8	exponent	with ROSE_PACKED_EXPONENT only
 *		word	anchor[]	as many as the codec says
 *		bits	n values of width bits
 *		patches				with ROSE_PACKED_PATCHED only (rose_patch.h)
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PACKED_H
#define ROSE_PACKED_H

#include "codec/rose_codec.h"
#include "util/rose_bitpack.h"

/* Embedded on disk. */
#define ROSE_PACKED_PATCHED		0x01
#define ROSE_PACKED_STEP		0x02
#define ROSE_PACKED_WHOLE_STEP	0x04	/* linear: the step has no fraction */
#define ROSE_PACKED_EXPONENT	0x08
#define ROSE_PACKED_ALL_FLAGS	0x0f

/* Bit widths of the values of a column: how many need how many bits. */
typedef struct RoseWidthHistogram
{
	int			count[65];
} RoseWidthHistogram;

/*
 * Division by the step of a frame, of which nearly all dividends are multiples: by its
 * inverse modulo 2^64, which maps multiples to their quotients and all other
 * numbers beyond the largest quotient.
 */
typedef struct RoseDivisor
{
	uint64		inverse;		/* of the odd part */
	int			shift;			/* of the even part */
	uint64		limit;			/* largest quotient there is */
} RoseDivisor;

extern void rose_divisor_init(RoseDivisor *divisor, int64 step);

/* The quotient if 'offset' is a multiple, else more than divisor->limit. */
static inline uint64
rose_divide(const RoseDivisor *divisor, uint64 offset)
{
	uint64		product = offset * divisor->inverse;

	/* a shift by 64 would be undefined */
	return product >> divisor->shift | product << 1 << (63 - divisor->shift);
}

/* Greatest common divisor; of a and 0, a. */
extern uint64 rose_packed_gcd(uint64 a, uint64 b);

/*
 * Set width, npatches to what is smallest when wider values are patched.
 * Values that are patches anyway are not in the histogram but counted in nbad.
 */
extern void rose_packed_choose_width(RosePlan *plan, const RoseWidthHistogram *histogram,
									 int nbad, int word_size);

/* Set header, size and value_bits of a plan whose parameters are set. */
extern void rose_packed_finish_plan(RosePlan *plan, int flags, int word_size);

/* Take over the parameters of another page's plan, to follow values from the first one. */
extern void rose_packed_restart_plan(RosePlan *plan, const RosePlan *learned);

/*
 * Widen the frame of a plan that has patches to all that plan->low and high span, in units of
 * 'unit', if that takes less.  plan->nodd values remain patches.
 */
extern void rose_packed_widen(RosePlan *plan, int flags, uint64 unit, int nanchors,
							  int word_size);

/* Recompute size for plan->n and plan->npatches. */
static inline void
rose_packed_resize(RosePlan *plan, int nanchors, int word_size)
{
	plan->size = plan->header + nanchors * word_size +
		(int) rose_bitpack_size(plan->n, plan->width) +
		rose_patches_size(plan->npatches, word_size);
}

/*
 * Turn those of scratch->packed that are above 'top' into patches, if the plan has
 * any; returns how many.
 */
extern int	rose_packed_take_patches(RoseColumnBuffer *col, const RosePlan *plan, uint64 top);

/*
 * Write a segment.  The packed values and patches are in col->scratch, npatches of
 * the latter; anchors may be NULL.
 */
extern char *rose_packed_write(const RoseColumnBuffer *col, const RosePlan *plan, int flags,
							   const int64 *anchors, int nanchors, int npatches, char *out);

/* Parse a segment into seg->packed and seg->patches.  NULL, or what is wrong. */
extern const char *rose_packed_open(RoseSegment *seg, int nanchors);

extern const char *rose_packed_check(RoseSegment *seg);

#endif							/* ROSE_PACKED_H */
