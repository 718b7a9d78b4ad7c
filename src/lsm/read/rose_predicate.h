/*-------------------------------------------------------------------------
 *
 * rose_predicate.h
 *	  Predicate locks of SERIALIZABLE transactions: on keys and ranges of keys.
 *
 * Who reads keys of a tree locks them before; who writes one says so when the version can
 * be met.  Others pay nothing but a look at their isolation level.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PREDICATE_H
#define ROSE_PREDICATE_H

#include "postgres.h"

#include "access/xact.h"
#include "utils/snapshot.h"

#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_key_range.h"

/* Does the transaction lock what it reads with this snapshot? */
extern bool rose_predicate_is_needed(RoseTree *tree, Snapshot snapshot);

/* One key, whether there is a row or not. */
extern void rose_predicate_lock_key(RoseTree *tree, const Datum *key, Snapshot snapshot);

/* All keys of a range, those that there may be, too. */
extern void rose_predicate_lock_range(RoseTree *tree, const RoseKeyRange *range,
									  Snapshot snapshot);

extern void rose_predicate_check_written(RoseTree *tree, const Datum *key);

/*
 * A version of this key was written, and others can meet it: transactions that have read
 * the key, and not this version, come before us.  May raise a serialization failure.
 */
static inline void
rose_predicate_written(RoseTree *tree, const Datum *key)
{
	if (unlikely(IsolationIsSerializable()))
		rose_predicate_check_written(tree, key);
}

#endif							/* ROSE_PREDICATE_H */
