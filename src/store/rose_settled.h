/*-------------------------------------------------------------------------
 *
 * rose_settled.h
 *	  Settled components: in no memtable any more, and committed, since a generation.
 *
 * A transaction whose pin is newer than that generation has not met their versions
 * anywhere else, so merges may forget what tells them apart.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SETTLED_H
#define ROSE_SETTLED_H

#include "postgres.h"

#include "utils/rel.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"

#define ROSE_UNSETTLED			((uint64) 0)
#define ROSE_SETTLED_BEFORE_ALL ((uint64) 1)	/* no pin is that old */

/* The generation, or ROSE_UNSETTLED. */
extern uint64 rose_settled_since(RoseStoreShared *store, uint32 id);

/* The manifest, and that of each of its components. */
extern void rose_settled_read_manifest(Relation rel, RoseStoreShared *store,
									   RoseManifest *manifest, uint64 *settled);

/*
 * No memtable has a version that is in a live component: they are settled from now on,
 * but for private runs.  REQUIRES: ROSE_LOCK_SPILL, so that it stays so meanwhile.
 */
extern void rose_settled_all(Relation rel, RoseStoreShared *store);

#endif							/* ROSE_SETTLED_H */
