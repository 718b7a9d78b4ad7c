/*-------------------------------------------------------------------------
 *
 * rose_node_agg_rows.c
 *	  How a Rose Aggregate runs the scan below it.
 *
 * It takes rows from it many at a time, not as core's nodes do; what EXPLAIN says of the scan is as if they did.
 *
 * Backend-local; locks are those of lsm/read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "executor/instrument.h"

#include "scan/rose_node_agg.h"
#include "scan/rose_node_state.h"

bool
rose_node_agg_next_rows(RoseNodeScan *scan)
{
	Instrumentation *instrument = scan->css.ss.ps.instrument;
	bool		found;

	if (instrument != NULL)
		InstrStartNode(instrument);
	found = rose_node_scan_next_passing(scan);
	if (instrument != NULL)
		InstrStopNode(instrument, found ? scan->rows.n : 0);
	return found;
}
