/*-------------------------------------------------------------------------
 *
 * rose_node_decimal.c
 *	  Numerics as integers.
 *
 * Most numerics have few digits, and those of a column mostly as many behind the point.  So many of them are integers that count the same
 * parts of one, with which arithmetic and comparisons are what they are with integers.  How many digits each one shows is
 * told beside them, if it is not the same.
 *
 * NaN, infinities and numerics with many digits are no integers.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "scan/rose_node_decimal.h"

/* Decimal digits of an integer, at most. */
#define MAX_DIGITS		18

/* Values that are remembered, by their place, since those of a dictionary come again; a power of 2. */
#define MEMO_BITS		7
#define MEMO_ENTRIES	(1 << MEMO_BITS)

/* After so many values it is known whether they do. */
#define MEMO_SAMPLE		64

typedef struct Memo
{
	Datum		datum;
	int64		value;
} Memo;

typedef enum Outcome
{
	MADE,
	MIXED,						/* of another scale */
	NOT_MADE
} Outcome;

const int64 rose_node_decimal_power[ROSE_NODE_DECIMAL_MAX_SCALE + 1] = {
	1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, INT64CONST(10000000000),
	INT64CONST(100000000000), INT64CONST(1000000000000), INT64CONST(10000000000000), INT64CONST(100000000000000),
	INT64CONST(1000000000000000), INT64CONST(10000000000000000)
};

/* ---- a value ---- */

/* By a power of 10 that the compiler knows; false: there is a remainder. */
static inline bool
divide(uint64 *value, int power)
{
	uint64		part = power == 1 ? *value / 10 : power == 2 ? *value / 100 : *value / 1000;
	bool		exact = part * (uint64) rose_node_decimal_power[power] == *value;

	*value = part;
	return exact;
}

/* Its integer of the scale, without the sign; false: it is none. */
static inline bool
integer_of(const RoseNodeNumeric *number, int scale, uint64 *result)
{
	int			n = number->ndigits;
	int			power = scale + ROSE_NODE_NUMERIC_BASE_DIGITS * (number->weight + 1 - n);
	uint64		value = 0;

	*result = 0;
	if (n == 0)
		return true;
	if (ROSE_NODE_NUMERIC_BASE_DIGITS * n + power > MAX_DIGITS || power <= -ROSE_NODE_NUMERIC_BASE_DIGITS || n > 5)
		return false;
	for (int i = 0; i < n && i < 4; i++)
		value = value * ROSE_NODE_NUMERIC_BASE + rose_node_decimal_word(number->digits + i * sizeof(int16));
	*result = value;
	if (power >= 0)
		*result *= (uint64) rose_node_decimal_power[power];
	else if (n < 5)
		return divide(result, -power);
	else
	{
		/* the last digit's part alone, or it would be too large in between */
		value = rose_node_decimal_word(number->digits + 4 * sizeof(int16));
		if (!divide(&value, -power))
			return false;
		*result = *result * (uint64) rose_node_decimal_power[ROSE_NODE_NUMERIC_BASE_DIGITS + power] + value;
	}
	return true;
}

/* False: it is special, or its bytes are not there. */
static inline bool
read(Datum datum, RoseNodeNumeric *number)
{
	const struct varlena *value = (const struct varlena *) DatumGetPointer(datum);

	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		return false;
	rose_node_decimal_read(value, number);
	return (number->header & ROSE_NODE_NUMERIC_KIND) != ROSE_NODE_NUMERIC_SPECIAL;
}

static inline Outcome
make_one(Datum datum, int scale, int64 *value, uint64 *all)
{
	RoseNodeNumeric number;
	uint64		integer;

	if (!read(datum, &number))
		return NOT_MADE;
	if (number.scale != scale)
		return MIXED;
	if (!integer_of(&number, scale, &integer))
		return NOT_MADE;
	*all |= integer;
	*value = number.negative ? -(int64) integer : (int64) integer;
	return MADE;
}

/* ---- many ---- */

static inline Memo *
memo_of(Memo *memo, Datum datum)
{
	return &memo[(uint64) datum * UINT64CONST(0x9E3779B97F4A7C15) >> (64 - MEMO_BITS)];
}

/* Those from *done on, looking for each among those that were there; stops if they do not come again. */
static Outcome
make_known(const Datum *datums, const bool *nulls, int n, int scale, int64 *values, uint64 *all, int *done)
{
	Memo		memo[MEMO_ENTRIES];
	int			asked = 0;
	int			known = 0;

	memset(memo, 0, sizeof(memo));
	for (; *done < n; (*done)++)
	{
		Datum		datum = datums[*done];
		Memo	   *place = memo_of(memo, datum);
		Outcome		outcome;

		if (nulls != NULL && nulls[*done])
		{
			values[*done] = 0;
			continue;
		}
		asked++;
		if (place->datum == datum)
		{
			values[*done] = place->value;
			known++;
			continue;
		}
		if (asked == MEMO_SAMPLE && known < MEMO_SAMPLE / 4)
			break;
		outcome = make_one(datum, scale, &values[*done], all);
		if (outcome != MADE)
			return outcome;
		place->datum = datum;
		place->value = values[*done];
	}
	return MADE;
}

/* All show one scale. */
static Outcome
make_equal(const Datum *datums, const bool *nulls, int n, int64 *values, RoseNodeDecimals *decimals)
{
	int			scale = decimals->scale;
	uint64		all = 0;
	int			done = 0;
	Outcome		outcome = make_known(datums, nulls, n, scale, values, &all, &done);

	for (; done < n && outcome == MADE; done++)
	{
		if (nulls != NULL && nulls[done])
			values[done] = 0;
		else
			outcome = make_one(datums[done], scale, &values[done], &all);
	}
	decimals->bound = all;
	return outcome;
}

/* They show several ones. */
static bool
make_mixed(const Datum *datums, const bool *nulls, int n, int64 *values, uint8 *scales, RoseNodeDecimals *decimals)
{
	RoseNodeNumeric number;
	int			scale = 0;
	uint64		integer;

	for (int i = 0; i < n; i++)
	{
		if (nulls != NULL && nulls[i])
			continue;
		if (!read(datums[i], &number) || number.scale > ROSE_NODE_DECIMAL_MAX_SCALE)
			return false;
		scale = Max(scale, number.scale);
	}
	decimals->scale = scale;
	decimals->scales = scales;
	decimals->bound = 0;
	for (int i = 0; i < n; i++)
	{
		values[i] = 0;
		scales[i] = 0;
		if (nulls != NULL && nulls[i])
			continue;
		(void) read(datums[i], &number);
		if (!integer_of(&number, scale, &integer))
			return false;
		values[i] = number.negative ? -(int64) integer : (int64) integer;
		scales[i] = (uint8) number.scale;
		decimals->bound |= integer;
	}
	return true;
}

bool
rose_node_decimal_make(const Datum *datums, const bool *nulls, int n, int64 *values, uint8 *scales,
					   RoseNodeDecimals *decimals)
{
	RoseNodeNumeric number = {0};
	int			first = 0;
	Outcome		outcome;

	while (first < n && nulls != NULL && nulls[first])
		first++;
	if (first < n && (!read(datums[first], &number) || number.scale > ROSE_NODE_DECIMAL_MAX_SCALE))
		return false;
	decimals->scale = number.scale;
	decimals->scales = NULL;
	outcome = make_equal(datums, nulls, n, values, decimals);
	if (outcome == MIXED)
		return make_mixed(datums, nulls, n, values, scales, decimals);
	return outcome == MADE;
}

/* ---- a constant ---- */

/*
 * What is there of it before the end of the scale, if it were positive; false: it is far.  *exact: there is nothing behind.
 */
static bool
whole_part(const RoseNodeNumeric *number, int scale, int64 *result, bool *exact)
{
	int			power = 0;		/* of the digit at hand, in what is counted */
	int64		value = 0;

	*exact = true;
	for (int i = 0; i < number->ndigits && *exact; i++)
	{
		int64		digit = rose_node_decimal_word(number->digits + i * sizeof(int16));
		int64		unit = 1;

		power = scale + ROSE_NODE_NUMERIC_BASE_DIGITS * (number->weight - i);
		if (power <= -ROSE_NODE_NUMERIC_BASE_DIGITS)
			unit = ROSE_NODE_NUMERIC_BASE;
		else if (power < 0)
			unit = rose_node_decimal_power[-power];
		*exact = digit % unit == 0 && (unit == 1 || i == number->ndigits - 1);
		if (value > (ROSE_NODE_DECIMAL_FAR - ROSE_NODE_NUMERIC_BASE) / (ROSE_NODE_NUMERIC_BASE / unit))
			return false;
		value = value * (ROSE_NODE_NUMERIC_BASE / unit) + digit / unit;
	}
	for (; power > 0 && value > 0; power--)
	{
		if (value > ROSE_NODE_DECIMAL_FAR / 10)
			return false;
		value *= 10;
	}
	*result = value;
	return true;
}

int64
rose_node_decimal_floor(Datum value, int scale, bool *exact)
{
	struct varlena *plain = PG_DETOAST_DATUM_PACKED(value);
	RoseNodeNumeric number;
	int64		result;

	rose_node_decimal_read(plain, &number);
	*exact = false;
	if ((number.header & ROSE_NODE_NUMERIC_KIND) == ROSE_NODE_NUMERIC_SPECIAL)
		/* NaN is the greatest */
		return number.header == ROSE_NODE_NUMERIC_NAN || number.header == ROSE_NODE_NUMERIC_INFINITY ?
			ROSE_NODE_DECIMAL_FAR : -ROSE_NODE_DECIMAL_FAR;
	if (!whole_part(&number, scale, &result, exact))
	{
		*exact = false;
		return number.negative ? -ROSE_NODE_DECIMAL_FAR : ROSE_NODE_DECIMAL_FAR;
	}
	return !number.negative ? result : *exact ? -result : -result - 1;
}
