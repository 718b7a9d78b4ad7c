/*-------------------------------------------------------------------------
 *
 * rose_index_set.h
 *	  The secondary indexes of a table that its writers keep up.
 *
 * Backend-local; kept with the table's handle, and made anew when the catalog's entry of
 * the table has changed, as it does when an index comes or goes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_SET_H
#define ROSE_INDEX_SET_H

#include "postgres.h"

#include "lsm/tree/rose_entry.h"

#define ROSE_MAX_INDEXES		64	/* of a table */

typedef struct RoseIndexTree
{
	Oid			indexid;
	RoseEntryShape shape;
} RoseIndexTree;

typedef struct RoseIndexSet
{
	int			n;				/* in the order of their OIDs */
	AttrNumber	last_source;	/* no column of the table behind this one is read by any of them */
	RoseIndexTree trees[FLEXIBLE_ARRAY_MEMBER];
} RoseIndexSet;

#endif							/* ROSE_INDEX_SET_H */
