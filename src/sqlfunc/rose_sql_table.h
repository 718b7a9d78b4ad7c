/*-------------------------------------------------------------------------
 *
 * rose_sql_table.h
 *	  Opening the rose table that a function was given.
 *
 * The caller closes it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SQL_TABLE_H
#define ROSE_SQL_TABLE_H

#include "lsm/tree/rose_tree.h"

/*
 * For functions that do something with it: an error if the caller does not own it, or it
 * is no rose table, and no index of one with a tree of its own.
 */
extern Relation rose_sql_open_own(Oid relid, LOCKMODE lockmode);
extern Relation rose_sql_open_own_or_fed(Oid relid, LOCKMODE lockmode); /* or if he owns the subscription that it is of */

/* An error if it is an index. */
extern void rose_sql_refuse_index(Relation rel);

/*
 * For functions that look at it, with AccessShareLock: an error if the caller may not
 * read it, or it has no tree.  NULL if it has been dropped, as a view over all
 * tables may find, or is an index of one whose tree is not made.
 */
extern Relation rose_sql_open_readable(Oid relid);

#endif							/* ROSE_SQL_TABLE_H */
