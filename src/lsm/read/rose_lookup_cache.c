/*-------------------------------------------------------------------------
 *
 * rose_lookup_cache.c
 *	  Lookups, also of many keys, readers of keys and cursors that are kept, for callers that need one for a moment only.
 *
 * To make one, and to find the way down a component again, costs more than to use it once.
 * So those of the tables that were used last are kept, and a transaction of a few rows
 * finds what the one before has left.  What goes on being right from one transaction to
 * the next is what the tree's handle keeps as well: components that the manifest lists.
 * Between transactions nothing is held: no view, snapshot, pin, buffer or relation.  And nothing is kept
 *
 *	  - after a transaction that failed or was prepared: it may have stopped anywhere
 *	  - when the tree has replaced anything, a component or its schema, since the end of the
 *		transaction that used it last: what it refers to is gone (RoseTree.replaced)
 *	  - if a tuple slot still has one of its rows, or rows were large.
 *
 * A cursor is kept for scans of a few rows, and belongs to the scan as long as that uses it: to
 * its memory, too, with which it goes if the scan is not ended but fails.
 *
 * A function that compares keys may be called in the middle of a lookup, and look up rows
 * itself.  So those of each depth of such calls are kept apart.
 *
 * Memory is below the handle's, and goes with it; then a callback says so.  How much all
 * handles take is bounded (rose_tree.c).  No locks; backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/proc.h"
#include "utils/memutils.h"

#include "compat/rose_compat.h"
#include "util/rose_foreign.h"
#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_lookup_cache.h"

/* Tables, of each depth. */
#define KEPT_TABLES		8

/* Cursors of each of these, and bytes of values of rows that one of them has. */
#define KEPT_CURSORS	4
#define RESTING_BYTES	((Size) 64 * 1024)

/* Bytes of lookups of many keys, which have a cursor for each component. */
#define RESTING_MANY_BYTES	((Size) 1024 * 1024)

typedef struct KeptLookups
{
	RoseTree   *tree;			/* NULL: nothing is kept here */
	RoseSchema *schema;
	uint64		replaced;		/* tree's, when the last transaction that used it ended */
	LocalTransactionId lxid;	/* that uses it; invalid: none has since the last one ended */
	uint64		used;			/* when it was last asked for, by a count */
	MemoryContext context;		/* owns both */
	MemoryContextCallback callback; /* of it */
	RoseLookup *lookup;			/* or NULL */
	RoseKeyReader *reader;		/* or NULL */
	int			ncursors;
	int			most_cursors;	/* that there were */
	RoseComponentCursor *cursors[KEPT_CURSORS]; /* those used last come last */
	RoseRows   *rows;			/* of a memtable's source; or NULL */
	bool		had_rows;
	RoseLookupMany *many;		/* or NULL */
	bool		had_many;
} KeptLookups;

static KeptLookups kept[ROSE_FOREIGN_MAX_DEPTH + 1][KEPT_TABLES];
static uint64 use_count = 0;
static int	used_depth = -1;	/* deepest one that this transaction has used */

static void
forget(KeptLookups *entry)
{
	entry->tree = NULL;
	entry->lxid = InvalidLocalTransactionId;
	entry->lookup = NULL;
	entry->reader = NULL;
	entry->ncursors = 0;
	entry->rows = NULL;
	entry->many = NULL;
}

/* The memory goes, with the tree's handle. */
static void
on_memory_gone(void *arg)
{
	forget((KeptLookups *) arg);
}

static void
forget_reader(KeptLookups *entry)
{
	RoseKeyReader *reader = entry->reader;

	entry->reader = NULL;
	if (reader != NULL)
		rose_key_reader_free(reader);
}

static void
forget_many(KeptLookups *entry)
{
	RoseLookupMany *many = entry->many;

	entry->many = NULL;
	if (many != NULL)
		rose_lookup_many_free(many);
}

static void
let_go(KeptLookups *entry)
{
	RoseLookup *lookup = entry->lookup;

	forget_reader(entry);
	forget_many(entry);
	while (entry->ncursors > 0)
		rose_component_cursor_free(entry->cursors[--entry->ncursors]);
	if (entry->rows != NULL)
		rose_rows_abandon(entry->rows);
	entry->rows = NULL;
	entry->lookup = NULL;
	if (lookup != NULL)
		rose_lookup_free(lookup);
	MemoryContextDelete(entry->context);
	Assert(entry->tree == NULL);
}

/* Begin to keep what is used of a tree, in the place of what was not used for longest. */
static KeptLookups *
begin(KeptLookups *entries, RoseTree *tree)
{
	KeptLookups *entry = &entries[0];

	for (int i = 0; i < KEPT_TABLES; i++)
	{
		if (entries[i].tree == NULL)
		{
			entry = &entries[i];
			break;
		}
		if (entries[i].used < entry->used)
			entry = &entries[i];
	}
	if (entry->tree != NULL)
		let_go(entry);
	entry->context = AllocSetContextCreate(tree->context, "rose lookups", ALLOCSET_SMALL_SIZES);
	entry->callback.func = on_memory_gone;
	entry->callback.arg = entry;
	MemoryContextRegisterResetCallback(entry->context, &entry->callback);
	entry->tree = tree;
	entry->schema = tree->schema;
	entry->most_cursors = 0;
	entry->had_rows = entry->had_many = false;
	tree->grown = true;
	return entry;
}

/*
 * What is kept of a tree; NULL: nothing.  What no transaction has used since the tree replaced
 * something goes now.
 */
static KeptLookups *
find(KeptLookups *entries, const RoseTree *tree)
{
	for (int i = 0; i < KEPT_TABLES; i++)
	{
		KeptLookups *entry = &entries[i];

		if (entry->tree != tree)
			continue;
		if (unlikely(entry->lxid == InvalidLocalTransactionId && entry->replaced != tree->replaced))
			let_go(entry);
		else if (entry->schema == tree->schema)
			return entry;
	}
	return NULL;
}

static KeptLookups *
entry_of(RoseTree *tree)
{
	int			depth = rose_foreign_depth();
	KeptLookups *entries = kept[depth];
	KeptLookups *entry = find(entries, tree);

	if (entry == NULL)
		entry = begin(entries, tree);
	entry->lxid = rose_my_lxid();
	entry->used = ++use_count;
	used_depth = Max(used_depth, depth);
	return entry;
}

RoseLookup *
rose_lookup_cached(RoseTree *tree)
{
	KeptLookups *entry = entry_of(tree);

	if (entry->lookup == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(entry->context);

		entry->lookup = rose_lookup_create(tree);
		MemoryContextSwitchTo(old);
	}
	return entry->lookup;
}

RoseKeyReader *
rose_lookup_cached_reader(RoseTree *tree)
{
	KeptLookups *entry = entry_of(tree);

	if (entry->reader == NULL)
		entry->reader = rose_key_reader_create(tree, entry->context);
	return entry->reader;
}

/* Take the i-th cursor out. */
static RoseComponentCursor *
take_out(KeptLookups *entry, int i)
{
	RoseComponentCursor *cursor = entry->cursors[i];

	entry->ncursors--;
	for (; i < entry->ncursors; i++)
		entry->cursors[i] = entry->cursors[i + 1];
	return cursor;
}

RoseComponentCursor *
rose_lookup_cache_take_cursor(RoseTree *tree, RoseComponent *component, MemoryContext context)
{
	KeptLookups *entry = find(kept[rose_foreign_depth()], tree);

	for (int i = 0; entry != NULL && i < entry->ncursors; i++)
		if (rose_component_cursor_is_of(entry->cursors[i], component))
		{
			RoseComponentCursor *cursor = take_out(entry, i);

			rose_component_cursor_pass_on(cursor, context);
			rose_component_cursor_rebind(cursor, tree->rel);
			return cursor;
		}
	return NULL;
}

void
rose_lookup_cache_give_cursor(RoseTree *tree, RoseComponentCursor *cursor)
{
	KeptLookups *entry;

	if (!rose_component_cursor_may_be_kept(cursor, tree->schema))
	{
		rose_component_cursor_free(cursor);
		return;
	}
	entry = entry_of(tree);
	if (entry->ncursors == KEPT_CURSORS)
		rose_component_cursor_free(take_out(entry, 0));
	rose_component_cursor_pass_on(cursor, entry->context);
	entry->cursors[entry->ncursors++] = cursor;
	if (entry->ncursors > entry->most_cursors)
	{
		entry->most_cursors = entry->ncursors;
		tree->grown = true;
	}
}

RoseRows *
rose_lookup_cache_take_rows(RoseTree *tree, MemoryContext context)
{
	KeptLookups *entry = find(kept[rose_foreign_depth()], tree);
	RoseRows   *rows = entry != NULL ? entry->rows : NULL;

	if (rows == NULL)
		return NULL;
	MemoryContextSetParent(rows->context, context);
	entry->rows = NULL;
	return rows;
}

void
rose_lookup_cache_give_rows(RoseTree *tree, RoseRows *rows)
{
	KeptLookups *entry = NULL;

	Assert(rows->refcount == 1);
	if (rows->schema == tree->schema)
		entry = entry_of(tree);
	if (entry == NULL || entry->rows != NULL)
	{
		rose_rows_abandon(rows);
		return;
	}
	MemoryContextSetParent(rows->context, entry->context);
	entry->rows = rows;
	if (!entry->had_rows)
		tree->grown = true;
	entry->had_rows = true;
}

RoseLookupMany *
rose_lookup_cache_take_many(RoseTree *tree, MemoryContext context)
{
	KeptLookups *entry = find(kept[rose_foreign_depth()], tree);
	RoseLookupMany *many = entry != NULL ? entry->many : NULL;

	if (many == NULL)
		return rose_lookup_many_create(tree, context);
	entry->many = NULL;
	rose_lookup_many_pass_on(many, context);
	return many;
}

void
rose_lookup_cache_give_many(RoseTree *tree, RoseLookupMany *many)
{
	KeptLookups *entry = NULL;

	if (rose_lookup_many_is_for(many, tree->schema))
		entry = entry_of(tree);
	if (entry == NULL || entry->many != NULL)
	{
		rose_lookup_many_free(many);
		return;
	}
	rose_lookup_many_pass_on(many, entry->context);
	entry->many = many;
	if (!entry->had_many)
		tree->grown = true;
	entry->had_many = true;
}

void
rose_lookup_cache_forget_reader(RoseTree *tree)
{
	KeptLookups *entry = find(kept[rose_foreign_depth()], tree);

	if (entry != NULL)
		forget_reader(entry);
}

/* Let go of what is the transaction's only; false: something else is, too. */
static bool
come_to_rest(KeptLookups *entry)
{
	bool		result = true;

	if (entry->lookup != NULL)
		result = rose_lookup_rest(entry->lookup);
	if (entry->reader != NULL)
		result = rose_key_reader_rest(entry->reader) && result;
	for (int i = entry->ncursors - 1; i >= 0; i--)
		if (!rose_component_cursor_may_rest(entry->cursors[i], RESTING_BYTES))
			rose_component_cursor_free(take_out(entry, i));
	if (entry->many != NULL && !rose_lookup_many_may_rest(entry->many, RESTING_MANY_BYTES))
		forget_many(entry);
	return result;
}

/* What the tree has replaced goes with this transaction. */
static bool
may_stay(KeptLookups *entry)
{
	const RoseTree *tree = entry->tree;

	entry->replaced = tree->replaced;
	return tree->retired == NULL && entry->schema == tree->schema && come_to_rest(entry);
}

void
rose_lookup_cache_end_transaction(bool committed)
{
	for (int depth = 0; depth <= used_depth; depth++)
		for (int i = 0; i < KEPT_TABLES; i++)
		{
			KeptLookups *entry = &kept[depth][i];

			if (entry->tree == NULL || entry->lxid == InvalidLocalTransactionId)
				continue;
			entry->lxid = InvalidLocalTransactionId;
			if (!committed || !may_stay(entry))
				let_go(entry);
		}
	used_depth = -1;
}
