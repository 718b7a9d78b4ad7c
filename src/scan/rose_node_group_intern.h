/*-------------------------------------------------------------------------
 *
 * rose_node_group_intern.h
 *	  Numbers for byte strings, from 0 in the order in which they came.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_GROUP_INTERN_H
#define ROSE_NODE_GROUP_INTERN_H

#include "postgres.h"

typedef struct RoseNodeIntern RoseNodeIntern;

/* In the current context. */
extern RoseNodeIntern *rose_node_intern_create(void);

/* The number of these bytes; false: they have none. */
extern bool rose_node_intern_find(const RoseNodeIntern *intern, const char *bytes, Size length,
								  uint32 *number);

/* Number bytes that have no number: the next one, with a value for it, which is copied (typlen: as datumCopy has it). */
extern uint32 rose_node_intern_add(RoseNodeIntern *intern, const char *bytes, Size length,
								   Datum value, int typlen);

/* Give bytes that have no number one that others have. */
extern void rose_node_intern_add_alias(RoseNodeIntern *intern, const char *bytes, Size length,
									   uint32 number);

/* The value of a number; good until the next reset. */
extern Datum rose_node_intern_value(const RoseNodeIntern *intern, uint32 number);

extern Size rose_node_intern_memory(const RoseNodeIntern *intern);

/* The same with one more, but for its bytes: tables grow by leaps. */
extern Size rose_node_intern_needs(const RoseNodeIntern *intern);

/* Forget all. */
extern void rose_node_intern_reset(RoseNodeIntern *intern);

#endif							/* ROSE_NODE_GROUP_INTERN_H */
