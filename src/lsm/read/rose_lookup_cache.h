/*-------------------------------------------------------------------------
 *
 * rose_lookup_cache.h
 *	  Lookups and readers of keys that are kept.
 *
 * Not to be freed.  Others use them too: take what they return before anything else may
 * look up a row of the table.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOOKUP_CACHE_H
#define ROSE_LOOKUP_CACHE_H

#include "postgres.h"

#include "lsm/read/rose_key_reader.h"
#include "lsm/read/rose_lookup.h"

extern RoseLookup *rose_lookup_cached(RoseTree *tree);

/* For writes, which look at a key while they have a row of the lookup. */
extern RoseKeyReader *rose_lookup_cached_reader(RoseTree *tree);

/* It has no use for what it has met any more: its view, and its places in components. */
extern void rose_lookup_cache_forget_reader(RoseTree *tree);

/* Before pins are released and handles rest.  Raises no error. */
extern void rose_lookup_cache_end_transaction(bool committed);

#endif							/* ROSE_LOOKUP_CACHE_H */
