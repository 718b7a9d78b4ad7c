/*-------------------------------------------------------------------------
 *
 * rose_node_keys.h
 *	  The key ranges of a node: from conditions of its plan to what lsm understands.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_KEYS_H
#define ROSE_NODE_KEYS_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"

#include "lsm/read/rose_key_quals.h"

typedef struct RoseNodeKeys RoseNodeKeys;

/* In the current context; quals: conditions on the key of the scan's table, column first.  Opens the key's index. */
extern RoseNodeKeys *rose_node_keys_create(ScanState *scan, List *quals);

/* Evaluate what the key is compared with.  The result is good until the next call. */
extern const RoseKeyQuals *rose_node_keys_evaluate(RoseNodeKeys *keys, const RoseSchema *schema);

/* The key's index, open. */
extern Relation rose_node_keys_index(const RoseNodeKeys *keys);
extern void rose_node_keys_end(RoseNodeKeys *keys);

#endif							/* ROSE_NODE_KEYS_H */
