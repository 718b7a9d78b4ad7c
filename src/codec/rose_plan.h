/*-------------------------------------------------------------------------
 *
 * rose_plan.h
 *	  How a codec will represent the first n values of a column.
 *
 * A plan has a part that every codec fills in and the page goes by, and the parameters of
 * its codec, which nobody else looks at.  What it promises is in rose_codec.h,
 * "BUILDING".
 *
 * Plain old data, so that it can be saved and put back.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PLAN_H
#define ROSE_PLAN_H

#include "postgres.h"

#include "codec/rose_anchors.h"
#include "codec/rose_divisor.h"

typedef struct RoseCodec RoseCodec;

typedef enum RoseUsual
{
	ROSE_USUAL_NONE,			/* not told */
	ROSE_USUAL_VALUE,			/* the value itself decides */
	ROSE_USUAL_DIFFERENCE,		/* what it exceeds the value before by decides */
	ROSE_USUAL_DISTANCE,		/* what it exceeds a line by decides (linear) */
	ROSE_USUAL_KNOWN			/* it is in col->distinct already; no base, no top */
} RoseUsual;

/*
 * Most words take much less than the worst case.  A word (or its difference, or distance)
 * x is usual if x >= base and x - base is a multiple of step, at most top of them.  k
 * words of which u are unusual raise the size by k times bits, u times unusual_bits and
 * slack bits at most.
 */
typedef struct RoseUsualWords
{
	RoseUsual	kind;
	int			bits;
	int			unusual_bits;
	int			slack;
	int64		base;
	uint64		top;
	int64		step;
	RoseDivisor divisor;		/* by step */
	int64		slope;			/* of the line, with so many bits of a fraction */
	int			fraction_bits;
} RoseUsualWords;

/* Frame, linear, delta and decimal; see rose_packed.h. */
typedef struct RosePackedPlan
{
	int			header;			/* bytes of the segment that do not depend on n */
	int			word_size;
	int			patch_size;
	int			width;			/* bits of a packed value */
	int			exponent;		/* decimal */
	uint8		flags;
	int			npatches;
	int			nodd;			/* of the patches: values that are no multiple */
	int			nwide;
	int			wide_width;
	int			position_shift; /* rose_positions.h */
	int64		base;
	int64		step;
	RoseDivisor divisor;		/* by step */
	int64		slope;			/* linear */
	int64		wide_base;
	int64		low;			/* all but the odd ones lie between these; */
	int64		high;
	int64		wide_low;		/* of these, those outside the frame */
	int64		wide_high;
	RoseAnchors anchors;		/* delta */
} RosePackedPlan;

typedef struct RoseRlePlan
{
	int			header;
	int			width;			/* bits of a run's value */
	int			position_shift; /* rose_positions.h */
	int			nruns;
	int			npatches;
	int64		base;
	int64		low;			/* all values lie between these */
	int64		high;
} RoseRlePlan;

typedef struct RoseDictPlan
{
	int			width;			/* bits of a code */
	int			nentries;
} RoseDictPlan;

typedef struct RoseItemPlainPlan
{
	int			header;
	int			width;			/* of the index of items */
	int64		stride;			/* that each item is counted on to take */
} RoseItemPlainPlan;

typedef struct RoseItemDictPlan
{
	int			header;
	int			width;			/* bits of a code */
	int			index_width;	/* of the index of entries */
	int			nentries;
	uint32		entry_bytes;	/* of all of them */
} RoseItemDictPlan;

typedef struct RoseItemLz4Plan
{
	int			header;
	int			width;			/* of the index of items */
	int			nblocks;		/* at most */
	uint32		open_bytes;		/* of the open block, compressed ... */
	int64		measured;		/* ... when it was measured, and ended here */
} RoseItemLz4Plan;

typedef struct RoseItemPrefixPlan
{
	int			shared_width;	/* bits of the number of shared bytes */
	int			rest_width;		/* bits of the number of other bytes */
	uint32		item_bytes;		/* those bytes */
} RoseItemPrefixPlan;

typedef struct RoseItemCharsPlan
{
	int			header;
	int			width;			/* of the index of items */
	int64		stride;			/* that each item is counted on to take */
	uint64		chars[4];		/* a bit for each that has a number */
	int			nchars;
	int			char_width;		/* bits of such a number */
	int			nunpacked;		/* short items with other characters */
	uint32		item_bytes;
} RoseItemCharsPlan;

typedef struct RosePlan
{
	const RoseCodec *codec;
	int			n;				/* values covered */
	int			size;			/* bytes of the segment, at most */
	int			value_bits;		/* that a further value takes, at most */
	int			spare;			/* so many further values are certain to be taken ... */
	int			headroom;		/* ... as long as they take no more bytes than this; items only,
								 * PG_INT32_MAX if their bytes do not matter */
	RoseUsualWords usual;
	union
	{
		RosePackedPlan packed;
		RoseRlePlan rle;
		RoseDictPlan dict;
		RoseItemPlainPlan item_plain;
		RoseItemDictPlan item_dict;
		RoseItemLz4Plan item_lz4;
		RoseItemPrefixPlan item_prefix;
		RoseItemCharsPlan item_chars;
	}			own;			/* the codec's parameters */
} RosePlan;

#endif							/* ROSE_PLAN_H */
