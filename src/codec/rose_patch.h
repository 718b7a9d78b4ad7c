/*-------------------------------------------------------------------------
 *
 * rose_patch.h
 *	  Patches: the words of a column that do not fit its codec's parameters.
 *
 * They close the segment: a count, the positions in ascending order, the values.
 *
 *		uint16	n
 *		uint16	position[n]
 *		word	value[n]		as wide as the column, or as the codec says
 *
 * A codec stores something of its own choosing in the place of a patched value.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PATCH_H
#define ROSE_PATCH_H

#include "postgres.h"

typedef struct RosePatch
{
	int			position;
	int64		value;
} RosePatch;

/* Patches of a segment that is being read. */
typedef struct RosePatches
{
	int			n;
	int			word_size;
	const char *positions;
	const char *values;
} RosePatches;

/* Bytes of a list of n; nothing at all is stored for none. */
static inline int
rose_patches_size(int n, int word_size)
{
	return n == 0 ? 0 : 2 + n * (2 + word_size);
}

/* The most that one more patch adds, in bits. */
static inline int
rose_patch_bits(int word_size)
{
	return (2 + 2 + word_size) * 8;
}

/* The most that each of several patches adds that come at a time, in bits: the list's count is there once. */
static inline int
rose_patch_further_bits(int npatches, int word_size)
{
	return (2 + word_size) * 8 + (npatches == 0 ? 16 : 0);
}

extern char *rose_patches_write(char *out, const RosePatch *patches, int n, int word_size);

/*
 * Parse a list that must lie in [p, end) and concern at most nvalues values.  Returns
 * NULL, or what is wrong.
 */
extern const char *rose_patches_open(RosePatches *patches, const char *p, const char *end,
									 int nvalues, int word_size);

/* If value i is patched, set *value. */
extern bool rose_patches_find(const RosePatches *patches, int i, int64 *value);

/* Overwrite those of values[0 .. n), which are values [from, from + n), that are patched. */
extern void rose_patches_apply(const RosePatches *patches, int from, int n, int64 *values);

/* What those of values [from, to) that are patched exceed base by, in all, modulo 2^64. */
extern int64 rose_patches_sum(const RosePatches *patches, int from, int to, int64 base);

/* Widen [*min, *max] by all patches. */
extern void rose_patches_bounds(const RosePatches *patches, int64 *min, int64 *max);

/* Widen [*min, *max] by those of values [from, from + n) that are patched; returns how many are. */
extern int	rose_patches_extremes(const RosePatches *patches, int from, int n, int64 *min, int64 *max);

/* Which of values [from, from + n) are patched, in ascending order; returns how many are, or a number above 'most', which there is room for. */
extern int	rose_patches_among(const RosePatches *patches, int from, int n, int *positions, int most);

/* Positions ascend and are below nvalues.  Returns NULL, or what is wrong. */
extern const char *rose_patches_check(const RosePatches *patches, int nvalues);

#endif							/* ROSE_PATCH_H */
