/*-------------------------------------------------------------------------
 *
 * rose_key_round.h
 *	  Values that a key column is compared with, as values of the column's type.
 *
 * For operators whose right side is of another type (an int4 column compared with an
 * int8).  Rounding is monotone and leaves representable values alone: col >= v implies
 * col >= round(v).  Pure functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_ROUND_H
#define ROSE_KEY_ROUND_H

#include "postgres.h"

#include "util/rose_schema.h"

typedef enum RoseRounding
{
	ROSE_ROUND_EXACT,			/* the same value in the column's type */
	ROSE_ROUND_NEAR,			/* a neighbour; the condition must be checked too */
	ROSE_ROUND_BELOW,			/* less than every value of the column's type */
	ROSE_ROUND_ABOVE,			/* greater than every value */
	ROSE_ROUND_IMPOSSIBLE		/* unknown combination of types */
} RoseRounding;

/* subtype: of the value; InvalidOid = the column's. */
extern RoseRounding rose_round_value(const RoseKeyColumn *column, Oid subtype, Datum value,
									 Datum *result);

#endif							/* ROSE_KEY_ROUND_H */
