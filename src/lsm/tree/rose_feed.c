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

RoseFeedRequireWritableHook rose_feed_require_writable_hook = NULL;
uint64		rose_feed_admissions = 0;

Oid
rose_feed_subscription(RoseTree *tree)
{
	Oid			subid;

	rose_c0_write_begin(&tree->shared->c0);
	subid = rose_tree_written_by(tree->shared);
	rose_c0_write_end(&tree->shared->c0);
	return subid;
}

bool
rose_feed_is_recorded(RoseTree *tree, Oid subid, bool logged)
{
	Oid			fed_by = logged ? InvalidOid : subid;
	Oid			logged_by = logged ? subid : InvalidOid;
	RoseTreeShared *shared = tree->shared;
	RoseMetaInfo info;
	bool		same;

	rose_meta_read(tree->rel, &info);
	rose_c0_write_begin(&shared->c0);
	same = shared->fed_by == fed_by && shared->logged_by == logged_by;
	rose_c0_write_end(&shared->c0);
	return same && info.fed_by == fed_by && info.logged_by == logged_by;
}

/*
 * In memory first: nothing is written in the new way before the file says so, and what is written in the old one is
 * not written any more.  Whoever has read the metapage before (rose_tree_index_meta) reads it again from now on.
 */
static void
set(RoseTree *tree, Oid fed_by, Oid logged_by)
{
	rose_c0_write_begin(&tree->shared->c0);
	tree->shared->fed_by = fed_by;
	tree->shared->logged_by = logged_by;
	rose_c0_write_end(&tree->shared->c0);
	rose_meta_set_fed_by(tree->rel, fed_by, logged_by);
	pg_atomic_fetch_add_u64(&tree->shared->fed_changes, 1); /* full barrier */
}

void
rose_feed_begin(RoseTree *tree, Oid subid, bool logged)
{
	set(tree, logged ? InvalidOid : subid, logged ? subid : InvalidOid);
}

void
rose_feed_end(RoseTree *tree, Oid subid)
{
	Oid			now = rose_feed_subscription(tree);

	if (OidIsValid(now) && (now == subid || !OidIsValid(subid)))
		set(tree, InvalidOid, InvalidOid);
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

	if (rose_tree_written_by(shared) == fed->subid)
		fed->relids = lappend_oid(fed->relids, pg_atomic_read_u32(&shared->relid));
}

List *
rose_feed_list(Oid subid)
{
	FedTrees	fed = {subid, NIL};

	rose_registry_visit(MyDatabaseId, look_for_fed, &fed);
	return fed.relids;
}
