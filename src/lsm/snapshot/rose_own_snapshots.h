/*-------------------------------------------------------------------------
 *
 * rose_own_snapshots.h
 *	  Which snapshots this process has open: for what a transaction supersedes
 *	  of its own rows.
 *
 * A snapshot sees of its own transaction what commands before its command id have
 * written.  So a row that the transaction has replaced is of use as long as a snapshot is
 * open that stands in between: that of the statement that is being run, and those of
 * cursors.  Core keeps them to itself; but each belongs to a query between ExecutorStart
 * and ExecutorEnd, if nothing but a statement of the client is being run: no function
 * that runs statements of its own, no command, no trigger.  Languages open snapshots that
 * we are not told of.  Then nothing is known.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OWN_SNAPSHOTS_H
#define ROSE_OWN_SNAPSHOTS_H

#include "memtable/rose_c0.h"

/*
 * How many queries are being run, one within the other; kept by those who run them.  A
 * command other than a query counts for more than a client's statement, so that neither
 * it nor what it runs is taken for one.
 */
#define ROSE_OWN_COMMAND	2
extern int	rose_own_depth;

/* A query begins and ends.  One that fails does not end: its snapshot is taken for open until the transaction ends. */
extern void rose_own_snapshots_open(const void *query, CommandId curcid);
extern void rose_own_snapshots_close(const void *query);

/* The transaction has ended. */
extern void rose_own_snapshots_reset(void);

/* Those that are open now. */
extern const RoseOpenCommands *rose_own_snapshots(void);

#endif							/* ROSE_OWN_SNAPSHOTS_H */
