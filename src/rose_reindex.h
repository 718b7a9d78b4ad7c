/*-------------------------------------------------------------------------
 *
 * rose_reindex.h
 *	  REINDEX CONCURRENTLY where there are rose tables; for the hooks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REINDEX_H
#define ROSE_REINDEX_H

#include "postgres.h"

#include "nodes/parsenodes.h"

extern bool rose_reindex_is_concurrent(const ReindexStmt *stmt);

/*
 * Before REINDEX CONCURRENTLY: raise an error if it would meet a rose table among others.
 * True: it names a rose table, there is nothing to be done, and a warning says so.
 */
extern bool rose_reindex_skips(const ReindexStmt *stmt);

#endif							/* ROSE_REINDEX_H */
