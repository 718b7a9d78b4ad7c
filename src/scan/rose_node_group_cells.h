/*-------------------------------------------------------------------------
 *
 * rose_node_group_cells.h
 *	  States of one aggregate over many groups.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_GROUP_CELLS_H
#define ROSE_NODE_GROUP_CELLS_H

#include "postgres.h"

#include "scan/rose_node_agg.h"

/* Bytes of a group's state; the state of no values is all zeros. */
extern Size rose_node_cell_size(RoseNodeAggKind kind);

/* Values in a group's state. */
extern int64 rose_node_cell_number(RoseNodeAggKind kind, const char *cells, uint32 group);

/* A row more in each of these groups. */
extern void rose_node_cells_count(char *cells, const uint32 *groups, int n);

/* The same of runs of rows, the k-th of which begins at starts[k]; there are n rows. */
extern void rose_node_cells_count_runs(char *cells, const uint32 *run_groups, const uint16 *starts,
									   int nruns, int n);

/* The same of their sums, modulo 2^64: of ROSE_AGG_SUM and ROSE_AGG_AVG.  sums: room for n + 1 words. */
extern void rose_node_cells_sum_runs(char *cells, const uint32 *run_groups, const uint16 *starts,
									 int nruns, const int64 *values, int n, int64 *sums);

/* values[i], which is not NULL, is of group groups[i]: as rose_node_agg_state_take.  order: of texts.  memory: of the cells. */
extern void rose_node_cells_take(RoseNodeAggKind kind, Oid type, char *cells, const uint32 *groups,
								 const int64 *values, int n, const RoseNodeTextOrder *order,
								 RoseNodeAggMemory *memory);

/* The same of integers that stand for numerics, but for those of NULLs (nulls: NULL, there are none); groups: NULL, all are of the first one. */
extern void rose_node_cells_take_decimals(RoseNodeAggKind kind, char *cells, uint32 ncells, const uint32 *groups,
										  const RoseNodeDecimals *decimals, int from, const int64 *values,
										  const bool *nulls, int n, RoseNodeAggMemory *memory);

/* There are no cells any more; or, kept, but the first one. */
extern void rose_node_cells_forget(RoseNodeAggKind kind, char *cells, bool kept,
								   RoseNodeAggMemory *memory);

/* A group's cell as rose_node_agg_state_emit gives out its state. */
extern Datum rose_node_cell_emit(RoseNodeAggKind kind, Oid type, const char *cells, uint32 group, void *room, bool *isnull);

/* Between a group's cell and a state, which has kind and type. */
extern void rose_node_cell_load(const char *cells, uint32 group, RoseNodeAggState *state);
extern void rose_node_cell_store(char *cells, uint32 group, const RoseNodeAggState *state);

#endif							/* ROSE_NODE_GROUP_CELLS_H */
