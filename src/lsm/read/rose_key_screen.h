/*-------------------------------------------------------------------------
 *
 * rose_key_screen.h
 *	  Which of many keys may be in a table?
 *
 * For who is about to insert them: most are new, and for those this is all the
 * looking for conflicts that has to be done.  Looks at memtables and Bloom filters for
 * all keys together, so that what one key waits for another uses the time of.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_SCREEN_H
#define ROSE_KEY_SCREEN_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

#define ROSE_SCREEN_MAX 256		/* most keys at a time */

/*
 * Sets maybe[i] to whether there may be a version, or a row lock, of whole key i: of any
 * transaction, in memory or in a component that can be read.  False is certain.
 * prefixes, hashes: rose_key_prefix and rose_key_hash of the keys.  ascending: the keys
 * are in strictly ascending order.  in_memory: what C0 says of each by itself, or NULL.  hints: see
 * rose_c0_probe.
 *
 * A version may come after the look: who relies on it asks C0 when it writes
 * (rose_c0_look).  REQUIRES: a table with a key.
 */
extern void rose_key_screen(RoseTree *tree, const Datum *const *keys,
							const uint64 *prefixes, const uint64 *hashes, int n,
							bool ascending, bool *maybe, bool *in_memory, RoseMemSpot *hints);

#endif							/* ROSE_KEY_SCREEN_H */
