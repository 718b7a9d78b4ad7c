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

/* The hook on objects: an object was made or altered.  What has to be looked at is noted (rose_ddl_notes.h). */
extern void rose_partition_ddl_note(ObjectAccessType access, Oid classid, Oid objectid, void *arg);

/*
 * A table gets a CHECK constraint.  Is that because it, or a partition that it is part of, is being detached CONCURRENTLY, which
 * gives it one for its bounds?  Then it must be durable for that.
 */
extern bool rose_partition_ddl_check_bounds(Oid relid);

#endif							/* ROSE_PARTITION_DDL_H */
