/*-------------------------------------------------------------------------
 *
 * actor_signal.c
 *	  Cancels and terminates: sessions of the program, and workers of rose.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

/* Signals somebody who is at something, other than this session. */
static void
signal_one(Session *s, const char *function, const char *whom)
{
	s->allowed = "";
	session_run(s, "SELECT %s(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND %s "
				"ORDER BY random() LIMIT 1", function, whom);
}

void
actor_cancel(Session *s)
{
	signal_one(s, "pg_cancel_backend", "state = 'active'");
}

void
actor_terminate(Session *s)
{
	if (options.rose && random_chance(&s->random, 20))
		signal_one(s, "pg_terminate_backend", "backend_type LIKE 'rose%'");
	else
		signal_one(s, "pg_terminate_backend", "backend_type = 'client backend'");
}
