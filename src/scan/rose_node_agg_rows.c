/*-------------------------------------------------------------------------
 *
 * rose_node_agg_rows.c
 *	  How a Rose Aggregate runs the scan below it, and takes values of its rows.
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

void
rose_node_agg_words_of_datums(int64 *values, int n, int length)
{
	for (int i = 0; i < n; i++)
	{
		if (length == sizeof(int32))
			values[i] = (int32) values[i];
		else if (length == sizeof(int16))
			values[i] = (int16) values[i];
		else if (length == sizeof(int8))
			values[i] = (int8) values[i];
	}
}
