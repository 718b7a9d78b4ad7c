/*-------------------------------------------------------------------------
 *
 * rose_blind.c
 *	  Blind writes, many at a time: for replication.
 *
 * No conflict check; and no tail log, as the rows are durable upstream, unless the subscription
 * says that they are to be logged (lsm/tree/rose_feed.h).  Then others may write to the table, too, and rows that
 * they hold are waited for (rose_blind_beside.c).  They are made
 * one by one, as their changes come, and linked together, in one writing section:
 * and what their keys lead to in the memtable is fetched for all of them
 * before the first one needs it.
 *
 * A key may come again and again.  Of what one transaction writes of it blindly only the
 * last row is of use, so the one before is taken back (rose_c0_supersede); of PARTIALs the
 * last of those that have the same columns, and what batches before have left of those.
 * Where that happens often, rows that are overtaken within one call are not even written.
 *
 * Whether a row is there before, which they need not know, is looked for only for rows that ask (rose_blind_below.c):
 * here is when, so that nobody writes the key between the look and the write.
 *
 * Locking: a writing section of C0 (rose_c0.h) while linking.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"

#include "lsm/snapshot/rose_horizon.h"
#include "lsm/snapshot/rose_own_commits.h"
#include "lsm/write/rose_blind.h"
#include "lsm/write/rose_blind_below.h"
#include "lsm/write/rose_blind_beside.h"
#include "lsm/write/rose_blind_entries.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_pace.h"
#include "lsm/write/rose_write.h"
#include "lsm/write/rose_write_let_go.h"

/* The largest number of keys that are fetched together. */
#define BLIND_WARM		ROSE_WRITE_WARM

/* It is looked for overtaken rows when this part of those before were. */
#define BLIND_AGAIN_PART	8

/* Places for keys in that. */
#define BLIND_KEYS			512

/* Whatever snapshots are open, rows of one command cannot be told apart: the last one of a key stands for all. */
static bool
are_two_commands(CommandId earlier, CommandId later)
{
	return earlier != later;
}

static bool
may_be_undone(CommandId earlier, CommandId later)
{
	return true;
}

static bool
nothing_is_undone(TransactionId subxid)
{
	return false;
}

/* The horizon of the table that is written to, as of some moment; 0: nobody has asked. */
static uint64 oldest;

/*
 * The commit log is not asked in a writing section.  A subscription's tables have one writer, so most of what is of use
 * is this process's own; of what its predecessor has committed, that is known which somebody has read.
 */
static bool
everyone_sees(FullTransactionId xid, bool hinted)
{
	return U64FromFullTransactionId(xid) < oldest && (hinted || rose_own_commits_has(xid));
}

/* These are of use only where there are PARTIALs, and not asked for in a writing section. */
static void
ask_horizon(RoseTree *tree, const RoseBlindRow *rows, int n)
{
	oldest = 0;
	for (int i = 0; i < n && oldest == 0; i++)
	{
		if (rows[i].op != ROSE_OP_PARTIAL)
			continue;
		oldest = rose_horizon_oldest(tree->rel);
		rose_own_commits_note(GetTopFullTransactionId());
	}
}

static const RoseOwnRules same_command = {are_two_commands, may_be_undone, nothing_is_undone, everyone_sees};

static void
require_key(RoseTree *tree, RoseOp op)
{
	if (tree->schema->nkeys == 0 && op != ROSE_OP_PUT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot update or delete rows of table \"%s\" blindly because it has no primary key",
						RelationGetRelationName(tree->rel)),
				 errhint("Add a primary key that matches the upstream table's replica identity.")));
}

void
rose_blind_form(RoseTree *tree, RoseOp op, const Datum *values, const bool *nulls,
				const bits8 *present, RoseBlindRow *out)
{
	const RoseSchema *schema = tree->schema;

	require_key(tree, op);
	out->op = op;
	out->present = NULL;
	out->entries = NULL;
	out->origin = 0;
	out->ask = ROSE_BLIND_ASK_NOTHING;
	out->key = palloc(rose_schema_key_width(schema) * sizeof(Datum));
	if (op == ROSE_OP_TOMBSTONE)
	{
		rose_component_require_key(schema, nulls);
		rose_key_from_values(schema, values, 0, out->key);
		out->row = rose_new_version_form_key_row(tree, out->key);
		rose_key_from_tuple(schema, out->row, 0, out->key);
	}
	else
		out->row = rose_new_version_form_row(tree, values, nulls, out->key);
	if (op == ROSE_OP_PARTIAL)
	{
		bits8	   *copy = palloc(ROSE_PRESENT_BYTES(schema->natts));

		memcpy(copy, present, ROSE_PRESENT_BYTES(schema->natts));
		out->present = copy;
	}
}

/* Up to BLIND_WARM rows.  REQUIRES: a writing section, so the memtable stays. */
static void
warm(RoseTree *tree, const RoseBlindRow *rows, int n, RoseMemSpot *hints)
{
	const Datum *keys[BLIND_WARM];

	n = Min(n, BLIND_WARM);
	memset(hints, 0, n * sizeof(RoseMemSpot));
	if (tree->schema->nkeys == 0)
		return;
	for (int i = 0; i < n; i++)
		keys[i] = rows[i].key;
	rose_c0_warm_active(&tree->shared->c0, tree->schema, keys, n, hints);
}

/* Link one; false if there is no room.  *nagain counts keys that come again.  REQUIRES: a writing section. */
static bool
link_row(RoseTree *tree, RoseVersion *version, const RoseBlindRow *row,
		 const RoseMemSpot *hint, int *nagain)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseMemPending pending;

	version->seq = rose_c0_next_sequence(c0);
	version->op = row->op;
	version->present = row->present;
	if (tree->schema->nkeys == 0)
	{
		version->rowid = (int64) version->seq;
		row->key[0] = Int64GetDatum(version->rowid);
	}
	if (rose_c0_prepare_near(c0, tree->schema, version, row->key, row->row, hint, NULL,
							 &pending) != ROSE_MEM_PREPARED)
		return false;
	rose_c0_link(c0, &pending);
	*nagain += rose_c0_supersede(c0, tree->schema, row->key, pending.entry, &same_command);
	return true;
}

/* Returns how many there was room for.  seqs: to note their numbers, or NULL. */
static int
link_rows(RoseTree *tree, RoseVersion *version, const RoseBlindRow *rows, int n, uint64 *seqs,
		  int *nagain)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseMemSpot hints[BLIND_WARM] = {{0}};
	int			done = 0;

	rose_c0_write_begin(c0);
	for (; done < n; done++)
	{
		if (n > 1 && done % BLIND_WARM == 0)
			warm(tree, rows + done, n - done, hints);
		if (!link_row(tree, version, &rows[done], &hints[done % BLIND_WARM], nagain))
			break;
		if (seqs != NULL)
			seqs[done] = version->seq;
	}
	rose_c0_write_end(c0);
	return done;
}

/*
 * Does a later row of the same key leave an earlier one without use?  A PARTIAL only one that has no other columns: its
 * entries in indexes are then made of columns that the later one has, too, and so has entries of, or of none that was sent.
 */
static bool
overtakes(const RoseSchema *schema, const RoseBlindRow *later, const RoseBlindRow *earlier)
{
	if (earlier->op == ROSE_OP_TOMBSTONE)
		return false;
	if (later->op == ROSE_OP_PARTIAL)
	{
		if (earlier->op != ROSE_OP_PARTIAL)
			return false;
		for (int i = 0; i < ROSE_PRESENT_BYTES(schema->natts); i++)
			if ((earlier->present[i] & ~later->present[i]) != 0)
				return false;
	}
	return rose_key_compare(schema, earlier->key, later->key, schema->nkeys) == 0;
}

/*
 * Leave out rows that a later one of the same key overtakes, the order of the others
 * kept; returns how many are left.  Going backwards, the last row of each key is entered
 * under its hash, and gives way to a whole one; two of one hash keep each other from it,
 * which leaves a row too many.
 */
static int
leave_out_overtaken(const RoseSchema *schema, const RoseBlindRow *rows, int n, RoseBlindRow *left)
{
	int			last[BLIND_KEYS];	/* row + 1 by hash; 0: none */
	int			from = n;

	memset(last, 0, sizeof(last));
	for (int i = n - 1; i >= 0; i--)
	{
		int		   *at = &last[rose_key_hash(schema, rows[i].key) % BLIND_KEYS];

		if (*at != 0 && overtakes(schema, &rows[*at - 1], &rows[i]))
			continue;
		if (*at == 0 || rows[i].op != ROSE_OP_PARTIAL)
			*at = i + 1;
		left[--from] = rows[i];
	}
	memmove(left, left + from, (n - from) * sizeof(RoseBlindRow));
	return n - from;
}

/*
 * The same as link_rows, logged: in parts.  *result: why not the next one.  Nobody has written between a look below them and
 * the write: else there would be a writer that is not among those who had ended before the look.
 */
static int
log_rows(RoseTree *tree, const RoseVersion *stamp, const RoseBlindRow *rows, int n, uint64 *seqs, uint8 *below,
		 int *nagain, RoseMemPrepared *result)
{
	int			width = rose_schema_key_width(tree->schema);
	RoseNewVersion *versions = palloc(Min(n, BLIND_WARM) * sizeof(RoseNewVersion));
	int			done = 0;
	int			part;
	int			written;

	do
	{
		part = Min(n - done, BLIND_WARM);
		if (unlikely(below != NULL))
			rose_blind_look_below(tree, rows + done, part, below + done);
		for (int i = 0; i < part; i++)
		{
			const RoseBlindRow *row = &rows[done + i];

			versions[i].version = *stamp;
			versions[i].version.op = row->op;
			versions[i].version.present = row->present;
			versions[i].row = row->row;
			memcpy(versions[i].key, row->key, width * sizeof(Datum));
		}
		written = rose_write_blind_rows(tree, versions, part, rose_blind_ended(), &same_command, nagain, result);
		for (int i = 0; seqs != NULL && i < written; i++)
			seqs[done + i] = versions[i].version.seq;
		done += written;
	} while (written == part && done < n);
	pfree(versions);
	return done;
}

/* Logged rows, beside whoever else writes to the table.  As log_rows. */
static int
log_rows_beside(RoseTree *tree, const RoseVersion *stamp, const RoseBlindRow *rows, int n, uint64 *seqs, uint8 *below,
				int *nagain, RoseMemPrepared *result)
{
	int			done;

	if (likely(tree->schema->nkeys == 0 || (!rose_blind_has_others(tree) && rose_direct_tree != tree)))
		return log_rows(tree, stamp, rows, n, seqs, below, nagain, result);
	done = rose_blind_write_beside(tree, stamp, rows, n, seqs, below, &same_command);
	*result = done == n ? ROSE_MEM_PREPARED : ROSE_MEM_NO_ROOM;
	return done;
}

/* Write rows, of which no more are left out, and their entries.  below: of logged ones.  *nagain as link_row's. */
static void
write_rows(RoseTree *tree, RoseBlindIndexes *indexes, const RoseBlindRow *rows, int n,
		   RoseVersion *version, uint8 *below, int *nagain)
{
	uint64	   *seqs = indexes != NULL ? palloc(n * sizeof(uint64)) : NULL;
	bool		log = OidIsValid(tree->shared->logged_by);
	int			done = 0;

	for (;;)
	{
		uint64	   *rest = seqs != NULL ? seqs + done : NULL;
		RoseMemPrepared result = ROSE_MEM_NO_ROOM;

		done += log ? log_rows_beside(tree, version, rows + done, n - done, rest, below != NULL ? below + done : NULL, nagain, &result) :
			link_rows(tree, version, rows + done, n - done, rest, nagain);
		if (done == n)
			break;
		if (result == ROSE_MEM_NO_ROOM)
			rose_make_room(tree);
	}
	if (likely(indexes == NULL))
		return;
	rose_blind_write_entries(indexes, rows, seqs, n, version, &same_command);
	pfree(seqs);
}

void
rose_blind_lock(RoseTree *tree, const Datum *key, CommandId cid)
{
	RoseBlindRow row = {.op = ROSE_OP_LOCK};
	RoseVersion version;

	row.row = rose_new_version_form_key_row(tree, key);
	row.key = palloc(rose_schema_key_width(tree->schema) * sizeof(Datum));
	rose_key_from_tuple(tree->schema, row.row, 0, row.key);
	rose_new_version_stamp(&version, ROSE_OP_LOCK, cid);
	while (rose_blind_write_beside(tree, &version, &row, 1, NULL, NULL, &same_command) == 0)
		rose_make_room(tree);
}

void
rose_blind_write(RoseTree *tree, RoseBlindIndexes *indexes, const RoseBlindRow *rows, int n,
				 CommandId cid, uint8 *below)
{
	static bool again = false;	/* keys came again, of late */
	RoseBlindRow *left = NULL;
	RoseVersion version;
	int			nrows = n;
	int			nagain = 0;

	ask_horizon(tree, rows, n);
	rose_new_version_stamp(&version, ROSE_OP_PUT, cid);
	/* who looks reads components, and would keep all that merges replace until the end of a large transaction */
	if (unlikely(below != NULL))
		rose_write_let_go(tree);
	/* of what is not logged this is the only writer, so it can be looked at before; else each row is looked at as it is written */
	if (unlikely(below != NULL) && !OidIsValid(tree->shared->logged_by))
	{
		rose_blind_look_below(tree, rows, n, below);
		below = NULL;
	}
	if (again && n > 1 && tree->schema->nkeys > 0 && likely(below == NULL))
	{
		left = palloc(n * sizeof(RoseBlindRow));
		nrows = leave_out_overtaken(tree->schema, rows, n, left);
		rows = left;
	}
	write_rows(tree, indexes, rows, nrows, &version, below, &nagain);
	again = nagain + n - nrows > n / BLIND_AGAIN_PART;
	if (left)
		pfree(left);
}
