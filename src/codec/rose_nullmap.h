/*-------------------------------------------------------------------------
 *
 * rose_nullmap.h
 *	  Which rows of a column are NULL.
 *
 * Codecs store non-NULL values without gaps; the null map translates the slot
 * of a row into the number of its value.  It precedes the codec's data in the
 * segment, in the smallest of these forms:
 *
 *	NONE	nothing is NULL; no bytes
 *	ALL		everything is NULL; no bytes, and no codec data either
 *	NULLS	uint16 n, uint16 slot[n]: the slots that are NULL
 *	VALUES	uint16 n, uint16 slot[n]: the slots that are not
 *	BITMAP	uint16 nnulls, uint16 rank[nrows / 512, rounded up], bits: set for
 *			NULL; rank[k] is the number of values before slot 512 k
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NULLMAP_H
#define ROSE_NULLMAP_H

#include "postgres.h"

/* Embedded on disk, in the low bits of a directory entry's flags. */
typedef enum RoseNullForm
{
	ROSE_NULLS_NONE = 0,
	ROSE_NULLS_ALL = 1,
	ROSE_NULLS_NULLS = 2,
	ROSE_NULLS_VALUES = 3,
	ROSE_NULLS_BITMAP = 4
} RoseNullForm;

#define ROSE_NULL_FORM_MASK		0x07

/* The most by which one more row can raise rose_nullmap_size(), in bits. */
#define ROSE_NULLMAP_ROW_BITS	32

typedef struct RoseNullMap
{
	RoseNullForm form;
	int			nrows;
	int			nvalues;
	int			nslots;			/* NULLS, VALUES */
	const char *slots;
	const char *ranks;			/* BITMAP */
	const char *bits;
} RoseNullMap;

/* The form that takes least for these numbers, and the bytes it takes. */
extern RoseNullForm rose_nullmap_form(int nrows, int nnulls);
extern int	rose_nullmap_size(int nrows, int nnulls);

/*
 * Write the map; isnull is one bit a row, low bits first (unused for NONE and ALL).
 * Returns the position after it.
 */
extern char *rose_nullmap_write(char *out, const uint8 *isnull, int nrows, int nnulls);

/*
 * Parse a map at p; *next is set to what follows it.  Returns NULL, or what is wrong.
 */
extern const char *rose_nullmap_open(RoseNullMap *map, RoseNullForm form, int nrows,
									 const char *p, const char *end, const char **next);

/*
 * The number of the value in a slot, or -1 if it is NULL.  On a bad page the
 * number may be as large as nrows: check it against nvalues.
 */
extern int	rose_nullmap_rank(const RoseNullMap *map, int slot);

/* Set nulls[0 .. n) for slots [from, from + n); returns how many are not NULL. */
extern int	rose_nullmap_decode(const RoseNullMap *map, int from, int n, bool *nulls);

/* Everything that open leaves unchecked.  Returns NULL, or what is wrong. */
extern const char *rose_nullmap_check(const RoseNullMap *map);

#endif							/* ROSE_NULLMAP_H */
