/*-------------------------------------------------------------------------
 *
 * rose_lookup.h
 *	  Point lookups: the row of a key, and the version that a TID names.
 *
 * What a lookup returns lives until its next call.  State is of this backend; it takes
 * the locks that a reader takes (rose_key_reader.h), and lets go of them before it
 * returns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOOKUP_H
#define ROSE_LOOKUP_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "lsm/tree/rose_tree.h"

/* Newest visible version of one whole key; NULL if none. context: where the result lives
 * until the next call with the same lookup. */
typedef struct RoseLookup RoseLookup;
extern RoseLookup *rose_lookup_create(RoseTree *tree);
extern const RoseRow *rose_lookup_get(RoseLookup *lookup, Snapshot snapshot,
									  const Datum *key);
extern void rose_lookup_tid(RoseLookup *lookup, ItemPointer tid);
extern void rose_lookup_free(RoseLookup *lookup);

/*
 * The transaction ends, and the lookup may be used in others: lets go of what is of this
 * one.  False: somebody has rows of it.  Raises no error.
 */
extern bool rose_lookup_rest(RoseLookup *lookup);

/*
 * TIDs name a version for the rest of the top-level transaction, in this backend.  fetch:
 * the version itself, if the snapshot sees it (SnapshotAny: always); false when it does
 * not or the TID is not known.  all_dead may be NULL.
 */
extern const RoseRow *rose_lookup_fetch_tid(RoseLookup *lookup, const ItemPointerData *tid,
											Snapshot snapshot);

/*
 * Let *tid name the newest version of its row that the snapshot sees, under
 * whatever key; unchanged if there is no newer one or the row was deleted.
 */
extern void rose_lookup_latest_tid(RoseLookup *lookup, Snapshot snapshot, ItemPointer tid);
extern bool rose_tid_known(RoseTree *tree, ItemPointer tid);

#endif							/* ROSE_LOOKUP_H */
