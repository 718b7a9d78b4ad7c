/*-------------------------------------------------------------------------
 *
 * rose_node_agg_memory.h
 *	  Memory that states of an aggregate need beside themselves.
 *
 * Most need none, so it is made when it is needed first.  For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_AGG_MEMORY_H
#define ROSE_NODE_AGG_MEMORY_H

#include "postgres.h"

#include "utils/memutils.h"

/* Blocks of it are small: who bounds it is not told of the next one before it is there. */
#define ROSE_AGG_FIRST_BLOCK	1024
#define ROSE_AGG_MAX_BLOCK		(8 * 1024)

/* Of all states that are forgotten together. */
typedef struct RoseNodeAggMemory
{
	MemoryContext parent;
	MemoryContext context;		/* NULL: nothing is there */
} RoseNodeAggMemory;

static inline MemoryContext
rose_node_agg_memory(RoseNodeAggMemory *memory)
{
	if (memory->context == NULL)
		memory->context = AllocSetContextCreate(memory->parent, "rose aggregate states", 0, ROSE_AGG_FIRST_BLOCK, ROSE_AGG_MAX_BLOCK);
	return memory->context;
}

static inline Size
rose_node_agg_memory_bytes(const RoseNodeAggMemory *memory)
{
	return memory->context != NULL ? MemoryContextMemAllocated(memory->context, true) : 0;
}

/* Begin anew; returns what there was, for the caller to delete, or NULL. */
static inline MemoryContext
rose_node_agg_memory_renew(RoseNodeAggMemory *memory)
{
	MemoryContext old = memory->context;

	memory->context = NULL;
	return old;
}

#endif							/* ROSE_NODE_AGG_MEMORY_H */
