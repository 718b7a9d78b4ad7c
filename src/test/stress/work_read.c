/*-------------------------------------------------------------------------
 *
 * work_read.c
 *	  Readers: in one REPEATABLE READ snapshot, the invariants hold, and all ways
 *	  of reading a table agree.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

/*
 * Locks a table and only then takes a snapshot.  Without a table: all accounts.
 */
static bool
begin_snapshot(Session *s, const char *table)
{
	if (!transaction_begin(s, random_chance(&s->random, 80) ? "ISOLATION LEVEL REPEATABLE READ" :
						   "ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
		return false;
	if (table)
		return session_run(s, "LOCK TABLE %s IN ACCESS SHARE MODE", table);
	for (int shape = 0; shape < SHAPES; shape++)
	{
		if (options.shapes >> shape & 1 &&
			!session_run(s, "LOCK TABLE %s IN ACCESS SHARE MODE", table_name(ACCOUNT, shape)))
			return false;
	}
	return true;
}

/* The sum over all account tables, and each one's count. */
static bool
accounts_add_up(Session *s)
{
	char		sql[2048] = "";
	int			tables = 0;
	PGresult   *result;

	for (int shape = 0; shape < SHAPES; shape++)
	{
		size_t		used = strlen(sql);

		if (options.shapes >> shape & 1)
			snprintf(sql + used, sizeof(sql) - used, "%sSELECT '%s' AS name, count(*) AS rows, sum(v) AS v, "
					 "count(*) FILTER (WHERE pad <> repeat(md5(v::text), length(pad) / 32)) AS wrong FROM %s",
					 tables++ ? " UNION ALL " : "", shape_names[shape], table_name(ACCOUNT, shape));
	}
	result = session_query(s, "SELECT sum(v), string_agg(format('%%s: %%s rows, sum %%s, %%s with a wrong text', name, rows, v, wrong), '; '), "
						   "bool_and(rows = %d AND wrong = 0) FROM (%s) a", ACCOUNTS, sql);
	if (result == NULL)
		return false;
	if (strtoll(PQgetvalue(result, 0, 0), NULL, 10) != (long long) tables * ACCOUNTS * ACCOUNT_START ||
		strcmp(PQgetvalue(result, 0, 2), "t") != 0)
		fail(s, "accounts do not add up to %d with %d rows each: %s (%s)", tables * ACCOUNTS * ACCOUNT_START, ACCOUNTS,
			 PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1));
	PQclear(result);
	return true;
}

static bool
batches_are_whole(Session *s, int shape)
{
	PGresult   *result = session_query(s, "SELECT grp, v, count(*), min(n), max(n) FROM %s GROUP BY grp, v "
									   "HAVING count(*) <> min(n) OR min(n) <> max(n)", table_name(BATCH, shape));

	if (result && PQntuples(result) > 0)
		fail(s, "%s: of batch %s of session %s there are %s rows of %s (%d such batches)", table_name(BATCH, shape),
			 PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 2), PQgetvalue(result, 0, 3),
			 PQntuples(result));
	PQclear(result);
	return result != NULL;
}

static bool
read_accounts(Session *s)
{
	int			repeats = random_chance(&s->random, 20) ? 4 : 1;

	if (!begin_snapshot(s, NULL))
		return false;
	for (int i = 0; i < repeats; i++)
	{
		int			shape = shape_pick(s);

		if (!accounts_add_up(s) || !paths_compare(s, ACCOUNT, shape, "true", true))
			return false;
		if (repeats > 1)
			sleep_ms(random_below(&s->random, 1000));
	}
	return true;
}

static bool
read_batches(Session *s)
{
	int			shape = shape_pick(s);
	char		where[64];

	snprintf(where, sizeof(where), "grp = 's%d'", 1 + random_below(&s->random, options.sessions));
	return begin_snapshot(s, table_name(BATCH, shape)) && batches_are_whole(s, shape) &&
		paths_compare(s, BATCH, shape, where, true) && batches_are_whole(s, shape);
}

static bool
read_own(Session *s)
{
	int			shape = shape_pick(s);
	int			whose = 1 + random_below(&s->random, options.sessions);
	char		where[64];

	snprintf(where, sizeof(where), "id BETWEEN %d AND %d", whose * 1000, whose * 1000 + 999);
	return begin_snapshot(s, table_name(OWN, shape)) &&
		paths_compare(s, OWN, shape, random_chance(&s->random, 70) ? where : "true", true);
}

void
work_read(Session *s)
{
	int			what = random_below(&s->random, 5);
	bool		good;

	s->allowed = "";
	good = what < 2 ? read_accounts(s) : what < 4 ? read_own(s) : read_batches(s);
	if (good)
		transaction_end(s);
	else
		transaction_abort(s);
}
