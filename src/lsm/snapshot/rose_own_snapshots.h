/*-------------------------------------------------------------------------
 *
 * rose_own_snapshots.h
 *	  Which snapshots this process has open: for what a transaction supersedes
 *	  of its own rows.
 *
 * A snapshot sees of its own transaction what commands before its command id have
 * written.  So a row that the transaction has replaced is of use as long as a snapshot is
 * open that stands in between: that of the statement that is being run, those of cursors,
 * and of whatever waits for this statement to end.  Core keeps them to itself; see
 * rose_own_snapshots.c for how they are known nevertheless.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OWN_SNAPSHOTS_H
#define ROSE_OWN_SNAPSHOTS_H

#include "nodes/nodes.h"
#include "tcop/utility.h"
#include "utils/snapshot.h"

#include "memtable/rose_c0.h"

/* Be told when PL/pgSQL begins and ends functions and statements; once, when the library is loaded. */
extern void rose_own_snapshots_watch_functions(void);

/*
 * A query is about to run, or to finish, which fires triggers; a command is about to run.
 * Each returns what leave is to be told when it has ended, in whatever way.
 */
extern int	rose_own_snapshots_enter_query(Snapshot snapshot, bool finish);
extern int	rose_own_snapshots_enter_command(const Node *command, ProcessUtilityContext context);
extern void rose_own_snapshots_leave(int outer);

/* What is being run around the query that has begun last. */
typedef enum RoseOwnPlace
{
	ROSE_OWN_TOP,				/* nothing, or a function that the client calls without a query */
	ROSE_OWN_IN_COMMAND,		/* a command, perhaps by a function that is called on the way */
	ROSE_OWN_NESTED				/* more */
} RoseOwnPlace;

extern RoseOwnPlace rose_own_snapshots_place(void);

/*
 * May the topmost active snapshot give way to another one?  Not if a query that is going on reads with it; nor if it was pushed at
 * another level of subtransactions than the present one, as by who has called a STABLE function in PL/pgSQL that has begun one.
 */
extern bool rose_own_snapshots_may_replace(Snapshot snapshot);

/* A subtransaction of this level has begun; the transaction has ended. */
extern void rose_own_snapshots_begin_subtransaction(int level);
extern void rose_own_snapshots_reset(void);

/*
 * What can be said of the commands of this transaction, for a row that is being written
 * now.  named: somebody asks for versions by their names, until the statements have ended
 * that wrote and superseded them.
 */
extern const RoseOwnRules *rose_own_snapshots_rules(bool named);

#endif							/* ROSE_OWN_SNAPSHOTS_H */
