/*-------------------------------------------------------------------------
 *
 * rose_store_check.h
 *	  Structural problems of metapage, region maps and tail log.
 *
 * For rose.check.  What is in components is checked by lsm/component.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_STORE_CHECK_H
#define ROSE_STORE_CHECK_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

#include "store/rose_store.h"

/*
 * Structural problems of metapage, maps and tails; for rose.check.  The caller
 * holds a pin, or what a merge replaces meanwhile is reported.
 */
typedef void (*RoseProblemCallback) (void *arg, BlockNumber block, const char *message);
extern void rose_store_check(Relation rel, RoseStoreShared *store,
							 RoseProblemCallback report, void *arg);

/*
 * Is a block that a component has in its versions from this one on in a region of it?
 * What it has shed since the caller looked at the manifest is its shed owner's.
 */
extern bool rose_store_check_owner(Relation rel, uint32 id, uint64 first_ordinal, BlockNumber block);

#endif							/* ROSE_STORE_CHECK_H */
