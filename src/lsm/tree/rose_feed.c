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

#include "store/rose_metapage.h"
#include "lsm/tree/rose_feed.h"

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

void
rose_feed_begin(RoseTree *tree, Oid subid)
{
	rose_c0_write_begin(&tree->shared->c0);
	tree->shared->fed_by = subid;
	rose_c0_write_end(&tree->shared->c0);
	rose_meta_set_fed_by(tree->rel, subid);
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
		rose_meta_set_fed_by(tree->rel, InvalidOid);
}
