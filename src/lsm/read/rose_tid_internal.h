/*-------------------------------------------------------------------------
 *
 * rose_tid_internal.h
 *	  What a transaction knows of the names of a table's versions, for the files rose_tid*.c.
 *
 * All of it is backend-local, in a memory context that is deleted at the end of the
 * top-level transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TID_INTERNAL_H
#define ROSE_TID_INTERNAL_H

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/read/rose_tid.h"

typedef struct TidSeqPair
{
	uint64		seq;
	uint64		ordinal;
} TidSeqPair;

/* A component met in this transaction, and the blocks that its rows are named by. */
typedef struct RoseTidRange
{
	RoseComponentEntryDisk entry;
	BlockNumber first_block;
	BlockNumber nblocks;
	RoseComponent *component;	/* opened on demand */
	const RoseSchema *schema;	/* that it was opened with */
	TidSeqPair *pairs;			/* sorted by seq, built on demand */
	uint64		npairs;
	uint64		pairs_min;		/* the least sequence number it covers */
	RoseComponentCursor *cursor;	/* to look for keys, made on demand ... */
	const RoseComponent *cursor_component;	/* ... for this handle */
} RoseTidRange;

/* What all who name versions alike must agree on. */
typedef struct RoseTidBase
{
	uint64		generation;		/* of the pin that protects it */
	uint32		newest_owner;	/* as of its manifest */
	BlockNumber first_block;
	int			n;
	struct
	{
		RoseComponentEntryDisk entry;
		bool		settled;	/* all versions are named by their place, else those
								 * without sequence number */
	}			components[ROSE_MAX_COMPONENTS];
} RoseTidBase;

typedef struct RoseTidMap
{
	RelFileLocator locator;		/* hash key */
	int			nranges;
	int			maxranges;
	RoseTidRange **ranges;		/* of components outside of the base */
	int			last;			/* range used last */
	BlockNumber next_block;
	uint64		salt;			/* see rose_tid_from_seq */
	bool		memory_used;	/* a TID by sequence number was given ... */
	uint64		seq_min,		/* ... and these bound them */
				seq_max;

	RoseTidBase *base;			/* NULL: not decided on yet */
	bool		shared;			/* others may have given names, too */
	RoseTidRange *base_ranges;	/* as base->components */
	uint64		base_max_seq;	/* greatest sequence number in a settled one */
} RoseTidMap;

extern RoseTidMap *rose_tid_map(RoseTree *tree, bool create);
extern MemoryContext rose_tid_context(void);	/* REQUIRES: there is a map */
extern RoseComponent *rose_tid_range_open(RoseTree *tree, RoseTidRange *range);

pg_noreturn extern void rose_tid_raise_no_room(void);

/* --- rose_tid_base.c --- */

/* The range of the base that has the block, or NULL. */
extern RoseTidRange *rose_tid_base_range(const RoseTidMap *map, BlockNumber block);

/* As rose_tid_first_number, in an exact statement. */
extern bool rose_tid_base_number(RoseTree *tree, const RoseComponentEntryDisk *component,
								 uint64 *number);

/* --- rose_tid_share.c --- */

/* A number that is different in other transactions, but for those that share our snapshot. */
extern uint64 rose_tid_salt(void);

/*
 * Agree with those that share our snapshot, or may do so later, upon the base: ours, or
 * the one that somebody has published before, which replaces it.  True: others may use
 * it.
 */
extern bool rose_tid_share_base(RoseTree *tree, RoseTidBase *base);
extern void rose_tid_share_end(void);

#endif							/* ROSE_TID_INTERNAL_H */
