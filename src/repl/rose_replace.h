/*-------------------------------------------------------------------------
 *
 * rose_replace.h
 *	  All rows of a table are replaced, by one switch.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REPLACE_H
#define ROSE_REPLACE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/relcache.h"

/* A table, or a partition, and what has its new rows. */
typedef struct RoseReplacement
{
	Oid			relid;
	Oid			made_relid;
	Relation	made;			/* open, and nobody else's to see; load rows into its tree */
} RoseReplacement;

/* REQUIRES: RowExclusiveLock on the table, or more, until the transaction ends. */
extern RoseReplacement *rose_replace_begin(Relation rel);

/*
 * Wait until nobody else uses the tables of this one, itself and its partitions, of which there must be these still; then
 * nobody else can until the transaction ends.
 */
extern void rose_replace_lock(Oid relid, List *expected);

/* The new rows take the place of the old ones when the transaction commits.  REQUIRES: the above. */
extern void rose_replace_switch(RoseReplacement *replacement);

#endif							/* ROSE_REPLACE_H */
