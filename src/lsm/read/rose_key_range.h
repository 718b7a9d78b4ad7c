/*-------------------------------------------------------------------------
 *
 * rose_key_range.h
 *	  Which keys a scan is to return.
 *
 * Bounds are on prefixes of the key, in the order of the key's operator classes.
 *
 * Backend-local; Datums belong to whoever made the range.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_RANGE_H
#define ROSE_KEY_RANGE_H

#include "postgres.h"

/*
 * Bounds on key prefixes: lower/upper over the first nlower/nupper key columns;
 * 0 = unbounded.
 */
typedef struct RoseKeyRange
{
	int			nlower;
	Datum		lower[INDEX_MAX_KEYS];
	bool		lower_inclusive;
	int			nupper;
	Datum		upper[INDEX_MAX_KEYS];
	bool		upper_inclusive;

	/*
	 * If not 0: all keys have so many first columns alike, which decide their hash, so that
	 * filters can be asked.
	 */
	int			nhashed;
	uint64		hash;			/* rose_key_hash, then */
} RoseKeyRange;

#endif							/* ROSE_KEY_RANGE_H */
