/*-------------------------------------------------------------------------
 *
 * rose_local_pin.h
 *	  Between rose_local_pin.c and rose_pin.c: pins on files of temporary relations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOCAL_PIN_H
#define ROSE_LOCAL_PIN_H

#include "store/rose_store.h"

/* As those of rose_pin.h. */
extern void rose_local_pin_acquire(RelFileLocator file, uint64 generation);
extern bool rose_local_pin_is_held(RelFileLocator file);
extern void rose_local_pin_let_go(RelFileLocator file, uint64 generation);
extern void rose_local_pin_renew(RelFileLocator file, uint64 generation);
extern void rose_local_pin_set_seen(RelFileLocator file, uint32 seen_upto, bool looked);
extern void rose_local_pin_find_needed(RelFileLocator file, const RoseRetiredShared *retired,
									   int n, uint32 *upto);
extern void rose_local_pin_release_all(void);

/* Of this transaction's pin, PG_UINT64_MAX = there is none; and its xmin. */
extern uint64 rose_local_pin_generation(RelFileLocator file, TransactionId *xmin);

#endif							/* ROSE_LOCAL_PIN_H */
