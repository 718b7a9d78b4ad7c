/*-------------------------------------------------------------------------
 *
 * rose_stop_point.c
 *	  The hook of stop points.  See rose_stop_point.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_stop_point.h"

RoseStopPointHook rose_stop_point_hook = NULL;
