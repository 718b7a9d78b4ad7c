/*-------------------------------------------------------------------------
 *
 * unit_check.h
 *	  For unit tests that are programs of their own and abort when a check fails.
 *
 * Includes postgres.h and takes its replacements of the C library's functions back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

#include "postgres.h"

#undef printf
#undef fprintf
#undef snprintf
#undef qsort

/* The arguments behind the condition, as for printf, say where the test is. */
#define CHECK_AT(condition, ...) \
	do { \
		if (!(condition)) \
		{ \
			fprintf(stderr, "%s:%d: %s", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__); \
			abort(); \
		} \
	} while (0)

#define CHECK(condition) CHECK_AT(condition, "\n")

#endif							/* UNIT_CHECK_H */
