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
} RoseKeyRange;

#endif							/* ROSE_KEY_RANGE_H */
