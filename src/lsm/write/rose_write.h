/*-------------------------------------------------------------------------
 *
 * rose_write.h
 *	  Writing versions: the primitives that inserts, changes, row locks and blind
 *	  writes use.
 *
 * For this folder only; others write through rose_insert.h, rose_modify.h, rose_lock_row.h, rose_blind.h
 * and rose_bulkload.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_H
#define ROSE_WRITE_H

#include "postgres.h"

#include "lsm/read/rose_key_reader.h"
#include "lsm/write/rose_new_version.h"

/*
 * Link versions into C0 and log them (log: to the tail; locks never are), or write them
 * past memory.  look: when the writer looked at the keys; NULL if they need no look,
 * because they are new row ids.
 *
 * Nothing is written if C0 has no room: let go of all locks, call rose_make_room and
 * start over.  Nor if somebody has written one of the keys since the look, or may have:
 * let go of all locks and look again.  The same if writers have to keep up other indexes
 * than those of this generation (RoseEntries): then open these first.
 */
extern RoseMemPrepared rose_write_versions(RoseTree *tree, RoseNewVersion *versions, int n,
										   RoseC0Look *look, uint64 generation, bool log);

/*
 * As many as can be, in their order; returns how many, and in *result why not the next
 * one.  No locks among them.  hints: where they go in C0, or NULL.
 */
extern int	rose_write_some_versions(RoseTree *tree, RoseNewVersion *versions,
									 const RoseMemSpot *hints, int n, RoseC0Look *look,
									 uint64 generation, RoseMemPrepared *result);

/*
 * The same for entries of an index, which have their numbers from the table already; in
 * any order.  They need no look: whoever writes an entry has written the row that it is
 * of.  CHANGED: try again.
 */
extern int	rose_write_entries(RoseTree *index, RoseNewVersion *entries, int n,
							   RoseMemPrepared *result);

/*
 * The same for blind writes, which are logged if that is the way in which the index is fed, in the order of entries of one
 * key; returns how many there was room for.  rules: what the transaction says of its own versions.
 */
extern int	rose_write_blind_entries(RoseTree *index, RoseNewVersion *entries, int n,
									 const RoseOwnRules *rules);

/* The most rows, and entries, that are brought into the processor's cache together. */
#define ROSE_WRITE_WARM	64

/*
 * Rows of blind writes, up to ROSE_WRITE_WARM, that are logged.  *nagain counts keys that come again.  Returns how many were
 * written, and in *result why not the next one.  ended: all transactions before this one have; CHANGED: one that may
 * go on has written to the table, and keys have to be looked at (rose_blind_beside.h).
 */
extern int	rose_write_blind_rows(RoseTree *tree, RoseNewVersion *rows, int n, uint64 ended, const RoseOwnRules *rules,
								  int *nagain, RoseMemPrepared *result);

/* The same after a look, all or none, and row locks among them. */
extern RoseMemPrepared rose_write_blind_beside(RoseTree *tree, RoseNewVersion *versions, int n, RoseC0Look *look,
											   const RoseOwnRules *rules);

/* A writer is about to look at keys that it wants to write. */
static inline void
rose_write_look(RoseTree *tree, RoseC0Look *look)
{
	rose_c0_look(&tree->shared->c0, look);
}

/*
 * Make the entry of an ended transaction's lock this one's.  False if it cannot be:
 * its memtable is not the active one any more, or the key was written since the look.
 * REQUIRES the key's partition lock.
 */
extern bool rose_write_reuse_lock(RoseTree *tree, const RoseMemPlace *place,
								  RoseNewVersion *lock, RoseC0Look *look, bool log);


#endif							/* ROSE_WRITE_H */
