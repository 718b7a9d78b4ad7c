/*-------------------------------------------------------------------------
 *
 * test_expr.c
 *	  Arithmetic over arrays, against one value at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "unit_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "vector/rose_vec_expr.h"

#include "vector_unit.h"

#define MAX_ROWS	130

static uint64 seed = 11;

static uint64
draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* A word that fits so many bytes: small ones mostly, and the ends. */
static int64
draw_word(int bytes, bool small)
{
	int64		least = bytes == 8 ? PG_INT64_MIN : bytes == 4 ? PG_INT32_MIN : PG_INT16_MIN;

	switch (small ? 7 : draw() % 16)
	{
		case 0:
			return least + (int64) (draw() % 3);
		case 1:
			return -(least + 1) - (int64) (draw() % 3);
		case 2:
			return (int64) draw() >> (64 - 8 * bytes);
		case 3:
			return (int64) draw() >> (64 - 4 * bytes);
		default:
			return (int64) (draw() % 60) - 30;
	}
}

/* What core would make of it; false: an error. */
static bool
integer(RoseVecOp op, int bytes, int64 x, int64 y, int64 *result)
{
	int128		r = 0;

	switch (op)
	{
		case ROSE_VEC_ADD:
			r = (int128) x + y;
			break;
		case ROSE_VEC_SUBTRACT:
			r = (int128) x - y;
			break;
		case ROSE_VEC_MULTIPLY:
			r = (int128) x * y;
			break;
		case ROSE_VEC_DIVIDE:
		case ROSE_VEC_REMAINDER:
			/* -1 is left to others */
			if (y == 0 || y == -1)
				return false;
			r = op == ROSE_VEC_DIVIDE ? (int128) x / y : (int128) x % y;
			break;
	}
	*result = (int64) r;
	return r == (bytes == 8 ? (int128) (int64) r : bytes == 4 ? (int128) (int32) r : (int128) (int16) r);
}

static double
double_of(int64 word)
{
	double		value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

static int64
word_of(double value)
{
	int64		word;

	memcpy(&word, &value, sizeof(word));
	return word;
}

static double
draw_double(bool small)
{
	static const double odd[] = {0.0, -0.0, 1e308, -1e308, 1e-308, 5e-324, 1, INFINITY, NAN};

	return !small && draw() % 40 == 0 ? odd[draw() % lengthof(odd)] : ((double) (draw() % 2000) - 1000.5) / 7;
}

static bool
real(RoseVecOp op, double x, double y, int64 *result)
{
	double		r = op == ROSE_VEC_ADD ? x + y : op == ROSE_VEC_SUBTRACT ? x - y : op == ROSE_VEC_MULTIPLY ? x * y : x / y;

	*result = word_of(r);
	if (isnan(r) || isinf(r))
		return false;
	if (op == ROSE_VEC_MULTIPLY && r == 0 && x != 0 && y != 0)
		return false;
	return op != ROSE_VEC_DIVIDE || (y != 0 && (r != 0 || x == 0));
}

/* a and b are arrays, but for one that may be a value; the result goes to an array of its own or the place of one of them. */
static bool
check_one(RoseVecOp op, int bytes, bool doubles, int64 *a, int64 *b, int n)
{
	int64		expected[MAX_ROWS];
	int64		own[MAX_ROWS];
	int			single = (int) (draw() % 3);
	RoseVecOperand left = {single == 1 ? NULL : a, a[0]};
	RoseVecOperand right = {single == 2 ? NULL : b, b[0]};
	int64	   *result = draw() % 2 == 0 ? own : single == 1 ? b : a;
	bool		good = true;
	bool		said;

	for (int i = 0; i < n; i++)
	{
		int64		x = single == 1 ? a[0] : a[i];
		int64		y = single == 2 ? b[0] : b[i];

		if (doubles)
			good &= real(op, double_of(x), double_of(y), &expected[i]);
		else
			good &= integer(op, bytes, x, y, &expected[i]);
	}
	said = doubles ? rose_vec_doubles(op, left, right, n, result) : rose_vec_integers(op, bytes, left, right, n, result);
	CHECK_AT(said == good, " op %d bytes %d doubles %d single %d\n", op, bytes, doubles, single);
	for (int i = 0; i < n && good; i++)
		CHECK_AT(result[i] == expected[i], " op %d bytes %d doubles %d single %d row %d\n", op, bytes, doubles, single, i);
	return good;
}

/* Products of which it is known that they fit. */
static void
check_multiply(void)
{
	int64		a[MAX_ROWS];
	int64		b[MAX_ROWS];
	int64		result[MAX_ROWS];
	int			n = 1 + (int) (draw() % (MAX_ROWS - 1));
	bool		small = draw() % 2 == 0;
	int			single = (int) (draw() % 3);
	RoseVecOperand left = {single == 1 ? NULL : a, 0};
	RoseVecOperand right = {single == 2 ? NULL : b, 0};

	for (int i = 0; i < n; i++)
	{
		a[i] = small ? draw_word(4, false) : draw_word(8, false) >> 21;
		b[i] = small ? draw_word(4, false) : draw_word(4, false) >> 11;
	}
	left.value = a[0];
	right.value = b[0];
	rose_vec_multiply(left, right, small, n, result);
	for (int i = 0; i < n; i++)
		CHECK_AT(result[i] == (single == 1 ? a[0] : a[i]) * (single == 2 ? b[0] : b[i]), " small %d single %d row %d\n", small, single, i);
}

/* By one divisor of any width: multiples of it and what is beside them, and now and then a dividend that is too large to be multiplied. */
static void
check_divide(void)
{
	int64		a[MAX_ROWS];
	int64		result[MAX_ROWS];
	int			n = 1 + (int) (draw() % (MAX_ROWS - 1));
	bool		remainder = draw() % 2 == 0;
	int64		divisor = ((int64) draw() >> (33 + draw() % 31)) * (draw() % 40 == 0 ? 4 : 1);
	RoseVecOp	op = remainder ? ROSE_VEC_REMAINDER : ROSE_VEC_DIVIDE;
	bool		in_place = draw() % 2 == 0;

	if (divisor == 0 || divisor == -1)
		divisor = draw() % 2 == 0 ? 1 : PG_INT32_MAX - (int64) (draw() % 3);
	for (int i = 0; i < n; i++)
	{
		int64		near = PG_INT32_MAX / divisor;

		near = near == 0 ? 0 : (int64) (draw() % ((uint64) (near < 0 ? -near : near) + 1));
		a[i] = near * divisor + (int64) (draw() % 3) - 1;
		if (draw() % 4 == 0)
			a[i] = draw_word(4, false);
		if (a[i] < -PG_INT32_MAX || a[i] > PG_INT32_MAX)
			a[i] = PG_INT32_MAX;
		if (draw() % 2 == 0)
			a[i] = -a[i];
	}
	if (draw() % 8 == 0)
		a[draw() % n] = draw() % 2 == 0 ? PG_INT32_MIN : draw_word(8, false);
	for (int i = 0; i < n; i++)
		result[i] = a[i];
	CHECK(rose_vec_integers(op, 8, (RoseVecOperand) {in_place ? result : a, 0}, (RoseVecOperand) {NULL, divisor}, n, result));
	for (int i = 0; i < n; i++)
		CHECK_AT(result[i] == (remainder ? a[i] % divisor : a[i] / divisor), " %lld by %lld\n", (long long) a[i], (long long) divisor);
}

static void
check_narrow(void)
{
	int64		x[MAX_ROWS];
	int			n = (int) (draw() % MAX_ROWS);
	int			bytes = draw() % 2 == 0 ? 2 : 4;
	int64		beyond = bytes == 2 ? 32768 : INT64CONST(2147483648);
	bool		spoilt = n > 0 && draw() % 2 == 0;

	for (int i = 0; i < n; i++)
		x[i] = draw_word(bytes, false);
	if (spoilt)
		x[draw() % n] = draw() % 2 == 0 ? beyond : -beyond - 1;
	CHECK(rose_vec_narrow(x, bytes, n) == !spoilt);
	for (int i = 0; i < n; i++)
		x[i] = draw_word(8, false);
	if (n > 0)
	{
		int64		first = x[0];

		rose_vec_to_doubles(x, n);
		CHECK(double_of(x[0]) == (double) first);
	}
}

static int
order_of(double x, double y)
{
	return x < y ? -1 : x > y ? 1 : 0;
}

static bool
holds(RoseVecComparison comparison, int order)
{
	switch (comparison)
	{
		case ROSE_VEC_LESS:
			return order < 0;
		case ROSE_VEC_LESS_EQUAL:
			return order <= 0;
		case ROSE_VEC_EQUAL:
			return order == 0;
		case ROSE_VEC_GREATER_EQUAL:
			return order >= 0;
		case ROSE_VEC_GREATER:
			return order > 0;
		case ROSE_VEC_NOT_EQUAL:
			return order != 0;
	}
	return false;
}

static void
check_comparison(RoseVecComparison comparison, bool doubles, const int64 *a, const int64 *b, int n)
{
	int64		result[MAX_ROWS];
	int			single = (int) (draw() % 3);
	RoseVecOperand left = {single == 1 ? NULL : a, a[0]};
	RoseVecOperand right = {single == 2 ? NULL : b, b[0]};
	bool		nan = false;
	bool		said = true;

	if (doubles)
		said = rose_vec_compare_doubles(comparison, left, right, n, result);
	else
		rose_vec_compare(comparison, left, right, n, result);
	for (int i = 0; i < n && doubles; i++)
		nan |= isnan(double_of(single == 1 ? a[0] : a[i])) || isnan(double_of(single == 2 ? b[0] : b[i]));
	CHECK_AT(said == !nan, " %d\n", comparison);
	for (int i = 0; i < n && !nan; i++)
	{
		int64		x = single == 1 ? a[0] : a[i];
		int64		y = single == 2 ? b[0] : b[i];
		int			order = doubles ? order_of(double_of(x), double_of(y)) : x < y ? -1 : x > y ? 1 : 0;

		CHECK_AT(result[i] == (holds(comparison, order) ? 1 : 0), " %d doubles %d single %d\n", comparison, doubles, single);
	}
}

void
test_expr(void)
{
	int			good = 0;
	int			rounds = 6000;

	for (int round = 0; round < rounds; round++)
	{
		int64		a[MAX_ROWS];
		int64		b[MAX_ROWS];
		int			n = 1 + (int) (draw() % (MAX_ROWS - 1));
		int			bytes = 2 << draw() % 3;
		bool		doubles = draw() % 3 == 0;
		bool		small = draw() % 2 == 0;
		RoseVecOp	op = (RoseVecOp) (draw() % (doubles ? 4 : 5));

		for (int i = 0; i < n; i++)
		{
			a[i] = doubles ? word_of(draw_double(small)) : draw_word(bytes, small);
			b[i] = doubles ? word_of(draw_double(small)) : draw_word(bytes, small);
			if (!doubles && small && op >= ROSE_VEC_DIVIDE && (b[i] == 0 || b[i] == -1))
				b[i] = 3;
		}
		check_comparison((RoseVecComparison) (draw() % 6), doubles, a, b, n);
		good += check_one(op, bytes, doubles, a, b, n) ? 1 : 0;
		check_narrow();
		check_multiply();
		check_divide();
	}
	CHECK_AT(good > rounds / 3 && good < rounds * 9 / 10, " %d\n", good);
}
