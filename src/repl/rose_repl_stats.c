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
#include "utils/hsearch.h"
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
 * What partitions have got in the transaction at hand, since they are closed and opened again in it.
 */
typedef struct KeptCounts
{
	Oid			relid;			/* hash key */
	uint64		inserts;
	uint64		updates;
	uint64		deletes;
} KeptCounts;

static HTAB *kept = NULL;

void
rose_repl_stats_keep(Oid relid, uint64 inserts, uint64 updates, uint64 deletes)
{
	KeptCounts *counts;
	bool		found;

	if (inserts + updates + deletes == 0)
		return;
	if (kept == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(KeptCounts)};

		kept = hash_create("rose counts of partitions", 16, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	counts = hash_search(kept, &relid, HASH_ENTER, &found);
	if (!found)
		counts->inserts = counts->updates = counts->deletes = 0;
	counts->inserts += inserts;
	counts->updates += updates;
	counts->deletes += deletes;
}

void
rose_repl_stats_forget_kept(void)
{
	if (kept != NULL)
		hash_destroy(kept);
	kept = NULL;
}

/* The transaction has truncated it. */
void
rose_repl_stats_forget_kept_of(Oid relid)
{
	if (kept != NULL)
		(void) hash_search(kept, &relid, HASH_REMOVE, NULL);
}

void
rose_repl_stats_count_kept(void)
{
	HASH_SEQ_STATUS status;
	KeptCounts *counts;

	if (kept == NULL)
		return;
	hash_seq_init(&status, kept);
	while ((counts = hash_seq_search(&status)) != NULL)
		rose_repl_stats_count(counts->relid, counts->inserts, counts->updates, counts->deletes);
	rose_repl_stats_forget_kept();
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
