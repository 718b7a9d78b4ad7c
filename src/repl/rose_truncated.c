/*-------------------------------------------------------------------------
 *
 * rose_truncated.c
 *	  The upstream has truncated tables.
 *
 * TRUNCATE gives a table a new file, which is durable when the local transaction
 * is, while ordinary changes wait for their epoch.  So the batch is cut before the
 * upstream transaction that truncates: see README.md, "TRUNCATE".  Of a partitioned table, all partitions that
 * there are here are emptied.
 *
 * Locking: the tables, as TRUNCATE locks them, until the batch ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"

#include "repl/rose_constants.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"

static void
blame_table(Relation rel)
{
	List	   *ancestors = rel->rd_rel->relispartition ? get_partition_ancestors(RelationGetRelid(rel)) : NIL;
	ListCell   *lc;

	rose_apply.blame.rel = rose_relmap_find(RelationGetRelid(rel));
	foreach(lc, ancestors)
	{
		if (rose_apply.blame.rel == NULL)
			rose_apply.blame.rel = rose_relmap_find(lfirst_oid(lc));
	}
}

/* It has the rows that come after this. */
static void
take_truncated(Relation rel)
{
	if (!rose_target_tables_has_rows(rel))
		return;
	rose_repl_feed(rel, rose_apply.sub->subid);
	rose_repl_stats_forget_kept_of(RelationGetRelid(rel));
}

/* Who looks at all rows of a large table keeps the stream waiting. */
static void
keep_alive(void)
{
	rose_apply_keep_alive();
}

/* The table, and partitions if it has some, of all levels; open. */
static List *
lock_all(Oid relid, LOCKMODE mode)
{
	List	   *relids = list_make1_oid(relid);
	List	   *rels = NIL;
	ListCell   *lc;

	/* it grows on the way, by partitions of what is locked */
	foreach(lc, relids)
	{
		Relation	rel;

		rose_owner_require_relid(rose_apply.sub, lfirst_oid(lc));
		rose_repl_lock_table(lfirst_oid(lc), mode);
		rel = table_open(lfirst_oid(lc), NoLock);
		rose_owner_require_table(rose_apply.sub, rel, ACL_TRUNCATE);
		if (rels != NIL)
			rose_target_tables_require(rel);
		rels = lappend(rels, rel);
		if (!rose_target_tables_has_rows(rel))
			relids = list_concat(relids, find_inheritance_children(lfirst_oid(lc), NoLock));
	}
	return rels;
}

RoseApplyResult
rose_truncated_apply(StringInfo s)
{
	bool		cascade;
	bool		restart_seqs;
	List	   *remote_ids = logicalrep_read_truncate(s, &cascade, &restart_seqs);
	List	   *rels = NIL;
	ListCell   *lc;

	if (rose_apply.remote.passing)
		return ROSE_APPLY_GO_ON;
	rose_batch_ensure();
	rose_gather_write();
	foreach(lc, remote_ids)
	{
		RoseReplRel *entry = rose_relmap_lookup(lfirst_oid(lc), rose_apply.remote.commit_lsn);

		if (entry == NULL)
		{
			rose_apply.progress.skipped++;
			continue;
		}
		if (rose_apply_can_be_cut())
			return ROSE_APPLY_RESTART;
		rose_relmap_close(entry);
		rose_relmap_require_owner(entry);
		rose_repl_lock_table(entry->relid, AccessExclusiveLock);
		rose_relmap_require_local(entry);
		rose_apply.blame.rel = entry;
		rose_apply.blame.certain = true;
		rels = list_concat(rels, lock_all(entry->relid, AccessExclusiveLock));
		rose_apply.blame.certain = false;
		entry->truncated = entry->counts;
		entry->counts.truncates++;
		rose_apply.progress.truncates++;
	}
	if (rels == NIL)
		return ROSE_APPLY_GO_ON;

	rose_apply.blame.certain = true;
	rose_constants_require_own(rels, rose_apply.sub->constants, blame_table, keep_alive);
	/* without further cascading, as core does */
	rose_repl_truncate_tables(rels, restart_seqs, blame_table);
	foreach(lc, rels)
	{
		blame_table(lfirst(lc));
		take_truncated(lfirst(lc));
		table_close(lfirst(lc), NoLock);
	}
	rose_apply.blame.certain = false;
	rose_apply.remote.durable_at_once = true;
	return ROSE_APPLY_GO_ON;
}
