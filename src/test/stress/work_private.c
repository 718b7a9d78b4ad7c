/*-------------------------------------------------------------------------
 *
 * work_private.c
 *	  A table of the session's own that is made, filled, emptied, altered and
 *	  dropped in transactions, with savepoints: what is otherwise hard to know
 *	  beside others.
 *
 * The rows' ids are 1 to "rows", so the model is a few numbers.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PRIVATE_ROWS	6000

typedef struct Private
{
	bool		exists;
	bool		keyed;
	bool		extra;			/* has the column x, which is 5 everywhere */
	bool		wide_id;		/* the id is bigint, not int */
	bool		numeric_v;		/* v is numeric, not bigint */
	int			rows;
	int64_t		sum;			/* of v */
} Private;

static Private committed;

static bool
verify(Session *s, const Private *t)
{
	PGresult   *result;

	if (!t->exists)
	{
		int64_t		n = session_count(s, "SELECT count(*) FROM pg_class WHERE relname = 'private_%d'", s->number);

		if (n > 0)
			fail(s, "private_%d is there", s->number);
		return n != FAILED;
	}
	result = session_query(s, "SELECT count(*), coalesce(sum(v), 0), count(DISTINCT id), coalesce(max(id), 0), %s FROM private_%d",
						   t->extra ? "coalesce(sum(x), 0)" : "count(*) * 5", s->number);
	if (result == NULL)
		return false;
	if (strtol(PQgetvalue(result, 0, 0), NULL, 10) != t->rows || strtoll(PQgetvalue(result, 0, 1), NULL, 10) != t->sum ||
		strtol(PQgetvalue(result, 0, 2), NULL, 10) != t->rows || strtol(PQgetvalue(result, 0, 3), NULL, 10) != t->rows ||
		strtol(PQgetvalue(result, 0, 4), NULL, 10) != t->rows * 5)
		fail(s, "private_%d: %s rows, sum %s, %s ids up to %s, x %s; it has %d rows and the sum %lld", s->number, PQgetvalue(result, 0, 0),
			 PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 2), PQgetvalue(result, 0, 3), PQgetvalue(result, 0, 4), t->rows,
			 (long long) t->sum);
	PQclear(result);
	return true;
}

/* In the ways that indexes offer; v is above 0 everywhere. */
static bool
verify_by_index(Session *s, const Private *t)
{
	PGresult   *result;

	if (!t->exists)
		return true;
	if (!session_run(s, "SET LOCAL enable_seqscan = off"))
		return false;
	result = session_query(s, "SELECT count(*), coalesce(sum(v), 0), count(DISTINCT id), count(pad) FROM private_%d WHERE %s", s->number,
						   random_chance(&s->random, 50) ? "v > 0" : "pad >= ''");
	if (result == NULL)
		return false;
	if (strtol(PQgetvalue(result, 0, 0), NULL, 10) != t->rows || strtoll(PQgetvalue(result, 0, 1), NULL, 10) != t->sum ||
		strtol(PQgetvalue(result, 0, 2), NULL, 10) != t->rows || strtol(PQgetvalue(result, 0, 3), NULL, 10) != t->rows)
		fail(s, "private_%d by an index: %s rows, sum %s, %s ids, %s texts; it has %d rows and the sum %lld", s->number,
			 PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 2), PQgetvalue(result, 0, 3), t->rows,
			 (long long) t->sum);
	PQclear(result);
	return session_run(s, "SET LOCAL enable_seqscan = on");
}

static bool
create(Session *s, Private *t)
{
	memset(t, 0, sizeof(*t));
	t->exists = true;
	t->keyed = random_chance(&s->random, 50);
	return session_run(s, "CREATE TABLE private_%d (id int NOT NULL, pad text, v bigint%s) USING %s", s->number,
					   t->keyed ? ", PRIMARY KEY (id)" : "", options.rose ? "rose" : "heap");
}

static bool
drop(Session *s, Private *t)
{
	memset(t, 0, sizeof(*t));
	return session_run(s, "DROP TABLE private_%d", s->number);
}

static bool
fill(Session *s, Private *t)
{
	static const int sizes[] = {1, 10, 300, 2500};
	int			n = sizes[random_below(&s->random, 4)];

	if (t->rows + n > MAX_PRIVATE_ROWS)
		return true;
	if (!session_run(s, "INSERT INTO private_%d (id, pad, v) SELECT i, repeat(md5(i::text), 4), i FROM generate_series(%d, %d) i", s->number,
					 t->rows + 1, t->rows + n))
		return false;
	for (int i = t->rows + 1; i <= t->rows + n; i++)
		t->sum += i;
	t->rows += n;
	return true;
}

static bool
change(Session *s, Private *t)
{
	int64_t		n = session_count(s, "UPDATE private_%d SET v = v + 1", s->number);

	if (n != FAILED && n != t->rows)
		fail(s, "private_%d: %lld rows were updated of %d", s->number, (long long) n, t->rows);
	t->sum += t->rows;
	return n != FAILED;
}

static bool
empty(Session *s, Private *t)
{
	t->rows = 0;
	t->sum = 0;
	return session_run(s, random_chance(&s->random, 70) ? "TRUNCATE private_%d" : "DELETE FROM private_%d", s->number);
}

static bool
alter(Session *s, Private *t)
{
	switch (random_below(&s->random, 4))
	{
		case 0:
			t->extra = !t->extra;
			return session_run(s, t->extra ? "ALTER TABLE private_%d ADD COLUMN x int DEFAULT 5" :
							   "ALTER TABLE private_%d DROP COLUMN x", s->number);
		case 1:
			t->wide_id = !t->wide_id;
			return session_run(s, "ALTER TABLE private_%d ALTER id TYPE %s", s->number, t->wide_id ? "bigint" : "int");
		case 2:
			t->numeric_v = !t->numeric_v;
			return session_run(s, "ALTER TABLE private_%d ALTER v TYPE %s", s->number, t->numeric_v ? "numeric" : "bigint");
		default:
			t->keyed = !t->keyed;
			return session_run(s, t->keyed ? "ALTER TABLE private_%d ADD CONSTRAINT private_%d_pkey PRIMARY KEY (id)" :
							   "ALTER TABLE private_%d DROP CONSTRAINT private_%d_pkey", s->number, s->number);
	}
}

static bool
deed(Session *s, Private *t, bool undone)
{
	int			what = random_below(&s->random, 22);
	char		name[32];

	snprintf(name, sizeof(name), "private_%d", s->number);
	if (!t->exists)
		return create(s, t) && (random_chance(&s->random, 50) || indexes_change_private(s, name));
	if (what == 0)
		return drop(s, t);
	if (what < 8)
		return fill(s, t);
	if (what < 11)
		return change(s, t);
	if (what < 13)
		return empty(s, t);
	if (what < 16 && trait_enabled(undone ? TRAIT_ALTER_UNDONE : TRAIT_ALTER))
		return alter(s, t);
	if (what >= 20)
		return indexes_change_private(s, name);
	if (what < 18 && options.rose)
	{
		session_beside(s, "SELECT rose.%s('private_%d')", random_chance(&s->random, 70) ? "spill" : "merge", s->number);
		return true;
	}
	return random_chance(&s->random, 50) ? verify(s, t) : verify_by_index(s, t);
}

void
work_private(Session *s)
{
	Private		t = committed;
	Private		saved = t;
	int			n = 1 + random_below(&s->random, 6);
	bool		good;

	s->allowed = "";
	good = transaction_begin(s, "");
	for (int i = 0; i < n && good; i++)
	{
		bool		back = trait_enabled(TRAIT_SAVEPOINT) && random_chance(&s->random, 25);

		saved = t;
		good = (!back || session_run(s, "SAVEPOINT p")) && deed(s, &t, back) &&
			(!back || session_run(s, trait_enabled(TRAIT_ALTER_UNDONE) ? "ROLLBACK TO p" : "ROLLBACK TO p; RELEASE p"));
		if (back)
			t = saved;
	}
	good = good && verify(s, &t) && verify_by_index(s, &t);
	if (!good || random_chance(&s->random, 20))
		transaction_abort(s);
	else if (transaction_commit(s))
		committed = t;
	if (random_chance(&s->random, 50) && !session_server_went(s))
		verify(s, &committed);
	if (options.rose && committed.exists && random_chance(&s->random, 20) && !session_server_went(s))
	{
		char		name[32];

		snprintf(name, sizeof(name), "private_%d", s->number);
		tables_check(s, name);
	}
}

void
work_private_finish(Session *s)
{
	while (!verify(s, &committed))
		session_server_went(s);
}
