/*-------------------------------------------------------------------------
 *
 * rose_node_decimal.c
 *	  Numerics as integers.
 *
 * Most numerics have few digits, and those of a column mostly as many behind the point.  So many of them are integers that count the same
 * parts of one, with which arithmetic and comparisons are what they are with integers.  How many digits each one shows is
 * told beside them, if it is not the same.
 *
 * Of values that a page has in a dictionary the entries are made integers, and rows get theirs by codes.
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

/* Values that are remembered, by their place, since those of a dictionary come again, which stand close together; a power of 2. */
#define MEMO_ENTRIES	512

/* After so many that did not it is known whether they do. */
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

static inline uint64
digit_of(const RoseNodeNumeric *number, int i)
{
	return rose_node_decimal_word(number->digits + i * sizeof(int16));
}

/* The first four digits, or as many as there are. */
static inline uint64
first_digits(const RoseNodeNumeric *number)
{
	uint64		value = digit_of(number, 0);

	if (number->ndigits > 1)
		value = value * ROSE_NODE_NUMERIC_BASE + digit_of(number, 1);
	if (number->ndigits > 2)
		value = value * ROSE_NODE_NUMERIC_BASE + digit_of(number, 2);
	if (number->ndigits > 3)
		value = value * ROSE_NODE_NUMERIC_BASE + digit_of(number, 3);
	return value;
}

/* Its integer of the scale, without the sign; false: it is none. */
static pg_attribute_always_inline bool
integer_of(const RoseNodeNumeric *number, int scale, uint64 *result)
{
	int			n = number->ndigits;
	int			power = scale + ROSE_NODE_NUMERIC_BASE_DIGITS * (number->weight + 1 - n);
	uint64		last;

	*result = 0;
	if (n == 0)
		return true;
	if (ROSE_NODE_NUMERIC_BASE_DIGITS * n + power > MAX_DIGITS || power <= -ROSE_NODE_NUMERIC_BASE_DIGITS || n > 5)
		return false;
	*result = first_digits(number);
	if (power >= 0)
	{
		*result *= (uint64) rose_node_decimal_power[power];
		return true;
	}
	if (n < 5)
		return divide(result, -power);
	/* the last digit's part alone, or it would be too large in between */
	last = digit_of(number, 4);
	if (!divide(&last, -power))
		return false;
	*result = *result * (uint64) rose_node_decimal_power[ROSE_NODE_NUMERIC_BASE_DIGITS + power] + last;
	return true;
}

/* False: it is special, or its bytes are not there. */
static pg_attribute_always_inline bool
read(Datum datum, RoseNodeNumeric *number)
{
	const struct varlena *value = (const struct varlena *) DatumGetPointer(datum);

	if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		return false;
	rose_node_decimal_read(value, number);
	return (number->header & ROSE_NODE_NUMERIC_KIND) != ROSE_NODE_NUMERIC_SPECIAL;
}

static pg_attribute_always_inline Outcome
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
	return &memo[(uint64) datum % MEMO_ENTRIES];
}

/* Those that do not come again, behind others, of which bits are set. */
static Outcome
make_others(const Datum *datums, const bool *nulls, int n, int scale, int64 *values, uint64 all, uint64 *bound)
{
	Outcome		outcome = MADE;

	for (int i = 0; i < n && outcome == MADE; i++)
	{
		if (nulls == NULL || !nulls[i])
			outcome = make_one(datums[i], scale, &values[i], &all);
	}
	*bound = all;
	return outcome;
}

/* From the i-th on, those that are known; returns which one is not. */
static inline int
make_known(Memo *memo, const Datum *datums, int i, int n, int64 *values)
{
	for (; i < n; i++)
	{
		const Memo *place = memo_of(memo, datums[i]);

		if (place->datum != datums[i])
			break;
		values[i] = place->value;
	}
	return i;
}

/* All show one scale.  What becomes of NULLs does not matter. */
static Outcome
make_equal(const Datum *datums, const bool *nulls, int n, int64 *values, RoseNodeDecimals *decimals)
{
	Memo		memo[MEMO_ENTRIES];
	int			scale = decimals->scale;
	int			nmade = 0;
	uint64		all = 0;

	memset(memo, 0, sizeof(memo));
	for (int i = make_known(memo, datums, 0, n, values); i < n; i = make_known(memo, datums, i + 1, n, values))
	{
		Memo	   *place = memo_of(memo, datums[i]);
		Outcome		outcome;

		if (nulls != NULL && nulls[i])
			continue;
		if (nmade == MEMO_SAMPLE && i < MEMO_SAMPLE * 3 / 2)
			return make_others(datums + i, nulls != NULL ? nulls + i : NULL, n - i, scale, values + i, all, &decimals->bound);
		outcome = make_one(datums[i], scale, &values[i], &all);
		if (outcome != MADE)
			return outcome;
		place->datum = datums[i];
		place->value = values[i];
		nmade++;
	}
	decimals->bound = all;
	return MADE;
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
		if (!read(datums[i], &number) || !integer_of(&number, scale, &integer))
			return false;
		values[i] = number.negative ? -(int64) integer : (int64) integer;
		scales[i] = (uint8) number.scale;
		decimals->bound |= integer;
	}
	return true;
}

/* distinct: no value comes again, or few would. */
static bool
make(const Datum *datums, const bool *nulls, int n, bool distinct, int64 *values, uint8 *scales, RoseNodeDecimals *decimals)
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
	if (distinct)
		outcome = make_others(datums, nulls, n, decimals->scale, values, 0, &decimals->bound);
	else
		outcome = make_equal(datums, nulls, n, values, decimals);
	for (int i = 0; i < n && nulls != NULL; i++)
		values[i] = nulls[i] ? 0 : values[i];
	if (outcome == MIXED)
		return make_mixed(datums, nulls, n, values, scales, decimals);
	return outcome == MADE;
}

bool
rose_node_decimal_make(const Datum *datums, const bool *nulls, int n, int64 *values, uint8 *scales, RoseNodeDecimals *decimals)
{
	/* few are not worth remembering */
	return make(datums, nulls, n, n <= MEMO_SAMPLE, values, scales, decimals);
}

bool
rose_node_decimal_make_distinct(const Datum *datums, int n, int64 *values, uint8 *scales, RoseNodeDecimals *decimals)
{
	return make(datums, NULL, n, true, values, scales, decimals);
}

bool
rose_node_decimal_make_coded(const Datum *entries, int nentries, const uint16 *codes, int n, int64 *values, uint8 *scales,
							 RoseNodeDecimals *decimals)
{
	int64		entry_values[ROSE_NODE_DECIMAL_ENTRIES];
	uint8		entry_scales[ROSE_NODE_DECIMAL_ENTRIES];

	if (nentries > ROSE_NODE_DECIMAL_ENTRIES ||
		!make(entries, NULL, nentries, true, entry_values, entry_scales, decimals))
		return false;
	for (int i = 0; i < n; i++)
		values[i] = entry_values[codes[i]];
	if (decimals->scales == NULL)
		return true;
	for (int i = 0; i < n; i++)
		scales[i] = entry_scales[codes[i]];
	decimals->scales = scales;
	return true;
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
