/*-------------------------------------------------------------------------
 *
 * rose_direct.c
 *	  Writing past C0: the last resort of a writer who finds no room in memory.
 *
 * Memory may be full of what nobody but idle transactions may spill, or what is free of
 * it may be in pieces that are too short for a row.  Then the row goes to a private run
 * at once.  That is slow, but needs no memory of the arena, so a write always ends.
 *
 *	1. rose_direct_begin: with no LWLock held, take ROSE_LOCK_SPILL and spill all that the table
 *	has in memory, what is in progress to a private run
 *	2. the writer looks at its keys again and writes as ever; the functions that write versions come
 *	here (rose_direct_write)
 *	3. if memory has nothing of these keys, the versions get numbers and are written to a private run
 *	4. in a writing section of C0: if memory still has nothing of these keys, and the writer's look and
 *	indexes still hold, the run is published in front of all components, and looks of others that began before do not hold any
 *	more (rose_c0_note_elsewhere).  Else somebody was faster, the run is given up, and the writer begins anew
 *	5. rose_direct_end: ROSE_LOCK_SPILL is let go, by the write, or when the writer unlocks the key because it is
 *	not to write.  So nobody holds it while he waits for a transaction
 *
 * Why versions keep their order.  Readers look at memory first, so no older version of a
 * key may be there; nobody writes one in that section.  ROSE_LOCK_SPILL keeps out those
 * who spill, and who put private runs in front of all components that they know of.
 *
 * Not for tables that a subscription feeds, whose memtables stay until their epoch is
 * committed, nor for a table that ALTER TABLE is about to rewrite.
 *
 * Locking: as above.  The run is built with the partition locks of a single row's key
 * held, which a writer else holds for moments; the manifest is switched in a writing
 * section of C0.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_altered.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/merge/rose_spill.h"
#include "lsm/merge/rose_tidy.h"
#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_new_run.h"
#include "lsm/write/rose_write_stats.h"

/* Components that there must be room for. */
#define DIRECT_COMPONENTS	2

RoseTree   *rose_direct_tree = NULL;
static int	direct_level;		/* of the (sub)transaction that has begun */

/* Can rows of this transaction be written to a run, as the table is described now?  They have all columns that it has. */
static bool
may_write_run(RoseTree *tree)
{
	MemoryContext context;
	RoseSpillSchemas schemas;
	bool		may;

	if (OidIsValid(tree->shared->fed_by))
		return false;
	context = AllocSetContextCreate(CurrentMemoryContext, "rose direct schemas",
									ALLOCSET_SMALL_SIZES);
	may = rose_altered_schemas(tree, context, &schemas);
	MemoryContextDelete(context);
	return may;
}

bool
rose_direct_begin(RoseTree *tree, bool worker)
{
	Assert(rose_direct_tree == NULL);
	if (!may_write_run(tree))
		return false;
	rose_tidy_own_runs(tree, worker);
	LockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
	(void) rose_spill_whole(tree);
	if (rose_tree_manifest(tree)->ncomponents > ROSE_MAX_COMPONENTS - DIRECT_COMPONENTS)
	{
		UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
		return false;
	}
	rose_direct_tree = tree;
	direct_level = GetCurrentTransactionNestLevel();
	ROSE_STOP_POINT("direct-begun");	/* no LWLock */
	return true;
}

void
rose_direct_end(void)
{
	RoseTree   *tree = rose_direct_tree;

	if (tree == NULL)
		return;
	rose_direct_tree = NULL;
	UnlockPage(tree->rel, ROSE_LOCK_SPILL, ExclusiveLock);
}

/* The (sub)transaction has failed; its locks go with it. */
void
rose_direct_abort(int level)
{
	if (rose_direct_tree != NULL && direct_level >= level)
		rose_direct_tree = NULL;
}

/* ---- the run ---- */

/* A new row of a table without key: it gets its row id with its number. */
static bool
is_new_row(const RoseTree *tree, const RoseNewVersion *v)
{
	return tree->schema->nkeys == 0 && v->version.rowid == 0;
}

/* REQUIRES: a section, and ROSE_LOCK_SPILL. */
static bool
is_key_in_memtable(RoseTree *tree, int slot, const Datum *key)
{
	const RoseSchema *schema = tree->schema;
	RoseC0Shared *c0 = &tree->shared->c0;
	int			width = rose_schema_key_width(schema);
	RoseMemCursor cursor;
	RoseMemEntryRef entry;
	Datum		found[INDEX_MAX_KEYS];

	if (!rose_c0_has_memtable(c0, slot))
		return false;
	rose_mem_cursor_open(&cursor, c0, schema, slot);
	if (!rose_mem_cursor_seek(&cursor, key, width, PG_UINT64_MAX))
		return false;
	rose_mem_cursor_get(&cursor, &entry);
	rose_key_from_tuple(schema, entry.row, entry.version.rowid, found);
	return rose_key_compare(schema, found, key, width) == 0;
}

/* Has memory any version of these keys, at this moment?  REQUIRES: a section, and ROSE_LOCK_SPILL. */
static bool
are_keys_in_memory(RoseTree *tree, const RoseNewVersion *versions, int n)
{
	bool		found = false;

	for (int i = 0; i < n && !found; i++)
		for (int slot = 0; slot < ROSE_MAX_MEMTABLES && !found; slot++)
			found = !is_new_row(tree, &versions[i]) &&
				is_key_in_memtable(tree, slot, versions[i].key);
	return found;
}

static int
compare_versions(const void *a, const void *b, void *arg)
{
	const RoseNewVersion *x = *(const RoseNewVersion *const *) a;
	const RoseNewVersion *y = *(const RoseNewVersion *const *) b;
	const RoseSchema *schema = arg;
	int			cmp = rose_key_compare(schema, x->key, y->key, rose_schema_key_width(schema));

	if (cmp != 0)
		return cmp;
	return x->version.seq > y->version.seq ? -1 : x->version.seq < y->version.seq;
}

/* In the order of a component. */
static const RoseNewVersion **
sort_versions(const RoseSchema *schema, const RoseNewVersion *versions, int n)
{
	const RoseNewVersion **sorted = palloc(n * sizeof(RoseNewVersion *));

	for (int i = 0; i < n; i++)
		sorted[i] = &versions[i];
	qsort_arg(sorted, n, sizeof(RoseNewVersion *), compare_versions, (void *) schema);
	return sorted;
}

/* Is what the writer knows of these keys still so?  REQUIRES: a writing section. */
static bool
may_publish(RoseTree *tree, const RoseNewVersion *versions, int n, RoseC0Look *look,
			uint64 generation)
{
	return rose_index_set_is_of(tree, generation) &&
		(look == NULL || rose_c0_look_ends(&tree->shared->c0, look)) &&
		!are_keys_in_memory(tree, versions, n);
}

/* False: it may not be. */
static bool
publish_run(RoseTree *tree, RoseComponentBuilder *builder, const RoseNewVersion *versions, int n,
			RoseC0Look *look, uint64 generation, uint64 next_seq)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	RoseNewRun	run;
	bool		publish;

	rose_new_run_finish(&run, tree, builder, next_seq);
	ROSE_STOP_POINT("direct-built");	/* a single row's partition locks may be held */

	rose_c0_write_begin(c0);
	publish = may_publish(tree, versions, n, look, generation);
	if (publish)
	{
		/* who writes blindly may be meant here, too, and then looks in vain for a while */
		tree->shared->newest_writer = Max(tree->shared->newest_writer,
										  U64FromFullTransactionId(versions[0].version.xid));
		rose_new_run_publish(&run);
		rose_c0_note_elsewhere(c0);
	}
	rose_c0_write_end(c0);
	if (publish)
		rose_new_run_note(&run);
	return publish;
}

static bool
write_run(RoseTree *tree, const RoseNewVersion *versions, int n, RoseC0Look *look,
		  uint64 generation, uint64 next_seq)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose direct write",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const RoseNewVersion **sorted = sort_versions(tree->schema, versions, n);
	RoseComponentBuilder *builder = rose_component_builder_create(tree->rel,
																  &tree->shared->store,
																  tree->schema, n,
																  ROSE_BUILD_PRIVATE,
																  context);
	bool		published;

	for (int i = 0; i < n; i++)
	{
		RoseRow		row = {0};

		row.version = sorted[i]->version;
		row.tuple = sorted[i]->row;
		row.key = sorted[i]->key;
		rose_component_builder_add(builder, &row);
	}
	published = publish_run(tree, builder, versions, n, look, generation, next_seq);
	rose_component_builder_free(builder);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return published;
}

/* Give the versions numbers and write them; if that cannot be, they are as they were. */
static bool
write_numbered(RoseTree *tree, RoseNewVersion *versions, int n, RoseC0Look *look,
			   uint64 generation)
{
	Size		bytes = n * sizeof(RoseNewVersion);
	RoseNewVersion *unnumbered = memcpy(palloc(bytes), versions, bytes);
	uint64		first = rose_c0_take_sequence(&tree->shared->c0, n);
	bool		written;

	for (int i = 0; i < n; i++)
		rose_new_version_number(tree, &versions[i], first + i);
	written = write_run(tree, versions, n, look, generation, first + n);
	if (!written)
		memcpy(versions, unnumbered, bytes);
	pfree(unnumbered);
	return written;
}

/* The same for versions that have numbers, of another tree: this one's go on behind them. */
static bool
write_as_numbered(RoseTree *tree, const RoseNewVersion *versions, int n, RoseC0Look *look)
{
	uint64		next_seq = 0;

	for (int i = 0; i < n; i++)
		next_seq = Max(next_seq, versions[i].version.seq + 1);
	rose_c0_raise_sequence(&tree->shared->c0, next_seq);
	return write_run(tree, versions, n, look, ROSE_INDEXES_ANY, next_seq);
}

RoseMemPrepared
rose_direct_write(RoseTree *tree, RoseNewVersion *versions, int n, RoseC0Look *look,
				  uint64 generation, bool numbered)
{
	RoseC0Shared *c0 = &tree->shared->c0;
	bool		written;

	rose_c0_read_begin(c0);
	written = !are_keys_in_memory(tree, versions, n);
	rose_c0_read_end(c0);
	written = written &&
		(numbered ? write_as_numbered(tree, versions, n, look) :
		 write_numbered(tree, versions, n, look, generation));

	if (written)
		rose_write_stats_count_own_spill();
	rose_direct_end();
	return written ? ROSE_MEM_PREPARED : ROSE_MEM_CHANGED;
}
