/*-------------------------------------------------------------------------
 *
 * rose_partitions.c
 *	  Partitions of a subscription's tables, which come and go.
 *
 * Rows of rose.subscription_rel name the tables of the upstream's tables; of one that is partitioned here, the
 * partitions have the rows, so whatever is done for an epoch is done of them.  They are listed anew each time.
 *
 * One that comes becomes the subscription's as a table does that has got a new file: when the worker hears of it, which
 * is why it must know an invalidation of a partitioned table on any level, and in any case before it gets a row.
 *
 * One that is detached is the subscription's by its file, and by nothing else: a stray, which is let go
 * (rose_epoch.c).  After a crash, nothing knows of such a table until somebody opens it; rose.detach() is for that.
 *
 * Locking: none; lists are of the moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/index.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "lsm/tree/rose_feed.h"
#include "repl/rose_repl_internal.h"

/* Partitions, on any level, that this process has met. */
static HTAB *known = NULL;

static HTAB *
make_set(const char *name, MemoryContext context)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid),.hcxt = context};

	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static bool
is_in_set(HTAB *set, Oid relid)
{
	return hash_search(set, &relid, HASH_FIND, NULL) != NULL;
}

bool
rose_partitions_is_known(Oid relid)
{
	return known != NULL && is_in_set(known, relid);
}

static void
note_known(const List *partitions)
{
	ListCell   *lc;

	if (known == NULL)
		known = make_set("rose known partitions", TopMemoryContext);
	for_each_from(lc, partitions, 1)
		(void) hash_search(known, &lfirst_oid(lc), HASH_ENTER, NULL);
}

List *
rose_partitions_tables(Oid subid)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rose_subscription_tables(subid))
	{
		List	   *tables = rose_target_tables_of(((RoseSubscriptionTable *) lfirst(lc))->relid);

		if (list_length(tables) > 1)
			note_known(tables);
		result = list_concat(result, tables);
	}
	return result;
}

/* A table of the subscription's by its file only, or InvalidOid. */
static Oid
stray_of(Oid relid, HTAB *members)
{
	char		relkind = get_rel_relkind(relid);

	if (relkind == RELKIND_INDEX)
	{
		relid = IndexGetRelation(relid, true);
		relkind = get_rel_relkind(relid);
	}
	return relkind == RELKIND_RELATION && !is_in_set(members, relid) ? relid : InvalidOid;
}

/* Which of these, that are fed, are none of the subscription's tables. */
static List *
find_strays(const List *fed, const List *tables)
{
	HTAB	   *members = make_set("rose tables of a subscription", CurrentMemoryContext);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, tables)
		(void) hash_search(members, &lfirst_oid(lc), HASH_ENTER, NULL);
	foreach(lc, fed)
	{
		Oid			relid = stray_of(lfirst_oid(lc), members);

		if (OidIsValid(relid))
			result = list_append_unique_oid(result, relid);
	}
	hash_destroy(members);
	return result;
}

/*
 * What is fed is listed first: what was not fed yet when the tables are listed may be one that has come since, and one that
 * is attached again meanwhile is in the one list or the other.
 */
List *
rose_partitions_strays(Oid subid)
{
	List	   *fed = rose_feed_list(subid);

	return find_strays(fed, rose_partitions_tables(subid));
}

List *
rose_partitions_with_strays(Oid subid)
{
	List	   *fed = rose_feed_list(subid);
	List	   *tables = rose_partitions_tables(subid);

	return list_concat(tables, find_strays(fed, tables));
}
