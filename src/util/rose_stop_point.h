/*-------------------------------------------------------------------------
 *
 * rose_stop_point.h
 *	  Named places at which tests can make a process wait, fail or die.
 *
 * The library only names the places and leaves a hook; what happens there, and
 * how it is controlled, is in a library of the tests (src/test/stop_points),
 * which is loaded into test clusters beside rose and nowhere else.  So tests
 * run the very library that users run, and users' servers have nothing that
 * could be stopped: without the hook a stop point is a test of a pointer.
 *
 * Names are MODULE-EVENT, the event in the past: "spill-published".  Stop points
 * do not belong in loops over rows.  What is held there is held while the
 * process waits: a comment says so where that is an LWLock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_STOP_POINT_H
#define ROSE_STOP_POINT_H

#include "postgres.h"

/* True: what ROSE_STOP_POINT_SKIPS asks about is not to be done. */
typedef bool (*RoseStopPointHook) (const char *name);

/* NULL, but in test clusters. */
extern PGDLLEXPORT RoseStopPointHook rose_stop_point_hook;

#define ROSE_STOP_POINT(name) \
	do { \
		if (unlikely(rose_stop_point_hook != NULL)) \
			(void) rose_stop_point_hook(name); \
	} while (0)

/* A protection that a test can take out, to see what happens without it. */
#define ROSE_STOP_POINT_SKIPS(name) \
	(unlikely(rose_stop_point_hook != NULL) && rose_stop_point_hook(name))

#endif							/* ROSE_STOP_POINT_H */
