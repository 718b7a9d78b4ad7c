/*-------------------------------------------------------------------------
 *
 * rose_tree.c
 *	  Backend-local table handles: cache and validity.
 *
 * A handle is found by the file's locator.  It has three parts that go stale in
 * different ways:
 *
 *	  shared	the registry may have dropped the entry: 'incarnation' tells
 *	  schema	the table may have been altered: a relcache callback counts
 *	  manifest	a spill or merge switched it: store.manifest_version tells
 *
 * What is replaced may still be in use by this transaction's scans, so it goes
 * to a graveyard, which is emptied at the end of the top-level transaction.
 * Handles that are stale by then go as well: their table may have been dropped, and
 * nobody would tell us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "lib/ilist.h"
#include "lsm/tree/rose_registry.h"
#include "lsm/tree/rose_relation.h"
#include "util/rose_preload.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Something replaced, to be freed at the end of the transaction. */
typedef struct Grave
{
	slist_node	node;
	RoseComponent *component;	/* one of them */
	RoseSchema *schema;
} Grave;

const TableAmRoutine *rose_relation_routine = NULL;

static HTAB *table_cache = NULL;
static RoseTable *last_table = NULL;
static uint64 transaction_count = 1;	/* 0 is never current */
static slist_head graveyard = SLIST_STATIC_INIT(graveyard);
static bool sweep_needed = false;	/* some handle may be stale */

/* ---- graveyard ---- */

static void
bury(RoseComponent *component, RoseSchema *schema)
{
	Grave	   *grave = MemoryContextAlloc(TopMemoryContext, sizeof(Grave));

	grave->component = component;
	grave->schema = schema;
	slist_push_head(&graveyard, &grave->node);
}

static void
bury_component(RoseTable *table, int index)
{
	if (table->components[index] == NULL)
		return;
	rose_component_drop_filter_copy(table->components[index]);
	bury(table->components[index], NULL);
	table->components[index] = NULL;
}

static void
bury_components(RoseTable *table)
{
	if (!table->manifest_valid)
		return;
	for (int i = 0; i < table->manifest.ncomponents; i++)
		bury_component(table, i);
}

/* Components before the schemas that they refer to. */
static void
empty_graveyard(void)
{
	slist_iter	iter;

	slist_foreach(iter, &graveyard)
	{
		Grave	   *grave = slist_container(Grave, node, iter.cur);

		if (grave->component != NULL)
			rose_component_close(grave->component);
	}
	while (!slist_is_empty(&graveyard))
	{
		Grave	   *grave = slist_container(Grave, node,
											slist_pop_head_node(&graveyard));

		if (grave->schema != NULL)
			rose_schema_free(grave->schema);
		pfree(grave);
	}
}

/* ---- cache ---- */

static RoseTable *
find_handle(RelFileLocator locator)
{
	RoseTable  *table;
	bool		found;

	if (last_table != NULL && RelFileLocatorEquals(last_table->locator, locator))
		return last_table;

	if (table_cache == NULL)
	{
		HASHCTL		info = {0};

		info.keysize = sizeof(RelFileLocator);
		info.entrysize = sizeof(RoseTable);
		table_cache = hash_create("rose table handles", 64, &info,
								  HASH_ELEM | HASH_BLOBS);
	}
	table = hash_search(table_cache, &locator, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) table + sizeof(RelFileLocator), 0,
			   sizeof(RoseTable) - sizeof(RelFileLocator));
		table->invalidations = 1;	/* schema_stamp is 0: to be made */
	}
	last_table = table;
	return table;
}

static void
free_handle(RoseTable *table)
{
	if (table->manifest_valid)
	{
		for (int i = 0; i < table->manifest.ncomponents; i++)
		{
			if (table->components[i] != NULL)
				rose_component_close(table->components[i]);
		}
	}
	if (table->context != NULL)
		MemoryContextDelete(table->context);
	(void) hash_search(table_cache, &table->locator, HASH_REMOVE, NULL);
}

/* Free stale handles.  Only when no transaction uses any. */
static void
sweep_handles(void)
{
	HASH_SEQ_STATUS status;
	RoseTable  *table;

	last_table = NULL;
	sweep_needed = false;
	if (table_cache == NULL)
		return;
	hash_seq_init(&status, table_cache);
	while ((table = hash_seq_search(&status)) != NULL)
	{
		if (table->shared == NULL || table->schema_stamp != table->invalidations ||
			!rose_registry_is_current(table->shared, table->incarnation))
			free_handle(table);
	}
}

/* ---- opening ---- */

/* Find the shared entry.  The file may be another one now, so forget all of it. */
static void
bind_handle(RoseTable *table)
{
	bury_components(table);
	table->manifest_valid = false;
	table->invalidations++;
	table->shared = rose_registry_enter(table->locator, table->relid,
										&table->incarnation);
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

/*
 * Make the schema, or see that it is still right.  Catalog lookups may bring
 * further invalidations, so the stamp is taken first.
 */
static void
refresh_schema(RoseTable *table)
{
	uint64		stamp = table->invalidations;
	TupleDesc	tupdesc = RelationGetDescr(table->rel);
	RoseMetaInfo meta;
	RoseSchema *schema;

	rose_meta_read(table->rel, &meta);
	if (table->schema == NULL || !same_key(table->schema, &meta) ||
		table->schema->hashed != meta.facts.hashed ||
		!equalTupleDescs(tupdesc, table->schema->tupdesc))
	{
		schema = rose_schema_create(tupdesc, meta.nkeys, meta.keys, meta.facts.hashed,
									table->context);
		bury_components(table);
		if (table->schema != NULL)
			bury(NULL, table->schema);
		table->schema = schema;
	}
	else
		rose_schema_warm(table->schema);
	table->schema_stamp = stamp;
}

static void
check_supported(Relation rel)
{
	rose_require_preload();
	if (RelationUsesLocalBuffers(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary tables cannot use the rose access method"),
				 errhint("Use an unlogged table, or a temporary heap table.")));
}

/* The first use of a handle in a transaction, or after the entry has gone. */
static void
attach_handle(RoseTable *table)
{
	if (table->pinned_in != transaction_count)
	{
		rose_pin_acquire(table->locator);
		table->pinned_in = transaction_count;
		pg_memory_barrier();	/* the pin before the look at incarnation */
	}
	if (table->shared == NULL ||
		!rose_registry_is_current(table->shared, table->incarnation))
		bind_handle(table);
	if (pg_atomic_read_u32(&table->shared->relid) != table->relid)
		pg_atomic_write_u32(&table->shared->relid, table->relid);
}

/*
 * Lookups would miss rows that are there.  What is to be done about it, and what needs no order, opens the table
 * in whatever order it is.
 */
void
rose_table_report_order(RoseTable *table, int elevel)
{
	RoseKeyFacts now;
	RoseMetaInfo meta;

	rose_meta_read(table->rel, &meta);
	rose_key_facts_make(RelationGetDescr(table->rel), meta.nkeys, meta.keys, &now);
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" is sorted by other versions of collations than the server has",
					RelationGetRelationName(table->rel)),
			 errdetail("Its rows were sorted using version \"%s\", but the server has version \"%s\", by which rows might not be found.",
					   meta.facts.versions, now.versions),
			 errhint("Use REINDEX TABLE %s, which sorts the rows anew if need be.",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table->rel)),
												RelationGetRelationName(table->rel)))));
}

RoseTable *
rose_table_open(Relation rel)
{
	RoseTable  *table = rose_table_open_any_order(rel);

	if (unlikely(table->shared->other_order))
		rose_table_report_order(table, ERROR);
	return table;
}

RoseTable *
rose_table_open_any_order(Relation rel)
{
	RoseTable  *table;

	if (unlikely(RecoveryInProgress()))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read rose table \"%s\" on a standby server yet",
						RelationGetRelationName(rel)),
				 errhint("Query it on the primary server.")));
	if (unlikely(!rose_registry_available() || RelationUsesLocalBuffers(rel)))
		check_supported(rel);

	table = find_handle(rose_rel_locator(rel));
	table->rel = rel;
	if (unlikely(table->relid != RelationGetRelid(rel)))
	{
		table->relid = RelationGetRelid(rel);	/* files change hands */
		table->invalidations++;
	}
	if (unlikely(table->context == NULL))
		table->context = AllocSetContextCreate(TopMemoryContext, "rose table",
											   ALLOCSET_SMALL_SIZES);
	if (table->pinned_in != transaction_count || table->shared == NULL ||
		!rose_registry_is_current(table->shared, table->incarnation))
		attach_handle(table);
	if (unlikely(!*(volatile bool *) &table->shared->recovered))
	{
		rose_recover_table(table);
		table->invalidations++; /* the metapage may have been brought up to date */
	}
	pg_read_barrier();			/* recovered before what was recovered */
	if (unlikely(table->schema_stamp != table->invalidations))
		refresh_schema(table);
	return table;
}

RoseTable *
rose_table_open_as(Relation rel, TupleDesc tupdesc, MemoryContext context)
{
	RoseTable  *table = rose_table_open(rel);
	RoseTable  *other = MemoryContextAllocZero(context, sizeof(RoseTable));
	RoseMetaInfo meta;

	other->locator = table->locator;
	other->rel = rel;
	other->shared = table->shared;
	other->incarnation = table->incarnation;
	other->context = AllocSetContextCreate(context, "rose table as it was",
										   ALLOCSET_SMALL_SIZES);
	rose_meta_read(rel, &meta);
	other->schema = rose_schema_create(tupdesc, meta.nkeys, meta.keys, meta.facts.hashed,
									   other->context);
	return other;
}

void
rose_table_close_as(RoseTable *table)
{
	for (int i = 0; table->manifest_valid && i < table->manifest.ncomponents; i++)
	{
		if (table->components[i] != NULL)
			rose_component_close(table->components[i]);
	}
	MemoryContextDelete(table->context);
	pfree(table);
}

void
rose_table_invalidate(RelFileLocator locator)
{
	RoseTable  *table;

	if (table_cache == NULL)
		return;
	table = hash_search(table_cache, &locator, HASH_FIND, NULL);
	if (table != NULL)
	{
		table->invalidations++;
		sweep_needed = true;
	}
}

/* ---- manifest and components ---- */

/* Keep open components that the new manifest names, bury the others. */
static void
replace_manifest(RoseTable *table, const RoseManifest *fresh)
{
	RoseComponent *kept[ROSE_MAX_COMPONENTS] = {NULL};

	for (int i = 0; table->manifest_valid && i < table->manifest.ncomponents; i++)
	{
		for (int j = 0; j < fresh->ncomponents; j++)
		{
			if (fresh->components[j].id == table->manifest.components[i].id)
			{
				kept[j] = table->components[i];
				table->components[i] = NULL;
				break;
			}
		}
		bury_component(table, i);
	}
	table->manifest = *fresh;
	memcpy(table->components, kept, sizeof(kept));
}

const RoseManifest *
rose_table_manifest(RoseTable *table)
{
	uint64		seen = pg_atomic_read_u64(&table->shared->store.manifest_version);
	RoseManifest fresh;

	if (table->manifest_valid && table->manifest_seen == seen)
	{
		if (unlikely(table->looked_in != transaction_count))
			rose_pin_use_cached(table->locator, table->manifest.newest_owner);
		table->looked_in = transaction_count;
		return &table->manifest;
	}

	/*
	 * If it is switched once more after the look at the counter, we read a
	 * newer one than we think, and read it again next time.
	 */
	pg_read_barrier();
	rose_manifest_read(table->rel, &fresh);
	replace_manifest(table, &fresh);
	table->manifest_seen = seen;
	table->manifest_valid = true;
	table->looked_in = transaction_count;
	return &table->manifest;
}

RoseComponent *
rose_table_component(RoseTable *table, int index)
{
	Assert(table->manifest_valid);
	Assert(index >= 0 && index < table->manifest.ncomponents);

	if (table->components[index] == NULL)
		table->components[index] =
			rose_component_open(table->rel, table->schema,
								&table->manifest.components[index],
								table->context);
	return table->components[index];
}

/* ---- callbacks ---- */

/* Nobody uses a handle any more: pins are gone, and so may be files. */
void
rose_table_end_transaction(void)
{
	transaction_count++;
	empty_graveyard();
	if (sweep_needed)
		sweep_handles();
}

void
rose_table_note_stale(void)
{
	sweep_needed = true;
}

/* relid InvalidOid: all relations. */
static void
on_relcache_invalidation(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	RoseTable  *table;

	if (table_cache == NULL)
		return;
	hash_seq_init(&status, table_cache);
	while ((table = hash_seq_search(&status)) != NULL)
	{
		if (relid == InvalidOid || table->relid == relid)
		{
			table->invalidations++;
			sweep_needed = true;
		}
	}
}

/* Labels of some enum have changed: keys may have new ones. */
static void
on_enum_invalidation(Datum arg, int cacheid, uint32 hashvalue)
{
	on_relcache_invalidation(arg, InvalidOid);
}

void
rose_table_define_callbacks(void)
{
	CacheRegisterRelcacheCallback(on_relcache_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(ENUMOID, on_enum_invalidation, (Datum) 0);
}
