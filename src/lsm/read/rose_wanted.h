/*-------------------------------------------------------------------------
 *
 * rose_wanted.h
 *	  Which columns of rows somebody reads, where others before them are not read.
 *
 * Made by who knows (tableam/rose_slot_wanted.c), passed down to where rows are found, so that what
 * nobody reads is not decoded.  Where that is not known, rows have all of their first columns, as
 * many as were asked for.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WANTED_H
#define ROSE_WANTED_H

#include "postgres.h"

#include "access/attnum.h"

typedef struct RoseWanted
{
	int			n;				/* not 0 */
	AttrNumber	last;
	AttrNumber	attnos[FLEXIBLE_ARRAY_MEMBER];	/* ascending, up to last */
} RoseWanted;

#endif							/* ROSE_WANTED_H */
