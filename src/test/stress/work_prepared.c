/*-------------------------------------------------------------------------
 *
 * work_prepared.c
 *	  Two-phase transactions: an insert of n rows and perhaps a transfer, which
 *	  are prepared, outlive what happens meanwhile, and are then committed or
 *	  rolled back.  Also the actor whose prepared transactions stay for long.
 *
 * Only the session itself ends its prepared transactions; so what became of one
 * when a connection was lost is in pg_prepared_xacts.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <string.h>

static int64_t last_number;

/* Is there such a prepared transaction? Asks until there is an answer. */
static bool
is_prepared(Session *s)
{
	for (;;)
	{
		int64_t		n;

		session_server_went(s);
		n = session_count(s, "SELECT count(*) FROM pg_prepared_xacts WHERE gid = 'stress_%d_%lld'", s->number, (long long) last_number);
		if (n != FAILED)
			return n == 1;
	}
}

static bool
prepare(Session *s, int shape, int rows, bool transfer)
{
	int			amount = random_below(&s->random, 100);

	if (!transaction_begin(s, "") || !batch_insert(s, shape, -last_number, rows, 2))
		return false;
	for (int i = 0; i < 2 && transfer; i++)
	{
		if (session_count(s, "UPDATE %s SET v = v + %d, pad = " PAD_OF("v + %d") " WHERE id = %d", table_name(ACCOUNT, shape), amount,
						  amount, 2, 1 + random_below(&s->random, ACCOUNT_IDS)) != 1)
			return false;
		amount = -amount;
	}
	if (random_chance(&s->random, 40))
		tables_churn(s, BATCH, shape);
	if (session_run(s, "PREPARE TRANSACTION 'stress_%d_%lld'", s->number, (long long) last_number))
	{
		s->in_transaction = false;
		return true;
	}
	transaction_abort(s);
	return is_prepared(s);
}

/* Ends it, however often that takes. A backend that was just ended may have it for a moment. */
static void
end_prepared(Session *s, bool commit)
{
	s->allowed = "55000 42704";
	do
	{
		session_server_went(s);
		if (session_run(s, "%s PREPARED 'stress_%d_%lld'", commit ? "COMMIT" : "ROLLBACK", s->number, (long long) last_number))
			break;
	} while (is_prepared(s));
	s->allowed = "40001";
}

/* The batch is there if it was committed, and only then. */
static void
look_for_batch(Session *s, int shape, int rows)
{
	int64_t		n = FAILED;

	while (n == FAILED)
	{
		session_server_went(s);
		n = session_count(s, "SELECT count(*) FROM %s WHERE grp = 's%d' AND v = %lld", table_name(BATCH, shape), s->number,
						  (long long) -last_number);
	}
	if (n != rows)
		fail(s, "%s: %lld rows of a batch that was prepared, instead of %d", table_name(BATCH, shape), (long long) n, rows);
	for (int tries = 0; rows > 0; tries++)
	{
		session_server_went(s);
		n = session_count(s, "DELETE FROM %s WHERE grp = 's%d' AND v = %lld", table_name(BATCH, shape), s->number, (long long) -last_number);
		/* 0: it was deleted by a try whose connection was lost */
		if (n == rows || (n == 0 && tries > 0))
			break;
		if (n != FAILED)
			fail(s, "%s: %lld rows were deleted of %d", table_name(BATCH, shape), (long long) n, rows);
	}
}

static void
two_phases(Session *s, int shape, int rows, bool transfer, int hold_ms)
{
	bool		commit = random_chance(&s->random, 60);

	last_number++;
	s->allowed = shape_is_partitioned(shape) ? "40001" : "";
	if (!prepare(s, shape, rows, transfer))
	{
		transaction_abort(s);
		return;
	}
	for (int waited = 0; waited < hold_ms && !shared->stop; waited += 50)
		sleep_ms(50);
	end_prepared(s, commit);
	s->process->commits++;
	look_for_batch(s, shape, commit ? rows : 0);
}

void
work_prepared(Session *s)
{
	static const int sizes[] = {1, 20, 300, 2000};

	two_phases(s, shape_pick(s), sizes[random_below(&s->random, 4)], random_chance(&s->random, 50), random_below(&s->random, 800));
}

/* No transfer: it would keep others from their accounts for long. */
void
actor_prepared(Session *s)
{
	two_phases(s, shape_pick(s), 3000, false, 2000 + random_below(&s->random, 6000));
}
