/*-------------------------------------------------------------------------
 *
 * rose_constraint_ddl.h
 *	  Commands by which rows are said to satisfy a constraint.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CONSTRAINT_DDL_H
#define ROSE_CONSTRAINT_DDL_H

#include "postgres.h"

#include "catalog/objectaccess.h"
#include "nodes/pg_list.h"

/* The hook on objects: an object was made or altered. */
extern void rose_constraint_ddl_note(ObjectAccessType access, Oid classid, Oid objectid, int subid);

/*
 * A command begins, within another one perhaps, whose notes are returned; it has been run, with the locks that it took; it is
 * left, in whatever way.
 */
extern List *rose_constraint_ddl_enter(void);
extern void rose_constraint_ddl_check(void);
extern void rose_constraint_ddl_leave(List *outer);

#endif							/* ROSE_CONSTRAINT_DDL_H */
