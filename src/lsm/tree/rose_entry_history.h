/*-------------------------------------------------------------------------
 *
 * rose_entry_history.h
 *	  What all versions of one row write to an index that is made after them.
 *
 * Pure functions; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ENTRY_HISTORY_H
#define ROSE_ENTRY_HISTORY_H

#include "postgres.h"

#include "lsm/tree/rose_entry.h"

/* A version of the row, of those that are not aborted. */
typedef struct RoseEntryVersion
{
	RoseEntry	entry;			/* E(v) */
	bool		own;			/* of the transaction that makes the index; others are committed */
	bool		seen;			/* by all snapshots of that transaction; of own ones nobody asks */
} RoseEntryVersion;

/* With the stamps of version i: put the entry, or write a tombstone of its key. */
typedef void (*RoseEntryWrite) (void *arg, int i, bool tombstone, const RoseEntry *entry);

/*
 * versions: of one key of the table, oldest first; own ones are the newest.  Calls write
 * in their order, for no key twice with the same stamps.
 */
extern void rose_entry_history_write(const RoseEntryShape *shape, const RoseSchema *schema,
									 const RoseEntryVersion *versions, int n,
									 RoseEntryWrite write, void *arg);

#endif							/* ROSE_ENTRY_HISTORY_H */
