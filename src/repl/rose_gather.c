/*-------------------------------------------------------------------------
 *
 * rose_gather.c
 *	  Rows gathered before they are written: the last changes of a batch.
 *
 * To write a row into a large memtable is above all to wait for memory, and that is
 * waited for together for many rows (rose_blind.c).  So rows are kept here until there
 * are enough of them, or somebody wants to see them: the end of the batch, and whatever
 * looks at the tables within it.
 *
 * Rows of one table are written in the order in which they came.  Tables do not matter to
 * each other: what a batch writes becomes visible at once.
 *
 * State of the apply worker; no locks beyond those of the batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "lsm/write/rose_blind_entries.h"
#include "lsm/write/rose_pace.h"
#include "repl/rose_conflicts.h"
#include "repl/rose_repl_internal.h"

/* As many rows as are worth fetching for together, of some tables; and no more memory than this. */
#define GATHER_ROWS		128
#define GATHER_BYTES	(256 * 1024)

static struct
{
	MemoryContext context;		/* of the rows; NULL before the first */
	int			n;
	Size		nbytes;
	bool		asked;			/* rows ask what is there before them */
	RoseReplTarget *targets[GATHER_ROWS];	/* NULL: written */
	RoseBlindRow rows[GATHER_ROWS];
	uint8		kinds[GATHER_ROWS]; /* asked: what each would be (RoseConflictKind) */
}			gathered;

StaticAssertDecl(GATHER_ROWS <= ROSE_BLIND_ASK_MAX, "gathered rows ask together");

void
rose_gather_forget(void)
{
	rose_apply.blame.writing = false;
	gathered.n = 0;
	gathered.nbytes = 0;
	gathered.asked = false;
	if (gathered.context != NULL)
		MemoryContextReset(gathered.context);
}

static void
pace(const RoseReplTarget *target, int n)
{
	RoseTree   *const *trees = &target->table;
	int			ntrees = 1;

	if (target->indexes != NULL)
		trees = rose_blind_trees(target->indexes, &ntrees);
	rose_pace_writes_of(trees, ntrees, n);
}

/* Write a table's rows, from the first that is gathered, which is 'from'. */
static void
write_table(int from)
{
	RoseReplTarget *target = gathered.targets[from];
	RoseBlindRow rows[GATHER_ROWS];
	uint8		kinds[GATHER_ROWS];
	uint8		below[GATHER_ROWS];
	bool		asks = gathered.asked && target->table->schema->nkeys > 0;
	int			n = 0;

	for (int i = from; i < gathered.n; i++)
	{
		if (gathered.targets[i] != target)
			continue;
		if (unlikely(asks))
			kinds[n] = gathered.kinds[i];
		rows[n++] = gathered.rows[i];
		gathered.targets[i] = NULL;
	}
	rose_apply.blame.rel = target->of;
	rose_blind_write(target->table, target->indexes, rows, n, GetCurrentCommandId(true), asks ? below : NULL);
	if (unlikely(asks))
		rose_conflicts_note_rows(target, rows, kinds, below, n);

	/* Towards the end of the memory that is left, at the speed of what frees some; logged rows as local ones. */
	if (rose_apply.epochs.flight != 0 || rose_apply.sub->logged)
		pace(target, n);
}

void
rose_gather_write(void)
{
	RoseReplRel *rel = rose_apply.blame.rel;
	bool		blame = rose_apply.blame.certain;
	MemoryContext old;

	if (gathered.n == 0)
		return;
	old = MemoryContextSwitchTo(gathered.context);
	rose_apply.blame.writing = true;
	rose_apply.blame.certain = false;	/* the rows are well-formed: what is missing now is room */
	for (int i = 0; i < gathered.n; i++)
	{
		if (gathered.targets[i] != NULL)
			write_table(i);
	}
	MemoryContextSwitchTo(old);
	rose_gather_forget();
	rose_apply.blame.rel = rel;
	rose_apply.blame.certain = blame;
}

void
rose_gather_row(RoseReplTarget *target, RoseOp op, const Datum *values, const bool *nulls,
				const bits8 *present)
{
	RoseBlindRow *row = &gathered.rows[gathered.n];
	MemoryContext old;

	if (gathered.context == NULL)
		gathered.context = AllocSetContextCreate(TopMemoryContext, "rose gathered rows",
												 0, 64 * 1024, GATHER_BYTES);
	old = MemoryContextSwitchTo(gathered.context);
	rose_blind_form(target->table, op, values, nulls, present, row);
	row->origin = rose_apply.remote.commit_lsn;
	if (unlikely(rose_apply.sub->count_conflicts != ROSE_COUNT_CONFLICTS_OFF))
	{
		RoseConflictKind kind = rose_conflicts_expect(target, op);

		row->ask = rose_conflicts_ask(kind);
		gathered.kinds[gathered.n] = kind;
		gathered.asked |= kind != ROSE_CONFLICT_NONE;
	}
	gathered.nbytes += rose_blind_form_entries(target->indexes, values, nulls, row);
	MemoryContextSwitchTo(old);

	gathered.targets[gathered.n++] = target;
	gathered.nbytes += row->row->t_len;
	if (gathered.n == GATHER_ROWS || gathered.nbytes >= GATHER_BYTES)
		rose_gather_write();
}
