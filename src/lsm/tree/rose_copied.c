/*-------------------------------------------------------------------------
 *
 * rose_copied.c
 *	  Files into which all rows of a table were copied anew.  See rose_copied.h.
 *
 * The metapage says it for good, the shared entry for readers.  Neither changes once others can open the file,
 * so no lock is needed.  When no snapshot can be that old any more, what they say is of no use, and in nobody's way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "store/rose_metapage.h"
#include "lsm/tree/rose_copied.h"

static const char *
table_name(Relation rel)
{
	char	   *name = NULL;

	if (rel->rd_rel->relkind == RELKIND_INDEX)
		name = get_rel_name(rel->rd_index->indrelid);
	return name != NULL ? name : RelationGetRelationName(rel);
}

void
rose_copied_check(RoseTree *tree, const RoseVisibility *vis)
{
	FullTransactionId copier = FullTransactionIdFromU64(tree->shared->copied_by);
	TransactionId xid = XidFromFullTransactionId(copier);

	if (FullTransactionIdPrecedes(copier, vis->xmin) || TransactionIdIsCurrentTransactionId(xid))
		return;
	if (FullTransactionIdPrecedes(copier, vis->xmax) && !XidInMVCCSnapshot(xid, vis->snapshot))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access because table \"%s\" was copied anew after the snapshot was taken",
					table_name(tree->rel)),
			 errdetail("Its rows of before are gone."),
			 errhint("The transaction might succeed if retried.")));
}

void
rose_copied_note(RoseTree *tree)
{
	tree->shared->copied_by = U64FromFullTransactionId(GetTopFullTransactionId());
	rose_meta_set_copied_by(tree->rel, tree->shared->copied_by);
}

void
rose_copied_carry(RoseTree *from, RoseTree *to)
{
	if (from->shared->copied_by == 0)
		return;
	to->shared->copied_by = from->shared->copied_by;
	rose_meta_set_copied_by(to->rel, to->shared->copied_by);
}
