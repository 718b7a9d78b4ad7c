/*-------------------------------------------------------------------------
 *
 * rose_tree.c
 *	  Backend-local table handles: cache and validity.
 *
 * A handle is found by the file's locator.  It has three parts that go stale in
 * different ways:
 *
 *	  shared	the registry may have dropped the entry: 'life' tells
 *	  schema	the table may have been altered: a relcache callback counts
 *	  view		a spill or merge switched the manifest: see rose_view.c
 *
 * What is replaced may still be in use by this transaction's scans, so it goes
 * to a memory context that is deleted at the end of the top-level transaction.
 * Handles that are stale by then go as well: their table may have been dropped, and
 * nobody would tell us.  So do those that were not used for longest, if all of them
 * take more memory than they may: a session that comes by every table of a
 * large database must not keep all of them.
 *
 * Backend-local.  The registry's locks are taken in rose_registry.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "util/rose_preload.h"
#include "store/rose_file_name.h"
#include "store/rose_metapage.h"
#include "store/rose_pin.h"
#include "lsm/tree/rose_file_rows.h"
#include "lsm/tree/rose_registry.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_view.h"

/*
 * Between transactions all handles together take so much memory at most, but for copies
 * of filters, which have a bound of their own.  That is some 2,000 small tables, or 30 of
 * which 20 components are open each.
 */
#define MAX_HANDLE_BYTES	((Size) 8 * 1024 * 1024)

/* How much a handle takes is measured when it has opened something, and every so many transactions. */
#define MEASURE_EVERY		64

typedef struct TreeCacheEntry
{
	RelFileLocator locator;		/* hash key */
	RoseTree   *tree;
} TreeCacheEntry;

RoseLocalUseHook rose_local_use_hook = NULL;

static HTAB *tree_cache = NULL;
static RoseTree *last_tree = NULL;
static dlist_head handles = DLIST_STATIC_INIT(handles); /* those that this transaction uses first, then
														 * those that were used last */
static Size handle_bytes = 0;	/* of all, as far as they were measured */
static uint64 transaction_count = 1;	/* 0 is never current */
static bool sweep_needed = false;	/* some handle may be stale */
static uint64 relcache_changes = 1; /* see rose_tree_relcache_changes */

/* ---- cache ---- */

static RoseTree *
create_handle(RelFileLocator locator)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "rose tree",
												  ALLOCSET_SMALL_SIZES);
	RoseTree   *tree = MemoryContextAllocZero(context, sizeof(RoseTree));

	tree->locator = locator;
	tree->local = rose_file_is_local(locator);
	tree->context = context;
	tree->invalidations = 1;	/* schema_stamp is 0: to be made */
	dlist_push_tail(&handles, &tree->node);
	return tree;
}

static void
free_handle(RoseTree *tree)
{
	(void) hash_search(tree_cache, &tree->locator, HASH_REMOVE, NULL);
	dlist_delete(&tree->node);
	handle_bytes -= tree->bytes;
	MemoryContextDelete(tree->context);
	last_tree = NULL;
}

static RoseTree *
find_handle(RelFileLocator locator)
{
	TreeCacheEntry *entry;
	bool		found;

	if (last_tree != NULL && RelFileLocatorEquals(last_tree->locator, locator))
		return last_tree;

	if (tree_cache == NULL)
	{
		HASHCTL		info = {0};

		info.keysize = sizeof(RelFileLocator);
		info.entrysize = sizeof(TreeCacheEntry);
		tree_cache = hash_create("rose tree handles", 64, &info,
								 HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(tree_cache, &locator, HASH_ENTER, &found);
	if (!found)
		entry->tree = NULL;
	if (entry->tree == NULL)	/* an error may have come in between */
		entry->tree = create_handle(locator);
	last_tree = entry->tree;
	return entry->tree;
}

/* Free stale handles.  Only when no transaction uses any. */
static void
sweep_handles(void)
{
	dlist_mutable_iter iter;

	sweep_needed = false;
	dlist_foreach_modify(iter, &handles)
	{
		RoseTree   *tree = dlist_container(RoseTree, node, iter.cur);

		if (!rose_registry_is_bound(tree) || tree->schema_stamp != tree->invalidations)
			free_handle(tree);
	}
}

/* If all take more than they may, those go that were not used for longest.  As above. */
static void
bound_handles(void)
{
	while (handle_bytes > MAX_HANDLE_BYTES)
		free_handle(dlist_tail_element(RoseTree, node, &handles));
}

static void
measure_handle(RoseTree *tree)
{
	if (!tree->grown && transaction_count % MEASURE_EVERY != 0)
		return;
	handle_bytes -= tree->bytes;
	tree->bytes = MemoryContextMemAllocated(tree->context, true);
	handle_bytes += tree->bytes;
	tree->grown = false;
}

/* ---- opening ---- */

/* Find the shared entry.  The file may be another one now, so forget all of it. */
static void
bind_handle(RoseTree *tree)
{
	rose_view_forget(tree);
	tree->invalidations++;
	tree->shared = rose_registry_enter(tree->locator, tree->relid,
									   &tree->incarnation, &tree->life);
}

static bool
same_key(const RoseSchema *schema, const RoseMetaInfo *meta)
{
	if (schema->nkeys != meta->nkeys)
		return false;
	for (int i = 0; i < meta->nkeys; i++)
	{
		if (memcmp(&schema->keys[i].def, &meta->keys[i],
				   sizeof(RoseKeyColumnDisk)) != 0)
			return false;
	}
	return true;
}

/* The options of an index's tree are those of its table. */
static void
publish_options(RoseTree *tree)
{
	Form_pg_index of_index = tree->rel->rd_index;

	rose_options_publish(&tree->shared->store.options,
						 of_index != NULL ? of_index->indrelid : tree->relid);
}

void
rose_tree_forget_indexes(RoseTree *tree)
{
	tree->unindexed = false;
	if (tree->indexes != NULL)
		MemoryContextSetParent(GetMemoryChunkContext(tree->indexes),
							   rose_view_retired_context(tree));
	tree->indexes = NULL;
}

/*
 * Make the schema, or see that it is still right.  Catalog lookups may bring
 * further invalidations, so the stamp is taken first.
 */
static void
refresh_schema(RoseTree *tree)
{
	uint64		stamp = tree->invalidations;
	RoseMetaInfo meta;
	TupleDesc	tupdesc;
	RoseSchema *schema;

	rose_tree_forget_indexes(tree);
	rose_meta_read(tree->rel, &meta);
	tupdesc = rose_file_descriptor(tree->rel, &meta);
	if (tree->schema == NULL || !same_key(tree->schema, &meta) ||
		tree->schema->hashed != meta.facts.hashed ||
		!equalTupleDescs(tupdesc, tree->schema->tupdesc))
	{
		schema = rose_schema_create(tupdesc, meta.nkeys, meta.keys, meta.facts.hashed,
									tree->context);
		rose_view_forget(tree);
		if (tree->schema != NULL)
			MemoryContextSetParent(tree->schema->context, rose_view_retired_context(tree));
		tree->schema = schema;
		tree->grown = true;
	}
	else
		rose_schema_warm(tree->schema);
	if (meta.of_index)
		FreeTupleDesc(tupdesc);
	tree->of_index = meta.of_index;
	if (tree->index_meta != NULL)
		pfree(tree->index_meta);
	tree->index_meta = NULL;
	publish_options(tree);
	tree->schema_stamp = stamp;
}

/* As core does when it reads a page of one. */
static void
check_reachable(Relation rel)
{
	rose_require_preload();
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));
	if (RelationUsesLocalBuffers(rel) && IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot access temporary tables during a parallel operation")));
}

/* The first use of a handle in a transaction, or after the entry has gone. */
static void
attach_handle(RoseTree *tree)
{
	if (tree->pinned_in != transaction_count)
	{
		rose_pin_acquire(tree->locator);
		tree->pinned_in = transaction_count;
		dlist_move_head(&handles, &tree->node);
		pg_memory_barrier();	/* the pin before the look at incarnation */
	}
	if (!rose_registry_is_bound(tree))
		bind_handle(tree);
	if (pg_atomic_read_u32(&tree->shared->in_use) == 0)
		pg_atomic_write_u32(&tree->shared->in_use, 1);
	if (pg_atomic_read_u32(&tree->shared->relid) != tree->relid)
		pg_atomic_write_u32(&tree->shared->relid, tree->relid);
}

/*
 * Lookups would miss rows that are there.  What is to be done about it, and what needs no
 * order, opens the table in whatever order it is.
 */
void
rose_tree_report_order(RoseTree *tree, int elevel)
{
	RoseKeyFacts now;
	RoseMetaInfo meta;

	rose_meta_read(tree->rel, &meta);
	rose_key_facts_make(rose_file_descriptor(tree->rel, &meta), meta.nkeys, meta.keys, &now);
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s \"%s\" is sorted by other versions of collations than the server has",
					meta.of_index ? "index" : "table", RelationGetRelationName(tree->rel)),
			 errdetail("Its rows were sorted using version \"%s\", but the server has version \"%s\", by which rows might not be found.",
					   meta.facts.versions, now.versions),
			 errhint("Use REINDEX %s %s, which sorts the rows anew if need be.",
					 meta.of_index ? "INDEX" : "TABLE",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(tree->rel)),
												RelationGetRelationName(tree->rel)))));
}

Relation
rose_tree_relation_of(Oid relid, RelFileLocator name)
{
	Relation	rel;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return NULL;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, AccessShareLock);
		return NULL;
	}
	if (RelFileLocatorEquals(rose_file_name(rel), name))
		return rel;
	relation_close(rel, AccessShareLock);
	return NULL;
}

Relation
rose_tree_relation_at_rest(Oid relid, RelFileLocator name)
{
	Relation	rel = rose_tree_relation_of(relid, name);

	if (rel == NULL || rel->rd_refcnt == 1)
		return rel;
	relation_close(rel, AccessShareLock);
	return NULL;
}

RoseTree *
rose_tree_open(Relation rel)
{
	RoseTree   *tree = rose_tree_open_any_order(rel);

	if (unlikely(tree->shared->other_order))
		rose_tree_report_order(tree, ERROR);
	return tree;
}

RoseTree *
rose_tree_open_any_order(Relation rel)
{
	RoseTree   *tree;
	bool		first;

	if (unlikely(RecoveryInProgress()))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read rose table \"%s\" on a standby server yet",
						RelationGetRelationName(rel)),
				 errhint("Query it on the primary server.")));
	if (unlikely(!rose_registry_available() || RelationUsesLocalBuffers(rel)))
		check_reachable(rel);

	tree = find_handle(rose_file_name(rel));
	tree->rel = rel;
	if (unlikely(tree->relid != RelationGetRelid(rel)))
	{
		tree->relid = RelationGetRelid(rel);	/* files change hands */
		tree->invalidations++;
	}
	first = tree->pinned_in != transaction_count;
	if (first || !rose_registry_is_bound(tree))
		attach_handle(tree);
	if (unlikely(!*(volatile bool *) &tree->shared->recovered))
	{
		rose_recover_table(tree);
		tree->invalidations++;	/* the metapage may have been brought up to date */
	}
	pg_read_barrier();			/* recovered before what was recovered */
	if (unlikely(tree->schema_stamp != tree->invalidations))
		refresh_schema(tree);
	if (unlikely(pg_atomic_read_u32(&tree->shared->store.options.stale) != 0))
		publish_options(tree);
	if (unlikely(first && tree->local) && rose_local_use_hook != NULL)
		rose_local_use_hook(tree);
	return tree;
}

RoseTree *
rose_tree_open_as(Relation rel, TupleDesc tupdesc, MemoryContext context)
{
	RoseTree   *tree = rose_tree_open(rel);
	RoseTree   *other = MemoryContextAllocZero(context, sizeof(RoseTree));
	RoseMetaInfo meta;

	tree->kept_in = tree->pinned_in;	/* the other's views are not among its own */
	other->locator = tree->locator;
	other->local = tree->local;
	other->rel = rel;
	other->shared = tree->shared;
	other->incarnation = tree->incarnation;
	other->life = tree->life;
	other->pinned_in = tree->pinned_in;
	other->context = AllocSetContextCreate(context, "rose table as it was",
										   ALLOCSET_SMALL_SIZES);
	rose_meta_read(rel, &meta);
	other->schema = rose_file_schema(rel, tupdesc, &meta, other->context);
	return other;
}

void
rose_tree_close_as(RoseTree *tree)
{
	MemoryContextDelete(tree->context);
	pfree(tree);
}

/* The handle of a file, if there is one. */
static RoseTree *
peek_handle(RelFileLocator locator)
{
	TreeCacheEntry *entry = NULL;

	if (tree_cache != NULL)
		entry = hash_search(tree_cache, &locator, HASH_FIND, NULL);
	return entry != NULL ? entry->tree : NULL;
}

void
rose_tree_invalidate(RelFileLocator locator)
{
	RoseTree   *tree = peek_handle(locator);

	if (tree != NULL)
	{
		tree->invalidations++;
		sweep_needed = true;
	}
}

bool
rose_tree_is_known_index(Relation index)
{
	const RoseTree *tree = peek_handle(rose_file_name(index));

	return tree != NULL && tree->of_index && tree->schema_stamp == tree->invalidations &&
		rose_registry_is_bound(tree);
}

bool
rose_tree_is_key_index(Relation index)
{
	return index->rd_index->indisprimary ||
		(index->rd_index->indisunique && !rose_tree_is_known_index(index) &&
		 !rose_meta_is_of_index(index));
}

const RoseIndexMetaDisk *
rose_tree_index_meta(RoseTree *tree)
{
	uint64		changes = pg_atomic_read_u64(&tree->shared->fed_changes);
	RoseMetaInfo meta;

	Assert(tree->of_index);
	if (likely(tree->index_meta != NULL && tree->fed_seen == changes))
		return tree->index_meta;
	pg_read_barrier();			/* the count before the page */
	rose_meta_read(tree->rel, &meta);
	if (tree->index_meta == NULL)
		tree->index_meta = MemoryContextAlloc(tree->context, sizeof(RoseIndexMetaDisk));
	*tree->index_meta = meta.index;
	tree->fed_seen = changes;
	return tree->index_meta;
}

/* ---- callbacks ---- */

/* Nobody uses a handle any more: pins are gone, and so may be files. */
void
rose_tree_end_transaction(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &handles)
	{
		RoseTree   *tree = dlist_container(RoseTree, node, iter.cur);

		if (tree->pinned_in != transaction_count)
			break;
		rose_view_end_transaction(tree);
		measure_handle(tree);
	}
	transaction_count++;
	if (sweep_needed)
		sweep_handles();
	bound_handles();
}

void
rose_tree_note_stale(void)
{
	sweep_needed = true;
}

/* relid InvalidOid: all relations. */
static void
on_relcache_invalidation(Datum arg, Oid relid)
{
	dlist_iter	iter;

	relcache_changes++;
	dlist_foreach(iter, &handles)
	{
		RoseTree   *tree = dlist_container(RoseTree, node, iter.cur);

		if (relid == InvalidOid || tree->relid == relid)
		{
			tree->invalidations++;
			sweep_needed = true;
		}
	}
}

uint64
rose_tree_relcache_changes(void)
{
	return relcache_changes;
}

/* Labels of some enum have changed: keys may have new ones. */
static void
on_enum_invalidation(Datum arg, int cacheid, uint32 hashvalue)
{
	on_relcache_invalidation(arg, InvalidOid);
}

void
rose_tree_define_callbacks(void)
{
	CacheRegisterRelcacheCallback(on_relcache_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(ENUMOID, on_enum_invalidation, (Datum) 0);
}
