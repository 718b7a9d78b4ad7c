/*-------------------------------------------------------------------------
 *
 * rose_feed.c
 *	  Which subscription feeds a tree.
 *
 * The metapage says it for good, the shared entry for who needs it often.  Both are
 * changed by the subscription, which has the table locked against others of its kind;
 * readers of the entry take no lock where a moment's answer will do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "store/rose_metapage.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_registry.h"

Oid
rose_feed_subscription(RoseTree *tree)
{
	Oid			subid;

	rose_c0_write_begin(&tree->shared->c0);
	subid = tree->shared->fed_by;
	rose_c0_write_end(&tree->shared->c0);
	return subid;
}

bool
rose_feed_is_recorded(RoseTree *tree, Oid subid)
{
	RoseMetaInfo info;

	rose_meta_read(tree->rel, &info);
	return info.fed_by == subid && rose_feed_subscription(tree) == subid;
}

/* Whoever has read the metapage before (rose_tree_index_meta) reads it again from now on. */
static void
record(RoseTree *tree, Oid subid)
{
	rose_meta_set_fed_by(tree->rel, subid);
	pg_atomic_fetch_add_u64(&tree->shared->fed_changes, 1); /* full barrier */
}

void
rose_feed_begin(RoseTree *tree, Oid subid)
{
	rose_c0_write_begin(&tree->shared->c0);
	tree->shared->fed_by = subid;
	rose_c0_write_end(&tree->shared->c0);
	record(tree, subid);
}

void
rose_feed_end(RoseTree *tree, Oid subid)
{
	bool		ours;

	rose_c0_write_begin(&tree->shared->c0);
	ours = OidIsValid(tree->shared->fed_by) &&
		(tree->shared->fed_by == subid || !OidIsValid(subid));
	if (ours)
		tree->shared->fed_by = InvalidOid;
	rose_c0_write_end(&tree->shared->c0);
	if (ours)
		record(tree, InvalidOid);
}

typedef struct FedTrees
{
	Oid			subid;
	List	   *relids;
} FedTrees;

static void
look_for_fed(RoseTreeShared *shared, void *arg)
{
	FedTrees   *fed = arg;

	if (shared->fed_by == fed->subid)
		fed->relids = lappend_oid(fed->relids, pg_atomic_read_u32(&shared->relid));
}

List *
rose_feed_list(Oid subid)
{
	FedTrees	fed = {subid, NIL};

	rose_registry_visit(MyDatabaseId, look_for_fed, &fed);
	return fed.relids;
}
