/*-------------------------------------------------------------------------
 *
 * rose_partition_ddl.h
 *	  Commands by which partitions come and go.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PARTITION_DDL_H
#define ROSE_PARTITION_DDL_H

#include "postgres.h"

#include "catalog/objectaccess.h"
#include "nodes/pg_list.h"

/* The hook on objects: an object was made or altered. */
extern void rose_partition_ddl_note(ObjectAccessType access, Oid classid, Oid objectid, void *arg);

/*
 * A command begins, within another one perhaps, whose notes are returned; it has been run, with the locks that it took; it is
 * left, in whatever way.
 */
extern List *rose_partition_ddl_enter(void);
extern void rose_partition_ddl_check(void);
extern void rose_partition_ddl_leave(List *outer);

#endif							/* ROSE_PARTITION_DDL_H */
