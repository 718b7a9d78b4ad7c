/*-------------------------------------------------------------------------
 *
 * rose_kernels.h
 *	  Loops over arrays of words that run on the processor's vector unit.
 *
 * They are plain C without branches in their bodies, which is what lets a compiler
 * turn them into vector code, for the processor at hand if it can tell at run
 * time (rose_kernels.c).  Results never depend on how they were compiled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KERNELS_H
#define ROSE_KERNELS_H

#include "postgres.h"

#include "codec/rose_divisor.h"

/* Widen [*low, *high] by x[0 .. n). */
extern void rose_kernel_bounds(const int64 *x, int n, int64 *low, int64 *high);

/*
 * Of x[0 .. n), none of which has more than 32 bits: the greatest, the least but for zeros (0: all are), and how many are zero.
 */
extern void rose_kernel_narrow_bounds(const uint64 *x, int n, uint32 *high, uint32 *low, int *nzeros);

/* How many of x[1 .. n) differ from the one before. */
extern int	rose_kernel_changes(const int64 *x, int n);

/* How many of x[0 .. n) are below value. */
extern int	rose_kernel_count_below(const int64 *x, int n, int64 value);

/* The first i in [from, n) with x[i] != value, or n. */
extern int	rose_kernel_run_end(const int64 *x, int from, int n, int64 value);

/* out[i] = x[i] - base, modulo 2^64. */
extern void rose_kernel_subtract(const int64 *x, int n, int64 base, uint64 *out);

/* In place: x[i] = base + step * x[i], modulo 2^64. */
extern void rose_kernel_add_frame(uint64 *x, int n, uint64 base, uint64 step);

/*
 * Are all of x[i] - base multiples of what the divisor divides by?  And out[i] = their
 * quotients.
 */
extern bool rose_kernel_multiples(const int64 *x, int n, int64 base, const RoseDivisor *divisor);
extern void rose_kernel_divide(const int64 *x, int n, int64 base, const RoseDivisor *divisor,
							   uint64 *out);

/*
 * How many of x[i] - base are above top, modulo 2^64; how many are below zero, or not
 * quotients of up to 'limit'.
 */
extern int	rose_kernel_count_outside(const int64 *x, int n, int64 base, uint64 top);
extern int	rose_kernel_count_odd(const int64 *x, int n, int64 base, const RoseDivisor *divisor,
								  uint64 limit);

/* out[i] = the lower 16 bits of x[i]; false: there is one that is not below limit, which is from 1 to 65536. */
extern bool rose_kernel_narrow_codes(const uint64 *x, int n, int limit, uint16 *out);

/* out[i] = the low bits of x[i] but for the upper unused_bits (0, 32, 48 or 56), sign-extended. */
extern void rose_kernel_extend_signs(const Datum *x, int n, int unused_bits, int64 *out);

/* out[i] = x[i] - (slope * (first + i) >> fraction_bits), modulo 2^64. */
extern void rose_kernel_distances(const int64 *x, int n, int64 slope, int fraction_bits,
								  int first, int64 *out);

/* out[i] = x[i] - x[i - 1], modulo 2^64; x[-1] is read too. */
extern void rose_kernel_differences(const int64 *x, int n, int64 *out);

/*
 * For doubles x[i]: the integer k for which k / power has the very same bits, or
 * 'none'.  power is a power of ten.
 */
extern void rose_kernel_decimals(const double *x, int n, double power, int64 none, int64 *out);

/*
 * The way back, in place: from x[i] to the bits of the double x[i] / power.  False, and nothing is done: there is an integer of more than 51 bits and its sign.
 */
extern bool rose_kernel_from_decimals(int64 *x, int n, double power);

#endif							/* ROSE_KERNELS_H */
