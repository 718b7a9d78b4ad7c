/*-------------------------------------------------------------------------
 *
 * rose_registry.h
 *	  Between rose_registry.c and rose_tree.c, and recovery between
 *	  rose_recover.c and rose_tree.c.  Not for other files.
 *
 * How a tree is opened, for all others, is in rose_tree.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REGISTRY_H
#define ROSE_REGISTRY_H

#include "lsm/tree/rose_tree.h"

/* Was rose preloaded? */
extern bool rose_registry_available(void);

/*
 * Find or make the entry of a file; *incarnation tells which one it is, and *life, of the
 * same value as long as it is there, whether it still is.  May evict others, and raises
 * an error if none can go.  REQUIRES: a pin.
 */
extern RoseTreeShared *rose_registry_enter(RelFileLocator locator, Oid relid,
										   uint64 *incarnation, pg_atomic_uint64 **life);

/* All but its place and its incarnation (rose_registry_entry.c). */
extern void rose_registry_entry_init(RoseTreeShared *shared, RelFileLocator name, Oid relid,
									 int claims_tranche);

/*
 * Call back for each table of a database that is in use, with the registry locked:
 * the visitor takes its time in moments and no lock that comes before the registry's.
 */
typedef void (*RoseRegistryVisitor) (RoseTreeShared *shared, void *arg);
extern void rose_registry_visit(Oid dbid, RoseRegistryVisitor visitor, void *arg);

/* Is the entry that the handle is bound to still there?  Before that its shared state must not be touched. */
static inline bool
rose_registry_is_bound(const RoseTree *tree)
{
	return tree->life != NULL && pg_atomic_read_u64(tree->life) == tree->incarnation;
}

/*
 * Bring an entry that was never used since the server started to life:
 * rose_recover.c.  Does nothing if another process did.
 */
extern void rose_recover_table(RoseTree *tree);

#endif							/* ROSE_REGISTRY_H */
