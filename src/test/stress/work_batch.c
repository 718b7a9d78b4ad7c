/*-------------------------------------------------------------------------
 *
 * work_batch.c
 *	  Batches: an INSERT or COPY of n rows, each of which says n.  In every
 *	  snapshot a batch is there with all its rows or not at all.
 *
 * The session knows which of its batches have committed; old ones it deletes
 * whole, by value or in chunks of ctids.  grp says whose a row is, v which batch.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LIVE	4
#define MAX_ROWS	100000

typedef struct Batch
{
	int64_t		number;
	int			rows;
} Batch;

typedef struct BatchTable
{
	Batch		live[MAX_LIVE];
	int			nlive;
} BatchTable;

/* What this session has committed. */
static BatchTable committed[SHAPES];
static int64_t last_batch;

static int64_t
first_id(Session *s, int64_t batch)
{
	return ((int64_t) s->number * 1000000 + batch) * MAX_ROWS;
}

static bool
insert_batch(Session *s, int shape, int64_t batch, int rows, int pad)
{
	int64_t		first = first_id(s, batch);
	int64_t		n = session_count(s, "INSERT INTO %s (id, grp, v, n, pad) SELECT %lld + i, 's%d', %lld, %d, repeat(md5(i::text), %d) "
								  "FROM generate_series(1, %d) i%s", table_name(BATCH, shape), (long long) first, s->number,
								  (long long) batch, rows, pad, rows, random_chance(&s->random, 30) ? " ORDER BY md5(i::text)" : "");

	if (n != FAILED && n != rows)
		fail(s, "INSERT of %d rows says %lld", rows, (long long) n);
	return n == rows;
}

static bool
copy_batch(Session *s, int shape, int64_t batch, int rows)
{
	char		line[256];
	PGresult   *result = session_query(s, "COPY %s (id, grp, v, n, pad) FROM STDIN", table_name(BATCH, shape));

	if (result == NULL)
		return false;
	PQclear(result);
	s->process->busy_since = now_us();
	for (int i = 1; i <= rows; i++)
	{
		int			length = snprintf(line, sizeof(line), "%lld\ts%d\t%lld\t%d\tsome text that is copied %d\n",
									  (long long) (first_id(s, batch) + i), s->number, (long long) batch, rows, i);

		if (PQputCopyData(s->conn, line, length) != 1)
			break;
	}
	PQputCopyEnd(s->conn, NULL);
	result = session_take(s, "COPY (the end of it)", PQgetResult(s->conn));
	if (result && strtol(PQcmdTuples(result), NULL, 10) != rows)
		fail(s, "COPY of %d rows says %s", rows, PQcmdTuples(result));
	PQclear(result);
	for (PGresult *more = PQgetResult(s->conn); more != NULL; more = PQgetResult(s->conn))
		PQclear(more);
	s->process->busy_since = 0;
	return result != NULL;
}

/* For those who insert a batch beside other things, with a negative number; they know what becomes of it. */
bool
batch_insert(Session *s, int shape, int64_t batch, int rows, int pad)
{
	return insert_batch(s, shape, batch, rows, pad);
}

/* Deletes a batch; n is set to what was found of it. */
static bool
delete_batch(Session *s, int shape, const Batch *batch)
{
	const char *table = table_name(BATCH, shape);
	int64_t		deleted = 0;
	int64_t		n;

	if (shape_is_partitioned(shape) || !trait_enabled(TRAIT_CTID) || random_chance(&s->random, 50))
	{
		deleted = session_count(s, "DELETE FROM %s WHERE grp = 's%d' AND v = %lld", table, s->number, (long long) batch->number);
		n = deleted;
	}
	else
	{
		do
		{
			n = session_count(s, "DELETE FROM %s WHERE ctid = ANY(ARRAY(SELECT ctid FROM %s WHERE grp = 's%d' AND v = %lld LIMIT %d))",
							  table, table, s->number, (long long) batch->number, 1 + batch->rows / 3);
			deleted += n;
			if (random_chance(&s->random, 40))
				tables_churn(s, BATCH, shape);
		} while (n > 0);
	}
	if (n != FAILED && deleted != batch->rows)
		fail(s, "%s: %lld rows were deleted of batch %lld, which has %d", table, (long long) deleted,
			 (long long) batch->number, batch->rows);
	return n != FAILED;
}

static int
pick_rows(Session *s, int shape)
{
	static const int sizes[] = {1, 10, 10, 100, 100, 1000, 1000, 8000};
	int			rows = sizes[random_below(&s->random, 8)];

	return shape_is_wide(shape) && rows > 1000 ? 1000 : rows;
}

/* A batch that is taken back, entirely or by a savepoint. */
static bool
stray_batch(Session *s, int shape)
{
	if (!trait_enabled(TRAIT_SAVEPOINT))
		return true;
	if (!session_run(s, "SAVEPOINT stray") || !insert_batch(s, shape, ++last_batch, 1 + random_below(&s->random, 2000), 3))
		return false;
	if (random_chance(&s->random, 50))
		tables_churn(s, BATCH, shape);
	return session_run(s, "ROLLBACK TO stray");
}

static bool
add_batch(Session *s, int shape, Batch *batch)
{
	bool		good;

	batch->number = ++last_batch;
	batch->rows = pick_rows(s, shape);
	if (random_chance(&s->random, 30))
		good = copy_batch(s, shape, batch->number, batch->rows);
	else
		good = insert_batch(s, shape, batch->number, batch->rows, 1 + random_below(&s->random, 4));
	if (good && random_chance(&s->random, 20))
		tables_churn(s, BATCH, shape);
	return good;
}

/* Compares what the session sees of its batches with what it knows. */
static bool
verify(Session *s, int shape, const BatchTable *table)
{
	PGresult   *result = session_query(s, "SELECT v, count(*), min(n), sum(id) FROM %s WHERE grp = 's%d' AND v > 0 "
									   "GROUP BY v ORDER BY v",
									   table_name(BATCH, shape), s->number);

	if (result == NULL)
		return false;
	if (PQntuples(result) != table->nlive)
		fail(s, "%s has %d batches of this session, not %d", table_name(BATCH, shape), PQntuples(result), table->nlive);
	for (int i = 0; i < table->nlive; i++)
	{
		const Batch *batch = &table->live[i];
		int64_t		sum = batch->rows * first_id(s, batch->number) + (int64_t) batch->rows * (batch->rows + 1) / 2;

		if (strtoll(PQgetvalue(result, i, 0), NULL, 10) != batch->number ||
			strtol(PQgetvalue(result, i, 1), NULL, 10) != batch->rows ||
			strtoll(PQgetvalue(result, i, 3), NULL, 10) != sum)
			fail(s, "%s: batch %s has %s rows and the sum %s, but it is batch %lld with %d rows and the sum %lld",
				 table_name(BATCH, shape), PQgetvalue(result, i, 0), PQgetvalue(result, i, 1), PQgetvalue(result, i, 3),
				 (long long) batch->number, batch->rows, (long long) sum);
	}
	PQclear(result);
	return true;
}

static bool
change(Session *s, int shape, BatchTable *table)
{
	if (random_chance(&s->random, 25) && !stray_batch(s, shape))
		return false;
	if (table->nlive == MAX_LIVE || (table->nlive > 0 && random_chance(&s->random, 25)))
	{
		int			which = random_below(&s->random, table->nlive);

		if (!delete_batch(s, shape, &table->live[which]))
			return false;
		memmove(&table->live[which], &table->live[which + 1], (--table->nlive - which) * sizeof(Batch));
	}
	if (!add_batch(s, shape, &table->live[table->nlive]))
		return false;
	table->nlive++;
	return !random_chance(&s->random, 25) || verify(s, shape, table);
}

void
work_batch(Session *s)
{
	int			shape = shape_pick(s);
	BatchTable	table = committed[shape];

	s->allowed = "";
	if (!transaction_begin(s, random_chance(&s->random, 20) ? "ISOLATION LEVEL REPEATABLE READ" : "") ||
		!change(s, shape, &table) || random_chance(&s->random, 20))
	{
		transaction_abort(s);
		return;
	}
	if (transaction_commit(s))
		committed[shape] = table;
	if (random_chance(&s->random, 15))
		verify(s, shape, &committed[shape]);
}

void
work_batch_finish(Session *s)
{
	for (int shape = 0; shape < SHAPES; shape++)
	{
		if (options.shapes >> shape & 1)
		{
			while (!verify(s, shape, &committed[shape]))
				session_server_went(s);
		}
	}
}
