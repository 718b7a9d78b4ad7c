/*-------------------------------------------------------------------------
 *
 * rose_epoch_runs.h
 *	  Runs of a subscription's epoch: pending until its position is committed.
 *
 * For the replication consumer.
 *
 * When an epoch begins and ends, and how its position is committed, is decided in repl.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_EPOCH_RUNS_H
#define ROSE_EPOCH_RUNS_H

#include "lsm/tree/rose_tree.h"

/*
 * rose_spill for an epoch in two steps, of which the second may be another process' while
 * rows are written to new memtables.
 *
 * rose_epoch_freeze: what is in the C0s of all tables that the subscription feeds now is
 * for this epoch, whoever spills it; *nbytes: how much that is.  Takes moments and no
 * locks on tables.  False: some table has no slot for a new memtable and needs
 * rose_spill.
 *
 * rose_epoch_spill: what is for this epoch.
 *
 * rose_epoch_unspilled: tables and indexes with something for this epoch that is in no run yet, as
 * a list of OIDs, by which who opened the file last knew it; NIL: nothing is left.  Takes moments and no
 * locks on tables, either.
 */
extern bool rose_epoch_freeze(Oid subid, uint64 epoch, uint64 *nbytes);
extern bool rose_epoch_spill(RoseTree *tree, Oid subid, uint64 epoch);
extern List *rose_epoch_unspilled(Oid subid, uint64 epoch);

/*
 * The epoch's position is committed: its pending runs, and those of earlier
 * epochs, become live, their memtables are freed.
 */
extern void rose_epoch_publish(RoseTree *tree, Oid subid, uint64 epoch);

/* What is left to be published of a tree that a subscription feeds, by which epochs it has committed.  REQUIRES: a transaction. */
extern void rose_epoch_publish_committed(RoseTree *tree);

#endif							/* ROSE_EPOCH_RUNS_H */
