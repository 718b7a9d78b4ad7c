/*-------------------------------------------------------------------------
 *
 * rose_vec_agg.h
 *	  Loops over arrays of values that aggregates take: sums, extremes, bits.
 *
 * Results never depend on how they were compiled: those of floats are made one value after the other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VEC_AGG_H
#define ROSE_VEC_AGG_H

#include "postgres.h"

/* Values that one call of rose_vec_sum_parts takes, at most. */
#define ROSE_VEC_SUM_ROWS	65536

/* Modulo 2^64. */
extern int64 rose_vec_sum(const int64 *x, int n);

/* The sum is *high * 2^32 + *low. */
extern void rose_vec_sum_parts(const int64 *x, int n, int64 *high, int64 *low);

/* n > 0 */
extern int64 rose_vec_min(const int64 *x, int n);
extern int64 rose_vec_max(const int64 *x, int n);
extern int64 rose_vec_and(const int64 *x, int n);
extern int64 rose_vec_or(const int64 *x, int n);

/* Keep those that are not NULL, in their order; returns how many. */
extern int	rose_vec_keep(int64 *x, const bool *nulls, int n);

/* Those at rows[i] - first, if they are not NULL, become the first ones; rows ascend.  Returns how many. */
extern int	rose_vec_keep_rows(int64 *x, const bool *nulls, const uint16 *rows, int first, int n);

#endif							/* ROSE_VEC_AGG_H */
