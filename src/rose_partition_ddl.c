/*-------------------------------------------------------------------------
 *
 * rose_partition_ddl.c
 *	  Commands by which partitions come and go.
 *
 * They are durable at once, while what a subscription has written is not before an epoch covers it.  If a crash
 * takes back what the command rested on, nothing puts it right: the stream repeats the changes and sends them to
 * where rows belong by then.  So they are refused while there are such changes in
 *
 * - the default partition beside a new one: a row that was deleted there would be there again, and in the new one's range;
 * - a partition that is detached: rows that it had would be missing for good;
 * - a table that is attached: rows that it had might be out of its bounds.
 *
 * A table that one subscription has is not attached to one that another one has: both would write to it. Nor is one that has rows attached to
 * a table which is to be copied again: it shows its old rows until then, and the copy would take the place of these, too, which
 * nobody has said of them.
 *
 * What a command does is heard from the hook on objects, whose tables it has locked, and not taken from its text: event triggers may have
 * renamed them by the time when it has been run, and foreign tables become partitions, too.  It is looked at then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "executor/tuptable.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "lsm/tree/rose_relation.h"
#include "repl/rose_old_rows.h"
#include "repl/rose_repl.h"
#include "tableam/rose_tableam.h"
#include "rose_ddl_notes.h"
#include "rose_partition_ddl.h"

/* A table of this table or tree of partitions whose changes are not durable, or NULL. */
static const char *
find_not_durable(Oid relid)
{
	const char *found = NULL;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), NoLock);

		if (rel == NULL)
			continue;
		if (rel->rd_rel->relkind == RELKIND_RELATION && rose_relation_is_rose(rel) && !rose_rows_are_durable(rel))
			found = pstrdup(RelationGetRelationName(rel));
		relation_close(rel, NoLock);
		if (found != NULL)
			break;
	}
	return found;
}

static void
require_durable(Oid relid, const char *what)
{
	const char *name = find_not_durable(relid);

	if (name != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s while a subscription has changes in table \"%s\" that are not yet durable",
						what, name),
				 errhint(ROSE_SPILL_FIRST)));
}

/* Of whom is this table a child, as the command at hand has left it?  *detaching: and is taken from by it, CONCURRENTLY. */
static Oid
read_parent(Oid relid, bool *detaching)
{
	Relation	inherits = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			parent = InvalidOid;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_inherits form = (Form_pg_inherits) GETSTRUCT(tuple);

		parent = form->inhparent;
		/* it is no command of a transaction block; what somebody else has left so is none of this one's */
		*detaching = form->inhdetachpending &&
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
	return parent;
}

bool
rose_partition_ddl_check_bounds(Oid relid)
{
	bool		detaching = false;

	while (!detaching && OidIsValid(relid))
	{
		Oid			parent = read_parent(relid, &detaching);

		if (detaching)
			require_durable(relid, "detach a partition");
		relid = parent;
	}
	return detaching;
}

static void
check_parent(Oid parent)
{
	Oid			relid = get_default_partition_oid(parent);

	if (OidIsValid(relid))
		require_durable(relid, "add a partition beside the default one");
}

static bool
has_rows(Relation rel)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	bool		found = table_scan_getnextslot(scan, ForwardScanDirection, slot);

	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	return found;
}

/* A table of this table or tree of partitions that has rows, or InvalidOid. */
static Oid
find_rows(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), NoLock);
		bool		found = rel != NULL && RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && has_rows(rel);

		if (rel != NULL)
			relation_close(rel, NoLock);
		if (found)
			return lfirst_oid(lc);
	}
	return InvalidOid;
}

/* Who has a table copied again locks it, and writes down that it has old rows; so he is seen here, or sees the new partition. */
static void
check_not_copied_again(Oid subid, Oid relid)
{
	ListCell   *lc;
	Oid			rows;

	foreach(lc, get_partition_ancestors(relid))
	{
		if (!rose_old_rows_are_there(subid, lfirst_oid(lc), NULL) || !OidIsValid(rows = find_rows(relid)))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot attach table \"%s\", which has rows, to table \"%s\", which is to be copied again",
						get_rel_name(rows), get_rel_name(lfirst_oid(lc))),
				 errdetail("The copy would take the place of its rows."),
				 errhint("Attach it when rose.stat_subscription_tables has no old_rows_lsn for the table any more.")));
	}
}

/* A table has one subscription, and a partition that of the tables that it is one of. */
static void
check_attached(Oid relid)
{
	Oid			own;
	Oid			other;

	require_durable(relid, "attach a table");
	own = rose_subscription_of_any(find_all_inheritors(relid, NoLock, NULL));
	other = rose_subscription_of_any(get_partition_ancestors(relid));
	if (OidIsValid(other))
		check_not_copied_again(other, relid);
	if (!OidIsValid(own) || !OidIsValid(other) || own == other)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot attach table \"%s\", which one subscription feeds, to a table that another one feeds",
					get_rel_name(relid)),
			 errhint("Take one of them out of its publication and call rose.alter_subscription with refresh => true, or drop the subscription.")));
}

/* A table that has become a child of another one, or was one. */
static void
check_link(const RoseDdlNote *note)
{
	Oid			child = note->object;
	Oid			parent = note->other;

	/* one that is dropped by now has nothing to lose */
	if (get_rel_relkind(parent) != RELKIND_PARTITIONED_TABLE || get_rel_relkind(child) == '\0')
		return;
	if (get_rel_relispartition(child) && get_partition_parent(child, true) == parent)
	{
		check_parent(parent);
		check_attached(child);
	}
	else
		require_durable(child, "detach a partition");
}

void
rose_partition_ddl_note(ObjectAccessType access, Oid classid, Oid objectid, void *arg)
{
	if (access == OAT_POST_ALTER && classid == InheritsRelationId)
		rose_ddl_notes_add(check_link, objectid, ((ObjectAccessPostAlter *) arg)->auxiliary_id, 0);
}
