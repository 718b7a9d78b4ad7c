/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The program's arguments, and the lists of workloads and actors.
 *
 * A workload or actor that is not on by default is switched on by naming it.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

Options		options;

const Work	works[] = {
	{"transfer", 24, true, work_transfer, NULL},
	{"move", 10, true, work_move, NULL},
	{"undo", 4, true, work_undo, NULL},
	{"own", 24, true, work_own, work_own_finish},
	{"batch", 14, true, work_batch, work_batch_finish},
	{"read", 12, true, work_read, NULL},
	{"cursor", 6, true, work_cursor, NULL},
	{"prepared", 5, true, work_prepared, NULL},
	{"private", 6, true, work_private, work_private_finish},
};

const int	nworks = sizeof(works) / sizeof(works[0]);

const Actor actors[] = {
	{"maintain", true, false, 150, actor_maintain},
	{"check", true, true, 1500, actor_check},
	{"cancel", true, false, 400, actor_cancel},
	{"terminate", true, false, 1500, actor_terminate},
	{"lock", true, false, 4000, actor_lock},
	{"idle", true, false, 2000, actor_idle},
	{"prepared", true, false, 3000, actor_prepared},
	{"alter", true, false, 1500, actor_alter},
	{"index", true, false, 800, actor_index},
	{"kill", true, false, 9000, actor_kill},
	{"restart", true, false, 20000, actor_restart},
};

const int	nactors = sizeof(actors) / sizeof(actors[0]);

/* Habits of the workloads that can be left out, to look for what else is wrong. */
const Trait traits[NTRAITS] = {
	[TRAIT_CTID] = {"ctid", true},
	[TRAIT_SAVEPOINT] = {"savepoint", true},
	[TRAIT_ALTER] = {"alter", true},
	[TRAIT_ALTER_UNDONE] = {"alter_undone", true},
	[TRAIT_CHURN] = {"churn", true},
};

bool
trait_enabled(int trait)
{
	return options.traits >> trait & 1;
}

bool
actor_enabled(const char *name)
{
	for (int i = 0; i < nactors; i++)
	{
		if (strcmp(actors[i].name, name) == 0)
			return options.actors >> i & 1;
	}
	abort();
}

static void
usage(void)
{
	fprintf(stderr, "usage: stress --conninfo=TEXT --pg-ctl=PATH --data=FOLDER --log=FILE [--seed=N] [--seconds=N]\n"
			"       [--sessions=N] [--stuck=SECONDS] [--engine=rose|heap] [--tables=LIST] [--works=LIST] [--actors=LIST]\n"
			"       [--traits=LIST] [--indexes=N] [--command=TEXT] [--verbose]\n"
			"A LIST is of names, \"all\" or \"none\", separated by commas; -NAME takes one away from the default.\n");
	fprintf(stderr, "tables:");
	for (int i = 0; i < SHAPES; i++)
		fprintf(stderr, " %s", shape_names[i]);
	fprintf(stderr, "\nworks:");
	for (int i = 0; i < nworks; i++)
		fprintf(stderr, " %s%s", works[i].name, works[i].by_default ? "" : " (off)");
	fprintf(stderr, "\nactors:");
	for (int i = 0; i < nactors; i++)
		fprintf(stderr, " %s%s", actors[i].name, actors[i].by_default ? "" : " (off)");
	fprintf(stderr, "\ntraits:");
	for (int i = 0; i < NTRAITS; i++)
		fprintf(stderr, " %s%s", traits[i].name, traits[i].by_default ? "" : " (off)");
	fprintf(stderr, "\n");
	exit(2);
}

static const char *
shape_name(int i)
{
	return shape_names[i];
}

static const char *
work_name(int i)
{
	return works[i].name;
}

static const char *
trait_name(int i)
{
	return traits[i].name;
}

static const char *
actor_name(int i)
{
	return actors[i].name;
}

/* Bits of the names that a list has; what it takes away is taken from "start". */
static unsigned
parse_list(const char *list, unsigned start, int n, const char *(*name_of) (int))
{
	char	   *copy = strdup(list);
	unsigned	set = list[0] == '-' ? start : 0;

	for (char *word = strtok(copy, ","); word != NULL; word = strtok(NULL, ","))
	{
		bool		without = word[0] == '-';
		int			i;

		if (strcmp(word, "none") == 0)
			continue;
		if (strcmp(word, "all") == 0)
		{
			set = (1u << n) - 1;
			continue;
		}
		for (i = 0; i < n && strcmp(name_of(i), word + without) != 0; i++)
			;
		if (i == n)
		{
			fprintf(stderr, "stress: there is no \"%s\"\n", word + without);
			usage();
		}
		set = without ? set & ~(1u << i) : set | 1u << i;
	}
	free(copy);
	return set;
}

static void
set_defaults(void)
{
	options.seed = 1;
	options.seconds = 60;
	options.sessions = 24;
	options.stuck_seconds = 45;
	options.indexes = 2;
	options.rose = true;
	options.shapes = (1u << SHAPES) - 1;
	for (int i = 0; i < nworks; i++)
		options.works |= (unsigned) works[i].by_default << i;
	for (int i = 0; i < nactors; i++)
		options.actors |= (unsigned) actors[i].by_default << i;
	for (int i = 0; i < NTRAITS; i++)
		options.traits |= (unsigned) traits[i].by_default << i;
	options.command = "make stress";
}

void
options_parse(int argc, char **argv)
{
	static const struct option names[] = {
		{"conninfo", required_argument, NULL, 'c'}, {"pg-ctl", required_argument, NULL, 'p'},
		{"data", required_argument, NULL, 'd'}, {"log", required_argument, NULL, 'l'},
		{"seed", required_argument, NULL, 's'}, {"seconds", required_argument, NULL, 't'},
		{"sessions", required_argument, NULL, 'n'}, {"stuck", required_argument, NULL, 'k'},
		{"engine", required_argument, NULL, 'e'}, {"tables", required_argument, NULL, 'T'},
		{"works", required_argument, NULL, 'w'}, {"actors", required_argument, NULL, 'a'},
		{"traits", required_argument, NULL, 'r'}, {"indexes", required_argument, NULL, 'i'},
		{"command", required_argument, NULL, 'C'}, {"verbose", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	set_defaults();
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
	{
		switch (option)
		{
			case 'c':
				options.conninfo = optarg;
				break;
			case 'p':
				options.pg_ctl = optarg;
				break;
			case 'd':
				options.data = optarg;
				break;
			case 'l':
				options.log = optarg;
				break;
			case 's':
				options.seed = strtoull(optarg, NULL, 10);
				break;
			case 't':
				options.seconds = atoi(optarg);
				break;
			case 'n':
				options.sessions = atoi(optarg);
				break;
			case 'k':
				options.stuck_seconds = atoi(optarg);
				break;
			case 'e':
				options.rose = strcmp(optarg, "heap") != 0;
				break;
			case 'T':
				options.shapes = parse_list(optarg, options.shapes, SHAPES, shape_name);
				break;
			case 'w':
				options.works = parse_list(optarg, options.works, nworks, work_name);
				break;
			case 'a':
				options.actors = parse_list(optarg, options.actors, nactors, actor_name);
				break;
			case 'r':
				options.traits = parse_list(optarg, options.traits, NTRAITS, trait_name);
				break;
			case 'i':
				options.indexes = atoi(optarg);
				break;
			case 'C':
				options.command = optarg;
				break;
			case 'v':
				options.verbose = true;
				break;
			default:
				usage();
		}
	}
	if (optind < argc || options.conninfo == NULL || options.pg_ctl == NULL || options.data == NULL ||
		options.log == NULL || options.shapes == 0 || options.works == 0 ||
		options.sessions < 1 || options.sessions > MAX_PROCESSES - 2 * MAX_ACTORS)
		usage();
	for (int i = 0; i < nactors; i++)
	{
		if ((actors[i].rose_only && !options.rose) || (actors[i].step == actor_index && options.indexes == 0))
			options.actors &= ~(1u << i);
	}
}
