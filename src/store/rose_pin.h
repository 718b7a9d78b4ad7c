/*-------------------------------------------------------------------------
 *
 * rose_pin.h
 *	  Pins: what a transaction that reads a table keeps from being reused.
 *
 * A transaction that reads a table publishes, before it reads the manifest (or trusts a
 * cached copy because manifest_version is unchanged), the generation it started at.  What
 * is retired later stays until it ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PIN_H
#define ROSE_PIN_H

#include "postgres.h"

#include "utils/rel.h"

#include "store/rose_store.h"

extern Size rose_pin_shmem_size(void);
extern void rose_pin_shmem_init(bool found);	/* under AddinShmemInitLock */

/* This process's backend slot and which user of it this process is. */
extern void rose_pin_whoami(int *slot, uint32 *incarnation);

/* Is that process still there? */
extern bool rose_pin_is_alive(int slot, uint32 incarnation);

extern void rose_pin_acquire(RelFileLocator locator);	/* idempotent in a transaction */
extern void rose_pin_release_all(void); /* end of the top-level transaction */

/*
 * Has the transaction pinned the file?  renew: it has, but needs nothing any
 * more of what it has seen there.
 */
extern bool rose_pin_is_held(RelFileLocator locator);
extern void rose_pin_renew(RelFileLocator locator);

/*
 * A process whose transactions only spill and merge says so once.  From then on, at a
 * moment at which it needs nothing of what it has seen of the file but memory and what
 * nobody else may take out of the manifest, its pin moves on: what others replace beside
 * a long step is free as soon as readers are done with it.  In other processes nothing
 * happens.
 */
extern void rose_pin_keep_nothing(void);
extern void rose_pin_move_on(RelFileLocator locator);

/*
 * Around each look at a manifest, which rose_manifest_read does; and when a copy
 * from an earlier transaction is still good.  newest: see RoseManifest.newest_owner.
 */
extern void rose_pin_begin_look(RelFileLocator locator);
extern void rose_pin_end_look(RelFileLocator locator, uint32 newest);
extern void rose_pin_use_cached(RelFileLocator locator, uint32 newest);

/*
 * Of what the transaction has met in the file it needs nothing any more but what it finds
 * by sequence numbers, and it will look at the manifest before it reads components.  What
 * merges may forget is as before.
 */
extern void rose_pin_let_go(RelFileLocator locator);

/* For each of n places, the greatest owner id that a transaction may still need of it; 0 = none. */
extern void rose_pin_find_needed(RelFileLocator locator, const RoseRetiredShared *retired,
								 int n, uint32 *upto);

/*
 * The generation at which this transaction's pin on the file protects what it has seen.
 * backdate: let it be an older one, at which somebody else has a pin still, and who that
 * is must be asked again afterwards; newest is the newest owner id that is to be kept.
 */
extern uint64 rose_pin_generation(RelFileLocator locator);
extern void rose_pin_backdate(RelFileLocator locator, uint64 generation, uint32 newest);

/*
 * Let another backend's slot keep what is retired from this generation on, of all files,
 * until that transaction of it has ended; it must be asked afterwards whether it had not
 * ended already.  Until then the caller's pin protects the same.
 */
extern void rose_pin_lend(int slot, LocalTransactionId lxid, uint64 generation);

/* New generation, for what was just retired.  Full memory barrier. */
extern uint64 rose_pin_retire_generation(void);

/*
 * The oldest generation of a pin on the file, PG_UINT64_MAX = none; and the oldest xmin
 * that one of their transactions had when it took its pin, invalid = none.
 */
extern uint64 rose_pin_oldest(RelFileLocator locator, TransactionId *xmin);

#endif							/* ROSE_PIN_H */
