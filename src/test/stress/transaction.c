/*-------------------------------------------------------------------------
 *
 * transaction.c
 *	  Transactions whose outcome a session always knows, whatever happens.
 *
 * Each transaction counts up the session's row of the table stress_mark before
 * it commits.  That table is heap, with either engine: it is the witness.  When
 * the connection is lost at COMMIT, the row says after the reconnection whether
 * the transaction has committed.  Nobody else writes the row, and a backend
 * whose client has seen the end of the connection commits nothing any more.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <string.h>

bool
transaction_begin(Session *s, const char *how)
{
	if (session_server_went(s))
		session_remember(s, "(reconnected before BEGIN)");
	s->in_transaction = session_run(s, "BEGIN %s", how);
	return s->in_transaction;
}

void
transaction_abort(Session *s)
{
	if (!session_server_went(s) && PQtransactionStatus(s->conn) != PQTRANS_IDLE)
	{
		while (PQstatus(s->conn) == CONNECTION_OK && !session_run(s, "ROLLBACK"))
			;
	}
	s->in_transaction = false;
}

/* What the witness says about the last transaction that wanted to commit. */
bool
transaction_settled(Session *s)
{
	for (;;)
	{
		int64_t		mark;

		session_server_went(s);
		mark = session_count(s, "SELECT n FROM stress_mark WHERE session = %d", s->number);
		if (mark == FAILED)
			continue;
		if (mark != s->mark && mark != s->mark + 1)
			fail(s, "the witness says %lld after %lld", (long long) mark, (long long) s->mark);
		if (mark == s->mark)
			return false;
		s->mark = mark;
		return true;
	}
}

/* Returns whether it committed; if not, its session is ready for the next. */
bool
transaction_commit(Session *s)
{
	bool		committed;

	if (!session_run(s, "UPDATE stress_mark SET n = %lld WHERE session = %d", (long long) s->mark + 1, s->number))
	{
		transaction_abort(s);
		return false;
	}
	if (session_run(s, "COMMIT"))
	{
		s->mark++;
		committed = true;
	}
	else
	{
		transaction_abort(s);
		committed = transaction_settled(s);
		session_remember(s, committed ? "(that has committed)" : "(that has not committed)");
	}
	s->in_transaction = false;
	s->process->commits += committed;
	return committed;
}

/* For transactions that have only read: it does not matter whether they commit. */
void
transaction_end(Session *s)
{
	if (!session_run(s, "COMMIT"))
		transaction_abort(s);
	s->in_transaction = false;
	s->process->commits++;
}
