/*-------------------------------------------------------------------------
 *
 * work_cursor.c
 *	  Cursors that are read while their own session and others write: what a
 *	  cursor returns is what was there when it was opened.
 *
 * Forward and backward, with and without order, held over the commit, and
 * changes of the row that a cursor stands on.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

typedef struct Seen
{
	int64_t		rows;
	int64_t		sum;
} Seen;

static bool
fetch(Session *s, const char *what, Seen *seen, int *got)
{
	PGresult   *result = session_query(s, "FETCH %s FROM c", what);

	if (result == NULL)
		return false;
	*got = PQntuples(result);
	for (int i = 0; i < *got; i++)
		seen->sum += strtoll(PQgetvalue(result, i, 0), NULL, 10);
	seen->rows += *got;
	PQclear(result);
	return true;
}

static void
compare(Session *s, int shape, const Seen *seen, const Seen *expected, const char *how)
{
	if (seen->rows != expected->rows || seen->sum != expected->sum)
		fail(s, "a cursor on %s returned, %s, %lld rows with the sum %lld instead of %lld and %lld", table_name(ACCOUNT, shape), how,
			 (long long) seen->rows, (long long) seen->sum, (long long) expected->rows, (long long) expected->sum);
}

/* Something that the cursor must not see. */
static bool
disturb(Session *s, int shape)
{
	if (random_chance(&s->random, 50))
		tables_churn(s, ACCOUNT, shape);
	if (!trait_enabled(TRAIT_SAVEPOINT) || random_chance(&s->random, 70))
		return true;
	return session_run(s, "SAVEPOINT d") &&
		session_run(s, "UPDATE %s SET v = v + 1, pad = " PAD_OF("v + 1") " WHERE id BETWEEN %d AND %d", table_name(ACCOUNT, shape), 2,
					1 + random_below(&s->random, ACCOUNT_IDS), 10) &&
		session_run(s, "ROLLBACK TO d");
}

static bool
read_through(Session *s, int shape, const Seen *expected, bool scroll)
{
	Seen		forward = {0, 0};
	Seen		backward = {0, 0};
	int			got = 1;
	char		what[32];

	while (got > 0)
	{
		snprintf(what, sizeof(what), "%d", 20 + random_below(&s->random, 150));
		if (!fetch(s, what, &forward, &got) || !disturb(s, shape))
			return false;
	}
	compare(s, shape, &forward, expected, "forward");
	if (!scroll)
		return true;
	if (!fetch(s, "BACKWARD ALL", &backward, &got))
		return false;
	compare(s, shape, &backward, expected, "backward");
	return true;
}

static bool
expect(Session *s, int shape, Seen *expected)
{
	PGresult   *result = session_query(s, "SELECT count(*), sum(v) FROM %s", table_name(ACCOUNT, shape));

	if (result == NULL)
		return false;
	expected->rows = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	expected->sum = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
	PQclear(result);
	return true;
}

static bool
open_and_read(Session *s, int shape, bool hold)
{
	Seen		expected;
	bool		scroll = random_chance(&s->random, 50);
	int			order = random_below(&s->random, 3);

	if (!session_run(s, "LOCK TABLE %s IN ACCESS SHARE MODE", table_name(ACCOUNT, shape)) || !expect(s, shape, &expected) ||
		!session_run(s, "DECLARE c %s CURSOR %s FOR SELECT v FROM %s%s%s", scroll ? "SCROLL" : "NO SCROLL", hold ? "WITH HOLD" : "",
					 table_name(ACCOUNT, shape), order ? " ORDER BY " : "",
					 order == 0 ? "" : order == 1 ? shape_key(shape) : shape_backward(shape)))
		return false;
	if (!hold)
		return read_through(s, shape, &expected, scroll);
	if (!transaction_commit(s) || PQtransactionStatus(s->conn) != PQTRANS_IDLE)
		return false;
	tables_churn(s, ACCOUNT, shape);
	if (!transaction_begin(s, "") || !read_through(s, shape, &expected, scroll))
		return false;
	return session_run(s, "CLOSE c");
}

/* Changes the row that a cursor stands on, and changes it back. */
static bool
change_current(Session *s, int shape)
{
	PGresult   *result;
	bool		found;

	if (!session_run(s, "DECLARE c CURSOR FOR SELECT v FROM %s WHERE id > %d FOR UPDATE", table_name(ACCOUNT, shape),
					 random_below(&s->random, ACCOUNT_IDS)))
		return false;
	result = session_query(s, "FETCH 1 FROM c");
	found = result && PQntuples(result) == 1;
	PQclear(result);
	if (!found)
		return false;
	if (random_chance(&s->random, 50))
		tables_churn(s, ACCOUNT, shape);
	for (int i = 0; i < 2; i++)
	{
		int			amount = i ? -7 : 7;
		int64_t		n = session_count(s, "UPDATE %s SET v = v + %d, pad = " PAD_OF("v + %d") " WHERE CURRENT OF c",
									  table_name(ACCOUNT, shape), amount, amount, 2);

		/* the second time, it is the version that the first has made */
		if (n != FAILED && n != 1)
			fail(s, "%s: WHERE CURRENT OF changed %lld rows, the %d. time", table_name(ACCOUNT, shape), (long long) n, i + 1);
		if (n == FAILED)
			return false;
	}
	return true;
}

void
work_cursor(Session *s)
{
	int			shape = shape_pick(s);
	bool		current = random_chance(&s->random, 40);
	bool		hold = !current && random_chance(&s->random, 30);
	bool		good;

	/* snapshots: the expectation and the cursor must have the same */
	s->allowed = current && !shape_is_partitioned(shape) ? "" : "40001";
	good = transaction_begin(s, current ? "" : "ISOLATION LEVEL REPEATABLE READ") &&
		(current ? change_current(s, shape) : open_and_read(s, shape, hold));
	if (good)
		transaction_commit(s);
	else
		transaction_abort(s);
	if (hold && !session_server_went(s) && PQtransactionStatus(s->conn) == PQTRANS_IDLE)
		session_run(s, "CLOSE ALL");
}
