/*-------------------------------------------------------------------------
 *
 * rose_memahead.h
 *	  Walks over a memtable's list fetch ahead what comes next.  For this folder
 *	  only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MEMAHEAD_H
#define ROSE_MEMAHEAD_H

#include "memtable/rose_memlist.h"

/*
 * For walks over the list: start before the first entry, or in the middle, at the first
 * entry that is not before the target, take a step with each entry, and those that come
 * next are fetched ahead.
 */
extern void rose_memahead_start(const RoseMemtableShared *memtable,
								RoseMemAhead *ahead);
extern void rose_memahead_at(const RoseMemtableShared *memtable, RoseMemAhead *ahead,
							 bool forward, const RoseMemTarget *target);
extern void rose_memahead_due(RoseMemAhead *ahead);

static inline bool
rose_memahead_is_on(const RoseMemAhead *ahead, bool forward)
{
	return ahead->parent != 0 && ahead->forward == forward;
}

static inline void
rose_memahead_step(RoseMemAhead *ahead)
{
	if (ahead->parent != 0 && ++ahead->at >= ahead->due)
		rose_memahead_due(ahead);
}

#endif							/* ROSE_MEMAHEAD_H */
