/*-------------------------------------------------------------------------
 *
 * rose_compat_explain.h
 *	  Release differences of what EXPLAIN offers to nodes that are not core's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_EXPLAIN_H
#define ROSE_COMPAT_EXPLAIN_H

#include "postgres.h"

#include "commands/explain.h"

/* 18 moved the functions that print properties, and what they print into, to headers of their own. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

#endif							/* ROSE_COMPAT_EXPLAIN_H */
