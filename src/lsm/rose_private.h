/*-------------------------------------------------------------------------
 *
 * rose_private.h
 *	  State of private runs, for rose_private.c and rose_merge.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PRIVATE_H
#define ROSE_PRIVATE_H

#include "store/rose_store.h"

typedef enum RosePrivateState
{
	ROSE_PRIVATE_OPEN,			/* in progress, or our own */
	ROSE_PRIVATE_COMMITTED,
	ROSE_PRIVATE_ABORTED
} RosePrivateState;

/* What became of the owner of a private run. */
extern RosePrivateState rose_private_state(const RoseComponentEntryDisk *entry);

/* May a merge take it?  Live, and without a transaction in progress. */
extern bool rose_component_mergeable(const RoseComponentEntryDisk *entry);

#endif							/* ROSE_PRIVATE_H */
