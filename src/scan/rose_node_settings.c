/*-------------------------------------------------------------------------
 *
 * rose_node_settings.c
 *	  Settings of the executor's nodes.
 *
 * Backend-local; no locks.  What the settings mean is where they are asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "scan/rose_node.h"
#include "scan/rose_node_scan.h"

bool		rose_node_scan_enabled = true;
bool		rose_node_aggregate_enabled = true;
bool		rose_node_top_enabled = true;
int			rose_node_vector_rows = ROSE_NODE_VECTOR_ROWS;
int			rose_node_aggregate_memory = -1;
int			rose_node_aggregate_sample = -1;
int			rose_node_scan_min_rows = ROSE_NODE_SCAN_MIN_ROWS;

/* Which nodes there are. */
static void
define_enables(void)
{
	DefineCustomBoolVariable("rose.enable_scan",
							 "Enables the planner's use of Rose Scan plans.",
							 "Rose Scan reads rose tables in batches, and checks simple conditions for many rows at a time.",
							 &rose_node_scan_enabled,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("rose.enable_aggregate",
							 "Enables the planner's use of Rose Aggregate plans.",
							 "Rose Aggregate takes many rows of a Rose Scan at a time; without rose.enable_scan there is none.",
							 &rose_node_aggregate_enabled,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("rose.enable_top",
							 "Enables Rose Scans that give out only rows that may be among the first ones of ORDER BY with LIMIT.",
							 "The others are left out before their other columns are decoded; without rose.enable_scan there are none.",
							 &rose_node_top_enabled,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
}

void
rose_node_define_settings(void)
{
	define_enables();
	DefineCustomIntVariable("rose.aggregate_memory",
							"Memory that the groups of a Rose Aggregate may take; -1: as much as hash tables may.",
							"For tests: what does not fit is given out in parts, or goes to tapes, with the same results.",
							&rose_node_aggregate_memory,
							-1,
							-1,
							MAX_KILOBYTES,
							PGC_USERSET,
							GUC_UNIT_KB | GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.aggregate_sample",
							"Rows after which a Rose Choice turns to rows; -1: when it is seen that it is better, 0: there is no Rose Choice.",
							"For tests: with more than 0 tables of any size have one, which turns whatever is seen.",
							&rose_node_aggregate_sample,
							-1,
							-1,
							INT_MAX,
							PGC_USERSET,
							GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.scan_min_rows",
							"Rows that a table has at least, for the planner to look at a Rose Scan.",
							"For tests: with 0 tables of any size and lookups by key may get one, if it seems cheaper.",
							&rose_node_scan_min_rows,
							ROSE_NODE_SCAN_MIN_ROWS,
							0,
							ROSE_NODE_SCAN_MIN_ROWS,
							PGC_USERSET,
							GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.vector_rows",
							"Rows that a Rose Scan decodes and checks together, at most.",
							"For tests: results do not depend on it.",
							&rose_node_vector_rows,
							ROSE_NODE_VECTOR_ROWS,
							1,
							ROSE_NODE_VECTOR_ROWS,
							PGC_USERSET,
							GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
}
