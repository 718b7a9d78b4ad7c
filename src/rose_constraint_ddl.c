/*-------------------------------------------------------------------------
 *
 * rose_constraint_ddl.c
 *	  Commands by which rows are said to satisfy a constraint.
 *
 * SET NOT NULL, a CHECK constraint, VALIDATE CONSTRAINT and their like for domains look at the rows that are visible,
 * and are durable at once.  What a subscription has written is not before an epoch covers it: a crash brings older rows
 * back, which nobody has looked at, until the stream has repeated the changes.  Meanwhile the planner would believe what
 * does not hold for them, and the stream might stop at one on its way.  So such a command is refused while the table has
 * changes that are not durable, as one that rewrites it is.
 *
 * What a command does is taken from the catalogs, not from its text: recursion to partitions, primary keys and changes of
 * types come by constraints, too.  Noted are, by the hook on objects, CHECK and NOT NULL constraints (of domains, too)
 * that become valid, columns and domains that become NOT NULL.
 *
 * It is asked when a command has been run.  From then on until the transaction ends nobody may write to the table: most of
 * these commands lock it so before they look at its rows.  VALIDATE lets the subscription go on while it reads.  What has
 * come meanwhile was looked at by who wrote it (rose_rules.c), but it may have taken the place of a row that nobody has
 * looked at; so then the table is locked here.
 *
 * That lock, and those of ALTER DOMAIN, keep batches from the table and not who writes an epoch, for whom it is enough to read: so
 * an epoch is asked for and waited for.  The worker, if a batch waits for the table, gives that up for it.  A deadlock is possible with
 * what else the transaction has locked, or with somebody who waits for more than we have and stands in the way of the epoch; that is
 * looked for while waiting, and is an error then.  Commands with AccessExclusiveLock (SET NOT NULL, ADD CHECK) cannot
 * wait: the epoch would need the table that they have.  They are refused, before rows are read, too, since that may take long.
 *
 * Foreign keys are not looked at: they do not hold for replicated rows anyway, and nobody relies on them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "repl/rose_repl.h"
#include "tableam/rose_tableam.h"
#include "rose_constraint_ddl.h"
#include "rose_ddl_notes.h"
#include "rose_partition_ddl.h"

/* ---- what a command does ---- */

/* A row of a catalog as the command has left it, which the caches do not have yet; NULL: there is none. */
static HeapTuple
read_changed(Oid catalog, Oid index, int nkeys, ScanKey keys)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, index, true, SnapshotSelf, nkeys, keys);
	HeapTuple	tuple = systable_getnext(scan);

	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tuple;
}

static HeapTuple
read_changed_by_oid(Oid catalog, Oid index, AttrNumber column, Oid oid)
{
	ScanKeyData key;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	return read_changed(catalog, index, 1, &key);
}

/* An epoch is waited for as long as by rose.spill(). */
#define EPOCH_TIMEOUT_S		600

static void check_table(Oid relid, bool finally);
static void check_noted_table(const RoseDdlNote *note);
static void check_noted_domain(const RoseDdlNote *note);

static bool
constraint_was_valid(Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	bool		valid;

	if (!HeapTupleIsValid(tuple))
		return false;
	valid = ((Form_pg_constraint) GETSTRUCT(tuple))->convalidated;
	ReleaseSysCache(tuple);
	return valid;
}

/* NOT NULL of a column that the command itself adds: a constraint since 18.  The column is noted, and what rows of before have in it. */
static bool
is_of_added_column(HeapTuple constraint)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(constraint);
	AttrNumber	column;

	if (form->contype != ROSE_CONSTRAINT_NOTNULL || !OidIsValid(form->conrelid))
		return false;
	column = rose_constraint_notnull_column(constraint);
	return column > 0 && rose_ddl_notes_has(check_noted_table, form->conrelid, column);
}

static void
note_constraint(Oid constraint)
{
	HeapTuple	tuple = read_changed_by_oid(ConstraintRelationId, ConstraintOidIndexId,
											Anum_pg_constraint_oid, constraint);
	Form_pg_constraint form;

	if (tuple == NULL)
		return;
	form = (Form_pg_constraint) GETSTRUCT(tuple);
	if (form->convalidated &&
		(form->contype == CONSTRAINT_CHECK || form->contype == ROSE_CONSTRAINT_NOTNULL) &&
		!constraint_was_valid(constraint) && !is_of_added_column(tuple))
	{
		if (OidIsValid(form->contypid))
			rose_ddl_notes_add(check_noted_domain, form->contypid, InvalidOid, 0);
		/* rows have satisfied bounds ever since, those of before a crash, too */
		else if (form->contype != CONSTRAINT_CHECK || !rose_partition_ddl_check_bounds(form->conrelid))
		{
			rose_ddl_notes_add(check_noted_table, form->conrelid, InvalidOid, 0);
			check_table(form->conrelid, false);
		}
	}
	heap_freetuple(tuple);
}

static bool
column_was_not_null(Oid relid, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attno));
	bool		not_null;

	if (!HeapTupleIsValid(tuple))
		return false;
	not_null = ((Form_pg_attribute) GETSTRUCT(tuple))->attnotnull;
	ReleaseSysCache(tuple);
	return not_null;
}

static void
note_column(ObjectAccessType access, Oid relid, AttrNumber attno)
{
	ScanKeyData keys[2];
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(attno));
	tuple = read_changed(AttributeRelationId, AttributeRelidNumIndexId, 2, keys);
	if (tuple == NULL)
		return;
	if (((Form_pg_attribute) GETSTRUCT(tuple))->attnotnull && !column_was_not_null(relid, attno))
	{
		/* what rows of before have in it is not known yet */
		rose_ddl_notes_add(check_noted_table, relid, InvalidOid, access == OAT_POST_CREATE ? attno : 0);
		if (access != OAT_POST_CREATE)
			check_table(relid, false);
	}
	heap_freetuple(tuple);
}

static void
note_domain(Oid domain)
{
	HeapTuple	before = SearchSysCache1(TYPEOID, ObjectIdGetDatum(domain));
	HeapTuple	after;

	if (!HeapTupleIsValid(before))
		return;
	if (((Form_pg_type) GETSTRUCT(before))->typtype == TYPTYPE_DOMAIN &&
		!((Form_pg_type) GETSTRUCT(before))->typnotnull)
	{
		after = read_changed_by_oid(TypeRelationId, TypeOidIndexId, Anum_pg_type_oid, domain);
		if (after != NULL && ((Form_pg_type) GETSTRUCT(after))->typnotnull)
			rose_ddl_notes_add(check_noted_domain, domain, InvalidOid, 0);
	}
	ReleaseSysCache(before);
}

void
rose_constraint_ddl_note(ObjectAccessType access, Oid classid, Oid objectid, int subid)
{
	if ((access != OAT_POST_CREATE && access != OAT_POST_ALTER) || objectid < FirstNormalObjectId)
		return;
	if (classid == ConstraintRelationId)
		note_constraint(objectid);
	else if (classid == RelationRelationId && subid > 0)
		note_column(access, objectid, subid);
	else if (classid == TypeRelationId && access == OAT_POST_ALTER)
		note_domain(objectid);
}

/* ---- the rows ---- */

static void
require_durable(Relation rel)
{
	if (!rose_rows_are_durable(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot add or validate a constraint of table \"%s\" while a subscription has changes in it that are not yet durable",
						RelationGetRelationName(rel)),
				 errdetail("A crash would bring back rows that have not been checked."),
				 errhint(ROSE_SPILL_FIRST)));
}

/* A table that was made by this transaction has no tree yet, perhaps. */
static bool
is_fed(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION && rose_relation_is_rose(rel) &&
		!RelationUsesLocalBuffers(rel) && rel->rd_createSubid == InvalidSubTransactionId &&
		OidIsValid(rose_tree_open_any_order(rel)->shared->fed_by);
}

/* Who writes an epoch must be able to read the table. */
static bool
may_wait_for_epoch(Relation rel)
{
	return !CheckRelationLockedByMe(rel, AccessExclusiveLock, false);
}

/* REQUIRES: a lock that keeps the subscription from writing to it, so that one epoch is enough.  What it fails for is seen by what is not durable then. */
static void
wait_for_epoch(Relation rel)
{
	Oid			fed_by = rose_tree_open_any_order(rel)->shared->fed_by;

	if (may_wait_for_epoch(rel) && !rose_rows_are_durable(rel))
		(void) rose_repl_try_spill(fed_by, EPOCH_TIMEOUT_S);
}

/* finally: when the command has been run, for the rest of the transaction. */
static void
check_table(Oid relid, bool finally)
{
	Relation	rel;

	/* a command that ends transactions may have let go of it */
	if (finally)
		rel = try_relation_open(relid, AccessShareLock);
	else
		rel = RelationIdGetRelation(relid);
	if (rel == NULL)
		return;
	if (is_fed(rel))
	{
		if (finally && !CheckRelationLockedByMe(rel, ShareLock, true))
			LockRelationOid(relid, ShareLock);
		if (finally)
			wait_for_epoch(rel);
		if (finally || !may_wait_for_epoch(rel))
			require_durable(rel);
	}
	if (finally)
		relation_close(rel, NoLock);
	else
		RelationClose(rel);
}

/* Do rows of before have NULL in a column that was added, and is NOT NULL? */
static bool
added_may_be_null(Oid relid, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attno));
	Form_pg_attribute att;
	bool		may_be;

	if (!HeapTupleIsValid(tuple))
		return false;
	att = (Form_pg_attribute) GETSTRUCT(tuple);
	may_be = !att->attisdropped && att->attnotnull && !att->atthasmissing;
	ReleaseSysCache(tuple);
	return may_be;
}

/* The tables with columns of a domain, or of one that is made of it, which core has locked. */
static void
check_domain(Oid domain)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(TypeRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(domain));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == TypeRelationId && get_typtype(form->objid) == TYPTYPE_DOMAIN)
			check_domain(form->objid);
		else if (form->classid == RelationRelationId && form->objsubid > 0 &&
				 get_atttype(form->objid, form->objsubid) == domain)
			check_table(form->objid, true);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
}

/* ---- what was noted ---- */

/* column: one that the command adds, and nothing else yet; or 0. */
static void
check_noted_table(const RoseDdlNote *note)
{
	if (note->column == 0 || added_may_be_null(note->object, note->column))
		check_table(note->object, true);
}

static void
check_noted_domain(const RoseDdlNote *note)
{
	check_domain(note->object);
}
