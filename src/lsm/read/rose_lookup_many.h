/*-------------------------------------------------------------------------
 *
 * rose_lookup_many.h
 *	  Lookups of many keys together, in any order.
 *
 * For scans of secondary indexes, which know the keys of the rows that come next.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOOKUP_MANY_H
#define ROSE_LOOKUP_MANY_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "lsm/component/rose_row.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_wanted.h"

typedef struct RoseLookupMany RoseLookupMany;

/* In a child of the context.  For one transaction at most, but for who keeps it (rose_lookup_cache.h). */
extern RoseLookupMany *rose_lookup_many_create(RoseTree *tree, MemoryContext context);
extern void rose_lookup_many_free(RoseLookupMany *many);

/*
 * For who keeps it: is it good for a tree with this schema?  Forget all but the ways down components, and be a child
 * of another context.  Does it take no more memory than so much?
 */
extern bool rose_lookup_many_is_for(const RoseLookupMany *many, const RoseSchema *schema);
extern void rose_lookup_many_pass_on(RoseLookupMany *many, MemoryContext context);
extern bool rose_lookup_many_may_rest(RoseLookupMany *many, Size bytes);

/* As many keys are worth being looked up together as this, at most. */
extern int	rose_lookup_many_max(const RoseLookupMany *many);

/*
 * Begin anew, with room for n keys; add them; look them up with an MVCC snapshot that
 * need not report what it reads (rose_predicate_is_needed).  Numbers of keys are from 0, as
 * they were added.  Returns how many rows were found.
 */
extern void rose_lookup_many_begin(RoseLookupMany *many, int n);

/* From the next begin on, nobody asks for others than these columns of rows; NULL: anybody may ask for any.  It stays where it is. */
extern void rose_lookup_many_want(RoseLookupMany *many, const RoseWanted *wanted);
extern void rose_lookup_many_add(RoseLookupMany *many, const Datum *key);
extern int	rose_lookup_many_run(RoseLookupMany *many, Snapshot snapshot);

/* Nobody wants the rows any more, but for who holds them; what they took is free. */
extern void rose_lookup_many_end(RoseLookupMany *many);

/* Lives until the next begin, or the end. */
extern const Datum *rose_lookup_many_key(const RoseLookupMany *many, int i);

/*
 * The row of key i, and its TID.  NULL: it was not found this way, which says nothing; it
 * is rose_lookup_get's.  The row is valid until the next call; its rows, until they are let go of.
 */
extern const RoseRow *rose_lookup_many_row(RoseLookupMany *many, int i, ItemPointer tid);

#endif							/* ROSE_LOOKUP_MANY_H */
