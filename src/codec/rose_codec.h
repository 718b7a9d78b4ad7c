/*-------------------------------------------------------------------------
 *
 * rose_codec.h
 *	  Codecs: how the values of one column of one page are represented.
 *
 * Included by codec/ and page/ only.
 *
 * A codec sees the non-NULL values of a column, numbered from 0 without gaps
 * (the null map, rose_nullmap.h, translates row slots).  Values come in two
 * forms.  "Words" are by-value types, sign-extended to int64 (floats: their bits).
 * "Items" are byte strings exactly as a Datum points to them: varlenas with
 * their header, C strings with their NUL, fixed-length by-reference values.
 *
 * BUILDING.  Values are collected in a RoseColumnBuffer.  A codec's plan() looks at all
 * of them and fixes its parameters; extend() then follows further values under the
 * parameters it has, in constant time a value; pack() writes the segment.  The contract
 * that lets a page be filled to the brim without trying each row:
 *
 *	- plan->size is an upper bound of the bytes pack() will write;
 *	- each further value raises it by at most plan->value_bits bits, plus, for
 *	  items, eight for each byte it takes in the buffer;
 *	- the first plan->spare further values are certain to be taken by extend(),
 *	  provided that they take no more than plan->headroom bytes of the buffer; after that
 *	  extend() may refuse, which asks for a new plan, or raise the size by any amount.
 *	  reach() tells how far that goes once further values are known.
 *
 * Most words take much less than the worst case: RoseUsualWords (rose_plan.h) tells
 * which.
 *
 * Words that do not fit the parameters become patches (rose_patch.h), which is
 * what bounds the cost of an outlier.
 *
 * READING.  open() parses a segment and checks that everything get() and decode()
 * will touch lies inside it.  Contents that open() does not check may make values
 * wrong, or raise ERRCODE_DATA_CORRUPTED, but never lead outside the image.
 *
 * There are no locks here: everything is private to a backend.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CODEC_H
#define ROSE_CODEC_H

#include "postgres.h"

#include "util/rose_options.h"
#include "codec/rose_anchors.h"
#include "codec/rose_column.h"
#include "codec/rose_divisor.h"
#include "codec/rose_patch.h"
#include "codec/rose_plan.h"
#include "codec/rose_positions.h"

/* Embedded on disk: never renumber or reuse. */
typedef enum RoseCodecId
{
	ROSE_CODEC_NONE = 0,		/* no segment: all rows are NULL, or no rows */
	ROSE_CODEC_CONSTANT = 1,
	ROSE_CODEC_PLAIN = 2,
	ROSE_CODEC_FRAME = 3,		/* bit-packed frame of reference, patched */
	ROSE_CODEC_LINEAR = 4,		/* the same, around a straight line */
	ROSE_CODEC_DELTA = 5,		/* the same, of differences, with restarts */
	ROSE_CODEC_RLE = 6,
	ROSE_CODEC_DICT = 7,
	ROSE_CODEC_DECIMAL = 8,		/* floats as frame of scaled integers */
	/* 9 .. 15 are left for words */
	ROSE_CODEC_ITEM_PLAIN = 16,
	ROSE_CODEC_ITEM_DICT = 17,
	ROSE_CODEC_ITEM_LZ4 = 18,
	ROSE_CODEC_ITEM_PREFIX = 19,
	/* 20: symbol table (FSST), 21: numeric as scaled integer */
	ROSE_CODEC_ITEM_CHARS = 22,
	ROSE_NUM_CODECS = 23
} RoseCodecId;

typedef struct RoseDistinct RoseDistinct;
typedef struct RoseBlocks RoseBlocks;
typedef struct RosePrefixBlock RosePrefixBlock;

/* Room to prepare a segment in; one for all columns of a builder. */
typedef struct RosePackScratch
{
	int			capacity;		/* entries of each array */
	uint64	   *packed;
	int64	   *words;
	uint64	   *positions;
	uint64	   *wide;
	RosePatch  *patches;
} RosePackScratch;

/* The non-NULL values of one column of the page being built. */
typedef struct RoseColumnBuffer
{
	RoseColumnDesc desc;
	bool		is_words;
	int			nvalues;
	int64	   *words;			/* words */
	char	   *items;			/* items, end to end, aligned where they need it */
	uint32		items_capacity;
	uint32	   *ends;			/* where each item ends in 'items' */
	RoseDistinct *distinct;		/* distinct values, if they are few */
	RoseBlocks *blocks;			/* compressed blocks of 'items' */
	RosePackScratch *scratch;
	MemoryContext context;		/* for what grows */
	RosePlan	plan;
} RoseColumnBuffer;

/* What plan() may assume about the column; filled for words only. */
typedef struct RoseWordStats
{
	int64		min;
	int64		max;
	int			nruns;
} RoseWordStats;

typedef struct RosePlanRequest
{
	RoseWordStats stats;
	bool		tight;			/* no spare wanted: the page is nearly full */
	int			headroom;		/* item bytes to be prepared for */
	int			best_size;		/* a plan of this size is known already */
} RosePlanRequest;

/* Bit-packed values around a base; see rose_packed.h. */
typedef struct RosePackedWords
{
	int64		base;
	int64		step;
	int			width;
	int			exponent;
	int64		slope;
	bool		whole_slope;
	const char *bits;
	int64		anchor_base;
	int64		anchor_step;
	int			anchor_width;
	const char *anchors;
	RosePositions positions;	/* of the wide ones; rle: of runs */
	int			nwide;
	int			wide_width;
	int64		wide_base;
	const char *wide_bits;
} RosePackedWords;

/* A sequence of byte strings in a segment. */
typedef struct RoseItemIndex
{
	uint32		nitems;
	uint32		stride;			/* an item takes at least this */
	int			width;
	const char *bits;			/* what the ends exceed multiples of stride by */
	uint32		raw_size;
} RoseItemIndex;

/* One column of a page that is being read. */
typedef struct RoseSegment
{
	/* set by the page layer */
	const RoseCodec *codec;
	const RoseColumnDesc *desc;
	const char *image;
	const char *start;
	const char *end;
	int			n;				/* values */
	MemoryContext context;		/* emptied when the reader leaves the page */

	/* set by open() */
	RosePatches patches;
	RosePackedWords packed;
	const char *values;			/* plain, dictionary: an array of words */
	const char *codes;
	int			nunits;			/* runs, dictionary entries, or blocks */
	int			code_width;
	RoseItemIndex index;
	const char *raw;			/* item bytes in the page */
	Datum	   *entries;		/* of a dictionary of items; NULL: not found yet */
	const char *block_table;
	char	   *unpacked;		/* item bytes of compressed blocks */
	bool	   *block_done;
	RosePrefixBlock **prefix_blocks;	/* those that are unpacked */
	int			near;			/* item that was asked for last, or will be next; -1: not known */
	char	  **unpacked_items; /* the same; NULL: none */
	uint32	   *pairs;			/* by byte: the two characters in it; NULL: not made */
} RoseSegment;

/* Columns that a codec is for. */
#define ROSE_SUITS_FLOATS	(1 << ROSE_COLUMN_FLOAT)
#define ROSE_SUITS_WORDS	((1 << ROSE_COLUMN_INT) | (1 << ROSE_COLUMN_FLOAT))
#define ROSE_SUITS_VARLENAS (1 << ROSE_COLUMN_VARLEN)
#define ROSE_SUITS_ITEMS	((1 << ROSE_COLUMN_VARLEN) | (1 << ROSE_COLUMN_CSTRING) | (1 << ROSE_COLUMN_FIXED))

struct RoseCodec
{
	uint8		id;
	const char *name;

	int			suits;			/* columns of these kinds: ROSE_SUITS_* */
	bool		likes_runs;		/* asked even where words stand in long runs */
	bool		is_last_resort; /* others are tried, however well it does */

	/*
	 * Of 16: how much smaller than a codec that reads faster this one must be
	 * to be taken.
	 */
	int			handicap;

	/* Building; NULL for codecs that are only read.  See the file header. */
	bool		(*plan) (RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan);
	bool		(*extend) (RoseColumnBuffer *col, RosePlan *plan, int n);

	/*
	 * Without moving the plan on, now that n values are there: how many values extend()
	 * is certain to take, or fewer than n if it would refuse one of those.  *bits is what
	 * values [plan->n, n) raise the size by besides value_bits or usual.bits of each.
	 * 'ahead' is the codec's, for one plan's calls.  NULL: plan->spare is all that can be
	 * said.
	 */
	int			(*reach) (RoseColumnBuffer *col, const RosePlan *plan, RoseAnchorsAhead *ahead,
						  int n, int *bits);

	/*
	 * A plan for all values with the parameters of 'learned', which did well
	 * on the page before, as far as they suit.  Much cheaper than plan().  NULL
	 * (items only) if plan() is as good.
	 */
	bool		(*follow) (RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan);

	/* Is it one and the same value?  NULL: it never says so. */
	bool		(*is_constant) (const RosePlan *plan, int64 *value);

	/* Closed blocks of col->blocks that a plan relies on.  NULL: whatever there is. */
	int			(*closed_blocks) (const RosePlan *plan);

	/* Write the segment at 'out', which lies in 'page'; returns its end. */
	char	   *(*pack) (RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out);

	/* Parse and bound-check.  Returns NULL, or what is wrong. */
	const char *(*open) (RoseSegment *seg);

	/* Words.  0 <= i < n; ranges are within [0, n). */
	int64		(*get) (const RoseSegment *seg, int i);
	void		(*decode) (const RoseSegment *seg, int from, int n, int64 *values);

	/*
	 * Values [from, from + n), n > 0, as runs: values[k] is that of starts[k], counted from from, up to starts[k + 1]; starts ascend
	 * from 0.  Returns how many runs there are; 0: there are more than max_runs.  NULL: it has none.
	 */
	int			(*runs) (const RoseSegment *seg, int from, int n, int max_runs, int64 *values,
						 uint16 *starts);

	/*
	 * Items [from, from + n) as entries of a dictionary, of which there are *nentries, values of the column's type: codes[i] is the
	 * number of that of from + i.  NULL: it has none, or they are not worth it for so few.
	 */
	const Datum *(*codes) (RoseSegment *seg, int from, int n, uint16 *codes, int *nentries);

	/* First slot in [lo, hi) whose value is >= value, or hi; values ascend. */
	int			(*lower_bound) (const RoseSegment *seg, int lo, int hi, int64 value);

	/* Bounds of the values that the encoding tells; NULL if it does not. */
	bool		(*bounds) (const RoseSegment *seg, int64 *min, int64 *max);

	/*
	 * Least and greatest of values [from, from + n), n > 0, as signed words, without making each of them.  False: they are not known so.
	 * NULL: they never are.
	 */
	bool		(*extremes) (const RoseSegment *seg, int from, int n, int64 *min, int64 *max);

	/* If not 0: items that are multiples of this are had most cheaply. */
	int			restart;

	/* Items: where item i starts, and the bytes it may take. */
	const char *(*get_item) (RoseSegment *seg, int i, uint32 *size);

	/* Many at a time, as values of the column's type; NULL: get_item does it. */
	void		(*decode_items) (RoseSegment *seg, int from, int n, Datum *values);

	/* Everything that open() leaves unchecked.  Returns NULL, or what is wrong. */
	const char *(*check) (RoseSegment *seg);
};

/* By id, or NULL if there is no such codec. */
extern const RoseCodec *rose_codec_lookup(int id);

/* Is this a codec for columns of this kind? */
extern bool rose_codec_suits(const RoseCodec *codec, const RoseColumnDesc *desc);

/*
 * The codec that a plan is written by: that of constants if all values are one, which
 * *value is then.
 */
extern const RoseCodec *rose_codec_to_write(const RosePlan *plan, int64 *value);

/* A plan for no values at all; every value is then at its most expensive. */
extern void rose_codec_plan_empty(const RoseColumnBuffer *col, RosePlan *plan);

/*
 * The best plan for all values of the column.  False if there is none: a page can
 * never hold them.  One item of up to ROSE_ITEM_MAX_SIZE always has one.  For words
 * whose plan takes no more than 'negligible' bytes no better one is looked for.  What
 * effort means is said in rose_codec_choose.c.
 */
extern bool rose_codec_choose(RoseColumnBuffer *col, bool tight, int headroom, int negligible,
							  RoseEffort effort, RosePlan *plan);

/*
 * A plan for all values, with the codec and as far as possible the parameters of a
 * plan for another page of the column.  False if that codec cannot have them.
 */
extern bool rose_codec_follow(RoseColumnBuffer *col, const RosePlan *learned, bool tight,
							  int headroom, RosePlan *plan);

/* Start an empty buffer; scratch is shared, and may grow later. */
extern void rose_column_buffer_init(RoseColumnBuffer *col, const RoseColumnDesc *desc,
									RosePackScratch *scratch, MemoryContext context);
extern void rose_column_buffer_reset(RoseColumnBuffer *col);

/*
 * Go back to an earlier plan, and forget values nvalues and later.  Needed whenever a
 * plan that was made in the meantime is not taken, because making it may have moved what
 * plans rely on.
 */
extern void rose_column_buffer_restore(RoseColumnBuffer *col, int nvalues, const RosePlan *plan);

/* Report a value that a segment cannot contain. */
extern void rose_codec_corrupt(const RoseSegment *seg, const char *problem);

/*
 * What segments with a dictionary begin with: the width of codes, and the number of
 * entries.  *after: behind it.  Returns what is wrong, or NULL.
 */
extern const char *rose_codec_open_dictionary(RoseSegment *seg, const char **after);

/* The codecs, each in the file named after it. */
extern const RoseCodec rose_codec_constant;
extern const RoseCodec rose_codec_plain;
extern const RoseCodec rose_codec_frame;
extern const RoseCodec rose_codec_linear;
extern const RoseCodec rose_codec_delta;
extern const RoseCodec rose_codec_rle;
extern const RoseCodec rose_codec_dict;
extern const RoseCodec rose_codec_decimal;
extern const RoseCodec rose_codec_item_plain;
extern const RoseCodec rose_codec_item_dict;
extern const RoseCodec rose_codec_item_lz4;
extern const RoseCodec rose_codec_item_prefix;
extern const RoseCodec rose_codec_item_chars;

/* lower_bound for any codec that has get. */
extern int	rose_codec_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value);

/* Bytes that items must be aligned to in a column's buffer and segment. */
extern uint32 rose_item_alignment(const RoseColumnDesc *desc);


/* ---- Words as they are stored: 1, 2, 4 or 8 bytes, unaligned ---- */

/* Write n words; returns the position after them. */
extern char *rose_words_store(char *out, const int64 *words, int n, int size);

/* Read n words. */
extern void rose_words_load(int64 *words, const char *p, int n, int size);

static inline int64
rose_word_load(const char *p, int size)
{
	int8		word8;
	int16		word16;
	int32		word32;
	int64		word64;

	switch (size)
	{
		case 1:
			memcpy(&word8, p, 1);
			return word8;
		case 2:
			memcpy(&word16, p, 2);
			return word16;
		case 4:
			memcpy(&word32, p, 4);
			return word32;
		default:
			memcpy(&word64, p, 8);
			return word64;
	}
}

static inline char *
rose_word_store(char *p, int64 word, int size)
{
	int8		word8 = (int8) word;
	int16		word16 = (int16) word;
	int32		word32 = (int32) word;

	switch (size)
	{
		case 1:
			memcpy(p, &word8, 1);
			break;
		case 2:
			memcpy(p, &word16, 2);
			break;
		case 4:
			memcpy(p, &word32, 4);
			break;
		default:
			memcpy(p, &word, 8);
			break;
	}
	return p + size;
}

/* Arithmetic modulo 2^64, so that no input, however bad, is undefined. */
static inline int64
rose_wrap_add(int64 a, int64 b)
{
	return (int64) ((uint64) a + (uint64) b);
}

static inline int64
rose_wrap_sub(int64 a, int64 b)
{
	return (int64) ((uint64) a - (uint64) b);
}

static inline int64
rose_wrap_mul(int64 a, int64 b)
{
	return (int64) ((uint64) a * (uint64) b);
}

#endif							/* ROSE_CODEC_H */
