/*-------------------------------------------------------------------------
 *
 * rose_node_decimal.h
 *	  Numerics as integers.
 *
 * The layout of a numeric's bytes is core's, and on its disks, so it does not change.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_DECIMAL_H
#define ROSE_NODE_DECIMAL_H

#include "postgres.h"

#include "compat/rose_compat_varatt.h"

/* A numeric's header, of two bytes, or of four. */
#define ROSE_NODE_NUMERIC_KIND				0xC000
#define ROSE_NODE_NUMERIC_NEGATIVE			0x4000
#define ROSE_NODE_NUMERIC_SHORT				0x8000
#define ROSE_NODE_NUMERIC_SPECIAL			0xC000
#define ROSE_NODE_NUMERIC_SCALE				0x3FFF
#define ROSE_NODE_NUMERIC_NAN				0xC000
#define ROSE_NODE_NUMERIC_INFINITY			0xD000
#define ROSE_NODE_NUMERIC_SHORT_NEGATIVE		0x2000
#define ROSE_NODE_NUMERIC_SHORT_SCALE		0x1F80
#define ROSE_NODE_NUMERIC_SHORT_SCALE_SHIFT	7
#define ROSE_NODE_NUMERIC_SHORT_WEIGHT_SIGN	0x0040
#define ROSE_NODE_NUMERIC_SHORT_WEIGHT		0x003F

/* Its digits are of this base, ... */
#define ROSE_NODE_NUMERIC_BASE				10000

/* ... and each is so many decimal ones. */
#define ROSE_NODE_NUMERIC_BASE_DIGITS		4

/* A value, and where its digits are. */
typedef struct RoseNodeNumeric
{
	uint16		header;
	bool		negative;
	int			scale;			/* digits that are shown behind the point */
	int			weight;			/* of the first digit */
	int			ndigits;
	const char *digits;
} RoseNodeNumeric;

static inline uint16
rose_node_decimal_word(const char *bytes)
{
	uint16		value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Of one that is neither compressed nor elsewhere. */
static inline void
rose_node_decimal_read(const struct varlena *value, RoseNodeNumeric *number)
{
	const char *bytes = VARDATA_ANY(value);
	Size		size = VARSIZE_ANY_EXHDR(value);
	uint16		header = rose_node_decimal_word(bytes);

	number->header = header;
	if (header & ROSE_NODE_NUMERIC_SHORT)
	{
		number->negative = (header & ROSE_NODE_NUMERIC_SHORT_NEGATIVE) != 0;
		number->scale = (header & ROSE_NODE_NUMERIC_SHORT_SCALE) >> ROSE_NODE_NUMERIC_SHORT_SCALE_SHIFT;
		number->weight = (header & ROSE_NODE_NUMERIC_SHORT_WEIGHT) - (header & ROSE_NODE_NUMERIC_SHORT_WEIGHT_SIGN);
		number->digits = bytes + sizeof(uint16);
		number->ndigits = (int) ((size - sizeof(uint16)) / sizeof(int16));
	}
	else
	{
		number->negative = (header & ROSE_NODE_NUMERIC_KIND) == ROSE_NODE_NUMERIC_NEGATIVE;
		number->scale = header & ROSE_NODE_NUMERIC_SCALE;
		number->weight = (int16) rose_node_decimal_word(bytes + sizeof(uint16));
		number->digits = bytes + 2 * sizeof(uint16);
		number->ndigits = (int) ((size - 2 * sizeof(uint16)) / sizeof(int16));
	}
}

/* Most digits behind the point of what is an integer here. */
#define ROSE_NODE_DECIMAL_MAX_SCALE		16

/* What constants are taken to be that are larger: no value is. */
#define ROSE_NODE_DECIMAL_FAR			(INT64CONST(1) << 62)

extern const int64 rose_node_decimal_power[ROSE_NODE_DECIMAL_MAX_SCALE + 1];

/* What integers stand for that have the place of numerics. */
typedef struct RoseNodeDecimals
{
	int			scale;			/* they count parts of 10 to this power */
	const uint8 *scales;		/* digits behind the point that each shows; NULL: all show scale */
	uint64		bound;			/* none is farther from 0; less than ROSE_NODE_DECIMAL_FAR */
} RoseNodeDecimals;

static inline int
rose_node_decimal_shown(const RoseNodeDecimals *decimals, int i)
{
	return decimals->scales != NULL ? decimals->scales[i] : decimals->scale;
}

/*
 * The integers of numerics, all of one scale; nulls (NULL: there are none) says which are NULL, of which they are 0.  scales has room for as many.
 * False: there is one that is none, and values are anything.  They are less than ROSE_NODE_DECIMAL_FAR, as is what kernels make of them.
 */
extern bool rose_node_decimal_make(const Datum *datums, const bool *nulls, int n, int64 *values, uint8 *scales,
								   RoseNodeDecimals *decimals);

/* The same of values of which none comes twice. */
extern bool rose_node_decimal_make_distinct(const Datum *datums, int n, int64 *values, uint8 *scales, RoseNodeDecimals *decimals);

/* Most entries of a dictionary whose values are made integers. */
#define ROSE_NODE_DECIMAL_ENTRIES		1024

/* The same of n values that are entries of a dictionary, of which codes[i] is the number; integers are made of the entries alone. */
extern bool rose_node_decimal_make_coded(const Datum *entries, int nentries, const uint16 *codes, int n, int64 *values, uint8 *scales,
										 RoseNodeDecimals *decimals);

/* The greatest integer of this scale that is no greater than the numeric, any one; *exact: it is equal. */
extern int64 rose_node_decimal_floor(Datum value, int scale, bool *exact);

#endif							/* ROSE_NODE_DECIMAL_H */
