/*-------------------------------------------------------------------------
 *
 * actor_alter.c
 *	  ALTER TABLE of tables that others use: columns come and go, types and keys
 *	  change, and half of it is taken back.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <string.h>

/* The table to alter: a partitioned one by its parent. Batches are too large to be rewritten again and again. */
static const char *
pick_table(Session *s, Family *family, int *shape)
{
	*family = random_chance(&s->random, 50) ? ACCOUNT : OWN;
	*shape = shape_pick(s);
	return table_name(*family, *shape);
}

static bool
alter(Session *s)
{
	Family		family;
	int			shape;
	const char *table = pick_table(s, &family, &shape);
	int			what = random_below(&s->random, 8);

	if (what < 2)
		return session_run(s, "ALTER TABLE %s ADD COLUMN IF NOT EXISTS extra%d %s", table, random_below(&s->random, 3),
						   random_chance(&s->random, 50) ? "int DEFAULT 5" : "text");
	if (what < 4)
		return session_run(s, "ALTER TABLE %s DROP COLUMN IF EXISTS extra%d", table, random_below(&s->random, 3));
	if (what == 4)
		return session_run(s, "ALTER TABLE %s ALTER v TYPE %s", table, random_chance(&s->random, 50) ? "numeric" : "bigint");
	if (what == 5 && !shape_is_partitioned(shape))
		return session_run(s, "ALTER TABLE %s ALTER id TYPE %s", table, random_chance(&s->random, 50) ? "int" : "bigint");
	if (what == 6 && family == OWN && strcmp(shape_names[shape], "keyless") == 0)
		return session_run(s, random_chance(&s->random, 50) ? "ALTER TABLE %s DROP CONSTRAINT IF EXISTS its_key" :
						   "ALTER TABLE %s DROP CONSTRAINT IF EXISTS its_key, ADD CONSTRAINT its_key PRIMARY KEY (id)", table);
	return session_run(s, "ALTER TABLE %s SET (fillfactor = %d)", tables_pick_any(s), 50 + random_below(&s->random, 50));
}

/* Another type for the key or another column, so that the table is rewritten from what it has. */
static bool
alter_type(Session *s)
{
	Family		family;
	int			shape;
	const char *table = pick_table(s, &family, &shape);
	bool		back = random_chance(&s->random, 50);

	if (!shape_is_partitioned(shape) && random_chance(&s->random, 70))
		return session_run(s, "ALTER TABLE %s ALTER id TYPE %s", table, back ? "bigint" : "int");
	return session_run(s, "ALTER TABLE %s ALTER v TYPE %s", table, back ? "bigint" : "numeric");
}

static void
in_transaction(Session *s, bool (*what) (Session *s))
{
	/* a partition's lock may be what another waits for that holds the parent's; that is found as a deadlock */
	s->allowed = "";
	if (transaction_begin(s, "") && what(s))
	{
		if (random_chance(&s->random, 30))
			sleep_ms(random_below(&s->random, 300));
		if (random_chance(&s->random, 50))
		{
			transaction_commit(s);
			return;
		}
	}
	transaction_abort(s);
}

void
actor_alter(Session *s)
{
	in_transaction(s, alter);
}

/* After a start, before anybody else has touched the tables. */
void
alter_first(Session *s)
{
	for (int i = 0; i < 4; i++)
		in_transaction(s, alter_type);
}
