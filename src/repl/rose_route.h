/*-------------------------------------------------------------------------
 *
 * rose_route.h
 *	  From a row of a partitioned table to the partition that takes it.
 *
 * Columns are those of the partitioned table where nothing else is said: it is the "root" here,
 * though it may be a partition itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ROUTE_H
#define ROSE_ROUTE_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

typedef struct RoseRoute RoseRoute;

/* A partition that has rows; for as long as its route is there. */
typedef struct RoseRoutePart
{
	Oid			relid;
	Relation	rel;			/* open and locked; what kind of table it is was not looked at */
	int			natts;
	const AttrNumber *from;		/* for its column i + 1 the root's, 0: none, it was dropped; NULL: columns are the same */
	const Bitmapset *asked;		/* columns of the root that lead to it */
	bool		in_bounds;		/* its constraint holds for each row that is found to be its own */
	void	   *owner;			/* for the caller; NULL at first */
} RoseRoutePart;

/* Locks a partition in RowExclusiveLock. */
typedef void (*RoseRouteLock) (Oid relid);

/*
 * For as long as the root, which is locked in RowExclusiveLock, stays open.  Partitions are opened when a
 * row comes that they take.
 */
extern RoseRoute *rose_route_create(Relation root, RoseRouteLock lock, MemoryContext parent);
extern void rose_route_free(RoseRoute *route);
extern MemoryContext rose_route_context(const RoseRoute *route);

/* All that are open. */
extern List *rose_route_parts(const RoseRoute *route);

/*
 * The one for this row, or error if there is none.  verb: what is to be done, for an error if the row is not
 * known as a whole, and columns are asked for that are not among the known ones; NULL: all are known.
 */
extern RoseRoutePart *rose_route_find(RoseRoute *route, const Datum *values, const bool *nulls,
									  const Bitmapset *known, const char *verb);

/* A row in the partition's own columns.  REQUIRES: part->from. */
extern void rose_route_convert(const RoseRoutePart *part, const Datum *values, const bool *nulls,
							   Datum *own_values, bool *own_nulls);

/* The root's column for one of the partition's, or, without a partition, of its own; counted from 0, -1: none. */
static inline int
rose_route_column(const RoseRoutePart *part, int i)
{
	return part == NULL || part->from == NULL ? i : part->from[i] - 1;
}

#endif							/* ROSE_ROUTE_H */
