/*-------------------------------------------------------------------------
 *
 * unit_rows.c
 *	  Made-up columns.  See unit_rows.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"

#include "unit.h"
#include "unit_rows.h"

static const char *const shape_names[NUM_SHAPES] = {
	"constant", "random", "small", "sequence", "sorted", "sorted with jumps", "seconds",
	"runs", "few", "outliers", "low outliers", "sometimes",
	"restarts", "uneven", "extremes", "drift", "moods", "decimals", "doubles",
	"random text", "fixed text", "few texts", "prose", "sorted keys", "long text",
	"empty text", "codes", "drifting text"
};

const char *
unit_shape_name(UnitShape shape)
{
	return shape_names[shape];
}

void
unit_column_init(UnitColumn *column, int16 attlen, bool byval, char align,
				 bool is_float, UnitShape shape, int null_percent)
{
	memset(column, 0, sizeof(*column));
	column->desc = rose_column_desc(attlen, byval, align, is_float);
	column->shape = shape;
	column->null_percent = null_percent;
	column->sorted = null_percent == 0 &&
		(shape == SHAPE_CONSTANT || shape == SHAPE_SEQUENCE || shape == SHAPE_SORTED ||
		 shape == SHAPE_SORTED_JUMPS || shape == SHAPE_UNEVEN || shape == SHAPE_SECONDS || shape == SHAPE_TEXT_KEYS ||
		 shape == SHAPE_TEXT_EMPTY);
	column->salt = unit_random();
	column->parameter = (int64) unit_random_below(62) + 1;
	column->last = (int64) (unit_random() >> unit_random_below(64));
	if (attlen > 0 && attlen < 8)
		column->last %= 100;
	if (column->sorted)
		column->last = -(int64) unit_random_below(120);
}

static void
free_value(const UnitColumn *column, int row)
{
	if (!column->desc.attbyval && !column->nulls[row])
		free(DatumGetPointer(column->values[row]));
}

void
unit_column_free(UnitColumn *column)
{
	int			row;

	for (row = 0; row < column->nrows; row++)
		free_value(column, row);
	free(column->values);
	free(column->nulls);
}

void
unit_column_drop(UnitColumn *column, int n)
{
	int			row;

	if (n == 0)
		return;
	for (row = 0; row < n; row++)
		free_value(column, row);
	column->nrows -= n;
	memmove(column->values, column->values + n, column->nrows * sizeof(Datum));
	memmove(column->nulls, column->nulls + n, column->nrows * sizeof(bool));
}

/* Sign-extend to the column's width, as by-value Datums are. */
static int64
narrow(const UnitColumn *column, int64 word)
{
	switch (column->desc.attlen)
	{
		case 1:
			return (int8) word;
		case 2:
			return (int16) word;
		case 4:
			return (int32) word;
		default:
			return word;
	}
}

/* Add to the last value, but stay where the type ends. */
static int64
climb(UnitColumn *column, int64 by)
{
	int64		top = PG_INT64_MAX >> (64 - 8 * column->desc.attlen);

	column->last = by > top || (column->last > 0 && by > top - column->last) ? top :
		column->last + by;
	return column->last;
}

static int64
next_of_mood(UnitColumn *column, uint64 random)
{
	switch (column->mood)
	{
		case 0:
			return (int64) unit_random();
		case 1:
			return column->last;
		case 2:
			return column->last += (int64) (random >> 40) % 10;
		case 3:
			return column->last = (int64) (random >> 54) * 3600;
		case 4:
			return column->last += 3600;
		case 5:
			return random % 2 ? column->last : column->last + column->parameter;
		default:
			return column->last += random % 20 == 0 ? (int64) (random >> 20) : 0;
	}
}

/* One of 8 bytes sometimes goes past the greatest integer to the least one. */
static int64
next_of_restarts(UnitColumn *column, uint64 random)
{
	int64		by = column->parameter % 7 * ((random >> 8) % 4 == 0 ? 100 : 60);

	if (random % 400 == 0)
		column->last = (int64) (random >> 16) % (column->parameter * 50) - column->parameter * 10;
	if (column->desc.attlen < 8)
		return climb(column, by);
	if (random % 3000 == 7)
		column->last = PG_INT64_MAX - by * 20;
	return column->last = (int64) ((uint64) column->last + (uint64) by);
}

static int64
next_word(UnitColumn *column)
{
	uint64		random = unit_random();

	switch (column->shape)
	{
		case SHAPE_RANDOM:
			return (int64) random;
		case SHAPE_SMALL:
			return (int64) (random >> (63 - column->parameter)) -
				(INT64CONST(1) << column->parameter) / 2;
		case SHAPE_SEQUENCE:
			return climb(column, column->parameter % 3 + 1);
		case SHAPE_SORTED:
			return climb(column, random % 4 == 0 ? 0 : (int64) (random >> 8) % (column->parameter * 4));
		case SHAPE_SORTED_JUMPS:
			return climb(column, random % 2000 == 0 ? INT64CONST(1) << 40 : (int64) (random >> 16) % 3);
		case SHAPE_SECONDS:
			return climb(column, (int64) (random % 5) * 1000000);
		case SHAPE_RUNS:
			if (random % 30 == 0)
				column->last = (int64) (random >> 8) >> (column->parameter / 2);
			return column->last;
		case SHAPE_FEW:
			return (int64) ((random % (column->parameter * 4)) * column->salt);
		case SHAPE_OUTLIERS:
			return random % 100 == 0 ? (int64) unit_random() : column->last;
		case SHAPE_LOW_OUTLIERS:
			return random % 80 == 0 ? PG_INT64_MIN + (int64) (random >> 40) :
				(int64) (random >> 54) + 1000000000;
		case SHAPE_SOMETIMES:
			return random % 10 == 0 ? ((int64) (random >> 8) % 20 + 4) * 100 : -999900;
		case SHAPE_RESTARTS:
			return next_of_restarts(column, random);
		case SHAPE_UNEVEN:
			return climb(column, 3600 * (random % 10 == 0 ? (int64) (random >> 8) % 120 : 60));
		case SHAPE_EXTREMES:
			return random % 3 == 0 ? PG_INT64_MIN : random % 3 == 1 ? PG_INT64_MAX : (int64) (random % 7) - 3;
		case SHAPE_DRIFT:
			column->last = (column->last & 0xffff) + 1;
			return (int64) (random >> (63 - Min(63, column->last % 1500 / 20)));
		case SHAPE_MOODS:
			if (random % 150 == 0)
				column->mood = (int) (random >> 8) % 7;
			return next_of_mood(column, random);
		default:
			return column->last;
	}
}

static int64
next_float(UnitColumn *column)
{
	uint64		random = unit_random();
	double		value;
	float		single;
	int64		word;
	int32		word32;

	if (column->shape == SHAPE_DECIMALS)
		value = ((double) (random % 2000000) - 300000) / 100;
	else if (random % 50 == 0)
		value = random % 4 == 0 ? NAN : random % 4 == 1 ? INFINITY : random % 4 == 2 ? -0.0 : -INFINITY;
	else
		value = sqrt((double) (random >> 20));
	if (column->desc.attlen == 4)
	{
		single = (float) value;
		memcpy(&word32, &single, 4);
		return word32;
	}
	memcpy(&word, &value, 8);
	return word;
}

/* Short texts of some alphabet, which sometimes gets more characters. */
static int
next_code(UnitColumn *column, char *out)
{
	static const int alphabets[] = {1, 2, 3, 10, 16, 17, 33, 63, 64, 65};
	uint64		random = unit_random();
	int			nchars;
	int			n;

	if (random % 300 == 0)
		column->mood = (int) (random >> 16) % 1000;
	nchars = alphabets[column->mood % lengthof(alphabets)];
	random >>= 16;
	n = column->mood % 3 == 0 ? 24 : (int) (random % (column->mood % 3 == 1 ? 10 : 127));
	if (random % 100 == 0)
		n = 120 + (int) (random >> 8) % 20;
	for (int k = 0; k < n; k++)
		out[k] = (char) (128 - nchars / 2 + unit_random_below(nchars));
	if (n > 0 && column->mood % 5 < 2 && unit_random_below(80) == 0)
		out[n / 2] = (char) (1 + unit_random_below(255));
	return n;
}

static int
next_text(UnitColumn *column, char *out)
{
	static const char *const words[] = {"merge ", "run ", "component ", "key ", "page ",
	"tombstone ", "filter ", "the ", "of ", "and "};
	uint64		random = unit_random();
	UnitShape	shape = column->shape;
	int			n = 0;
	int			k;

	if (shape == SHAPE_TEXT_DRIFT)
	{
		column->last++;
		shape = SHAPE_TEXT_RANDOM + (uint64) column->last / 100 % 6;
	}
	switch (shape)
	{
		case SHAPE_TEXT_FIXED:
			n = 32;
			break;
		case SHAPE_TEXT_FEW:
			random = random % (column->parameter + 1);
			n = (int) (random % 9 == 0 ? 150 + random % 50 : 3 + random % 20);
			for (k = 0; k < n; k++)
				out[k] = (char) ('a' + (random * 7 + k) % 26);
			return n;
		case SHAPE_TEXT_PROSE:
			for (k = (int) (random % 40); k >= 0; k--)
			{
				strcpy(out + n, words[unit_random_below(lengthof(words))]);
				n += (int) strlen(out + n);
			}
			return n;
		case SHAPE_TEXT_KEYS:
			column->last = Max(0, column->last) + (int64) (random % 5);
			return sprintf(out, "customer-%012lld", (long long) column->last);
		case SHAPE_TEXT_LONG:
			n = (int) (random % (ROSE_ITEM_MAX_SIZE - 16));
			break;
		case SHAPE_TEXT_EMPTY:
			return 0;
		case SHAPE_TEXT_CODES:
			return next_code(column, out);
		default:
			n = (int) (random % 16 == 0 ? random % 300 : random % 30);
	}
	/* no zero bytes, so that it can be a C string */
	for (k = 0; k < n; k++)
		out[k] = (char) (1 + unit_random_below(255));
	return n;
}

static Datum
next_item(UnitColumn *column)
{
	char		bytes[ROSE_ITEM_MAX_SIZE + 16];
	int			length;
	char	   *result;

	memset(bytes, 0, 64);
	length = next_text(column, bytes);
	if (column->desc.kind == ROSE_COLUMN_FIXED)
	{
		result = malloc(column->desc.attlen);
		memcpy(result, bytes, column->desc.attlen);
	}
	else if (column->desc.kind == ROSE_COLUMN_CSTRING)
	{
		result = malloc(length + 1);
		memcpy(result, bytes, length);
		result[length] = '\0';
	}
	else
	{
		/* both header forms, whatever the length allows */
		result = malloc(length + VARHDRSZ);
		if (length + VARHDRSZ_SHORT <= VARATT_SHORT_MAX && unit_random_below(2) == 0)
			SET_VARSIZE_SHORT(result, length + VARHDRSZ_SHORT);
		else
			SET_VARSIZE(result, length + VARHDRSZ);
		memcpy(VARDATA_ANY(result), bytes, length);
	}
	return PointerGetDatum(result);
}

void
unit_column_fill(UnitColumn *column, int n)
{
	if (n > column->capacity)
	{
		column->capacity = n * 2;
		column->values = realloc(column->values, column->capacity * sizeof(Datum));
		column->nulls = realloc(column->nulls, column->capacity * sizeof(bool));
	}
	for (; column->nrows < n; column->nrows++)
	{
		int			row = column->nrows;

		column->nulls[row] = (int) unit_random_below(100) < column->null_percent;
		if (column->nulls[row])
			column->values[row] = (Datum) 0;
		else if (!column->desc.attbyval)
			column->values[row] = next_item(column);
		else
			column->values[row] = (Datum) narrow(column, column->desc.kind == ROSE_COLUMN_FLOAT &&
												 column->shape >= SHAPE_DECIMALS ?
												 next_float(column) : next_word(column));
	}
}

static void
get_bytes(const UnitColumn *column, Datum value, const char **bytes, Size *size)
{
	struct varlena *pointer = (struct varlena *) DatumGetPointer(value);

	*bytes = (const char *) pointer;
	*size = column->desc.attlen;
	if (column->desc.kind == ROSE_COLUMN_VARLEN)
	{
		*bytes = VARDATA_ANY(pointer);
		*size = VARSIZE_ANY_EXHDR(pointer);
	}
	else if (column->desc.kind == ROSE_COLUMN_CSTRING)
		*size = strlen(*bytes);
}

int
unit_column_compare(Datum a, Datum b, void *column)
{
	const char *bytes_a;
	const char *bytes_b;
	Size		size_a;
	Size		size_b;
	int			order;

	if (((UnitColumn *) column)->desc.attbyval)
		return (int64) a < (int64) b ? -1 : (int64) a > (int64) b;
	get_bytes(column, a, &bytes_a, &size_a);
	get_bytes(column, b, &bytes_b, &size_b);
	order = memcmp(bytes_a, bytes_b, Min(size_a, size_b));
	return order != 0 ? order : size_a < size_b ? -1 : size_a > size_b;
}

bool
unit_column_equal(const UnitColumn *column, Datum a, Datum b)
{
	return unit_column_compare(a, b, (void *) column) == 0;
}

const UnitType unit_types[UNIT_NUM_TYPES] = {
	{"int8", 8, true, TYPALIGN_DOUBLE, false, SHAPE_CONSTANT, SHAPE_MOODS},
	{"int4", 4, true, TYPALIGN_INT, false, SHAPE_CONSTANT, SHAPE_MOODS},
	{"int2", 2, true, TYPALIGN_SHORT, false, SHAPE_CONSTANT, SHAPE_MOODS},
	{"char", 1, true, TYPALIGN_CHAR, false, SHAPE_CONSTANT, SHAPE_MOODS},
	{"float8", 8, true, TYPALIGN_DOUBLE, true, SHAPE_CONSTANT, SHAPE_DOUBLES},
	{"float4", 4, true, TYPALIGN_INT, true, SHAPE_CONSTANT, SHAPE_DOUBLES},
	{"text", -1, false, TYPALIGN_INT, false, SHAPE_TEXT_RANDOM, SHAPE_TEXT_DRIFT},
	{"cstring", -2, false, TYPALIGN_CHAR, false, SHAPE_TEXT_RANDOM, SHAPE_TEXT_DRIFT},
	{"uuid", 16, false, TYPALIGN_CHAR, false, SHAPE_TEXT_RANDOM, SHAPE_TEXT_DRIFT},
	{"timetz", 12, false, TYPALIGN_DOUBLE, false, SHAPE_TEXT_RANDOM, SHAPE_TEXT_DRIFT},
	{"tid", 6, false, TYPALIGN_SHORT, false, SHAPE_TEXT_RANDOM, SHAPE_TEXT_DRIFT},
};

void
unit_random_columns(UnitColumn *columns, int ncols)
{
	int			c;

	for (c = 0; c < ncols; c++)
	{
		const UnitType *type = &unit_types[unit_random_below(UNIT_NUM_TYPES)];
		int			nshapes = type->last_shape - type->first_shape + 1;
		UnitShape	shape = type->first_shape + unit_random_below(nshapes);
		int			null_percent = (int) unit_random_below(3) * (int) unit_random_below(60);

		/* a few long texts would fill the page alone */
		if (shape == SHAPE_TEXT_LONG)
			shape = SHAPE_TEXT_FEW;
		unit_column_init(&columns[c], type->attlen, type->byval, type->align, type->is_float,
						 shape, Min(null_percent, 100));
	}
}

void
unit_free_columns(UnitColumn *columns, int ncols)
{
	int			c;

	for (c = 0; c < ncols; c++)
		unit_column_free(&columns[c]);
}

int
unit_fill_page(RosePageBuilder *builder, UnitColumn *columns, int ncols, int max_rows)
{
	Datum		values[ROSE_PAGE_MAX_COLUMNS];
	bool		nulls[ROSE_PAGE_MAX_COLUMNS];
	int			row = 0;
	int			c;

	while (row < max_rows)
	{
		for (c = 0; c < ncols; c++)
		{
			unit_column_fill(&columns[c], row + 1);
			values[c] = columns[c].values[row];
			nulls[c] = columns[c].nulls[row];
		}
		if (rose_page_builder_append(builder, values, nulls) != ROSE_APPEND_OK)
			break;
		row++;
	}
	return row;
}
