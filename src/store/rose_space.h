/*-------------------------------------------------------------------------
 *
 * rose_space.h
 *	  What the blocks of a table's file are used for, and giving back its free end.
 *
 * For statistics and VACUUM.  Free regions inside the file stay there for the next owner.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SPACE_H
#define ROSE_SPACE_H

#include "postgres.h"

#include "utils/rel.h"

#include "store/rose_store.h"

/* What the blocks of a file are used for (store/rose_space.c). */
typedef enum RoseSpaceUse
{
	ROSE_SPACE_FREE = 0,
	ROSE_SPACE_RUNS,			/* level 0, private and pending ones included */
	ROSE_SPACE_C1,
	ROSE_SPACE_C2,
	ROSE_SPACE_TAIL,			/* tail log */
	ROSE_SPACE_BUILDING,		/* outputs of merges and spills under way */
	ROSE_SPACE_RETIRED,			/* replaced, but a transaction may still read it */
	ROSE_SPACE_FIXED			/* metapage and region maps */
} RoseSpaceUse;
#define ROSE_SPACE_USES		(ROSE_SPACE_FIXED + 1)

typedef struct RoseSpace
{
	uint64		blocks[ROSE_SPACE_USES];	/* whole regions, but for FIXED */
	uint64		file_blocks;
	uint64		end_free;		/* blocks behind the last one in use */
} RoseSpace;

/* Reads the region maps; a moment's picture. */
extern void rose_space_measure(Relation rel, RoseStoreShared *store, RoseSpace *space);

/*
 * Give free blocks at the end of the file back to the file system, if there are at least
 * so many and nobody else uses the table at the moment.  The caller has the table locked
 * in some mode.
 */
extern void rose_space_give_back(Relation rel, RoseStoreShared *store, uint64 least);

/* All behind the metapage, of a temporary table whose manifest is empty and that nobody reads. */
extern void rose_space_cut_all(Relation rel, RoseStoreShared *store);

#endif							/* ROSE_SPACE_H */
