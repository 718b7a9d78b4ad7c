/*-------------------------------------------------------------------------
 *
 * rose_node.h
 *	  The executor's nodes that read rose tables in batches: wiring.
 *
 * For rose.c and the hooks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_H
#define ROSE_NODE_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/pathnodes.h"

/* --- settings (rose_node_settings.c) --- */
extern bool rose_node_scan_enabled; /* rose.enable_scan */
extern bool rose_node_aggregate_enabled;	/* rose.enable_aggregate */
extern bool rose_node_top_enabled;	/* rose.enable_top */
extern int	rose_node_vector_rows;	/* rose.vector_rows */
extern int	rose_node_aggregate_memory; /* rose.aggregate_memory */
extern int	rose_node_aggregate_sample; /* rose.aggregate_sample */
extern int	rose_node_scan_min_rows;	/* rose.scan_min_rows */
extern void rose_node_define_settings(void);	/* _PG_init */

/*
 * Offer the planner a Rose Scan of a table; called when it has all other paths of it but those of
 * rose_or_add_paths.
 */
extern void rose_node_add_paths(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte);

/*
 * Offer the planner a Rose Aggregate; for create_upper_paths_hook, at UPPERREL_GROUP_AGG.  extra: a GroupPathExtraData.
 */
extern void rose_node_add_aggregate_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
										  void *extra);

/*
 * The statement that is being planned is that of a SCROLL cursor.  Plans can be made while others are, so
 * who sets it puts back what it was.
 */
extern bool rose_node_plans_scroll;

extern void rose_node_register(void);	/* _PG_init */

#endif							/* ROSE_NODE_H */
