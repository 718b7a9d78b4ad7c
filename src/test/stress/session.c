/*-------------------------------------------------------------------------
 *
 * session.c
 *	  A session: its connection, its statements, which errors it may meet, and
 *	  what it says when something is wrong.
 *
 * Every error is looked at here.  Some may happen whatever a session does
 * (deadlocks, lock timeouts); what the actors that are switched on cause
 * (cancels, lost connections); and what the action at hand allows.  Anything
 * else ends the run.  The last statements are kept for the report.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define MAX_STATEMENT	8192

uint64_t
random_next(Random *random)
{
	uint64_t	z = (random->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

int
random_below(Random *random, int limit)
{
	return (int) ((random_next(random) >> 33) % (uint64_t) limit);
}

bool
random_chance(Random *random, int per_cent)
{
	return random_below(random, 100) < per_cent;
}

int64_t
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void
sleep_ms(int ms)
{
	usleep((useconds_t) ms * 1000);
}

void
session_init(Session *s, int number, ProcessShared *process, const char *name)
{
	memset(s, 0, sizeof(*s));
	s->number = number;
	s->process = process;
	s->allowed = "";
	s->random.state = options.seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t) number * UINT64_C(0xda942042e4dd58b5);
	for (int i = 0; i < 4; i++)
		random_next(&s->random);
	snprintf(process->name, sizeof(process->name), "%s", name);
	process->action = "start";
}

void
session_end(Session *s)
{
	PQfinish(s->conn);
	PQfinish(s->beside);
	s->conn = s->beside = NULL;
}

/* ---- History and reports ---- */

void
session_remember(Session *s, const char *text)
{
	char	  **place = &s->history[s->history_count++ % HISTORY_LENGTH];
	char		line[STATEMENT_SHOWN + 80];
	struct timespec now;
	struct tm	parts;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	snprintf(line, sizeof(line), "%02d:%02d:%02d.%03ld %.*s", parts.tm_hour, parts.tm_min, parts.tm_sec,
			 now.tv_nsec / 1000000, STATEMENT_SHOWN, text);
	free(*place);
	*place = strdup(line);
}

/* Tells everything about a wrong answer, and ends this process. The first report is the one to read. */
void
fail(Session *s, const char *format,...)
{
	va_list		args;
	int64_t		first = s->history_count > HISTORY_LENGTH ? s->history_count - HISTORY_LENGTH : 0;

	if (__atomic_exchange_n(&shared->failed, 1, __ATOMIC_SEQ_CST) != 0)
		exit(1);
	flockfile(stderr);
	fprintf(stderr, "\n=== wrong: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n=== seed %llu, session %d (%s, backend %d), step %lld, action \"%s\"\n",
			(unsigned long long) options.seed, s->number, s->process->name, s->process->backend,
			(long long) s->process->steps, s->process->action);
	fprintf(stderr, "=== its last statements (UTC):\n");
	for (int64_t i = first; i < s->history_count; i++)
		fprintf(stderr, "    %s\n", s->history[i % HISTORY_LENGTH]);
	fprintf(stderr, "=== to repeat: %s\n", options.command);
	fflush(stderr);
	funlockfile(stderr);
	exit(1);
}

/* ---- Connections ---- */

static void
ignore_notice(void *arg, const char *message)
{
}

static PGconn *
connect_as(Session *s, const char *suffix)
{
	char		conninfo[1024];
	PGconn	   *conn;

	snprintf(conninfo, sizeof(conninfo), "%s application_name='%s%s' connect_timeout=30",
			 options.conninfo, s->process->name, suffix);
	conn = PQconnectdb(conninfo);
	PQsetNoticeProcessor(conn, ignore_notice, NULL);
	return conn;
}

/* Whether tables are read by Rose Scans: never, as the planner likes, or nearly always. */
static const char *
scan_settings(Session *s)
{
	static const char *const settings[] = {
		"SET rose.enable_scan = off",
		"SET rose.enable_aggregate = on",
		"SET rose.enable_aggregate = on; SET rose.scan_min_rows = 0; SET cpu_tuple_cost = 1",
		"SET rose.aggregate_sample = 100; SET rose.scan_min_rows = 0; SET cpu_tuple_cost = 1",
		"SET rose.enable_aggregate = off; SET rose.scan_min_rows = 0; SET cpu_tuple_cost = 1; SET rose.vector_rows = 7",
	};

	return settings[random_below(&s->random, sizeof(settings) / sizeof(settings[0]))];
}

/* Connects, for as long as it takes a server to come up again. */
void
session_connect(Session *s)
{
	int64_t		deadline = now_us() + (int64_t) 2 * options.stuck_seconds * 1000000;
	char		sql[512];

	s->in_transaction = false;
	for (;;)
	{
		while (shared->gate && !s->ignores_gate && !shared->failed)
			sleep_ms(20);
		if (shared->failed)
			exit(1);
		PQfinish(s->conn);
		s->conn = connect_as(s, "");
		if (PQstatus(s->conn) == CONNECTION_OK)
		{
			PGresult   *result;

			s->process->backend = PQbackendPID(s->conn);
			session_remember(s, "(connected)");
			snprintf(sql, sizeof(sql), "SET lock_timeout = '10s'; SET extra_float_digits = 1; SET client_min_messages = error; %s",
					 scan_settings(s));
			session_remember(s, sql);
			result = PQexec(s->conn, sql);
			if (PQresultStatus(result) == PGRES_COMMAND_OK)
			{
				PQclear(result);
				return;
			}
			PQclear(result);
		}
		if (now_us() > deadline)
			fail(s, "no connection for %d seconds: %s", 2 * options.stuck_seconds, PQerrorMessage(s->conn));
		sleep_ms(50);
	}
}

/* Was the connection lost? Then there is a new one, and no transaction. */
bool
session_server_went(Session *s)
{
	if (PQstatus(s->conn) == CONNECTION_OK)
		return false;
	session_connect(s);
	return true;
}

/* ---- Statements ---- */

static void
count_error(ProcessShared *process, const char *state)
{
	for (int i = 0; i < MAX_ERROR_KINDS; i++)
	{
		ErrorCount *error = &process->errors[i];

		if (error->count == 0)
			snprintf(error->state, sizeof(error->state), "%s", state);
		if (strcmp(error->state, state) == 0)
		{
			error->count++;
			return;
		}
	}
}

/* May this error be? "lost": the connection is gone as well. */
static bool
is_allowed(Session *s, const char *state, bool lost)
{
	bool		crashes = actor_enabled("kill") || actor_enabled("restart");

	if (lost)
	{
		if (crashes)
			return state[0] == '\0' || strncmp(state, "57P0", 4) == 0 || strncmp(state, "08", 2) == 0 ||
				(strcmp(state, "57014") == 0 && actor_enabled("cancel"));
		return actor_enabled("terminate") && strcmp(state, "57P01") == 0;
	}
	if (strcmp(state, "57014") == 0)
		return actor_enabled("cancel");
	if (strcmp(state, "57P01") == 0)	/* a parallel worker of the statement was terminated */
		return actor_enabled("terminate");
	return strstr("40P01 55P03", state) != NULL || strstr(s->allowed, state) != NULL;
}

/*
 * Is the connection gone?  After a FATAL error it is, but libpq may not have read the end
 * of it yet: wait until it has, for everybody asks PQstatus.
 */
static bool
is_lost(Session *s, const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

	if (severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
		for (int i = 0; i < 1000 && PQstatus(s->conn) == CONNECTION_OK; i++)
		{
			PQconsumeInput(s->conn);
			PQclear(PQgetResult(s->conn));
			usleep(10000);
		}
	return PQstatus(s->conn) != CONNECTION_OK;
}

/* Looks at what a statement returned; NULL after an error that may be. */
PGresult *
session_take(Session *s, const char *sql, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	const char *state;
	bool		lost;
	char		line[STATEMENT_SHOWN];

	s->state[0] = '\0';
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN)
		return result;
	state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	snprintf(s->state, sizeof(s->state), "%s", state ? state : "");
	lost = is_lost(s, result);
	snprintf(line, sizeof(line), "(%s %s%s)", s->state, PQerrorMessage(s->conn), lost ? " connection lost" : "");
	session_remember(s, line);
	count_error(s->process, s->state[0] ? s->state : "gone");
	if (!is_allowed(s, s->state, lost))
		fail(s, "error %s is not expected here: %s\nstatement: %.2000s", s->state[0] ? s->state : "(connection lost)",
			 PQerrorMessage(s->conn), sql);
	PQclear(result);
	return NULL;
}

static PGresult *
query(Session *s, const char *format, va_list args)
{
	char		sql[MAX_STATEMENT];
	PGresult   *result;

	if ((size_t) vsnprintf(sql, sizeof(sql), format, args) >= sizeof(sql))
		abort();
	session_remember(s, sql);
	snprintf(s->process->statement, sizeof(s->process->statement), "%s", sql);
	s->process->busy_since = now_us();
	result = PQexec(s->conn, sql);
	s->process->busy_since = 0;
	return session_take(s, sql, result);
}

/* The result, or NULL after an error that may be; any other error ends the run. */
PGresult *
session_query(Session *s, const char *format,...)
{
	va_list		args;
	PGresult   *result;

	va_start(args, format);
	result = query(s, format, args);
	va_end(args);
	return result;
}

bool
session_run(Session *s, const char *format,...)
{
	va_list		args;
	PGresult   *result;

	va_start(args, format);
	result = query(s, format, args);
	va_end(args);
	PQclear(result);
	return result != NULL;
}

/* How many rows the statement changed; or, if it is a query, its only value. */
int64_t
session_count(Session *s, const char *format,...)
{
	va_list		args;
	PGresult   *result;
	int64_t		count;

	va_start(args, format);
	result = query(s, format, args);
	va_end(args);
	if (result == NULL)
		return FAILED;
	if (PQnfields(result) > 0)
		count = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
	else
		count = strtoll(PQcmdTuples(result), NULL, 10);
	PQclear(result);
	return count;
}

/* The only value of a query, as text. */
bool
session_value(Session *s, char *value, size_t size, const char *format,...)
{
	va_list		args;
	PGresult   *result;

	va_start(args, format);
	result = query(s, format, args);
	va_end(args);
	if (result == NULL)
		return false;
	snprintf(value, size, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "(no row)");
	PQclear(result);
	return true;
}

/*
 * Runs a statement in another connection of the same session, in the middle of
 * its transaction.  Such a statement may wait for this very session, so it gives
 * up soon; what it may meet is what anybody may.
 */
void
session_beside(Session *s, const char *format,...)
{
	char		sql[1024];
	va_list		args;
	PGconn	   *mine = s->conn;
	const char *allowed = s->allowed;
	char		state[6];

	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
	va_end(args);
	if (shared->gate)
		return;
	if (s->beside == NULL || PQstatus(s->beside) != CONNECTION_OK)
	{
		PQfinish(s->beside);
		s->beside = connect_as(s, " beside");
		PQclear(PQexec(s->beside, "SET lock_timeout = '300ms'"));
	}
	if (PQstatus(s->beside) != CONNECTION_OK)
		return;
	memcpy(state, s->state, sizeof(state));
	s->conn = s->beside;
	s->allowed = "42P01";
	session_remember(s, "(beside:)");
	session_run(s, "%s", sql);
	s->conn = mine;
	s->allowed = allowed;
	memcpy(s->state, state, sizeof(state));
}
