/*-------------------------------------------------------------------------
 *
 * actor_maintain.c
 *	  Spills, merges, VACUUM (FULL), ANALYZE and rose.check, of any table at any
 *	  time; all by a session that has nothing to do with the rows.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

void
actor_maintain(Session *s)
{
	const char *table = tables_pick_any(s);
	int			what = random_below(&s->random, 40);

	s->allowed = "";
	if (what < 20 && options.rose)
		session_run(s, "SELECT rose.spill('%s')", table);
	else if (what < 32 && options.rose)
		session_run(s, "SELECT rose.merge('%s')", table);
	else if (what < 36)
		session_run(s, "VACUUM %s", table);
	else if (what < 38)
		session_run(s, "ANALYZE %s", table);
	else if (what < 39)
		session_run(s, "VACUUM FULL %s", table);
	else
		session_run(s, "CHECKPOINT");
}

void
actor_check(Session *s)
{
	s->allowed = "";
	s->process->commits++;
	tables_check(s, tables_pick_any(s));
}
