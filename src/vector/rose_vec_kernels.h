/*-------------------------------------------------------------------------
 *
 * rose_vec_kernels.h
 *	  Loops over arrays of values: to words in order, and to masks.
 *
 * Results never depend on how they were compiled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VEC_KERNELS_H
#define ROSE_VEC_KERNELS_H

#include "postgres.h"

#include "util/rose_wordset.h"

/*
 * The word of a double in PostgreSQL's order: NaN, of which there is one, is the greatest;
 * -0 and 0 are neighbours, -1 and 0.
 */
extern int64 rose_vec_float8_word(double value);

/* The same of many, in place: bits of doubles; bits of floats, in the lower half, by their value as doubles. */
extern void rose_vec_float8_words(int64 *words, int n);
extern void rose_vec_float4_words(int64 *words, int n);

/* mask = which of x[0 .. n) are in the set */
extern void rose_vec_select(const int64 *x, int n, const RoseWordSet *set, uint64 *mask);

/* Most entries of a dictionary. */
#define ROSE_VEC_MAX_ENTRIES	1024

/* mask = which of codes[0 .. n), each less than nentries, are numbers of entries that are in the mask of these */
extern void rose_vec_select_codes(const uint16 *codes, int n, const uint64 *entries, int nentries, uint64 *mask);

/* mask = which are true */
extern void rose_vec_mask_of_bools(const bool *x, int n, uint64 *mask);

#endif							/* ROSE_VEC_KERNELS_H */
