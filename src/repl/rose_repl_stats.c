/*-------------------------------------------------------------------------
 *
 * rose_repl_stats.c
 *	  What PostgreSQL's own statistics are told of replicated rows.
 *
 * So that autovacuum analyzes the tables, and pg_stat_user_tables shows what comes.  An
 * UPDATE or DELETE counts as the stream says, whether there was such a row here or not: nobody
 * looks.
 *
 * Core counts what was tried, rows of aborted transactions, too.  Here a batch that is given up
 * comes again, and the same rows would be counted twice.  So a batch tells what it has
 * done right before it commits, and not before.
 *
 * Counts for rose's own views are elsewhere (rose_repl_state.c).
 *
 * State of the worker; the tables are locked by its open transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/table.h"
#include "pgstat.h"
#include "utils/timestamp.h"

#include "repl/rose_repl_internal.h"

/* When what is left has to be reported, whoever holds which lock; 0: nothing is left. */
static TimestampTz report_at = 0;

void
rose_repl_stats_count(Oid relid, uint64 inserts, uint64 updates, uint64 deletes)
{
	Relation	rel;

	if (inserts + updates + deletes == 0)
		return;
	rel = table_open(relid, NoLock);
	if (inserts > 0)
		pgstat_count_heap_insert(rel, (PgStat_Counter) inserts);
	for (uint64 i = 0; i < updates; i++)
		rose_pgstat_count_update(rel);
	for (uint64 i = 0; i < deletes; i++)
		pgstat_count_heap_delete(rel);
	table_close(rel, NoLock);
}

/*
 * At once: a transaction that truncated a table, for core forgets that if another one of
 * ours comes before the next report.
 */
void
rose_repl_stats_report(bool at_once)
{
	long		wait = pgstat_report_stat(at_once);

	if (wait == 0)
		report_at = 0;
	else if (report_at == 0)
		report_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), wait);
}

void
rose_repl_stats_report_left(TimestampTz now)
{
	if (report_at == 0 || now < report_at)
		return;
	(void) pgstat_report_stat(true);
	report_at = 0;
}
