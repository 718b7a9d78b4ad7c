/*-------------------------------------------------------------------------
 *
 * rose_region_owner.h
 *	  Owners of regions: ids, and who builds one.
 *
 * A component or a tail segment owns regions of the file.  Until the manifest or the tail
 * list names it, it lives because shared memory lists it as being built.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REGION_OWNER_H
#define ROSE_REGION_OWNER_H

#include "postgres.h"

#include "utils/rel.h"

#include "store/rose_store.h"

/*
 * Reserve a new owner id, or two that follow each other, and list the first one as being
 * built: a component has a second one for what it sheds (rose_shed.h).  It stays listed until
 * rose_region_owner_end, the end of the process or, unless keep is set (merges), the
 * abort of the (sub)transaction or the end of the top-level one.
 */
extern uint32 rose_region_owner_begin(Relation rel, RoseStoreShared *store, int nids, bool keep);

/* It is in the manifest now, or it is given up.  Does nothing if it is not listed. */
extern void rose_region_owner_end(RoseStoreShared *store, uint32 owner);

/*
 * This process must not touch the shared state of that file any more: it is
 * gone, or about to go.  The registry calls it when it drops an entry, a merge
 * when it finds that its table has another file now.  rose_region_owner_end for owners
 * of the file does nothing afterwards.
 */
extern void rose_region_owner_forget(RelFileLocator locator);

#endif							/* ROSE_REGION_OWNER_H */
