/*-------------------------------------------------------------------------
 *
 * rose_preload.h
 *	  Was the library loaded at server start?
 *
 * Asked by whatever needs shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PRELOAD_H
#define ROSE_PRELOAD_H

#include "postgres.h"

/* _PG_init found that the library is loaded by shared_preload_libraries. */
extern void rose_set_preloaded(void);

/* Error, with a hint, unless it was. */
extern void rose_require_preload(void);

#endif							/* ROSE_PRELOAD_H */
