/*-------------------------------------------------------------------------
 *
 * work_transfer.c
 *	  Transfers between accounts, in one table or in two, and moves of accounts
 *	  to other keys, and large changes that are taken back: the sum over all tables
 *	  and each table's count never change.
 *
 * A lost or doubled update changes the sum, which work_read.c looks at in every
 * snapshot.  Accounts are few, so sessions meet.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

/* What may happen to a transaction that others disturb, by its isolation. */
static const char *
allow(int shape, int other, bool read_committed)
{
	if (!read_committed || shape_is_partitioned(shape) || shape_is_partitioned(other))
		return "40001";
	return "";
}

/* Adds to an account by an expression; true if it was one row. */
static bool
add_blind(Session *s, int shape, int id, int amount)
{
	return session_count(s, "UPDATE %s SET v = v + %d, pad = " PAD_OF("v + %d") " WHERE id = %d",
						 table_name(ACCOUNT, shape), amount, amount, 1 + random_below(&s->random, 5), id) == 1;
}

/* Locks the account, reads it, and writes what was computed from it. */
static bool
add_locked(Session *s, int shape, int id, int amount, const char *lock)
{
	PGresult   *result = session_query(s, "SELECT v, ctid FROM %s WHERE id = %d %s", table_name(ACCOUNT, shape), id, lock);
	bool		found = result && PQntuples(result) == 1;
	char		v[32];
	int64_t		n;

	snprintf(v, sizeof(v), "(%.20s + %d)", found ? PQgetvalue(result, 0, 0) : "", amount);
	PQclear(result);
	if (!found)
		return false;
	if (random_chance(&s->random, 10))
		tables_churn(s, ACCOUNT, shape);
	n = session_count(s, "UPDATE %s SET v = %s, pad = " PAD_OF("%s") " WHERE id = %d",
					  table_name(ACCOUNT, shape), v, v, 1 + random_below(&s->random, 5), id);
	if (n != 1 && n != FAILED)
		fail(s, "%lld rows were updated of the one that this transaction has locked", (long long) n);
	return n == 1;
}

/* A change that is taken back by a savepoint. */
static bool
stray(Session *s, int shape)
{
	if (!trait_enabled(TRAIT_SAVEPOINT))
		return true;
	if (!session_run(s, "SAVEPOINT stray") || !add_blind(s, shape, 1 + random_below(&s->random, ACCOUNT_IDS), 5))
		return s->state[0] == '\0' && session_run(s, "ROLLBACK TO stray");
	if (random_chance(&s->random, 30))
		tables_churn(s, ACCOUNT, shape);
	return session_run(s, "ROLLBACK TO stray");
}

static bool
transfer(Session *s, int from, int to)
{
	static const char *const locks[] = {"FOR UPDATE", "FOR NO KEY UPDATE", "FOR UPDATE"};
	int			amount = random_below(&s->random, 100);
	int			source = 1 + random_below(&s->random, ACCOUNT_IDS);
	int			target = 1 + random_below(&s->random, ACCOUNT_IDS);
	int			how = random_below(&s->random, 4);

	if (from == to && source == target)
		return false;
	if (random_chance(&s->random, 25) && !stray(s, from))
		return false;
	if (how == 0)
		return add_blind(s, from, source, -amount) && add_blind(s, to, target, amount);
	return add_locked(s, from, source, -amount, locks[how - 1]) && add_locked(s, to, target, amount, locks[how - 1]);
}

void
work_transfer(Session *s)
{
	static const char *const levels[] = {"", "", "", "", "ISOLATION LEVEL REPEATABLE READ", "ISOLATION LEVEL SERIALIZABLE"};
	const char *level = levels[random_below(&s->random, 6)];
	int			from = shape_pick(s);
	int			to = random_chance(&s->random, 50) ? from : shape_pick(s);

	s->allowed = allow(from, to, level[0] == '\0');
	if (transaction_begin(s, level) && transfer(s, from, to) && !random_chance(&s->random, 10))
		transaction_commit(s);
	else
		transaction_abort(s);
}

/* Moves an account to another key, perhaps onward, and perhaps with a change of it. */
static bool
move(Session *s, int shape, int from, int to)
{
	return session_count(s, "UPDATE %s SET id = %d, grp = '%s' WHERE id = %d", table_name(ACCOUNT, shape),
						 to, group_of(to), from) == 1;
}

void
work_move(Session *s)
{
	int			shape = shape_pick(s);
	int			from = 1 + random_below(&s->random, ACCOUNT_IDS);
	int			to = 1 + random_below(&s->random, ACCOUNT_IDS);
	bool		good;

	s->allowed = shape_is_partitioned(shape) ? "23505 40001" : "23505";
	good = transaction_begin(s, "") && move(s, shape, from, to);
	if (good && random_chance(&s->random, 40))
		good = add_blind(s, shape, to, 3) && (!random_chance(&s->random, 30) || stray(s, shape)) && add_blind(s, shape, to, -3);
	if (good && random_chance(&s->random, 30))
	{
		tables_churn(s, ACCOUNT, shape);
		good = move(s, shape, to, 1 + random_below(&s->random, ACCOUNT_IDS));
	}
	if (good && !random_chance(&s->random, 10))
		transaction_commit(s);
	else
		transaction_abort(s);
}

/*
 * Changes so much that a spill writes a run for it, takes that back, and stays
 * open while others change the same accounts and merges go on.
 */
static bool
undo(Session *s, int shape)
{
	int			from = 1 + random_below(&s->random, ACCOUNT_IDS / 2);

	if (!session_run(s, "SAVEPOINT undo") ||
		!session_run(s, "UPDATE %s SET v = v + 1000, pad = " PAD_OF("v + 1000") " WHERE id BETWEEN %d AND %d",
					 table_name(ACCOUNT, shape), 100, from, from + 150))
		return false;
	tables_churn(s, ACCOUNT, shape);
	if (!session_run(s, "ROLLBACK TO undo"))
		return false;
	sleep_ms(random_below(&s->random, 400));
	tables_churn(s, ACCOUNT, shape);
	return !random_chance(&s->random, 60) ||
		(add_locked(s, shape, from, 10, "FOR UPDATE") && add_locked(s, shape, from, -10, "FOR UPDATE"));
}

void
work_undo(Session *s)
{
	int			shape = shape_pick(s);

	if (!trait_enabled(TRAIT_SAVEPOINT))
	{
		work_transfer(s);
		return;
	}
	s->allowed = allow(shape, shape, true);
	if (transaction_begin(s, "") && undo(s, shape) && random_chance(&s->random, 70))
		transaction_commit(s);
	else
		transaction_abort(s);
}
