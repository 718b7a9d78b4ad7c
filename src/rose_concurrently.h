/*-------------------------------------------------------------------------
 *
 * rose_concurrently.h
 *	  CREATE INDEX, REINDEX and DROP INDEX CONCURRENTLY where there are rose tables; for the
 *	  hooks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CONCURRENTLY_H
#define ROSE_CONCURRENTLY_H

#include "postgres.h"

#include "access/htup.h"
#include "nodes/parsenodes.h"
#include "utils/rel.h"

/*
 * Around each command: note what it is, unless it is run by functions within one that
 * concerns us; leave gets what enter has returned.
 */
extern bool rose_concurrently_enter(Node *stmt);
extern void rose_concurrently_leave(bool entered);

/* In between, before core runs it: raise an error for one that would fail halfway. */
extern void rose_concurrently_check(Node *stmt);

/* It has made an index of a rose table, of which nobody knows yet; pg_index: its row there. */
extern void rose_concurrently_check_created(Relation heap, Relation index, HeapTuple pg_index);

/* Is it REINDEX CONCURRENTLY? */
extern bool rose_concurrently_is_reindex(void);

#endif							/* ROSE_CONCURRENTLY_H */
