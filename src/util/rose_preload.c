/*-------------------------------------------------------------------------
 *
 * rose_preload.c
 *	  Was the library loaded at server start?
 *
 * Without that there is no shared memory and there are no workers.  The library
 * then loads quietly (it may be named in session_preload_libraries, where an
 * error would shut out every session) and whatever needs more fails here.
 *
 * State of the process, set once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_preload.h"

static bool preloaded = false;

void
rose_set_preloaded(void)
{
	preloaded = true;
}

void
rose_require_preload(void)
{
	if (!preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rose must be loaded via shared_preload_libraries"),
				 errhint("Add rose to shared_preload_libraries in postgresql.conf and restart the server.")));
}
