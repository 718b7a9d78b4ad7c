/*-------------------------------------------------------------------------
 *
 * stress.h
 *	  What the files of the stress program share.
 *
 * main.c starts one process a session and one an actor.  A session repeats
 * steps: it picks a workload (work_*.c), which runs a transaction or a few and
 * compares what it is told with what it knows.  An actor (actor_*.c) disturbs.
 * Everything here is the program's own: it uses libpq, no header of the server.
 *
 * The processes share one mapping (Shared).  Its fields are written by the
 * process named at each, and read by the main process; those written by several
 * are only touched with atomic operations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STRESS_H
#define STRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <libpq-fe.h>

#define MAX_PROCESSES	256
#define MAX_ERROR_KINDS	24
#define HISTORY_LENGTH	400
#define STATEMENT_SHOWN	400

/* ---- Random numbers: each process has its own sequence, from the seed ---- */

typedef struct Random
{
	uint64_t	state;
} Random;

extern uint64_t random_next(Random *random);
extern int	random_below(Random *random, int limit);
extern bool random_chance(Random *random, int per_cent);

/* ---- Options ---- */

typedef struct Options
{
	uint64_t	seed;
	int			seconds;
	int			sessions;
	int			stuck_seconds;	/* a statement that takes longer is reported */
	bool		rose;			/* false: the same on heap */
	bool		verbose;
	unsigned	shapes;			/* sets of bits, by number */
	unsigned	works;
	unsigned	actors;
	unsigned	traits;
	int			indexes;		/* secondary indexes that a table begins with, at most; 0: there are none */
	const char *conninfo;
	const char *pg_ctl;			/* how the server is started again */
	const char *data;
	const char *log;
	const char *command;		/* what to say for a repetition */
} Options;

extern Options options;

extern void options_parse(int argc, char **argv);

/* ---- What the processes share ---- */

typedef struct ErrorCount
{
	char		state[6];
	int64_t		count;
} ErrorCount;

typedef struct ProcessShared
{
	pid_t		pid;			/* main's */
	/* the process's own: */
	char		name[32];
	const char *volatile action;	/* literals, so good in every process */
	volatile int backend;
	volatile int64_t busy_since;	/* microseconds; 0: no statement is under way */
	char		statement[STATEMENT_SHOWN];
	int64_t		steps;
	int64_t		commits;
	ErrorCount	errors[MAX_ERROR_KINDS];
} ProcessShared;

#define MAX_WORKS	16
#define MAX_ACTORS	16

typedef struct Shared
{
	volatile int stop;			/* main's: finish the step at hand and end */
	volatile int failed;		/* anybody's: something was wrong */
	volatile int gate;			/* actor_kill's: nobody connects while it is not 0 */
	volatile int64_t kills;		/* actor_kill's: so often did it end the server or a part of it */
	int64_t		work_commits[MAX_WORKS];	/* anybody's */
	int64_t		actor_steps[MAX_ACTORS];	/* the actor's own */
	ProcessShared process[MAX_PROCESSES];
} Shared;

extern Shared *shared;

extern int64_t now_us(void);
extern void sleep_ms(int ms);

/* ---- Sessions ---- */

typedef struct Session
{
	int			number;			/* of its rows; 1 and up */
	ProcessShared *process;
	Random		random;
	PGconn	   *conn;
	PGconn	   *beside;			/* for spills in the middle of own transactions */
	const char *allowed;		/* SQLSTATEs that the action at hand may meet */
	char		state[6];		/* of the last statement, if it failed */
	bool		in_transaction;
	bool		ignores_gate;	/* it has closed it */
	int64_t		mark;			/* see transaction.c */
	char	   *history[HISTORY_LENGTH];
	int64_t		history_count;
} Session;

extern void session_init(Session *s, int number, ProcessShared *process, const char *name);
extern void session_end(Session *s);
extern void session_connect(Session *s);
extern bool session_server_went(Session *s);
extern PGresult *session_query(Session *s, const char *format,...) __attribute__((format(printf, 2, 3)));
extern PGresult *session_take(Session *s, const char *sql, PGresult *result);
extern bool session_run(Session *s, const char *format,...) __attribute__((format(printf, 2, 3)));
extern int64_t session_count(Session *s, const char *format,...) __attribute__((format(printf, 2, 3)));
extern bool session_value(Session *s, char *value, size_t size, const char *format,...) __attribute__((format(printf, 4, 5)));
extern void session_remember(Session *s, const char *text);
extern void session_beside(Session *s, const char *format,...) __attribute__((format(printf, 2, 3)));
extern void fail(Session *s, const char *format,...) __attribute__((format(printf, 2, 3), noreturn));

#define FAILED	(-1)			/* session_count: no answer, but an error that is allowed */

/* ---- Transactions whose outcome is known (transaction.c) ---- */

extern bool transaction_begin(Session *s, const char *how);
extern bool transaction_commit(Session *s);
extern void transaction_end(Session *s);
extern void transaction_abort(Session *s);
extern bool transaction_settled(Session *s);

/* ---- Tables (tables.c) ---- */

typedef enum Family
{
	ACCOUNT,					/* shared by all; the sum of v over all shapes is constant */
	OWN,						/* each session changes rows of its own, and knows them */
	BATCH						/* each insert is of n rows, which are there or not */
} Family;

#define FAMILIES		3
#define SHAPES			6
#define KEYLESS_SHAPES	((1u << 2) | (1u << 5))

#define ACCOUNTS		300
#define ACCOUNT_IDS		600		/* so half of the ids are free to move to */
#define ACCOUNT_START	1000

extern const char *const shape_names[SHAPES];

extern const char *table_name(Family family, int shape);
extern bool shape_has_key(int shape);
extern bool shape_is_partitioned(int shape);
extern bool shape_is_wide(int shape);
extern const char *shape_key(int shape);
extern const char *shape_backward(int shape);
extern int	shape_pick(Session *s);
extern void tables_create(Session *s);
extern int	tables_leaves(char (**names)[64]);
extern const char *tables_pick_leaf(Session *s, Family family, int shape);
extern const char *tables_pick_any(Session *s);
extern void tables_churn(Session *s, Family family, int shape);
extern void tables_check(Session *s, const char *name);

/* What follows from v and the id, the same for everybody. */
extern const char *group_of(int64_t id);

#define PAD_OF(v)	"repeat(md5((" v ")::text), %d)"

/* ---- Secondary indexes (indexes.c) ---- */

extern void indexes_create(Session *s, const char *table);
extern bool indexes_change_private(Session *s, const char *table);

/* ---- Reading a table in all ways (paths.c) ---- */

extern bool paths_compare(Session *s, Family family, int shape, const char *where, bool churn);

/* ---- Workloads and actors ---- */

typedef struct Work
{
	const char *name;
	int			weight;
	bool		by_default;
	void		(*step) (Session *s);
	void		(*finish) (Session *s); /* may be NULL: a last look, with everything at rest */
} Work;

typedef struct Actor
{
	const char *name;
	bool		by_default;
	bool		rose_only;
	int			pause_ms;		/* between two steps, on average */
	void		(*step) (Session *s);
} Actor;

typedef struct Trait
{
	const char *name;
	bool		by_default;
} Trait;

enum
{
	TRAIT_CTID,					/* rows are found by their ctid */
	TRAIT_SAVEPOINT,			/* savepoints */
	TRAIT_ALTER,				/* a session's private table is altered */
	TRAIT_ALTER_UNDONE,			/* in a subtransaction, too */
	TRAIT_CHURN,				/* sessions have spills and merges made in the middle of their own transactions */
	NTRAITS
};

extern const Trait traits[];
extern bool trait_enabled(int trait);

extern const Work works[];
extern const int nworks;
extern const Actor actors[];
extern const int nactors;

extern bool actor_enabled(const char *name);

extern void work_transfer(Session *s);
extern void work_move(Session *s);
extern void work_undo(Session *s);
extern void work_own(Session *s);
extern void work_own_finish(Session *s);
extern void work_batch(Session *s);
extern void work_batch_finish(Session *s);
extern void work_read(Session *s);
extern void work_cursor(Session *s);
extern void work_prepared(Session *s);
extern void work_private(Session *s);
extern void work_private_finish(Session *s);

extern void actor_maintain(Session *s);
extern void actor_check(Session *s);
extern void actor_cancel(Session *s);
extern void actor_terminate(Session *s);
extern void actor_lock(Session *s);
extern void actor_idle(Session *s);
extern void actor_prepared(Session *s);
extern void actor_alter(Session *s);
extern void actor_index(Session *s);
extern void actor_kill(Session *s);
extern void actor_restart(Session *s);

/* for actors that restart the server */
extern void alter_first(Session *s);

/* batches, for those who insert some beside their own work */
extern bool batch_insert(Session *s, int shape, int64_t batch, int rows, int pad);

/* ---- Looking on (watch.c) ---- */

extern void watch_stuck(void);
extern bool watch_log(void);
extern void watch_summary(int64_t began);

#endif							/* STRESS_H */
