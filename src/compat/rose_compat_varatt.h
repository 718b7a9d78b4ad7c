/*-------------------------------------------------------------------------
 *
 * rose_compat_varatt.h
 *	  Headers of variable-length values.
 *
 * Apart from rose_compat.h, because codecs and pages know nothing else of the
 * server.  16 moved the macros out of postgres.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_VARATT_H
#define ROSE_COMPAT_VARATT_H

#include "postgres.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#endif							/* ROSE_COMPAT_VARATT_H */
