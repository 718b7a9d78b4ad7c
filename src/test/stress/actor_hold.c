/*-------------------------------------------------------------------------
 *
 * actor_hold.c
 *	  Sessions that keep something for long: table locks, and transactions that
 *	  have written much and then do nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

static void
idle(int ms)
{
	for (int waited = 0; waited < ms && !shared->stop; waited += 50)
		sleep_ms(50);
}

void
actor_lock(Session *s)
{
	static const char *const modes[] = {"ACCESS EXCLUSIVE", "EXCLUSIVE", "SHARE ROW EXCLUSIVE", "SHARE", "SHARE UPDATE EXCLUSIVE"};

	s->allowed = "";
	if (transaction_begin(s, "") &&
		session_run(s, "LOCK TABLE %s IN %s MODE", tables_pick_any(s), modes[random_below(&s->random, 5)]))
		idle(500 + random_below(&s->random, 3000));
	transaction_abort(s);
}

/* Much in one table or in several, in a table that it has locked or made, and then nothing. */
void
actor_idle(Session *s)
{
	static int64_t number = 0;
	int			n = 1 + random_below(&s->random, 4);
	int			how = random_below(&s->random, 4);
	bool		good = transaction_begin(s, "");

	s->allowed = "";
	if (how == 0 && good)
		good = session_run(s, "CREATE TABLE idle_%d (id bigint, pad text) USING %s", s->number, options.rose ? "rose" : "heap") &&
			session_run(s, "INSERT INTO idle_%d SELECT i, repeat(md5(i::text), 3) FROM generate_series(1, %d) i", s->number, 10000 * n);
	else if (how == 1 && good)
	{
		int			shape = shape_pick(s);

		good = session_run(s, "LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE", table_name(BATCH, shape)) &&
			batch_insert(s, shape, -++number, shape_is_wide(shape) ? 2000 : 10000, 3);
	}
	for (int i = 0; how >= 2 && i < n && good; i++)
	{
		int			shape = shape_pick(s);

		good = batch_insert(s, shape, -++number, shape_is_wide(shape) ? 2000 : 10000, 3);
		if (good && trait_enabled(TRAIT_SAVEPOINT))
			good = session_run(s, "SAVEPOINT s%d", i) && (i % 2 == 0 || session_run(s, "ROLLBACK TO s%d", i - 1));
	}
	if (good)
		idle(1000 + random_below(&s->random, 6000));
	transaction_abort(s);
}
