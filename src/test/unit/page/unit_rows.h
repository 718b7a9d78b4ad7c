/*-------------------------------------------------------------------------
 *
 * unit_rows.h
 *	  Made-up columns of many shapes, for tests and benchmarks of pages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_ROWS_H
#define UNIT_ROWS_H

#include "page/rose_page.h"

typedef enum UnitShape
{
	/* words */
	SHAPE_CONSTANT,
	SHAPE_RANDOM,				/* all bits */
	SHAPE_SMALL,				/* some bits, around zero */
	SHAPE_SEQUENCE,
	SHAPE_SORTED,				/* uneven gaps, repetitions */
	SHAPE_SORTED_JUMPS,			/* small gaps, rarely a huge one */
	SHAPE_SECONDS,				/* multiples of a million, sorted */
	SHAPE_RUNS,
	SHAPE_FEW,					/* few values, far apart */
	SHAPE_OUTLIERS,				/* nearly constant */
	SHAPE_LOW_OUTLIERS,			/* a frame, and now and then something far below */
	SHAPE_SOMETIMES,			/* one value, and now and then some of another range */
	SHAPE_RESTARTS,				/* rises, and now and then begins anew far below, as a second column of a key */
	SHAPE_UNEVEN,				/* sorted by one step, now and then by others */
	SHAPE_EXTREMES,				/* smallest and largest integers */
	SHAPE_DRIFT,				/* changes its nature as it goes */
	SHAPE_MOODS,				/* the same, suddenly and back again */
	/* floats */
	SHAPE_DECIMALS,
	SHAPE_DOUBLES,				/* NaN, infinities and -0 among them */
	/* items */
	SHAPE_TEXT_RANDOM,			/* random bytes, mixed lengths */
	SHAPE_TEXT_FIXED,			/* random bytes, one length */
	SHAPE_TEXT_FEW,				/* few strings, short and long */
	SHAPE_TEXT_PROSE,			/* compressible */
	SHAPE_TEXT_KEYS,			/* sorted */
	SHAPE_TEXT_LONG,			/* up to the limit */
	SHAPE_TEXT_EMPTY,
	SHAPE_TEXT_CODES,			/* few different characters, and now and then something else */
	SHAPE_TEXT_DRIFT,
	NUM_SHAPES
} UnitShape;

typedef struct UnitColumn
{
	RoseColumnDesc desc;
	UnitShape	shape;
	int			null_percent;
	bool		sorted;			/* values ascend, so that they can be searched */

	/* generator */
	int64		last;
	int64		parameter;
	uint64		salt;
	int			mood;

	/* rows made so far */
	int			nrows;
	int			capacity;
	Datum	   *values;
	bool	   *nulls;
} UnitColumn;

extern void unit_column_init(UnitColumn *column, int16 attlen, bool byval, char align,
							 bool is_float, UnitShape shape, int null_percent);
extern void unit_column_free(UnitColumn *column);

/* Make rows up to number n. */
extern void unit_column_fill(UnitColumn *column, int n);

/* Forget the first n rows. */
extern void unit_column_drop(UnitColumn *column, int n);

/* The order that sorted columns are in. */
extern int	unit_column_compare(Datum a, Datum b, void *column);

extern bool unit_column_equal(const UnitColumn *column, Datum a, Datum b);

extern const char *unit_shape_name(UnitShape shape);

/* Types to make columns of, and the shapes that suit them. */
typedef struct UnitType
{
	const char *name;
	int16		attlen;
	bool		byval;
	char		align;
	bool		is_float;
	UnitShape	first_shape;
	UnitShape	last_shape;
} UnitType;

#define UNIT_NUM_TYPES	11
#define UNIT_INT8		0		/* indexes of types that are used by themselves */
#define UNIT_FLOAT8		4
#define UNIT_TEXT		6

extern const UnitType unit_types[UNIT_NUM_TYPES];

/* Columns of random types and shapes. */
extern void unit_random_columns(UnitColumn *columns, int ncols);
extern void unit_free_columns(UnitColumn *columns, int ncols);

/* Append rows of the columns until the page is full or has max_rows; returns how many. */
extern int	unit_fill_page(RosePageBuilder *builder, UnitColumn *columns, int ncols,
						   int max_rows);

#endif							/* UNIT_ROWS_H */
