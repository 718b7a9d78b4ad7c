/*-------------------------------------------------------------------------
 *
 * rose_transaction.c
 *	  What ends with a transaction or a subtransaction, files that it made or dropped, and
 *	  tables that got other options.
 *
 * Files made or dropped by a transaction are noted with the nesting level of
 * their subtransaction; their registry entries go when the files do.  A prepared
 * transaction takes its notes to the grave; rose_registry_sweep is for those.
 *
 * State is of this backend, so there are no locks.  Nothing here may fail at the end of a
 * transaction, so that what needs memory is done when a file is noted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "util/rose_foreign.h"
#include "store/rose_pin.h"
#include "lsm/snapshot/rose_own_commits.h"
#include "lsm/snapshot/rose_own_snapshots.h"
#include "lsm/tree/rose_local_trees.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_write_transaction.h"
#include "lsm/rose_transaction.h"

/* A file that this transaction made or dropped. */
typedef struct FileNote
{
	slist_node	node;
	RelFileLocator locator;
	bool		created;		/* else dropped */
	int			level;			/* transaction nesting level */
} FileNote;

static slist_head file_notes = SLIST_STATIC_INIT(file_notes);

/* A file whose table has got other options. */
typedef struct OptionsNote
{
	slist_node	node;
	RelFileLocator locator;
} OptionsNote;

static slist_head options_notes = SLIST_STATIC_INIT(options_notes);

/* ---- files made and dropped ---- */

static void
note_file(RelFileLocator locator, bool created)
{
	FileNote   *note;

	rose_registry_reach_all();
	note = MemoryContextAlloc(TopMemoryContext, sizeof(FileNote));
	note->locator = locator;
	note->created = created;
	note->level = GetCurrentTransactionNestLevel();
	slist_push_head(&file_notes, &note->node);
}

void
rose_transaction_file_created(RelFileLocator locator)
{
	note_file(locator, true);

	/* an entry of an earlier file of that name, which a prepared transaction dropped */
	rose_registry_drop(locator);
	rose_tree_note_stale();
}

void
rose_transaction_file_dropped(RelFileLocator locator)
{
	note_file(locator, false);
}

void
rose_transaction_file_kept(RelFileLocator locator)
{
	slist_mutable_iter iter;

	slist_foreach_modify(iter, &file_notes)
	{
		FileNote   *note = slist_container(FileNote, node, iter.cur);

		if (note->created || !RelFileLocatorEquals(note->locator, locator))
			continue;
		slist_delete_current(&iter);
		pfree(note);
	}
}

/*
 * Settle the notes of this level and deeper: drop registry entries whose file
 * goes.  commit: those dropped; else those created.
 */
static void
settle_files(int level, bool commit)
{
	slist_mutable_iter iter;

	slist_foreach_modify(iter, &file_notes)
	{
		FileNote   *note = slist_container(FileNote, node, iter.cur);

		if (note->level < level)
			continue;
		if (note->created != commit)
		{
			rose_registry_drop(note->locator);
			rose_tree_note_stale();
		}
		slist_delete_current(&iter);
		pfree(note);
	}
}

static void
forget_files(void)
{
	while (!slist_is_empty(&file_notes))
		pfree(slist_container(FileNote, node, slist_pop_head_node(&file_notes)));
}

/* ---- options ---- */

void
rose_transaction_options_changed(RelFileLocator locator)
{
	OptionsNote *note;

	rose_registry_reach_all();
	note = MemoryContextAlloc(TopMemoryContext, sizeof(OptionsNote));
	note->locator = locator;
	slist_push_head(&options_notes, &note->node);
}

/*
 * Whether they were changed or, after all, not: this transaction may have published what
 * it saw.  Who reads them from now on reads what is committed.  A prepared transaction
 * tells nobody when it ends; then who opens the table, and hears that it was altered,
 * reads them.
 */
static void
settle_options(void)
{
	while (!slist_is_empty(&options_notes))
	{
		OptionsNote *note = slist_container(OptionsNote, node,
											slist_pop_head_node(&options_notes));

		rose_registry_note_options(note->locator);
		pfree(note);
	}
}

/* ---- callbacks ---- */

static void
end_transaction(bool committed)
{
	settle_options();
	rose_own_snapshots_reset();
	rose_own_commits_end(committed);
	rose_write_transaction_end();
	rose_lookup_cache_end_transaction(committed);
	rose_tid_reset_all();
	rose_pin_release_all();
	rose_tree_end_transaction();
	rose_local_trees_end_transaction();
}

static void
on_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
			settle_files(1, true);
			end_transaction(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			settle_files(1, false);
			end_transaction(false);
			break;
		case XACT_EVENT_PREPARE:
			forget_files();
			end_transaction(false);
			break;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

static void
on_subtransaction_event(SubXactEvent event, SubTransactionId mine,
						SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	slist_iter	iter;

	if (event == SUBXACT_EVENT_START_SUB)
		rose_own_snapshots_begin_subtransaction(level);
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		settle_files(level, false);
		rose_write_transaction_abort_sub(level);
		rose_foreign_note_rollback();
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		slist_foreach(iter, &file_notes)
		{
			FileNote   *note = slist_container(FileNote, node, iter.cur);

			if (note->level == level)
				note->level = level - 1;
		}
	}
}

void
rose_transaction_define_callbacks(void)
{
	RegisterXactCallback(on_transaction_event, NULL);
	RegisterSubXactCallback(on_subtransaction_event, NULL);
}
