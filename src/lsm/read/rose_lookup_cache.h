/*-------------------------------------------------------------------------
 *
 * rose_lookup_cache.h
 *	  Lookups, readers of keys and cursors that are kept.
 *
 * Lookups and readers are not to be freed.  Others use them too: take what they return before anything else may
 * look up a row of the table.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOOKUP_CACHE_H
#define ROSE_LOOKUP_CACHE_H

#include "postgres.h"

#include "lsm/component/rose_rows.h"
#include "lsm/read/rose_key_reader.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_many.h"

extern RoseLookup *rose_lookup_cached(RoseTree *tree);

/* For writes, which look at a key while they have a row of the lookup. */
extern RoseKeyReader *rose_lookup_cached_reader(RoseTree *tree);

/*
 * A cursor on a component that a scan before has left, which is the caller's, in this context, until he gives it
 * back or its memory goes; NULL: there is none.  And whatever cursor of his he has no use for.
 */
extern RoseComponentCursor *rose_lookup_cache_take_cursor(RoseTree *tree, RoseComponent *component,
														  MemoryContext context);
extern void rose_lookup_cache_give_cursor(RoseTree *tree, RoseComponentCursor *cursor);

/* The same of rows of a memtable's source, which nobody else holds. */
extern RoseRows *rose_lookup_cache_take_rows(RoseTree *tree, MemoryContext context);
extern void rose_lookup_cache_give_rows(RoseTree *tree, RoseRows *rows);

/* The same of lookups of many keys, but that there is always one: else it is made. */
extern RoseLookupMany *rose_lookup_cache_take_many(RoseTree *tree, MemoryContext context);
extern void rose_lookup_cache_give_many(RoseTree *tree, RoseLookupMany *many);

/* It has no use for what it has met any more: its view, and its places in components. */
extern void rose_lookup_cache_forget_reader(RoseTree *tree);

/* Before pins are released and handles rest.  Raises no error. */
extern void rose_lookup_cache_end_transaction(bool committed);

#endif							/* ROSE_LOOKUP_CACHE_H */
