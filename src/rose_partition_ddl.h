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

#include "nodes/parsenodes.h"

/* What has to be looked at when a command has been run; the command may be freed meanwhile. */
typedef struct RosePartitionCommand
{
	RangeVar   *parent;			/* gets a partition; or NULL */
	RangeVar   *attached;		/* ... which was a table before; or NULL */
	RangeVar   *detached;		/* is one no more; or NULL */
} RosePartitionCommand;

extern RosePartitionCommand rose_partition_ddl_of(Node *stmt);
extern void rose_partition_ddl_check(const RosePartitionCommand *command);

#endif							/* ROSE_PARTITION_DDL_H */
