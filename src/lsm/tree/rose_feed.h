/*-------------------------------------------------------------------------
 *
 * rose_feed.h
 *	  Which subscription feeds a tree.
 *
 * Nobody else writes to it as long as one does.  There are two ways.  By epochs: nothing is logged, memtables are the
 * subscription's to spill, and rows are durable with its position.  Through the tail log: rows are durable with the
 * transaction that has written them, and in all else the tree is one that is written locally.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_FEED_H
#define ROSE_FEED_H

#include "nodes/pg_list.h"

#include "lsm/tree/rose_tree.h"

/* InvalidOid: none. */
extern Oid	rose_feed_subscription(RoseTree *tree);

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
