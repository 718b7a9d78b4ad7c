/*-------------------------------------------------------------------------
 *
 * rose_wordset.h
 *	  Sets of signed 64-bit words, as ranges.
 *
 * What a comparison with a constant leaves of a column, if the column's order is that of words:
 * a range, a list, or what they leave out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WORDSET_H
#define ROSE_WORDSET_H

#include "postgres.h"

/* Both ends belong to it. */
typedef struct RoseWordRange
{
	int64		low;
	int64		high;			/* >= low */
} RoseWordRange;

/* Ranges in ascending order, none of which touches the next one. */
typedef struct RoseWordSet
{
	int			nranges;
	RoseWordRange *ranges;		/* the caller's */
} RoseWordSet;

/* Make a set of ranges in any order, which are sorted and joined where they are. */
extern void rose_wordset_make(RoseWordSet *set, RoseWordRange *ranges, int nranges);

/* What is not in the set, to ranges, which has room for set->nranges + 1. */
extern void rose_wordset_complement(const RoseWordSet *set, RoseWordRange *ranges,
									RoseWordSet *result);

/* By binary search. */
extern bool rose_wordset_has(const RoseWordSet *set, int64 word);

#endif							/* ROSE_WORDSET_H */
