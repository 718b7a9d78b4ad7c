/*-------------------------------------------------------------------------
 *
 * watch.c
 *	  What the main process looks at: statements that take too long, the server's
 *	  log, and the summary at the end.
 *
 * The log's lines begin with time, process id, SQLSTATE and kind of process (see
 * run.sh).  Sessions judge their own errors; here it is about those of workers,
 * internal ones, and crashes that the program did not cause.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

static void
print_query(PGconn *conn, const char *title, const char *sql)
{
	PGresult   *result = PQexec(conn, sql);

	fprintf(stderr, "=== %s\n", title);
	for (int row = 0; row < PQntuples(result); row++)
	{
		for (int column = 0; column < PQnfields(result); column++)
			fprintf(stderr, "%s%s", column ? " | " : "    ", PQgetvalue(result, row, column));
		fprintf(stderr, "\n");
	}
	PQclear(result);
}

static void
report_stuck(const ProcessShared *process, int64_t us)
{
	PGconn	   *conn = PQconnectdb(options.conninfo);

	if (__atomic_exchange_n(&shared->failed, 1, __ATOMIC_SEQ_CST) != 0)
		return;
	fprintf(stderr, "\n=== stuck: seed %llu, %s (backend %d), action \"%s\", step %lld, for %lld seconds in: %s\n",
			(unsigned long long) options.seed, process->name, process->backend, process->action, (long long) process->steps,
			(long long) us / 1000000, process->statement);
	print_query(conn, "pg_stat_activity",
				"SELECT pid, application_name, backend_type, state, wait_event_type, wait_event, pg_blocking_pids(pid), "
				"round(extract(epoch FROM now() - xact_start), 1), round(extract(epoch FROM now() - query_start), 1), left(query, 150) "
				"FROM pg_stat_activity WHERE pid <> pg_backend_pid() ORDER BY query_start");
	print_query(conn, "pg_locks, without those of fast paths and of transactions' own ids",
				"SELECT pid, locktype, relation::regclass, page, tuple, virtualxid, transactionid, mode, granted "
				"FROM pg_locks WHERE NOT fastpath AND (locktype <> 'virtualxid' OR NOT granted) ORDER BY granted, pid");
	print_query(conn, "prepared transactions", "SELECT transaction, gid, prepared FROM pg_prepared_xacts");
	fprintf(stderr, "=== to repeat: %s\n", options.command);
	PQfinish(conn);
}

void
watch_stuck(void)
{
	int64_t		now = now_us();

	for (int i = 0; i < MAX_PROCESSES && shared->process[i].pid != 0; i++)
	{
		int64_t		since = shared->process[i].busy_since;

		if (since != 0 && now - since > (int64_t) options.stuck_seconds * 1000000 && !shared->failed)
			report_stuck(&shared->process[i], now - since);
	}
}

/* Workers may be cancelled and ended, and may fail to get a lock. */
static bool
worker_may(const char *state)
{
	return strncmp(state, "57", 2) == 0 || strncmp(state, "55P03", 5) == 0 ||
		strncmp(state, "40P01", 5) == 0;
}

/*
 * PostgreSQL's own, of 15 at least: a backend finds while it aborts a parallel query that
 * the server was killed, and ends within the abort.  That fails an assertion, and where
 * the query was compiled, whose resources are not released by then, it is a PANIC.
 */
static bool
is_known(const char *line)
{
	return actor_enabled("restart") &&
		((strstr(line, "IsTransactionOrTransactionBlock") && strstr(line, "pgstat.c")) ||
		 strstr(line, "PANIC:  LLVMJitContext in use count not 0 at exit"));
}

/* A parallel worker of a query that was ended before the worker had begun: PostgreSQL calls that internal. */
static bool
lost_its_leader(const char *kind, const char *text)
{
	return (actor_enabled("cancel") || actor_enabled("terminate") || actor_enabled("kill") || actor_enabled("restart")) &&
		strncmp(kind + 1, "parallel worker|", strlen("parallel worker|")) == 0 &&
		strstr(text, "could not attach to per-session DSM segment");
}

/* Is there something wrong in this line? "time time [pid] SQLSTATE|kind|name|LEVEL: text" */
static bool
wrong_line(char *line)
{
	char	   *state = strstr(line, "] ");
	char	   *kind = state ? strchr(state, '|') : NULL;
	char	   *name = kind ? strchr(kind + 1, '|') : NULL;
	char	   *text = name ? strchr(name + 1, '|') : NULL;
	bool		error;

	if (text == NULL)
		return strncmp(line, "TRAP", 4) == 0 && !is_known(line);
	state += 2;
	if (strstr(text, "was terminated by signal"))
		return strstr(text, "by signal 9") == NULL || !(actor_enabled("kill") || actor_enabled("restart"));
	if (strstr(text, "PANIC:") || strstr(text, "TRAP:"))
		return !is_known(line);
	error = strstr(text, "|ERROR:") || strstr(text, "|FATAL:");
	if (!error)
		return false;
	if (strncmp(state, "XX", 2) == 0 || strncmp(state, "53", 2) == 0)
		return !lost_its_leader(kind, text);
	return strncmp(kind + 1, "rose", 4) == 0 && !worker_may(state);
}

/* Reads what the log has got since the last call; returns whether all is well. */
bool
watch_log(void)
{
	static long position = 0;
	char		line[4096];
	FILE	   *file = fopen(options.log, "r");
	bool		good = true;

	if (file == NULL || fseek(file, position, SEEK_SET) != 0)
	{
		fprintf(stderr, "stress: could not read %s\n", options.log);
		exit(1);
	}
	while (good && fgets(line, sizeof(line), file) != NULL)
	{
		if (strchr(line, '\n') == NULL && feof(file))
			break;				/* half a line; the rest is for the next time */
		position = ftell(file);
		good = !wrong_line(line);
	}
	if (!good && __atomic_exchange_n(&shared->failed, 1, __ATOMIC_SEQ_CST) == 0)
	{
		fprintf(stderr, "\n=== wrong, by the server's log: %s", line);
		for (int i = 0; i < 12 && fgets(line, sizeof(line), file) != NULL; i++)
			fprintf(stderr, "    %s", line);
		fprintf(stderr, "=== seed %llu; to repeat: %s\n", (unsigned long long) options.seed, options.command);
	}
	fclose(file);
	return good;
}

/* What has been done, and which errors were met. */
void
watch_summary(int64_t began)
{
	ErrorCount	all[MAX_ERROR_KINDS * 4] = {{{0}}};
	int64_t		steps = 0,
				commits = 0;
	int			n = 0;

	for (int i = 0; i < MAX_PROCESSES && shared->process[i].pid != 0; i++)
	{
		const ProcessShared *process = &shared->process[i];

		steps += process->steps;
		commits += process->commits;
		for (int k = 0; k < MAX_ERROR_KINDS && process->errors[k].count > 0; k++)
		{
			int			j;

			for (j = 0; j < n && strcmp(all[j].state, process->errors[k].state) != 0; j++)
				;
			if (j == n && n < (int) (sizeof(all) / sizeof(all[0])) - 1)
				n++;
			strcpy(all[j].state, process->errors[k].state);
			all[j].count += process->errors[k].count;
		}
	}
	printf("%lld steps, %lld commits, server or part of it ended %lld times, %.1f s\n", (long long) steps, (long long) commits,
		   (long long) shared->kills, (now_us() - began) / 1e6);
	printf("commits:");
	for (int i = 0; i < nworks; i++)
		printf(" %s %lld", works[i].name, (long long) shared->work_commits[i]);
	printf("\nsteps:");
	for (int i = 0; i < nactors; i++)
		printf(" %s %lld", actors[i].name, (long long) shared->actor_steps[i]);
	printf("\nerrors that may be:");
	for (int i = 0; i < n; i++)
		printf(" %s %lld", all[i].state, (long long) all[i].count);
	printf("\n");
}
