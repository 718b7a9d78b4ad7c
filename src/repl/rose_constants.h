/*-------------------------------------------------------------------------
 *
 * rose_constants.h
 *	  Local columns that have one value in all rows of a subscription.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CONSTANTS_H
#define ROSE_CONSTANTS_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

typedef struct RoseConstant
{
	AttrNumber	attnum;
	Datum		value;
} RoseConstant;

typedef struct RoseConstants
{
	int			n;
	RoseConstant *columns;
	Bitmapset  *attnums;		/* of all of them */
} RoseConstants;

/* The option's text as it is kept, or NULL if there is nothing in it; error if it is none. */
extern char *rose_constants_check(const char *json);

/*
 * Those of a table, in the current context, for as long as it is not altered; json may be NULL.  Error if
 * it has not the columns, or they cannot have the values.
 */
extern RoseConstants *rose_constants_create(Relation rel, const char *json);

/* The columns for which there are constants, in a row of the table. */
extern void rose_constants_fill(const RoseConstants *constants, Datum *values, bool *nulls);

/* What follows FROM, in a query for the rows of the table that have them. */
extern char *rose_constants_source(const RoseConstants *constants, Relation rel, const char *source);

/*
 * Error if one of the tables (open Relations) has a row with other values, which would be removed with those of the
 * subscription.  json may be NULL.  at: called (if it is not NULL) with each before it is looked at.  REQUIRES: nobody
 * writes to them.
 */
extern void rose_constants_require_own(List *rels, const char *json, void (*at) (Relation rel), void (*breathe) (void));

#endif							/* ROSE_CONSTANTS_H */
