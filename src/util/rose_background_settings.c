/*-------------------------------------------------------------------------
 *
 * rose_background_settings.c
 *	  Settings that background processes must not inherit.
 *
 * What postgresql.conf, ALTER SYSTEM and ALTER DATABASE or ROLE ALL say is meant for
 * clients.  Some of it would end a worker, which waits for locks as long as it takes and
 * may have a transaction open for long; or have it read what the upstream sends as
 * something else.  Source "override" is above all of these, after a reload, too.
 *
 * Not here: what only some processes need (rose_repl_worker.c), and settings that the
 * administrator means for workers as well, as work_mem.  TimeZone and DateStyle's order
 * stay as they are, for nothing that the upstream sends depends on them unless a column
 * has another type here, and then they may be meant.
 *
 * State of the process; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "util/rose_background_settings.h"

static const struct
{
	const char *name;
	const char *value;
}			fixed[] =

{
	/* names are found in pg_catalog only */
	{"search_path", ""},

	/* time is no reason to end */
	{"statement_timeout", "0"},
	{"lock_timeout", "0"},
	{"idle_in_transaction_session_timeout", "0"},
	{"idle_session_timeout", "0"},
	{"transaction_timeout", "0"},

	/* transactions that may write, and see what others commit meanwhile */
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"default_transaction_isolation", "read committed"},

	/* who feeds a table waits for nobody who does */
	{"rose.read_mode", "consistent"},

	/* errors are caught and reported */
	{"exit_on_error", "off"},

	/* text as the upstream means it: it sends ISO dates and times, such intervals, and such amounts of money */
	{"DateStyle", "ISO"},
	{"IntervalStyle", "postgres"},
	{"array_nulls", "on"},
	{"xmloption", "content"},
	{"lc_monetary", "C"},
};

void
rose_background_settings_fix(void)
{
	for (int i = 0; i < lengthof(fixed); i++)
	{
		/* transaction_timeout is of 17 and later */
		if (GetConfigOption(fixed[i].name, true, false) != NULL)
			SetConfigOption(fixed[i].name, fixed[i].value, PGC_SUSET, PGC_S_OVERRIDE);
	}
}
