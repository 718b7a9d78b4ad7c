/*-------------------------------------------------------------------------
 *
 * indexes.c
 *	  Secondary indexes of the tables, which come and go beside everything else.
 *
 * A table has up to INDEXES of them, by number, each on columns that are picked when
 * it is made; on the tables that all share, and on those of one session alone.  What
 * they answer is compared with what scans of the table find (paths.c), and with the
 * table's rows by rose.check.  Those of a partitioned table are made of the whole of
 * it, and so have one for each leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <string.h>

#define INDEXES		4

/* All tables have these columns, those of work_private.c only those of the second list. */
static const char *const definitions[] = {
	"(v)", "(v DESC, id)", "(grp, v)", "(grp COLLATE \"C\" DESC) INCLUDE (v)", "(v NULLS FIRST, grp DESC)", "(n, grp)",
	"(id DESC, v) INCLUDE (pad)", "(n DESC, v DESC, id DESC, grp DESC)", "(grp) INCLUDE (n, id)",
	"((v % 7), upper(grp))", "(v) WHERE v % 3 = 0", "((n IS NULL), grp) INCLUDE (v) WHERE v IS NOT NULL",
};

static const char *const private_definitions[] = {
	"(v)", "(v DESC, id DESC)", "(pad) INCLUDE (v)", "(id, v)", "((v % 5)) WHERE id % 2 = 0",
};

#define DEFINITIONS ((int) (sizeof(definitions) / sizeof(definitions[0])))
#define PRIVATE_DEFINITIONS ((int) (sizeof(private_definitions) / sizeof(private_definitions[0])))

static bool
create(Session *s, const char *table, int number)
{
	return session_run(s, "CREATE INDEX IF NOT EXISTS %s_i%d ON %s %s", table, number, table,
					   definitions[random_below(&s->random, DEFINITIONS)]);
}

static bool
drop(Session *s, const char *table, int number)
{
	return session_run(s, "DROP INDEX IF EXISTS %s_i%d", table, number);
}

/* Those that a table begins with. */
void
indexes_create(Session *s, const char *table)
{
	int			n = options.indexes > 0 ? random_below(&s->random, options.indexes + 1) : 0;

	for (int i = 0; i < n; i++)
		create(s, table, i);
}

/* Of a table of the session's own; whether it is there already, or was, does not matter. */
bool
indexes_change_private(Session *s, const char *table)
{
	if (options.indexes == 0)
		return true;
	if (random_chance(&s->random, 30))
		return session_run(s, "DROP INDEX IF EXISTS %s_i", table);
	if (random_chance(&s->random, 20))
		return session_run(s, "REINDEX TABLE %s", table);
	return session_run(s, "CREATE INDEX IF NOT EXISTS %s_i ON %s %s", table, table,
					   private_definitions[random_below(&s->random, PRIVATE_DEFINITIONS)]);
}

/* Something with each index of a leaf, as with a table; while that is locked, none goes. */
static void
do_with_indexes(Session *s, const char *what)
{
	const char *leaf = tables_pick_any(s);
	PGresult   *result = NULL;

	if (transaction_begin(s, "") && session_run(s, "LOCK TABLE %s IN ACCESS SHARE MODE", leaf))
		result = session_query(s, "SELECT c.relname, x FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid, LATERAL %s x "
							   "WHERE i.indrelid = '%s'::regclass AND NOT i.indisprimary", what, leaf);
	for (int i = 0; result && strncmp(what, "rose.check", 10) == 0 && i < PQntuples(result); i++)
		fail(s, "rose.check('%s') says: %s", PQgetvalue(result, i, 0), PQgetvalue(result, i, 1));
	PQclear(result);
	transaction_abort(s);
}

/* In a transaction, which is taken back as often as not: one or several that come or go. */
static void
come_and_go(Session *s, const char *table)
{
	int			n = 1 + random_below(&s->random, 3);
	bool		good = transaction_begin(s, "");

	for (int i = 0; i < n && good; i++)
	{
		int			number = random_below(&s->random, INDEXES);

		good = random_chance(&s->random, 60) ? create(s, table, number) : drop(s, table, number);
		if (good && random_chance(&s->random, 20))
			good = session_run(s, "SAVEPOINT i") && create(s, table, INDEXES) && session_run(s, "ROLLBACK TO i");
	}
	if (!good || random_chance(&s->random, 40))
		transaction_abort(s);
	else
		transaction_commit(s);
}

void
actor_index(Session *s)
{
	const char *table = table_name(random_below(&s->random, FAMILIES), shape_pick(s));
	int			what = random_below(&s->random, 12);

	s->allowed = "";
	if (what < 5)
		come_and_go(s, table);
	else if (what < 7)
	{
		s->allowed = "42P01";
		session_run(s, "REINDEX INDEX %s_i%d", table, random_below(&s->random, INDEXES));
	}
	else if (what < 8)
		session_run(s, "REINDEX TABLE %s", random_chance(&s->random, 50) ? tables_pick_any(s) : table);
	else if (!options.rose)
		return;
	else if (what < 10)
		do_with_indexes(s, "rose.spill(i.indexrelid)");
	else
		do_with_indexes(s, what < 11 ? "rose.merge(i.indexrelid)" : "rose.check(i.indexrelid)");
}
