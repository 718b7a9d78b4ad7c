/*-------------------------------------------------------------------------
 *
 * unit.h
 *	  Unit tests of the parts of rose that need no server.
 *
 * The modules under test are linked with unit_shim.c, which stands in for the
 * server's memory contexts and error reporting.  Results are printed as TAP.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_H
#define UNIT_H

#include "postgres.h"

#include <setjmp.h>

#include "compat/rose_compat_varatt.h"

/* ---- Results ---- */

/* One TAP line.  Returns condition. */
extern bool unit_ok(bool condition, const char *format,...) pg_attribute_printf(2, 3);

/* A comment line. */
extern void unit_note(const char *format,...) pg_attribute_printf(1, 2);

/* How often to do what is done so many times in a whole run. */
extern int	unit_rounds(int rounds);

/* Does this program run under something that makes it many times slower? */
extern bool unit_is_slow(void);

/* ---- Random numbers, reproducible from the seed that is printed ---- */

extern uint64 unit_random(void);

/* 0 <= result < limit */
extern uint64 unit_random_below(uint64 limit);

/* ---- Errors ---- */

extern sigjmp_buf *unit_catcher;	/* where errors go; NULL: print and exit */
extern int	unit_error_code;	/* of the last error caught */
extern const char *unit_error_message(void);

/*
 * Run 'statement'; 'failed' tells whether it raised an error.  Variables that are
 * changed by the statement and used after must be volatile.
 */
#define UNIT_CATCH(failed, statement) \
	do { \
		sigjmp_buf	catcher_; \
		(failed) = true; \
		if (sigsetjmp(catcher_, 0) == 0) \
		{ \
			unit_catcher = &catcher_; \
			statement; \
			(failed) = false; \
		} \
		unit_catcher = NULL; \
	} while (0)

/* ---- Test files ---- */

extern void test_bitpack(void);
extern void test_varint(void);
extern void test_bloom(void);
extern void test_losertree(void);
extern void test_pages(void);
extern void test_columns(void);
extern void test_page_fuzz(int iterations);
extern void test_wire(int iterations);

#endif							/* UNIT_H */
