/*-------------------------------------------------------------------------
 *
 * main.c
 *	  Starts the sessions and actors, looks on, and compares everything at the end.
 *
 * Phases: tables are made; sessions and actors run until the time is up
 * (shared->stop 1); when the actors have ended, each session looks at all its
 * rows once more (stop 2); then the main process compares what is everybody's,
 * asks rose.check of all tables, merges them and compares again.
 *
 * The first thing that is wrong ends the run: who finds it sets shared->failed,
 * everybody else ends without a word, and the exit code is 1.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

Shared	   *shared;

static int	nprocesses;

/* Picks a workload by its weight. */
static int
pick_work(Session *s)
{
	int			total = 0;
	int			n;

	for (int i = 0; i < nworks; i++)
		total += options.works >> i & 1 ? works[i].weight : 0;
	n = random_below(&s->random, total);
	for (int i = 0;; i++)
	{
		if (!(options.works >> i & 1))
			continue;
		n -= works[i].weight;
		if (n < 0)
			return i;
	}
}

static void
run_session(Session *s)
{
	session_connect(s);
	while (!shared->stop && !shared->failed)
	{
		int			i = pick_work(s);
		int64_t		before = s->process->commits;

		s->process->action = works[i].name;
		s->process->steps++;
		works[i].step(s);
		__atomic_fetch_add(&shared->work_commits[i], s->process->commits - before, __ATOMIC_RELAXED);
	}
	while (shared->stop < 2 && !shared->failed)
		sleep_ms(20);
	for (int i = 0; i < nworks && !shared->failed; i++)
	{
		if (!(options.works >> i & 1) || works[i].finish == NULL)
			continue;
		s->process->action = "the last look";
		session_server_went(s);
		works[i].finish(s);
	}
}

static void
run_actor(Session *s, int actor)
{
	session_connect(s);
	s->process->action = actors[actor].name;
	while (!shared->stop && !shared->failed)
	{
		int			pause = actors[actor].pause_ms / 2 + random_below(&s->random, actors[actor].pause_ms);

		for (; pause > 0 && !shared->stop && !shared->failed; pause -= 50)
			sleep_ms(pause < 50 ? pause : 50);
		if (shared->stop)
			break;
		s->process->steps++;
		session_server_went(s);
		actors[actor].step(s);
		shared->actor_steps[actor]++;
	}
}

static void
start_process(int actor, const char *name)
{
	ProcessShared *process = &shared->process[nprocesses];
	pid_t		pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
	{
		static Session session;

		session_init(&session, nprocesses, process, name);
		if (actor < 0)
			run_session(&session);
		else
			run_actor(&session, actor);
		session_end(&session);
		exit(0);
	}
	if (pid < 0)
	{
		perror("stress: fork");
		exit(1);
	}
	process->pid = pid;
	nprocesses++;
}

static void
start_all(void)
{
	char		name[32];

	for (int i = 1; i <= options.sessions; i++)
	{
		snprintf(name, sizeof(name), "session %d", i);
		start_process(-1, name);
	}
	for (int i = 0; i < nactors; i++)
	{
		if (options.actors >> i & 1)
			start_process(i, actors[i].name);
	}
}

/* Looks after the processes until those from "first" on have ended, or until the time. */
static void
look_on(int first, int64_t deadline)
{
	static bool ended[MAX_PROCESSES];
	bool		running = true;

	while (running && now_us() < deadline && !shared->failed)
	{
		running = false;
		for (int i = 1; i < nprocesses; i++)
		{
			int			status;

			if (!ended[i] && waitpid(shared->process[i].pid, &status, WNOHANG) > 0)
			{
				ended[i] = true;
				shared->process[i].busy_since = 0;
				if (status != 0 && __atomic_exchange_n(&shared->failed, 1, __ATOMIC_SEQ_CST) == 0)
					fprintf(stderr, "stress: %s ended with status %d\n", shared->process[i].name, status);
			}
			running |= !ended[i] && i >= first;
		}
		watch_stuck();
		watch_log();
		sleep_ms(100);
	}
}

static void
end_if_failed(int64_t began)
{
	if (!shared->failed)
		return;
	sleep_ms(300);
	for (int i = 1; i < nprocesses; i++)
	{
		kill(shared->process[i].pid, SIGKILL);
		waitpid(shared->process[i].pid, NULL, 0);
	}
	watch_summary(began);
	fflush(stdout);
	exit(1);
}

/* Everything is at rest: what everybody shares, by work_read, and all checks. */
static void
compare_everything(Session *s)
{
	char		(*leaves)[64];
	int			nleaves = tables_leaves(&leaves);

	for (int i = 0; i < 12; i++)
		work_read(s);
	for (int i = 0; i < nleaves; i++)
		tables_check(s, leaves[i]);
}

static void
merge_everything(Session *s)
{
	char		(*leaves)[64];
	int			nleaves = tables_leaves(&leaves);

	for (int i = 0; i < nleaves && options.rose; i++)
		session_run(s, "SELECT rose.spill('%s'), rose.merge('%s')", leaves[i], leaves[i]);
}

/* What was switched on must have done something, or the run shows nothing. */
static void
everybody_did_something(Session *s)
{
	for (int i = 0; i < nworks; i++)
	{
		if (options.works >> i & 1 && shared->work_commits[i] == 0)
			fail(s, "nothing was committed by \"%s\"", works[i].name);
	}
	for (int i = 0; i < nactors; i++)
	{
		if (options.actors >> i & 1 && shared->actor_steps[i] == 0 && options.seconds * 1000 > 2 * actors[i].pause_ms)
			fail(s, "\"%s\" has done nothing", actors[i].name);
	}
}

int
main(int argc, char **argv)
{
	static Session session;
	int64_t		began = now_us();

	options_parse(argc, argv);
	shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
	{
		perror("stress: mmap");
		return 1;
	}
	nprocesses = 1;
	session_init(&session, 0, &shared->process[0], "main");
	shared->process[0].pid = getpid();
	session_connect(&session);
	tables_create(&session);
	session_end(&session);

	start_all();
	look_on(1, now_us() + (int64_t) options.seconds * 1000000);
	shared->stop = 1;
	look_on(options.sessions + 1, INT64_MAX);
	end_if_failed(began);
	shared->stop = 2;
	look_on(1, INT64_MAX);
	end_if_failed(began);

	options.actors = 0;			/* from here on nothing is disturbed */
	session.number = MAX_PROCESSES - 1;
	session_connect(&session);
	session.process->action = "the end";
	compare_everything(&session);
	merge_everything(&session);
	compare_everything(&session);
	watch_log();
	end_if_failed(began);
	watch_summary(began);
	fflush(stdout);
	everybody_did_something(&session);
	return shared->failed;
}
