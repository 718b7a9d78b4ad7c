/*-------------------------------------------------------------------------
 *
 * actor_kill.c
 *	  SIGKILL of a backend or worker, which makes the server start over; and of
 *	  the whole server, which this actor starts again, or a stop and a start.
 *
 * Some of the times it is an ALTER TABLE that touches a table first after the
 * start: others are kept out until it is done.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Waits until the server takes connections again, and lets others in. */
static void
come_back(Session *s)
{
	s->ignores_gate = true;
	session_server_went(s);
	if (random_chance(&s->random, 50))
		alter_first(s);
	s->ignores_gate = false;
	shared->gate = 0;
}

void
actor_kill(Session *s)
{
	PGresult   *result;
	pid_t		pid = 0;

	s->allowed = "";
	result = session_query(s, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type LIKE '%s' "
						   "ORDER BY state = 'active' DESC, random() LIMIT 1",
						   options.rose && random_chance(&s->random, 40) ? "rose%" : "client backend");
	if (result && PQntuples(result) == 1)
		pid = (pid_t) strtol(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	if (pid == 0)
		return;
	shared->gate = 1;
	shared->kills++;
	session_remember(s, "(kills it)");
	if (kill(pid, SIGKILL) == 0)
	{
		/* this very session's backend is ended as well */
		while (PQstatus(s->conn) == CONNECTION_OK && session_run(s, "SELECT 1"))
			sleep_ms(20);
	}
	come_back(s);
}

static pid_t
postmaster(void)
{
	char		path[1024];
	FILE	   *file;
	long		pid = 0;

	snprintf(path, sizeof(path), "%s/postmaster.pid", options.data);
	file = fopen(path, "r");
	if (file)
	{
		if (fscanf(file, "%ld", &pid) != 1)
			pid = 0;
		fclose(file);
	}
	return (pid_t) pid;
}

static bool
pg_ctl(const char *what)
{
	char		command[4096];

	snprintf(command, sizeof(command), "%s -D %s -l %s -w -t 60 %s >/dev/null 2>&1", options.pg_ctl, options.data, options.log, what);
	return system(command) == 0;
}

void
actor_restart(Session *s)
{
	int			how = random_below(&s->random, 10);
	pid_t		pid = postmaster();
	int64_t		deadline = now_us() + INT64_C(60000000);

	s->allowed = "";
	shared->gate = 1;
	shared->kills++;
	if (how < 4 && pid > 0)
	{
		session_remember(s, "(kills the server)");
		kill(pid, SIGKILL);
		for (int i = 0; i < 300 && kill(pid, 0) == 0; i++)
			sleep_ms(10);
	}
	else
	{
		session_remember(s, how < 8 ? "(stops the server immediately)" : "(stops the server)");
		pg_ctl(how < 8 ? "-m immediate stop" : "-m fast stop");
	}
	/* backends of a killed server may take a moment to notice */
	while (!pg_ctl("start"))
	{
		if (now_us() > deadline)
			fail(s, "the server does not start again; see %s", options.log);
		sleep_ms(100);
	}
	session_remember(s, "(started the server)");
	come_back(s);
}
