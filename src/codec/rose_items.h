/*-------------------------------------------------------------------------
 *
 * rose_items.h
 *	  Sequences of byte strings, as the item codecs and their buffers hold them.
 *
 * Items lie end to end in one "raw" area.  A varlena with a 4-byte header
 * starts on a multiple of 4; the padding before it is zero and belongs to it.
 * A varlena with a 1-byte header never starts with a zero byte, so a reader can tell.
 * Fixed-length values are padded at the end to a multiple of their alignment.
 *
 * The index of a raw area says where each item ends:
 *
 *		varint	stride		size of the smallest item
 *		uint8	width
 *		varint	raw_size
 *		bits	for item i: end - (i + 1) * stride, in width bits
 *
 * Items of one size need no bits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ITEMS_H
#define ROSE_ITEMS_H

#include "compat/rose_compat_varatt.h"
#include "util/rose_bitpack.h"
#include "codec/rose_codec.h"

/* Most bytes of an index but for its bits. */
#define ROSE_ITEM_INDEX_HEADER	(3 + 1 + 4)

/* Zero bytes before the value of the item at p (an address in a raw area). */
static inline uint32
rose_item_padding(const RoseColumnDesc *desc, const char *p)
{
	if (desc->kind != ROSE_COLUMN_VARLEN || *p != 0)
		return 0;
	return (uint32) (TYPEALIGN(ALIGNOF_INT, (uintptr_t) p) - (uintptr_t) p);
}

/* Start of item i of the buffer. */
static inline uint32
rose_item_start(const RoseColumnBuffer *col, int i)
{
	return i == 0 ? 0 : col->ends[i - 1];
}

/* The smallest of the first n items of the buffer, 1 if there are none. */
extern uint32 rose_items_min_size(const RoseColumnBuffer *col, int n);

/* Write the index for these ends; uses scratch->packed.  Returns the end. */
extern char *rose_item_index_write(char *out, RosePackScratch *scratch, const uint32 *ends,
								   int n);

/*
 * Parse an index of n items whose raw area may have max_raw bytes.  *next is set to what
 * follows.  Returns NULL, or what is wrong.
 */
extern const char *rose_item_index_open(RoseItemIndex *index, int n, uint32 max_raw,
										const char *p, const char *end, const char **next);

/* Bounds of item i, checked to be within the raw area; an error if they are not. */
extern void rose_item_index_get(const RoseSegment *seg, const RoseItemIndex *index, uint32 i,
								uint32 *start, uint32 *end);

/* Bounds of items [from, from + n): starts of n + 1 items, the last one being the end.  The same error. */
extern void rose_item_index_get_many(const RoseSegment *seg, const RoseItemIndex *index,
									 int from, int n, uint32 *starts);

/* The values in items [from, from + n) of the raw area; an error if one is not a value. */
extern void rose_item_index_decode(const RoseSegment *seg, const RoseItemIndex *index,
								   int from, int n, Datum *values);

/* All ends ascend and are within the raw area.  Returns NULL, or what is wrong. */
extern const char *rose_item_index_check(const RoseItemIndex *index);

/*
 * The value in an item: skips padding and checks that a value of the column's type lies
 * within the item.  Returns NULL if it does not.
 */
extern const char *rose_item_value(const RoseColumnDesc *desc, const char *item, uint32 size);

#endif							/* ROSE_ITEMS_H */
