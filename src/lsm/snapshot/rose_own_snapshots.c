/*-------------------------------------------------------------------------
 *
 * rose_own_snapshots.c
 *	  Which snapshots this process has open.  See rose_own_snapshots.h.
 *
 * Registered ones are nodes of core's heap, which can be walked from any of them; the
 * running query's is one.  They are those of queries, of cursors, and exported ones.
 *
 * Those that are only active, core has in a stack of which it shows nothing but the top.
 * A language pushes one to evaluate an expression, say, in which functions are called,
 * and these write.  But what is pushed later stands on top, and has a command id that is
 * not smaller.  So we keep marks: a stack of what is being run, each with the command id
 * of the moment.  A mark is a query, between the beginning and the end of ExecutorRun or
 * ExecutorFinish; a command; or a function in PL/pgSQL, which tells its plugin of each
 * statement that it begins, when nothing that it has pushed itself is active.  A snapshot
 * that was pushed between two marks has a command id between theirs.  So the hidden ones
 * are in as many ranges as there are marks, and most of the ranges are short:
 *
 * - below the first mark: none, if it is a query that the client's portal runs; that of the portal, if a command;
 * - between a query and a function that it calls: none, if the query's snapshot is the topmost one when the function
 *   begins, as is so for functions in expressions and for triggers;
 * - between a mark and the next: from the command at which the mark began, or for a function its present statement, to
 *   that at which the next one did;
 * - above the last mark, if that is a query: none, if its snapshot is the topmost one, as it is while the query itself
 *   writes.  Above others we do not look; nothing is known then.
 *
 * A function that fails does not say so.  Its mark goes with that of the query or command
 * within which it ran, or when the function that has called it goes on; until then its
 * range is too large, and covers what it should.
 *
 * When a transaction ends, command ids start over, and nothing is active any more; marks
 * of procedures that go on stay, with ranges of nothing.
 *
 * PL/pgSQL has one plugin.  If another one is there, functions have no marks, and what
 * they have pushed counts to the range of the query that called them, which gets long:
 * versions stay that could go.  The same goes for functions in other languages, as for
 * what is written by the commands of a procedure.
 *
 * Versions that are asked for by name: triggers that fire after rows were changed are
 * queued with the names of the old and new version.  The queue of a query is done when
 * the query has ended, so a version is wanted as long as the query that wrote it, or a
 * later one up to that which superseded it, has its snapshot registered.  But the actions
 * of foreign keys put theirs into the queue of the query that fires them.  So whenever an
 * outer one is firing triggers, nothing of such a table goes.
 *
 * Subtransactions: a version that was written since one began that is open now goes with
 * it.
 *
 * Backend-local, so there are no locks.  Nothing here may fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/pairingheap.h"
#include "plpgsql.h"
#include "tcop/pquery.h"
#include "utils/snapmgr.h"

#include "lsm/snapshot/rose_own_snapshots.h"

#define MAX_MARKS			64
#define MAX_LEVELS			64

/* Snapshots that are walked over; with more, nothing is known. */
#define MAX_REGISTERED		64

/* Command ids; first > last: none. */
typedef struct CommandRange
{
	CommandId	first;
	CommandId	last;
} CommandRange;

typedef enum MarkKind
{
	MARK_QUERY,
	MARK_COMMAND,
	MARK_FUNCTION
} MarkKind;

typedef struct Mark
{
	MarkKind	kind;
	bool		fires;			/* it fires triggers of other queries' rows, or may */
	bool		reads_only;		/* a function that is STABLE or IMMUTABLE */
	int			level;			/* of subtransactions, at which a function began */
	const void *function;		/* which function it is */
	Snapshot	snapshot;		/* of a query, or NULL */
	CommandId	began;			/* what was pushed since has this command id or a later one */
	CommandRange hidden;		/* between it and the next mark */
} Mark;

static const CommandRange nothing = {1, 0};

/* More than MAX_MARKS: the rest is not in the array, and nothing is known. */
static int	nmarks = 0;
static Mark marks[MAX_MARKS];
static CommandRange below_marks = {0, 0};

/* By level of nesting: the command at which the subtransaction began. */
static CommandId level_began[MAX_LEVELS];

/* ---- marks ---- */

/* What may be hidden below the first mark. */
static CommandRange
hidden_below(MarkKind kind, bool of_client, CommandId now)
{
	if (ActivePortal == NULL || ActivePortal->status != PORTAL_ACTIVE || kind == MARK_FUNCTION)
		return (CommandRange) {0, now};
	if (kind == MARK_QUERY)
		return nothing;
	return (CommandRange) {of_client ? now : 0, now};
}

/* Is a function called by the query itself? */
static bool
is_called_by(const Mark *query)
{
	return query->kind == MARK_QUERY && ActiveSnapshotSet() && GetActiveSnapshot() == query->snapshot;
}

/* One more mark; returns how many there were.  It is the caller's to fill in. */
static int
enter(MarkKind kind, bool of_client, Mark *mark)
{
	CommandId	now = GetCurrentCommandId(false);
	int			outer = nmarks++;

	if (outer >= MAX_MARKS)
		return outer;
	if (outer == 0)
		below_marks = hidden_below(kind, of_client, now);
	else if (kind == MARK_FUNCTION && is_called_by(&marks[outer - 1]))
		marks[outer - 1].hidden = nothing;
	else
		marks[outer - 1].hidden = (CommandRange) {marks[outer - 1].began, now};
	mark->kind = kind;
	mark->began = now;
	marks[outer] = *mark;
	return outer;
}

int
rose_own_snapshots_enter_query(Snapshot snapshot, bool finish)
{
	Mark		mark = {.snapshot = snapshot, .fires = finish};

	return enter(MARK_QUERY, false, &mark);
}

int
rose_own_snapshots_enter_command(const Node *command, ProcessUtilityContext context)
{
	Mark		mark = {.fires = !IsA(command, DoStmt) && !IsA(command, CallStmt)};

	return enter(MARK_COMMAND, context == PROCESS_UTILITY_TOPLEVEL, &mark);
}

void
rose_own_snapshots_leave(int outer)
{
	nmarks = outer;
}

RoseOwnPlace
rose_own_snapshots_place(void)
{
	if (nmarks == 1 && marks[0].kind == MARK_QUERY)
		return ROSE_OWN_TOP;
	if (nmarks == 2 && marks[0].kind == MARK_COMMAND && marks[1].kind == MARK_QUERY)
		return ROSE_OWN_IN_COMMAND;
	return ROSE_OWN_NESTED;
}

/* The level of subtransactions at which the functions began that read with their caller's snapshot; else the present one. */
static int
level_of_caller(void)
{
	int			level = GetCurrentTransactionNestLevel();

	for (int i = nmarks - 1; i >= 0; i--)
	{
		if (marks[i].kind == MARK_QUERY || (marks[i].kind == MARK_FUNCTION && !marks[i].reads_only))
			break;
		if (marks[i].kind == MARK_FUNCTION)
			level = marks[i].level;
	}
	return level;
}

bool
rose_own_snapshots_may_replace(Snapshot snapshot)
{
	if (nmarks > MAX_MARKS)
		return false;
	for (int i = 0; i < nmarks; i++)
		if (marks[i].kind == MARK_QUERY && marks[i].snapshot == snapshot)
			return false;
	return level_of_caller() == GetCurrentTransactionNestLevel();
}

/* Only what a procedure does goes on; other functions that are left have failed. */
void
rose_own_snapshots_reset(void)
{
	if (nmarks > 0 && marks[0].kind != MARK_COMMAND)
		nmarks = 0;
	below_marks = nothing;
	for (int i = 0; i < Min(nmarks, MAX_MARKS); i++)
	{
		marks[i].began = 0;
		marks[i].hidden = nothing;
	}
}

/* ---- functions in PL/pgSQL ---- */

static void
function_begins(PLpgSQL_execstate *estate, PLpgSQL_function *function)
{
	Mark		mark = {.function = estate, .reads_only = function->fn_readonly,
	.level = GetCurrentTransactionNestLevel()};

	(void) enter(MARK_FUNCTION, false, &mark);
}

/* How many marks there are up to that of a function, whatever above it has failed; 0: it has none. */
static int
marks_through(const PLpgSQL_execstate *estate)
{
	if (nmarks > MAX_MARKS)
		return 0;
	for (int n = nmarks; n > 0 && marks[n - 1].kind == MARK_FUNCTION; n--)
		if (marks[n - 1].function == estate)
			return n;
	return 0;
}

static void
statement_begins(PLpgSQL_execstate *estate, PLpgSQL_stmt *statement)
{
	int			n = marks_through(estate);

	if (n == 0)
		return;
	nmarks = n;
	marks[n - 1].began = GetCurrentCommandId(false);
}

static void
function_ends(PLpgSQL_execstate *estate, PLpgSQL_function *function)
{
	int			n = marks_through(estate);

	if (n > 0)
		rose_own_snapshots_leave(n - 1);
	else if (nmarks > MAX_MARKS)
		nmarks--;
}

static PLpgSQL_plugin plugin = {
	.func_beg = function_begins,
	.func_end = function_ends,
	.stmt_beg = statement_begins
};

void
rose_own_snapshots_watch_functions(void)
{
	PLpgSQL_plugin **place = (PLpgSQL_plugin **) find_rendezvous_variable("PLpgSQL_plugin");

	if (*place == NULL)
		*place = &plugin;
}

/* ---- rules ---- */

static inline bool
overlap(CommandRange a, CommandRange b)
{
	return a.first <= b.last && b.first <= a.last && a.first <= a.last && b.first <= b.last;
}

/* Is a node's snapshot, or one of those beside and below it, in the range?  *left: so many more are looked at. */
static bool
is_registered(CommandRange range, const pairingheap_node *node, int *left)
{
	for (; node != NULL; node = node->next_sibling)
	{
		const SnapshotData *snapshot = pairingheap_const_container(SnapshotData, ph_node, node);

		if (--*left < 0)
			return true;
		/* that of the catalogs, which is not copied, reads nothing else */
		if (snapshot->copied && range.first <= snapshot->curcid && snapshot->curcid <= range.last)
			return true;
		if (is_registered(range, node->first_child, left))
			return true;
	}
	return false;
}

/*
 * May a snapshot be open that sees what the one command has written and not what the
 * other has, or a query be going on that is the earlier one?  All queries have their
 * snapshots registered; what is hidden only reads, and sees nothing of the command whose
 * id it has.
 */
static bool
is_open(CommandId earlier, CommandId later)
{
	const CommandRange read_by = {earlier + 1, later};
	const CommandRange of_queries = {earlier, later};
	const Mark *query = &marks[nmarks - 1];
	const pairingheap_node *root;
	int			left = MAX_REGISTERED;

	if (nmarks == 0 || nmarks > MAX_MARKS || query->kind != MARK_QUERY || query->snapshot == NULL ||
		query->snapshot->regd_count == 0 || !ActiveSnapshotSet() ||
		GetActiveSnapshot() != query->snapshot)
		return true;
	if (overlap(read_by, below_marks))
		return true;
	for (int i = 0; i < nmarks - 1; i++)
		if (overlap(read_by, marks[i].hidden))
			return true;
	root = &query->snapshot->ph_node;
	while (root->prev_or_parent != NULL)
		root = root->prev_or_parent;
	return is_registered(of_queries, root, &left);
}

/* What a query has written stays until it ends: it may meet the row again, and ask who has changed it first. */
static bool
told_apart(CommandId earlier, CommandId later)
{
	return earlier != later && is_open(earlier, later);
}

/*
 * Who calls functions without a query of his own, as core's apply worker does, may have written a
 * row himself and fire its triggers one after the other, with no snapshot that is registered.
 */
static bool
told_apart_by_name(CommandId earlier, CommandId later)
{
	if (nmarks > 0 && marks[0].kind == MARK_FUNCTION &&
		overlap((CommandRange) {earlier, later}, below_marks))
		return true;
	for (int i = 0; i < Min(nmarks, MAX_MARKS) - 1; i++)
		if (marks[i].fires)
			return true;
	return is_open(earlier, later);
}

static bool
undone_apart(CommandId earlier, CommandId later)
{
	int			level = GetCurrentTransactionNestLevel();

	if (level >= MAX_LEVELS)
		return true;
	for (; level > 1; level--)
		if (earlier <= level_began[level] && level_began[level] <= later)
			return true;
	return false;
}

static bool
is_undone(TransactionId subxid)
{
	return !TransactionIdIsCurrentTransactionId(subxid);
}

void
rose_own_snapshots_begin_subtransaction(int level)
{
	if (level < MAX_LEVELS)
		level_began[level] = GetCurrentCommandId(false);
}

const RoseOwnRules *
rose_own_snapshots_rules(bool named)
{
	static const RoseOwnRules unnamed_rules = {told_apart, undone_apart, is_undone};
	static const RoseOwnRules named_rules = {told_apart_by_name, undone_apart, is_undone};

	return named ? &named_rules : &unnamed_rules;
}
