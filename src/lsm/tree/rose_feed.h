/*-------------------------------------------------------------------------
 *
 * rose_feed.h
 *	  Which subscription feeds a tree.
 *
 * There are two ways.  By epochs: nothing is logged, memtables are the subscription's to spill, and rows are durable with its
 * position.  Nobody else writes to the tree.  Through the tail log: rows are durable with the transaction that has written them,
 * and in all else the tree is one that is written locally; so others may write to it, too, if the subscription
 * admits that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_FEED_H
#define ROSE_FEED_H

#include "nodes/pg_list.h"

#include "lsm/tree/rose_tree.h"

/* InvalidOid: none. */
extern Oid	rose_feed_subscription(RoseTree *tree);

/*
 * May others write to a table that is fed through the tail log?  The answer holds for as long as the lock lasts that
 * the caller has on the table.  Set by the replication layer; raises an error that says why not.
 */
typedef void (*RoseFeedRequireWritableHook) (Relation rel, Oid subid);
extern RoseFeedRequireWritableHook rose_feed_require_writable_hook;

/* Grows when this backend has changed something by which the answer may be another one. */
extern uint64 rose_feed_admissions;

/* In this way, and in the metapage, too? */
extern bool rose_feed_is_recorded(RoseTree *tree, Oid subid, bool logged);

/*
 * REQUIRES, by epochs: what was written otherwise has left C0, whose recovery is the subscription's from now on; logged: what
 * an epoch has is in live components.
 */
extern void rose_feed_begin(RoseTree *tree, Oid subid, bool logged);

/* If this subscription feeds it, or, with InvalidOid, any. */
extern void rose_feed_end(RoseTree *tree, Oid subid);

/*
 * Tables and indexes that it feeds, as a list of OIDs, by which who opened the file last knew it; not
 * those that nobody has opened since the server's start.
 */
extern List *rose_feed_list(Oid subid);

#endif							/* ROSE_FEED_H */
