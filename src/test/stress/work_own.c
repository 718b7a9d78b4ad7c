/*-------------------------------------------------------------------------
 *
 * work_own.c
 *	  Rows of the session's own, in tables that all share: the session knows each
 *	  row's value, in the middle of its transactions as well, and compares row
 *	  counts and contents.
 *
 * Upserts, ranges, moves of keys, changes by ctid, savepoints that are kept and
 * taken back after spills.  What it knows outlives the server: the last value
 * that was acknowledged must be there after a crash.
 *
 * The model is one value for each of the session's ids; a transaction works on a
 * copy, and each savepoint keeps the copy of its start.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

#define OWN_ROWS		160
#define MAX_SAVEPOINTS	5
#define ABSENT			INT64_MIN

typedef struct Model
{
	int64_t		v[OWN_ROWS];
} Model;

typedef struct OwnTransaction
{
	int			shape;
	const char *table;
	Model		model;
	Model		saved[MAX_SAVEPOINTS];
	int			nsaved;
} OwnTransaction;

static Model committed[SHAPES];
static bool initialized;

static int64_t
id_of(Session *s, int i)
{
	return (int64_t) s->number * 1000 + i;
}

/* A stretch of the session's ids. */
static void
pick_range(Session *s, int *from, int *n)
{
	static const int lengths[] = {1, 1, 1, 2, 5, 20, 60, OWN_ROWS};

	*n = lengths[random_below(&s->random, 8)];
	*from = random_below(&s->random, OWN_ROWS - *n + 1);
}

static int
pick_pad(Session *s)
{
	return random_chance(&s->random, 8) ? 40 + random_below(&s->random, 20) : 1 + random_below(&s->random, 8);
}

static int
present(const OwnTransaction *t, int from, int n)
{
	int			count = 0;

	for (int i = from; i < from + n; i++)
		count += t->model.v[i] != ABSENT;
	return count;
}

/* Picks a row that is there, or one that is not; -1 if it has not found one. */
static int
pick_row(Session *s, const OwnTransaction *t, bool there)
{
	for (int tries = 0; tries < 30; tries++)
	{
		int			i = random_below(&s->random, OWN_ROWS);

		if ((t->model.v[i] != ABSENT) == there)
			return i;
	}
	return -1;
}

/* Compares how many rows a statement changed with how many it should have. */
static bool
counts(Session *s, const OwnTransaction *t, int64_t got, int64_t wanted)
{
	if (got != FAILED && got != wanted)
		fail(s, "%s: %lld rows instead of %lld", t->table, (long long) got, (long long) wanted);
	return got != FAILED;
}

/* ---- What is done; each returns false after an error that may be ---- */

#define GROUP_OF_ID "(ARRAY['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', 'eta'])[(%lld + i) %% 7 + 1]"

static bool
do_upsert(Session *s, OwnTransaction *t)
{
	int			from,
				n;
	int64_t		v = random_below(&s->random, 1000000);
	int64_t		first;
	bool		plain = !shape_has_key(t->shape);

	pick_range(s, &from, &n);
	if (plain && present(t, from, n) > 0)
		return true;
	first = id_of(s, from);
	if (!counts(s, t, session_count(s, "INSERT INTO %s (id, grp, v, n, pad) SELECT %lld + i, " GROUP_OF_ID ", %lld + i, 0, "
									PAD_OF("%lld + i") " FROM generate_series(0, %d) i%s%s%s", t->table, (long long) first,
									(long long) first, (long long) v, (long long) v, pick_pad(s), n - 1,
									plain ? "" : " ON CONFLICT (", plain ? "" : shape_key(t->shape),
									plain ? "" : ") DO UPDATE SET v = EXCLUDED.v, pad = EXCLUDED.pad"), n))
		return false;
	for (int i = 0; i < n; i++)
		t->model.v[from + i] = v + i;
	return true;
}

static void
add_to_range(OwnTransaction *t, int from, int n, int amount)
{
	for (int i = from; i < from + n; i++)
	{
		if (t->model.v[i] != ABSENT)
			t->model.v[i] += amount;
	}
}

static bool
do_update(Session *s, OwnTransaction *t)
{
	int			amount = random_below(&s->random, 1000);
	int			from,
				n;

	pick_range(s, &from, &n);
	if (!counts(s, t, session_count(s, "UPDATE %s SET v = v + %d, pad = " PAD_OF("v + %d") " WHERE id BETWEEN %lld AND %lld", t->table,
									amount, amount, pick_pad(s), (long long) id_of(s, from), (long long) id_of(s, from + n - 1)),
				present(t, from, n)))
		return false;
	add_to_range(t, from, n, amount);
	return true;
}

static bool
do_update_by_ctid(Session *s, OwnTransaction *t)
{
	int			amount = random_below(&s->random, 1000);
	int			from,
				n;

	if (!trait_enabled(TRAIT_CTID))
		return true;
	pick_range(s, &from, &n);
	if (!counts(s, t, session_count(s, "UPDATE %s t SET v = v + %d, pad = " PAD_OF("v + %d")
									" FROM (SELECT ctid AS c, tableoid AS o FROM %s WHERE id BETWEEN %lld AND %lld OFFSET 0) k "
									"WHERE t.ctid = k.c AND t.tableoid = k.o", t->table, amount, amount, pick_pad(s), t->table,
									(long long) id_of(s, from), (long long) id_of(s, from + n - 1)),
				present(t, from, n)))
		return false;
	add_to_range(t, from, n, amount);
	return true;
}

/* The ctid is read by one statement and used by a later one. */
static bool
do_update_by_ctid_later(Session *s, OwnTransaction *t)
{
	int			i = pick_row(s, t, true);
	char		ctid[64];

	if (i < 0 || shape_is_partitioned(t->shape) || !trait_enabled(TRAIT_CTID))
		return true;
	if (!session_value(s, ctid, sizeof(ctid), "SELECT ctid FROM %s WHERE id = %lld", t->table, (long long) id_of(s, i)))
		return false;
	if (random_chance(&s->random, 60))
		tables_churn(s, OWN, t->shape);
	if (!counts(s, t, session_count(s, "UPDATE %s SET v = v + 1, pad = " PAD_OF("v + 1") " WHERE ctid = '%s' AND id = %lld",
									t->table, pick_pad(s), ctid, (long long) id_of(s, i)), 1))
		return false;
	t->model.v[i]++;
	return true;
}

static bool
do_delete(Session *s, OwnTransaction *t)
{
	int			from,
				n;
	int64_t		got;

	pick_range(s, &from, &n);
	if (shape_is_partitioned(t->shape) || !trait_enabled(TRAIT_CTID) || random_chance(&s->random, 50))
		got = session_count(s, "DELETE FROM %s WHERE id BETWEEN %lld AND %lld", t->table, (long long) id_of(s, from),
							(long long) id_of(s, from + n - 1));
	else
		got = session_count(s, "DELETE FROM %s WHERE ctid = ANY(ARRAY(SELECT ctid FROM %s WHERE id BETWEEN %lld AND %lld))",
							t->table, t->table, (long long) id_of(s, from), (long long) id_of(s, from + n - 1));
	if (!counts(s, t, got, present(t, from, n)))
		return false;
	for (int i = from; i < from + n; i++)
		t->model.v[i] = ABSENT;
	return true;
}

/* Moves a row to another key, and perhaps changes it there. */
static bool
do_move(Session *s, OwnTransaction *t)
{
	int			from = pick_row(s, t, true);
	int			to = pick_row(s, t, false);

	if (from < 0 || to < 0)
		return true;
	if (!counts(s, t, session_count(s, "UPDATE %s SET id = %lld, grp = '%s' WHERE id = %lld", t->table, (long long) id_of(s, to),
									group_of(id_of(s, to)), (long long) id_of(s, from)), 1))
		return false;
	t->model.v[to] = t->model.v[from];
	t->model.v[from] = ABSENT;
	if (random_chance(&s->random, 50))
		return true;
	if (random_chance(&s->random, 40))
		tables_churn(s, OWN, t->shape);
	if (!counts(s, t, session_count(s, "UPDATE %s SET v = v + 1, pad = " PAD_OF("v + 1") " WHERE id = %lld", t->table, pick_pad(s),
									(long long) id_of(s, to)), 1))
		return false;
	t->model.v[to]++;
	return true;
}

static bool
do_lock(Session *s, OwnTransaction *t)
{
	static const char *const modes[] = {"UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"};
	int			from,
				n;
	PGresult   *result;

	pick_range(s, &from, &n);
	result = session_query(s, "SELECT id FROM %s WHERE id BETWEEN %lld AND %lld FOR %s", t->table, (long long) id_of(s, from),
						   (long long) id_of(s, from + n - 1), modes[random_below(&s->random, 4)]);
	if (result)
		counts(s, t, PQntuples(result), present(t, from, n));
	PQclear(result);
	return result != NULL;
}

/* A key that is there is refused, whatever has been spilled and taken back meanwhile. */
static bool
do_duplicate(Session *s, OwnTransaction *t)
{
	int			i = pick_row(s, t, true);
	bool		inserted;

	if (i < 0 || !shape_has_key(t->shape) || !trait_enabled(TRAIT_SAVEPOINT))
		return true;
	if (!session_run(s, "SAVEPOINT duplicate"))
		return false;
	s->allowed = "23505";
	inserted = session_run(s, "INSERT INTO %s (id, grp, v, n, pad) VALUES (%lld, '%s', 0, 0, '')", t->table, (long long) id_of(s, i),
						   group_of(id_of(s, i)));
	s->allowed = "";
	if (inserted)
		fail(s, "%s: a second row with the id %lld was not refused", t->table, (long long) id_of(s, i));
	return strcmp(s->state, "23505") == 0 && session_run(s, "ROLLBACK TO duplicate");
}

static bool
do_savepoint(Session *s, OwnTransaction *t)
{
	if (t->nsaved == MAX_SAVEPOINTS || !trait_enabled(TRAIT_SAVEPOINT))
		return true;
	if (!session_run(s, "SAVEPOINT s%d", t->nsaved))
		return false;
	t->saved[t->nsaved++] = t->model;
	return true;
}

static bool
do_rollback_to(Session *s, OwnTransaction *t)
{
	int			to;

	if (t->nsaved == 0)
		return do_savepoint(s, t);
	if (random_chance(&s->random, 40))
		tables_churn(s, OWN, t->shape);
	to = random_below(&s->random, t->nsaved);
	if (!session_run(s, "ROLLBACK TO s%d", to))
		return false;
	t->model = t->saved[to];
	t->nsaved = to + 1;
	return true;
}

static bool
do_release(Session *s, OwnTransaction *t)
{
	if (t->nsaved == 0)
		return true;
	return session_run(s, "RELEASE s%d", --t->nsaved);
}

static bool
do_churn(Session *s, OwnTransaction *t)
{
	tables_churn(s, OWN, t->shape);
	return true;
}

/* Compares all rows of the session with what it knows. */
static bool
verify(Session *s, int shape, const Model *model)
{
	const char *table = table_name(OWN, shape);
	PGresult   *result = session_query(s, "SELECT id, v, grp, pad = repeat(md5(v::text), length(pad) / 32) FROM %s "
									   "WHERE id BETWEEN %lld AND %lld ORDER BY id", table, (long long) id_of(s, 0), (long long) id_of(s, 999));
	int			row = 0;

	if (result == NULL)
		return false;
	for (int i = 0; i < OWN_ROWS; i++)
	{
		bool		there = row < PQntuples(result) && strtoll(PQgetvalue(result, row, 0), NULL, 10) == id_of(s, i);

		if (there != (model->v[i] != ABSENT))
			fail(s, "%s: id %lld %s; the next row that was found is %s", table, (long long) id_of(s, i),
				 there ? "is there, but must not be" : "is not there",
				 row < PQntuples(result) ? PQgetvalue(result, row, 0) : "none");
		if (!there)
			continue;
		if (strtoll(PQgetvalue(result, row, 1), NULL, 10) != model->v[i] || PQgetvalue(result, row, 3)[0] != 't' ||
			strcmp(PQgetvalue(result, row, 2), group_of(id_of(s, i))) != 0)
			fail(s, "%s: id %lld has v %s instead of %lld, grp %s, text %s", table, (long long) id_of(s, i), PQgetvalue(result, row, 1),
				 (long long) model->v[i], PQgetvalue(result, row, 2), PQgetvalue(result, row, 3)[0] == 't' ? "right" : "wrong");
		row++;
	}
	if (row != PQntuples(result))
		fail(s, "%s: id %s is there twice, or is none of this session's", table, PQgetvalue(result, row, 0));
	PQclear(result);
	return true;
}

static bool
do_verify(Session *s, OwnTransaction *t)
{
	static const char *const knobs[] = {"enable_seqscan", "enable_indexscan", "enable_bitmapscan"};

	return session_run(s, "SET LOCAL %s = %s", knobs[random_below(&s->random, 3)], random_chance(&s->random, 50) ? "off" : "on") &&
		verify(s, t->shape, &t->model);
}

typedef bool (*Deed) (Session *s, OwnTransaction *t);

static const Deed deeds[] = {
	do_upsert, do_upsert, do_upsert, do_update, do_update, do_update, do_update_by_ctid, do_update_by_ctid_later, do_delete,
	do_move, do_move, do_lock, do_duplicate, do_savepoint, do_savepoint, do_rollback_to, do_rollback_to, do_release, do_churn,
	do_verify
};

#define NDEEDS	((int) (sizeof(deeds) / sizeof(deeds[0])))

static void
initialize(void)
{
	for (int shape = 0; shape < SHAPES && !initialized; shape++)
	{
		for (int i = 0; i < OWN_ROWS; i++)
			committed[shape].v[i] = ABSENT;
	}
	initialized = true;
}

void
work_own(Session *s)
{
	OwnTransaction t = {.shape = shape_pick(s)};
	int			n = 1 + random_below(&s->random, 10);
	bool		good;

	initialize();
	t.table = table_name(OWN, t.shape);
	t.model = committed[t.shape];
	s->allowed = "";
	good = transaction_begin(s, "");
	for (int i = 0; i < n && good; i++)
		good = deeds[random_below(&s->random, NDEEDS)] (s, &t);
	if (!good || random_chance(&s->random, 15))
		transaction_abort(s);
	else if (transaction_commit(s))
		committed[t.shape] = t.model;
	if (random_chance(&s->random, 25) && !session_server_went(s))
		verify(s, t.shape, &committed[t.shape]);
}

void
work_own_finish(Session *s)
{
	initialize();
	for (int shape = 0; shape < SHAPES; shape++)
	{
		if (options.shapes >> shape & 1)
		{
			while (!verify(s, shape, &committed[shape]))
				session_server_went(s);
		}
	}
}
