/*-------------------------------------------------------------------------
 *
 * rose_shed.h
 *	  Regions of a component that only its trimmed versions had.
 *
 * A trim says that a component's first versions are found elsewhere.  Their pages are
 * read by none but those who looked at the manifest before.  So their regions get another
 * owner, whose id is the component's and one, and which was retired with the switch of the
 * manifest: it lives as long as somebody may read there.
 *
 * The order is: find the regions, switch the manifest, hand the regions over.  A crash,
 * or an error, between the last two leaves them with the component, until that is
 * replaced as a whole.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SHED_H
#define ROSE_SHED_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

#include "store/rose_store.h"

typedef struct RoseShed
{
	BlockNumber base;			/* of the file, see rose_store_format.h */
	uint32		component;
	int			n;
	int			size;
	uint32	   *regions;		/* without neighbours that are the same; finished: ascending */
} RoseShed;

/*
 * begin: in the current memory context.  add: a leaf that is read no more.  finish: that
 * was all.  keep, then: blocks that are needed, whose regions stay; among them must be the
 * first leaf that is, and whatever else was reserved before that one.
 */
extern RoseShed *rose_shed_begin(Relation rel, uint32 component);
extern void rose_shed_add(RoseShed *shed, BlockNumber block);
extern void rose_shed_finish(RoseShed *shed);
extern void rose_shed_keep(RoseShed *shed, BlockNumber first, uint32 nblocks);

/* After the switch: the regions are not the component's any more. */
extern void rose_shed_hand_over(Relation rel, RoseStoreShared *store, const RoseShed *shed);

#endif							/* ROSE_SHED_H */
