/*-------------------------------------------------------------------------
 *
 * rose_relmap.c
 *	  From the upstream's relations to local tables.
 *
 * The upstream describes a relation before its first change and after each change of its definition; the descriptions are
 * kept for the life of the stream.  Those of a transaction that was sent before it committed may be older than what stands
 * here: then they hold for its changes only, for an upstream may take what it has sent last for known.  What is derived
 * from the local side (column map, input functions, whether changes are to be applied) is made at the first use and again
 * after an invalidation of the local table or a change of the subscription.
 *
 * A table is opened and locked once a batch and stays so until the batch ends; the lock keeps its definition.
 *
 * Tables are known by their oids, the upstream's and ours, and never by their names: so it does not matter what they are
 * called, now or later, on either side.  No change is passed over without a state that says so: of a table that the
 * subscription does not have, that is rose.subscription_new.  A table of the upstream that has taken another one's name,
 * and one of ours that is gone, are errors of the table.
 *
 * Columns are known by their numbers (rose_columns.c).  A local column that the upstream does not have must be able to be
 * NULL and have no default, or be generated: blind writes replace whole rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "repl/rose_constants.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_rights.h"

/* The upstream's catalog is looked at so often before it is said that columns cannot be told, and not at once again. */
#define LOOKS_MAX		20
#define LOOK_AGAIN_US	50000

static MemoryContext relmap_context = NULL;
static HTAB *relmap = NULL;
static List *open_rels = NIL;	/* RoseReplRel of this batch */
static Oid	relmap_subid = InvalidOid;

/* rose.subscription_rel, read when it is needed */
static MemoryContext tables_context = NULL;
static List *tables = NIL;
static bool tables_valid = false;
static bool tables_changed = false; /* a table was invalidated, or may have been */

/* ---------------------------------------------------------------------
 * The map
 */

static void
relmap_invalidate(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	RoseReplRel *entry;

	if (!OidIsValid(relid) || !tables_valid || rose_subscription_find_table(tables, relid) != NULL ||
		rose_partitions_is_known(relid))
		tables_changed = true;
	hash_seq_init(&status, relmap);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		/* one without a local table may get it */
		if (!OidIsValid(relid) || entry->relid == relid || !OidIsValid(entry->relid))
			entry->mapped = false;
	}
}

void
rose_relmap_init(Oid subid)
{
	HASHCTL		ctl = {0};

	relmap_subid = subid;
	relmap_context = AllocSetContextCreate(TopMemoryContext, "rose relation map",
										   ALLOCSET_DEFAULT_SIZES);
	tables_context = AllocSetContextCreate(relmap_context, "rose subscription tables",
										   ALLOCSET_SMALL_SIZES);
	ctl.keysize = sizeof(LogicalRepRelId);
	ctl.entrysize = sizeof(RoseReplRel);
	ctl.hcxt = relmap_context;
	relmap = hash_create("rose relation map", 128, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(relmap_invalidate, (Datum) 0);
}

/* What the description does not change. */
static void
forget_description(RoseReplRel *entry)
{
	RoseReplRel old = *entry;

	if (OidIsValid(entry->relid))
		old.counts.relid = entry->relid;
	MemoryContextDelete(entry->context);
	memset(entry, 0, sizeof(RoseReplRel));
	entry->remoteid = old.remoteid;
	entry->counts = old.counts;
	entry->truncated = old.truncated;
	entry->passed = old.passed;
	entry->partitioned = old.partitioned;
	entry->later = old.later;
	entry->later_context = old.later_context;
	entry->later_heard = old.later_heard;
}

/* For the changes of the transaction at hand another description holds; this one again when it ends. */
static void
keep_for_later(RoseReplRel *entry)
{
	entry->later_context = AllocSetContextCreate(relmap_context, "rose later description",
												 ALLOCSET_SMALL_SIZES);
	entry->later = MemoryContextAlloc(entry->later_context, sizeof(LogicalRepRelation));
	rose_description_copy(entry->later, &entry->remote, entry->later_context);
	entry->later_heard = entry->heard;
}

static void
forget_later(RoseReplRel *entry)
{
	if (entry->later != NULL)
		MemoryContextDelete(entry->later_context);
	entry->later = NULL;
	entry->later_context = NULL;
}

void
rose_relmap_update(const LogicalRepRelation *remote, uint64 heard)
{
	bool		found;
	RoseReplRel *entry = hash_search(relmap, &remote->remoteid, HASH_ENTER, &found);

	if (!found)
		memset(((char *) entry) + sizeof(entry->remoteid), 0,
			   sizeof(RoseReplRel) - sizeof(entry->remoteid));
	else
	{
		if (heard < entry->heard && rose_description_equal(remote, &entry->remote))
			return;
		if (entry->rel != NULL)
			rose_relmap_close(entry);
		if (entry->later != NULL && heard > entry->later_heard)
			forget_later(entry);
		else if (entry->later == NULL && heard < entry->heard)
			keep_for_later(entry);
		forget_description(entry);
	}
	entry->heard = heard;
	entry->context = AllocSetContextCreate(relmap_context, "rose relation map entry",
										   ALLOCSET_SMALL_SIZES);
	rose_description_copy(&entry->remote, remote, entry->context);
}

void
rose_relmap_learn(const LogicalRepRelation *remote, uint64 heard)
{
	RoseReplRel *entry = hash_search(relmap, &remote->remoteid, HASH_FIND, NULL);

	if (entry == NULL || heard > entry->heard)
		rose_relmap_update(remote, heard);
}

const LogicalRepRelation *
rose_relmap_description(LogicalRepRelId remoteid)
{
	RoseReplRel *entry = hash_search(relmap, &remoteid, HASH_FIND, NULL);

	return entry == NULL ? NULL : &entry->remote;
}

void
rose_relmap_end_replay(void)
{
	HASH_SEQ_STATUS status;
	RoseReplRel *entry;

	hash_seq_init(&status, relmap);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		LogicalRepRelation *later = entry->later;
		MemoryContext context = entry->later_context;

		if (later == NULL)
			continue;
		rose_gather_write();
		entry->later = NULL;
		rose_relmap_update(later, entry->later_heard);
		MemoryContextDelete(context);
	}
}

void
rose_relmap_forget(void)
{
	HASH_SEQ_STATUS status;
	RoseReplRel *entry;

	tables_valid = false;
	hash_seq_init(&status, relmap);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		entry->mapped = entry->noted = false;
		entry->passed = 0;
	}
}

bool
rose_relmap_tables_changed(void)
{
	bool		result = tables_changed;

	tables_changed = false;
	return result;
}

static void
read_tables(void)
{
	MemoryContext old;

	if (tables_valid)
		return;
	MemoryContextReset(tables_context);
	old = MemoryContextSwitchTo(tables_context);
	tables = rose_subscription_tables(relmap_subid);
	MemoryContextSwitchTo(old);
	tables_valid = true;
}

static bool
has_name(const RoseSubscriptionTable *table, const LogicalRepRelation *remote)
{
	return strcmp(table->remote.nspname, remote->nspname) == 0 &&
		strcmp(table->remote.relname, remote->relname) == 0;
}

/* By its oid; *recreated: not found by that, but it has the name of one. */
static RoseSubscriptionTable *
find_remote(const LogicalRepRelation *remote, bool *recreated)
{
	RoseSubscriptionTable *namesake = NULL;
	ListCell   *lc;

	*recreated = false;
	read_tables();
	foreach(lc, tables)
	{
		RoseSubscriptionTable *table = lfirst(lc);

		if (table->remote.relid == remote->remoteid)
			return table;
		if (has_name(table, remote))
			namesake = table;
	}
	*recreated = namesake != NULL;
	return namesake;
}

/* It has got another name: so its changes go where they went before. */
static void
follow_rename(RoseSubscriptionTable *table, const LogicalRepRelation *remote)
{
	MemoryContext old;

	ereport(LOG,
			(errmsg("rose subscription \"%s\": the upstream's table \"%s.%s\" is called \"%s.%s\" now",
					rose_apply.sub->name, table->remote.nspname, table->remote.relname,
					remote->nspname, remote->relname)));
	old = MemoryContextSwitchTo(tables_context);
	table->remote.nspname = pstrdup(remote->nspname);
	table->remote.relname = pstrdup(remote->relname);
	MemoryContextSwitchTo(old);
	rose_subscription_set_remote(relmap_subid, table->relid, &table->remote);
}

/* Find the local table and what the subscription says of it.  REQUIRES: an open batch. */
static void
map_table(RoseReplRel *entry)
{
	RoseSubscriptionTable *table;

	if (entry->map_context != NULL)
		MemoryContextDelete(entry->map_context);
	entry->map_context = NULL;
	entry->columns = NULL;
	entry->keys_asked = NIL;

	table = find_remote(&entry->remote, &entry->recreated);
	/* of one that is being copied, its copier says what it is called */
	if (table != NULL && !entry->recreated && !has_name(table, &entry->remote) &&
		rose_subscription_table_is_live(table))
		follow_rename(table, &entry->remote);
	entry->relid = table != NULL ? table->relid : InvalidOid;
	entry->ready = false;
	entry->sync_lsn = entry->until_lsn = entry->pass_lsn = entry->exact_lsn = InvalidXLogRecPtr;
	if (table != NULL)
	{
		entry->sync_lsn = table->sync_lsn;
		entry->exact_lsn = table->exact_lsn;
		if (rose_subscription_table_is_live(table))
			entry->until_lsn = PG_UINT64_MAX;
		else if (strcmp(table->state, ROSE_REL_ERROR) == 0 || strcmp(table->state, ROSE_REL_PAUSED) == 0)
			entry->until_lsn = table->error_lsn;
		if (strcmp(table->state, ROSE_REL_SKIPPING) == 0)
			entry->pass_lsn = table->error_lsn;
		entry->ready = entry->until_lsn != InvalidXLogRecPtr;
	}
	entry->mapped = true;
}

/* Its changes are not applied, and that can be seen: rose.stat_subscription_tables. */
static void
note_new(RoseReplRel *entry, XLogRecPtr commit_lsn)
{
	RoseUpstreamTable remote = {entry->remoteid, entry->remote.nspname, entry->remote.relname};

	if (entry->noted)
		return;
	ereport(LOG,
			(errmsg("rose subscription \"%s\" does not have table \"%s.%s\", which the upstream publishes",
					rose_apply.sub->name, remote.nspname, remote.relname),
			 errdetail("Its changes are not applied."),
			 errhint("To have it copied, and its changes applied from then on, call rose.alter_subscription with refresh => true.")));
	rose_subscription_note_new(relmap_subid, &remote, commit_lsn);
	entry->noted = true;
}

/* Another table of the upstream has the name now: rows of two tables must not be mixed. */
static void
report_recreated(RoseReplRel *entry)
{
	rose_apply.blame.rel = entry;
	rose_apply.blame.certain = true;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("the upstream's table \"%s.%s\" is another one than before",
					entry->remote.nspname, entry->remote.relname),
			 errdetail("It was dropped and created again, or another table has got its name."),
			 errhint("Have it copied again with rose.alter_subscription(..., resync => ...).")));
}

void
rose_relmap_require_local(RoseReplRel *entry)
{
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(entry->relid)))
		return;
	rose_apply.blame.rel = entry;
	rose_apply.blame.certain = true;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("the table with OID %u, which had the rows of the upstream's table \"%s.%s\", does not exist any more",
					entry->relid, entry->remote.nspname, entry->remote.relname),
			 errhint("Create it again, or take it out of the publication; then call rose.alter_subscription with refresh => true.")));
}

/* What is somebody else's by now is not even locked. */
void
rose_relmap_require_owner(RoseReplRel *entry)
{
	rose_apply.blame.rel = entry;
	rose_apply.blame.certain = true;
	rose_owner_require_relid(rose_apply.sub, entry->relid);
	rose_apply.blame.certain = false;
}

/* The numbers of the columns in the upstream's description, once for each description. */
static void
identify_columns(RoseReplRel *entry, const RoseColumnMap *map)
{
	int			n = entry->remote.natts;
	RoseUpstreamColumns now;
	RoseUpstreamColumns sent = {n, NULL, entry->remote.attnames};
	RoseUpstreamSeen seen;
	Bitmapset  *generated;

	if (entry->identified)
		return;
	sent.attnums = MemoryContextAlloc(entry->context, sizeof(int16) * Max(n, 1));
	for (int looks = 0; entry->remote_attnums == NULL && looks < (map == NULL ? 1 : LOOKS_MAX); looks++)
	{
		/* a transaction is sent when its commit is flushed, a moment before others see it */
		if (looks > 0)
			pg_usleep(LOOK_AGAIN_US);
		rose_upstream_look(rose_stream_side_connection(), rose_apply.sub->publications, entry->remote.remoteid,
						   &now, &generated, &seen);
		if (rose_columns_identify(map, &now, &sent))
			entry->remote_attnums = sent.attnums;
	}
	if (entry->remote_attnums == NULL && map != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("columns of the upstream's table \"%s.%s\" have changed, and it cannot be told which they were at this change",
						entry->remote.nspname, entry->remote.relname),
				 errdetail("They have changed again since, or some were dropped and added again."),
				 errhint("Have the table copied again with rose.alter_subscription(..., resync => ...).")));
	if (entry->remote_attnums != NULL)
		rose_added_take_seen(entry, &sent, &now, generated, &seen);
	entry->identified = true;
}

/*
 * From now on.  What the stream repeats after a crash must not meet what was learned
 * later: so, as with TRUNCATE, it is durable together with all that came before.  False:
 * the batch must be cut before this transaction.
 */
static bool
keep_columns(RoseSubscriptionTable *table, const RoseUpstreamColumns *remote, const int16 *local_of)
{
	MemoryContext old = MemoryContextSwitchTo(tables_context);
	RoseColumnMap *map = rose_columns_form(table->columns, remote, local_of);

	for (int i = 0; i < map->n; i++)
		map->remote_names[i] = pstrdup(map->remote_names[i]);
	MemoryContextSwitchTo(old);
	if (table->columns != NULL)
	{
		/* what was kept for long may know fewer columns than what came meanwhile */
		if (rose_columns_equal(map, table->columns) || (rose_streamed_is_prepared() && rose_columns_only_lacks(map, table->columns)))
			return true;
		if (rose_apply_can_be_cut())
			return false;
		rose_apply.remote.durable_at_once = true;
	}
	rose_subscription_set_columns(relmap_subid, table->relid, map);
	table->columns = map;
	return true;
}

/*
 * The description has columns for the first time.  What came before is durable before they are added here, as it is described without
 * them.  False: the batch must be cut first, or given up for them.
 */
static bool
may_have_columns(RoseReplRel *entry, const RoseColumnMap *map, const RoseUpstreamColumns *remote)
{
	if (rose_apply_can_be_cut() || rose_apply.batch.first != rose_apply.remote.commit_lsn)
		return false;
	return !rose_added_look(rose_stream_side_connection(), entry, map, remote);
}

/* The local column of each remote one; NULL: the batch must be cut first, or given up for columns to be added.  REQUIRES: an open batch. */
static int16 *
match_columns(RoseReplRel *entry)
{
	RoseSubscriptionTable *table = rose_subscription_find_table(tables, entry->relid);
	int16	   *local_of = palloc(sizeof(int16) * Max(entry->remote.natts, 1));
	RoseUpstreamColumns remote = {entry->remote.natts, NULL, entry->remote.attnames};

	if (table == NULL)
		elog(ERROR, "table %u is not part of subscription %u", entry->relid, relmap_subid);
	identify_columns(entry, table->columns);
	remote.attnums = entry->remote_attnums;
	if (rose_added_is_new(table->columns, &remote) && !may_have_columns(entry, table->columns, &remote))
		return NULL;
	rose_columns_match(entry->rel, table->columns, &remote, local_of);
	if (remote.attnums != NULL && !keep_columns(table, &remote, local_of))
		return NULL;
	rose_added_note_seen(entry);
	return local_of;
}

static void
set_constants(RoseReplRel *entry, const RoseConstants *constants)
{
	for (int i = 0; i < constants->n; i++)
	{
		RoseReplColumn *column = &entry->columns[constants->columns[i].attnum - 1];

		column->kept = false;
		column->constant = true;
		column->value = constants->columns[i].value;
	}
}

/* What is needed to apply a change; false: the batch must be cut first.  REQUIRES: the table is open. */
static bool
map_columns(RoseReplRel *entry)
{
	TupleDesc	desc = RelationGetDescr(entry->rel);
	MemoryContext old;
	int		   *remote_of = palloc(sizeof(int) * Max(desc->natts, 1));
	int16	   *local_of = match_columns(entry);
	RoseConstants *constants;

	if (local_of == NULL)
		return false;
	entry->map_context = AllocSetContextCreate(entry->context, "rose column map",
											   ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(entry->map_context);
	constants = rose_constants_create(entry->rel, rose_apply.sub->constants);
	rose_columns_invert(entry->rel, entry->remote.natts, local_of, constants->attnums, remote_of);

	entry->natts = desc->natts;
	entry->binary_fits = true;
	entry->columns = palloc0(sizeof(RoseReplColumn) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		RoseReplColumn *column = &entry->columns[i];
		Oid			input;

		column->remote = remote_of[i];
		column->kept = column->remote < 0 && !att->attisdropped && !att->attgenerated;
		column->type = att->atttypid;
		column->typmod = att->atttypmod;
		column->direct = rose_repl_direct(att->atttypid, att->atttypmod);
		column->has_code = rose_rights_type_has_code(att->atttypid);
		column->context = entry->map_context;
		if (column->remote < 0)
			continue;
		if (entry->remote.atttyps[column->remote] != att->atttypid ||
			!rose_description_binary_fits(att->atttypid))
			entry->binary_fits = false;
		getTypeInputInfo(att->atttypid, &input, &column->input_ioparam);
		fmgr_info(input, &column->input);
	}
	set_constants(entry, constants);
	entry->values = palloc0(sizeof(Datum) * Max(desc->natts, 1));
	entry->nulls = palloc0(sizeof(bool) * Max(desc->natts, 1));
	entry->old_values = palloc0(sizeof(Datum) * Max(desc->natts, 1));
	entry->old_nulls = palloc0(sizeof(bool) * Max(desc->natts, 1));
	entry->present = palloc0(ROSE_PRESENT_BYTES(Max(desc->natts, 1)));
	entry->identity = rose_relmap_columns_in_identity(entry);
	entry->defaults = rose_defaults_create(entry->rel, entry->columns);
	MemoryContextSwitchTo(old);
	return true;
}

/* The upstream was asked about the key of one of the local tables that take rows. */
typedef struct KeyAsked
{
	Oid			relid;
	bool		deferrable;
} KeyAsked;

static bool
ask_for_key(RoseReplTarget *target, const int16 *attnums, int n)
{
	RoseReplRel *entry = target->of;
	Oid			relid = RelationGetRelid(target->rel);
	MemoryContext old;
	KeyAsked   *key;
	ListCell   *lc;

	foreach(lc, entry->keys_asked)
	{
		key = lfirst(lc);
		if (key->relid == relid)
			return key->deferrable;
	}
	old = MemoryContextSwitchTo(entry->map_context);
	key = palloc(sizeof(KeyAsked));
	key->relid = relid;
	key->deferrable = rose_upstream_key_is_deferrable(rose_stream_side_connection(), entry->remoteid, attnums, n);
	entry->keys_asked = lappend(entry->keys_asked, key);
	MemoryContextSwitchTo(old);
	return key->deferrable;
}

void
rose_relmap_learn_identity(RoseReplTarget *target)
{
	int16		attnums[INDEX_MAX_KEYS];
	int			n = rose_relmap_check_identity(target, attnums);

	target->deferrable = n > 0 && ask_for_key(target, attnums, n);
	target->identity_known = true;
}

/*
 * Somebody has said that it is to be so.  That it was done must be known for as long as
 * the upstream may send the transaction again, so it is durable as soon as it is done.
 */
static void
pass_over(RoseReplRel *entry)
{
	if (rose_apply_can_be_cut())
	{
		rose_apply.remote.cut_needed = true;
		return;
	}
	rose_apply.remote.durable_at_once = true;
	entry->passed++;
}

void
rose_relmap_end_passed(void)
{
	HASH_SEQ_STATUS status;
	RoseReplRel *entry;

	hash_seq_init(&status, relmap);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->passed == 0)
			continue;
		ereport(LOG,
				(errmsg("rose subscription \"%s\" has passed over " UINT64_FORMAT " changes of table \"%s.%s\" in the transaction committed at %X/%X",
						rose_apply.sub->name, entry->passed, entry->remote.nspname,
						entry->remote.relname, LSN_FORMAT_ARGS(rose_apply.remote.commit_lsn))));
		rose_subscription_set_table(relmap_subid, entry->relid, ROSE_REL_READY, entry->sync_lsn,
									NULL, NULL, InvalidXLogRecPtr);
		entry->passed = 0;
		entry->mapped = false;
		tables_valid = false;
	}
}

RoseReplRel *
rose_relmap_lookup(LogicalRepRelId remoteid, XLogRecPtr commit_lsn)
{
	RoseReplRel *entry = hash_search(relmap, &remoteid, HASH_FIND, NULL);

	if (entry == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the upstream sent a change of relation %u without having described it",
						remoteid)));
	if (!entry->mapped && entry->rel == NULL)
		map_table(entry);
	if (!OidIsValid(entry->relid))
		note_new(entry, commit_lsn);
	if (!entry->ready || commit_lsn < entry->sync_lsn || commit_lsn >= entry->until_lsn)
		return NULL;
	if (commit_lsn == entry->pass_lsn)
	{
		pass_over(entry);
		return NULL;
	}
	if (entry->recreated)
		report_recreated(entry);
	return entry;
}

/* Rows of two tables of the upstream must not be mixed. */
static void
lock_partition(Oid relid)
{
	rose_repl_lock_table(relid, RowExclusiveLock);
	read_tables();
	if (rose_subscription_find_table(tables, relid) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot replicate into partition \"%s\", which has the rows of another table of the upstream",
						get_rel_name(relid)),
				 errhint("Detach it, or take that table out of the publication.")));
}

/* For messages, which name the upstream's table. */
static void
note_local_name(RoseReplRel *entry)
{
	const char *nspname = get_namespace_name(RelationGetNamespace(entry->rel));
	const char *relname = RelationGetRelationName(entry->rel);

	entry->called_here[0] = '\0';
	if (nspname != NULL &&
		(strcmp(nspname, entry->remote.nspname) != 0 || strcmp(relname, entry->remote.relname) != 0))
		snprintf(entry->called_here, sizeof(entry->called_here), " (here \"%s.%s\")", nspname, relname);
}

RoseReplRel *
rose_relmap_open(LogicalRepRelId remoteid, XLogRecPtr commit_lsn)
{
	RoseReplRel *entry = rose_relmap_lookup(remoteid, commit_lsn);
	MemoryContext old;

	if (entry == NULL || entry->rel != NULL)
		return entry;

	rose_relmap_require_owner(entry);
	/* Taking the lock may tell that the table has changed, but not that another one is ours. */
	rose_repl_lock_table(entry->relid, RowExclusiveLock);
	entry = rose_relmap_lookup(remoteid, commit_lsn);
	if (entry == NULL)
		return NULL;

	rose_relmap_require_local(entry);
	rose_apply.blame.rel = entry;
	old = MemoryContextSwitchTo(relmap_context);
	entry->rel = table_open(entry->relid, RowExclusiveLock);
	open_rels = lappend(open_rels, entry);
	MemoryContextSwitchTo(old);

	rose_apply.blame.certain = true;
	entry->subid = relmap_subid;
	note_local_name(entry);
	entry->partitioned = !rose_target_tables_has_rows(entry->rel);
	if (entry->partitioned)
		entry->route = rose_target_open_route(entry, lock_partition);
	else
		rose_target_open(&entry->target, entry, entry->rel, NULL, entry->context);
	if (entry->columns == NULL && !map_columns(entry))
	{
		rose_apply.remote.cut_needed = true;
		entry = NULL;
	}
	else if (!entry->partitioned)
		rose_target_bind(&entry->target);
	rose_apply.blame.certain = false;
	return entry;
}

RoseReplRel *
rose_relmap_find(Oid relid)
{
	HASH_SEQ_STATUS status;
	RoseReplRel *entry;

	hash_seq_init(&status, relmap);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->relid != relid || entry->recreated)
			continue;
		hash_seq_term(&status);
		return entry;
	}
	return NULL;
}

void
rose_relmap_close(RoseReplRel *entry)
{
	if (entry->rel == NULL)
		return;
	if (entry->route != NULL)
		rose_target_close_route(entry);
	rose_target_close(&entry->target);
	table_close(entry->rel, NoLock);
	entry->rel = NULL;
	open_rels = list_delete_ptr(open_rels, entry);
}

void
rose_relmap_close_all(void)
{
	while (open_rels != NIL)
		rose_relmap_close(llast(open_rels));
}

/* Add what was counted since the last call to the shared counts, or (keep false) forget it. */
void
rose_relmap_flush_counts(bool keep)
{
	HASH_SEQ_STATUS status;
	RoseReplRel *entry;

	hash_seq_init(&status, relmap);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->counts.inserts + entry->counts.updates + entry->counts.deletes +
			entry->counts.truncates == 0)
			continue;
		if (OidIsValid(entry->relid))
			entry->counts.relid = entry->relid;
		if (keep)
			rose_repl_add_table_counts(relmap_subid, &entry->counts);
		memset(&entry->counts, 0, sizeof(entry->counts));
		memset(&entry->truncated, 0, sizeof(entry->truncated));
	}
	rose_repl_stats_forget_kept();
}

/* Rows of a partitioned table count for its partitions. */
void
rose_relmap_count_rows(void)
{
	HASH_SEQ_STATUS status;
	RoseReplRel *entry;

	hash_seq_init(&status, relmap);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->route != NULL)
			rose_target_keep_counts(entry);
		else if (!entry->partitioned)
			rose_repl_stats_count(OidIsValid(entry->relid) ? entry->relid : entry->counts.relid,
								  entry->counts.inserts - entry->truncated.inserts,
								  entry->counts.updates - entry->truncated.updates,
								  entry->counts.deletes - entry->truncated.deletes);
	}
	rose_repl_stats_count_kept();
}
