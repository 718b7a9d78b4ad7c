/*-------------------------------------------------------------------------
 *
 * rose_compactor.h
 *	  Writes a component from a sorted stream of committed versions, leaving
 *	  out those that nobody needs.
 *
 * The common half of spills and merges: rose_gc decides, PARTIALs are folded,
 * the component builder writes.  The builder is made when the first version is
 * kept, so nothing is left behind when none is.  Backend-local; may outlive a
 * transaction with ROSE_BUILD_KEEP.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPACTOR_H
#define ROSE_COMPACTOR_H

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/component/rose_component.h"
#include "lsm/snapshot/rose_horizon.h"

typedef struct RoseCompactor RoseCompactor;

/* The horizon has to stay until it is freed. */
extern RoseCompactor *rose_compactor_create(Relation rel, RoseStoreShared *store,
											const RoseSchema *schema, uint64 expected_rows,
											int options, const RoseHorizon *horizon, bool bottom,
											MemoryContext context);

/*
 * All versions are at the bottom, older than the horizon, and nobody needs to know their
 * sequence numbers and transactions: store ROSE_SEQ_OLDEST and this xid.  Before the
 * first.
 */
extern void rose_compactor_forget(RoseCompactor *compactor, FullTransactionId xid);

/*
 * The next version, in (key, sequence descending) order; equal sequences are
 * dropped. Its subxid and cid are not stored.
 */
extern void rose_compactor_add(RoseCompactor *compactor, const RoseRow *row);

/*
 * Many rows of different keys, the first of which is new: of each the newest version,
 * which every snapshot sees, as they do all older ones that the caller has left out;
 * tokens is greater than those of their xids that are greater than what is kept, or 0.
 */
extern void rose_compactor_add_batch(RoseCompactor *compactor, const RoseRowBatch *batch,
									 uint64 tokens);

/* Every snapshot sees what transactions before this one have committed. */
extern FullTransactionId rose_compactor_oldest(const RoseCompactor *compactor);

/* A version that was rolled back, or that nobody wants, and is left out.  An output does not end between it and others of its key. */
extern void rose_compactor_pass_over(RoseCompactor *compactor, const Datum *key);

/* Is it another key than that of the version before? */
extern bool rose_compactor_is_new_key(const RoseCompactor *compactor, const Datum *key);

/* No more versions.  False if nothing was kept; else the component is complete (see
 * rose_component_builder_finish). */
extern bool rose_compactor_finish(RoseCompactor *compactor, RoseComponentEntryDisk *entry);

/* PARTIALs that were left out so far, because there is no row that they are a part of. */
extern uint64 rose_compactor_missing(const RoseCompactor *compactor);

/* After publishing or giving up. */
extern void rose_compactor_free(RoseCompactor *compactor);
extern void rose_compactor_rebind(RoseCompactor *compactor, Relation rel);

#endif							/* ROSE_COMPACTOR_H */
