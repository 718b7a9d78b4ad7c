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

#endif							/* ROSE_PARTITION_DDL_H */
