/*-------------------------------------------------------------------------
 *
 * rose_index_file.c
 *	  Files of indexes: made, and handed over.  See rose_index_file.h.
 *
 * REINDEX, TRUNCATE and rewrites give an index a new file, and nobody tells us which one
 * it had.  So when a tree is made, the entries of the registry that this index has opened
 * are looked for: those of other files go when the transaction commits.  One that is not
 * found so (its file changed hands since) goes with a sweep.
 *
 * A build beside writers (CREATE INDEX CONCURRENTLY) fills a file that an earlier
 * transaction has made, and that stays if the build fails, since others write to it by
 * then.
 *
 * All but that under AccessExclusiveLock on the index; takes the registry's lock for a moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/storage_xlog.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/smgr.h"

#include "compat/rose_compat.h"
#include "util/rose_foreign.h"
#include "util/rose_stop_point.h"
#include "store/rose_file_name.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_local_trees.h"
#include "lsm/tree/rose_registry.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/rose_index_file.h"
#include "lsm/rose_transaction.h"

/* Files that this index had, if somebody has used them. */
typedef struct OldFiles
{
	Oid			indexid;
	RelFileLocator now;
	List	   *locators;		/* of RelFileLocator * */
} OldFiles;

static void
collect_old_file(RoseTreeShared *shared, void *arg)
{
	OldFiles   *old = arg;

	if (pg_atomic_read_u32(&shared->relid) == old->indexid &&
		!RelFileLocatorEquals(shared->locator, old->now))
		old->locators = lappend(old->locators,
								memcpy(palloc(sizeof(RelFileLocator)), &shared->locator,
									   sizeof(RelFileLocator)));
}

static void
note_old_files(Relation index)
{
	OldFiles	old = {RelationGetRelid(index), rose_file_name(index), NIL};
	ListCell   *cell;

	if (RelationUsesLocalBuffers(index))
		rose_local_trees_visit(collect_old_file, &old);
	else
		rose_registry_visit(MyDatabaseId, collect_old_file, &old);
	foreach(cell, old.locators)
		rose_transaction_file_dropped(*(RelFileLocator *) lfirst(cell));
	list_free_deep(old.locators);
}

static void
describe_file(const RoseIndexDef *def, RoseMetaInfo *info)
{
	TupleDesc	tupdesc = rose_index_def_tupdesc(def);
	RoseLayout *layout = rose_layout_make(tupdesc);

	memset(info, 0, sizeof(*info));
	info->of_index = true;
	info->index = def->meta;
	info->nkeys = def->nkeys;
	memcpy(info->keys, def->keys, sizeof(info->keys));
	rose_index_def_facts(def, &info->facts);
	info->layout_natts = layout->natts;
	info->layout_physical = layout->physical;
	pfree(layout);
	FreeTupleDesc(tupdesc);
}

/* A file that was emptied in place has one already, which may say something else. */
static void
create_init_fork(Relation index, const RoseMetaInfo *info)
{
	SMgrRelation smgr = RelationGetSmgr(index);
	RelFileLocator locator = rose_rel_locator(index);

	if (smgrexists(smgr, INIT_FORKNUM))
	{
		rose_meta_update_init_fork(index);
		return;
	}
	smgrcreate(smgr, INIT_FORKNUM, false);
	log_smgrcreate(&locator, INIT_FORKNUM);
	rose_meta_create(smgr, INIT_FORKNUM, RELPERSISTENCE_UNLOGGED, info);
}

void
rose_index_file_create(Relation index, const RoseIndexDef *def, bool beside)
{
	char		persistence = index->rd_rel->relpersistence;
	RoseMetaInfo info;

	Assert(rose_relation_is_index(index));
	rose_foreign_refuse_change(RelationGetRelationName(index));
	describe_file(def, &info);
	if (beside)
		info.index.flags |= ROSE_INDEX_UNKEPT | ROSE_INDEX_INCOMPLETE;
	rose_meta_create(RelationGetSmgr(index), MAIN_FORKNUM, persistence, &info);
	ROSE_STOP_POINT("index-file-made");
	if (persistence == RELPERSISTENCE_UNLOGGED)
		create_init_fork(index, &info);
	if (beside)
		return;
	note_old_files(index);
	rose_transaction_file_created(rose_file_name(index));
}

void
rose_index_file_dropped(Relation index)
{
	rose_transaction_file_dropped(rose_file_name(index));
}

/* Of the command that is under way. */
static bool dropped_late = false;
static RelFileLocator dropped_locator;

void
rose_index_file_dropped_late(Relation index)
{
	dropped_late = true;
	dropped_locator = rose_rel_locator(index);
}

void
rose_index_file_note_dropped(void)
{
	if (dropped_late)
		rose_transaction_file_dropped(dropped_locator);
	dropped_late = false;
}

void
rose_index_file_forget_dropped(void)
{
	dropped_late = false;
}

void
rose_index_file_taken_over(Relation index)
{
	rose_transaction_file_kept(rose_file_name(index));
}
