/*-------------------------------------------------------------------------
 *
 * rose_stop_point.c
 *	  The hook of stop points.  See rose_stop_point.h.
 *
 * Set by the tests' library when it is loaded; NULL otherwise.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_stop_point.h"

RoseStopPointHook rose_stop_point_hook = NULL;
