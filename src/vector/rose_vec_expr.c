/*-------------------------------------------------------------------------
 *
 * rose_vec_expr.c
 *	  Loops over arrays of values that expressions are made of: arithmetic, comparisons.
 *
 * The Makefile compiles this file with -O3, and the loops twice; see rose_vectorized.h.  Results are those of core's functions to the bit:
 * operations on doubles are the same single ones, and nothing is added up.
 *
 * Errors are gathered while all values are made, and are rare.  Pure functions; no locks and no allocation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "port/pg_bitutils.h"

#include "util/rose_vectorized.h"
#include "vector/rose_vec_expr.h"

/* The loop for each sort of operands; what is done has x, y and i. */
#define FOR_OPERANDS(type, a_array, a_value, b_array, b_value, what) \
	do { \
		if ((b_array) == NULL) \
		{ \
			const type	y = (b_value); \
			for (int i = 0; i < n; i++) { const type x = (a_array)[i]; what } \
		} \
		else if ((a_array) == NULL) \
		{ \
			const type	x = (a_value); \
			for (int i = 0; i < n; i++) { const type y = (b_array)[i]; what } \
		} \
		else \
		{ \
			for (int i = 0; i < n; i++) { const type x = (a_array)[i]; const type y = (b_array)[i]; what } \
		} \
	} while (0)

#define FOR_INTEGERS(what)	FOR_OPERANDS(int64, a.x, a.value, b.x, b.value, what)

/* ---- integers ---- */

/* Which bits are others than those of the value in so many bytes with its sign? */
#define BEYOND(value, bytes) \
	((bytes) == 4 ? (uint64) (value) ^ (uint64) (int64) (int32) (value) : (uint64) (value) ^ (uint64) (int64) (int16) (value))

ROSE_VECTORIZED static bool
add_small(int bytes, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	uint64		beyond = 0;

	if (bytes == 4)
		FOR_INTEGERS(const int64 r = x + y; beyond |= BEYOND(r, 4); result[i] = r;);
	else
		FOR_INTEGERS(const int64 r = x + y; beyond |= BEYOND(r, 2); result[i] = r;);
	return beyond == 0;
}

ROSE_VECTORIZED static bool
subtract_small(int bytes, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	uint64		beyond = 0;

	if (bytes == 4)
		FOR_INTEGERS(const int64 r = x - y; beyond |= BEYOND(r, 4); result[i] = r;);
	else
		FOR_INTEGERS(const int64 r = x - y; beyond |= BEYOND(r, 2); result[i] = r;);
	return beyond == 0;
}

/* Of operands of 32 bits, which processors multiply many of at once. */
ROSE_VECTORIZED static bool
multiply_small(int bytes, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	uint64		beyond = 0;

	if (bytes == 4)
		FOR_INTEGERS(const int64 r = (int64) (int32) x * (int32) y; beyond |= BEYOND(r, 4); result[i] = r;);
	else
		FOR_INTEGERS(const int64 r = (int64) (int32) x * (int32) y; beyond |= BEYOND(r, 2); result[i] = r;);
	return beyond == 0;
}

/* The sum has another sign than both. */
ROSE_VECTORIZED static bool
add_large(RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	uint64		signs = 0;

	FOR_INTEGERS(const uint64 r = (uint64) x + (uint64) y; signs |= ((uint64) x ^ r) & ((uint64) y ^ r); result[i] = (int64) r;);
	return (signs >> 63) == 0;
}

ROSE_VECTORIZED static bool
subtract_large(RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	uint64		signs = 0;

	FOR_INTEGERS(const uint64 r = (uint64) x - (uint64) y; signs |= ((uint64) x ^ (uint64) y) & ((uint64) x ^ r); result[i] = (int64) r;);
	return (signs >> 63) == 0;
}

static bool
multiply_large(RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	bool		overflow = false;

	FOR_INTEGERS(int64 r; overflow |= __builtin_mul_overflow(x, y, &r); result[i] = r;);
	return !overflow;
}

ROSE_VECTORIZED void
rose_vec_multiply(RoseVecOperand a, RoseVecOperand b, bool small, int n, int64 *result)
{
	if (small)
		FOR_INTEGERS(result[i] = (int64) (int32) x * (int32) y;);
	else
		FOR_INTEGERS(result[i] = (int64) ((uint64) x * (uint64) y););
}

/* Values whose distance from 0 has 31 bits. */
ROSE_VECTORIZED static bool
are_small(const int64 *x, int n)
{
	uint64		beyond = 0;

	for (int i = 0; i < n; i++)
		beyond |= (x[i] < 0 ? -(uint64) x[i] : (uint64) x[i]) >> 31;
	return beyond == 0;
}

/*
 * By one divisor, all of 31 bits, which processors have no division of many for: it is a multiplication, exact for dividends that are not
 * negative (Granlund and Montgomery, Division by invariant integers using multiplication, with N = 31).
 */
ROSE_VECTORIZED static void
divide_small(const int64 *x, int64 divisor, bool remainder, int n, int64 *result)
{
	uint32		by = (uint32) (divisor < 0 ? -divisor : divisor);
	int			bits = by == 1 ? 0 : pg_leftmost_one_pos32(by - 1) + 1;
	uint32		factor = (uint32) ((UINT64CONST(1) << (31 + bits)) / by + 1);
	int			shift = 31 + bits;
	uint64		turn = divisor < 0 ? ~UINT64CONST(0) : 0;

	for (int i = 0; i < n; i++)
	{
		uint64		sign = x[i] < 0 ? ~UINT64CONST(0) : 0;
		uint64		distance = ((uint64) x[i] ^ sign) - sign;
		uint64		quotient = ((uint64) factor * (uint32) distance) >> shift;

		if (remainder)
			result[i] = (int64) (((distance - (uint64) by * (uint32) quotient) ^ sign) - sign);
		else
			result[i] = (int64) ((quotient ^ sign ^ turn) - (sign ^ turn));
	}
}

/* By one divisor that is neither 0 nor -1. */
static void
divide_by(const int64 *x, int64 divisor, bool remainder, int n, int64 *result)
{
	if (are_small(&divisor, 1) && are_small(x, n))
	{
		divide_small(x, divisor, remainder, n, result);
		return;
	}
	for (int i = 0; i < n; i++)
		result[i] = remainder ? x[i] % divisor : x[i] / divisor;
}

/* -1 is left to who raises errors. */
static bool
divide(RoseVecOperand a, RoseVecOperand b, bool remainder, int n, int64 *result)
{
	if (b.x == NULL)
	{
		if (b.value == 0 || b.value == -1)
			return false;
		divide_by(a.x, b.value, remainder, n, result);
		return true;
	}
	for (int i = 0; i < n; i++)
	{
		int64		x = a.x != NULL ? a.x[i] : a.value;
		int64		y = b.x[i];

		if (y == 0 || y == -1)
			return false;
		result[i] = remainder ? x % y : x / y;
	}
	return true;
}

bool
rose_vec_integers(RoseVecOp op, int bytes, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	switch (op)
	{
		case ROSE_VEC_ADD:
			return bytes < 8 ? add_small(bytes, a, b, n, result) : add_large(a, b, n, result);
		case ROSE_VEC_SUBTRACT:
			return bytes < 8 ? subtract_small(bytes, a, b, n, result) : subtract_large(a, b, n, result);
		case ROSE_VEC_MULTIPLY:
			return bytes < 8 ? multiply_small(bytes, a, b, n, result) : multiply_large(a, b, n, result);
		case ROSE_VEC_DIVIDE:
			return divide(a, b, false, n, result);
		case ROSE_VEC_REMAINDER:
			return divide(a, b, true, n, result);
	}
	return false;
}

/* ---- doubles ---- */

static inline double
double_of(int64 word)
{
	double		value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

static inline int64
word_of(double value)
{
	int64		word;

	memcpy(&word, &value, sizeof(word));
	return word;
}

/* What is not finite is left to who raises errors, whether it is one or not. */
#define IS_ODD(r)	(!(fabs(r) <= DBL_MAX))

#define FOR_DOUBLES(what) \
	FOR_INTEGERS(const double p = double_of(x); const double q = double_of(y); double r; what; result[i] = word_of(r);)

ROSE_VECTORIZED static bool
add_doubles(RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	int64		odd = 0;

	FOR_DOUBLES(r = p + q; odd |= IS_ODD(r));
	return odd == 0;
}

ROSE_VECTORIZED static bool
subtract_doubles(RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	int64		odd = 0;

	FOR_DOUBLES(r = p - q; odd |= IS_ODD(r));
	return odd == 0;
}

/* A product of others than 0 may be too small. */
ROSE_VECTORIZED static bool
multiply_doubles(RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	int64		odd = 0;

	FOR_DOUBLES(r = p * q; odd |= IS_ODD(r) | ((r == 0) & (p != 0) & (q != 0)));
	return odd == 0;
}

ROSE_VECTORIZED static bool
divide_doubles(RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	int64		odd = 0;

	FOR_DOUBLES(r = p / q; odd |= IS_ODD(r) | (q == 0) | ((r == 0) & (p != 0)));
	return odd == 0;
}

bool
rose_vec_doubles(RoseVecOp op, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	switch (op)
	{
		case ROSE_VEC_ADD:
			return add_doubles(a, b, n, result);
		case ROSE_VEC_SUBTRACT:
			return subtract_doubles(a, b, n, result);
		case ROSE_VEC_MULTIPLY:
			return multiply_doubles(a, b, n, result);
		case ROSE_VEC_DIVIDE:
			return divide_doubles(a, b, n, result);
		case ROSE_VEC_REMAINDER:
			break;
	}
	return false;
}

/* ---- comparisons ---- */

#define COMPARISON(op)	FOR_INTEGERS(result[i] = x op y;)

ROSE_VECTORIZED static void
compare_order(RoseVecComparison comparison, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	if (comparison == ROSE_VEC_LESS)
		COMPARISON(<);
	else if (comparison == ROSE_VEC_LESS_EQUAL)
		COMPARISON(<=);
	else if (comparison == ROSE_VEC_GREATER)
		COMPARISON(>);
	else
		COMPARISON(>=);
}

ROSE_VECTORIZED static void
compare_equality(bool equal, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	if (equal)
		COMPARISON(==);
	else
		COMPARISON(!=);
}

void
rose_vec_compare(RoseVecComparison comparison, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	if (comparison == ROSE_VEC_EQUAL || comparison == ROSE_VEC_NOT_EQUAL)
		compare_equality(comparison == ROSE_VEC_EQUAL, a, b, n, result);
	else
		compare_order(comparison, a, b, n, result);
}

static inline bool
compare_one(RoseVecComparison comparison, double p, double q)
{
	switch (comparison)
	{
		case ROSE_VEC_LESS:
			return p < q;
		case ROSE_VEC_LESS_EQUAL:
			return p <= q;
		case ROSE_VEC_EQUAL:
			return p == q;
		case ROSE_VEC_GREATER_EQUAL:
			return p >= q;
		case ROSE_VEC_GREATER:
			return p > q;
		case ROSE_VEC_NOT_EQUAL:
			return p != q;
	}
	return false;
}

bool
rose_vec_compare_doubles(RoseVecComparison comparison, RoseVecOperand a, RoseVecOperand b, int n, int64 *result)
{
	bool		nan = false;

	for (int i = 0; i < n; i++)
	{
		double		p = double_of(a.x != NULL ? a.x[i] : a.value);
		double		q = double_of(b.x != NULL ? b.x[i] : b.value);

		nan |= p != p || q != q;
		result[i] = compare_one(comparison, p, q);
	}
	return !nan;
}

/* ---- other types ---- */

void
rose_vec_to_doubles(int64 *x, int n)
{
	for (int i = 0; i < n; i++)
		x[i] = word_of((double) x[i]);
}

ROSE_VECTORIZED bool
rose_vec_narrow(int64 *x, int bytes, int n)
{
	uint64		beyond = 0;

	for (int i = 0; i < n; i++)
		beyond |= bytes == 4 ? BEYOND(x[i], 4) : BEYOND(x[i], 2);
	return beyond == 0;
}
