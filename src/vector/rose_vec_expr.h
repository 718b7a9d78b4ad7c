/*-------------------------------------------------------------------------
 *
 * rose_vec_expr.h
 *	  Loops over arrays of values that expressions are made of: arithmetic, comparisons.
 *
 * Integers are words with their sign, floats the bits of doubles.  Where an operator would raise an error for one of the values, a
 * function says so, and what it has written is nothing; it may say so in vain of values that are rare: infinities, NaN.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VEC_EXPR_H
#define ROSE_VEC_EXPR_H

#include "postgres.h"

typedef enum RoseVecOp
{
	ROSE_VEC_ADD,
	ROSE_VEC_SUBTRACT,
	ROSE_VEC_MULTIPLY,
	ROSE_VEC_DIVIDE,
	ROSE_VEC_REMAINDER			/* of integers */
} RoseVecOp;

typedef enum RoseVecComparison
{
	ROSE_VEC_LESS,
	ROSE_VEC_LESS_EQUAL,
	ROSE_VEC_EQUAL,
	ROSE_VEC_GREATER_EQUAL,
	ROSE_VEC_GREATER,
	ROSE_VEC_NOT_EQUAL
} RoseVecComparison;

/* Values of an array, or, x is NULL, one. */
typedef struct RoseVecOperand
{
	const int64 *x;
	int64		value;
} RoseVecOperand;

/*
 * result[i] = a[i] op b[i], which is to fit so many bytes (2, 4, 8; of 2 and 4 operands do).  One of the operands is an array, which result
 * may be.  False: for one of them there is an error.
 */
extern bool rose_vec_integers(RoseVecOp op, int bytes, RoseVecOperand a, RoseVecOperand b, int n,
							  int64 *result);

/*
 * result[i] = a[i] * b[i], of which it is known that they fit; small: operands are of 32 bits, which is faster.  One of the operands is an array,
 * which result may be.
 */
extern void rose_vec_multiply(RoseVecOperand a, RoseVecOperand b, bool small, int n, int64 *result);

/* The same of doubles. */
extern bool rose_vec_doubles(RoseVecOp op, RoseVecOperand a, RoseVecOperand b, int n, int64 *result);

/* result[i] = 1 or 0: how words compare; one of the operands is an array. */
extern void rose_vec_compare(RoseVecComparison comparison, RoseVecOperand a, RoseVecOperand b, int n,
							 int64 *result);

/* The same of doubles.  False: one is NaN. */
extern bool rose_vec_compare_doubles(RoseVecComparison comparison, RoseVecOperand a, RoseVecOperand b, int n,
									 int64 *result);

/* In place: integers to doubles; words to what fits so many bytes (2, 4). */
extern void rose_vec_to_doubles(int64 *x, int n);
extern bool rose_vec_narrow(int64 *x, int bytes, int n);

#endif							/* ROSE_VEC_EXPR_H */
