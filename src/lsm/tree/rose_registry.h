/*-------------------------------------------------------------------------
 *
 * rose_registry.h
 *	  Between rose_registry.c and rose_tree.c, and recovery between
 *	  rose_recover.c and rose_tree.c.  Not for other files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REGISTRY_H
#define ROSE_REGISTRY_H

#include "lsm/tree/rose_tree.h"

/* Was rose preloaded? */
extern bool rose_registry_available(void);

/*
 * Find or make the entry of a file; *incarnation tells which one it is.  May
 * evict others, and raises an error if none can go.  REQUIRES: a pin.
 */
extern RoseTreeShared *rose_registry_enter(RelFileLocator locator, Oid relid,
											uint64 *incarnation);

/*
 * Call back for each table of a database that is in use, with the registry locked:
 * the visitor takes its time in moments and no lock that comes before the registry's.
 */
typedef void (*RoseRegistryVisitor) (RoseTreeShared *shared, void *arg);
extern void rose_registry_visit(Oid dbid, RoseRegistryVisitor visitor, void *arg);

/* Is it still that entry? */
static inline bool
rose_registry_is_current(RoseTreeShared *shared, uint64 incarnation)
{
	return pg_atomic_read_u64(&shared->incarnation) == incarnation;
}

/*
 * Bring an entry that was never used since the server started to life:
 * rose_recover.c.  Does nothing if another process did.
 */
extern void rose_recover_table(RoseTree *tree);

#endif							/* ROSE_REGISTRY_H */
