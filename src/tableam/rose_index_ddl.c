/*-------------------------------------------------------------------------
 *
 * rose_index_ddl.c
 *	  Secondary indexes: which ones there may be, and how they are made.
 *
 * Core makes the catalog's entry and an empty file, and calls btbuild, which asks the
 * table for its rows.  Then the file becomes a tree of ours, with the entries of all
 * versions that the table has (lsm/write/rose_index_build.c), and btbuild is given none.
 * What it writes into block 0 is poisoned later (indexam/rose_primary_key.c).
 *
 * While rose.secondary_indexes is off (it is on by default), no new one can be made.  Those that there are stay,
 * whatever makes their files anew: TRUNCATE, REINDEX, rewrites, and ALTER TABLE that drops
 * an index and makes it again.  pg_upgrade makes those that there are, too.
 *
 * Locking: that of CREATE INDEX, REINDEX and their like, which keep writers from the
 * table.
 *
 * What this does not do: give a table the physical key of its primary key (rose_rekey.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "util/rose_index_def.h"
#include "util/rose_index_expr.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/tree/rose_feed.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_unique_pair.h"
#include "lsm/write/rose_index_beside.h"
#include "lsm/write/rose_index_build.h"
#include "lsm/write/rose_unique_beside.h"
#include "lsm/rose_index_file.h"
#include "tableam/rose_tableam.h"

/* rose.secondary_indexes */
static bool secondary_indexes = true;

/* What the command that is being run does to indexes that there are (ROSE_INDEX_COMMAND_*). */
static int	command = 0;

#define ROSE_INDEX_COMMAND_REMAKES	0x01	/* indexes that core makes by itself were there */
#define ROSE_INDEX_COMMAND_TAKES	0x02	/* a table, with its indexes, may become one of ours */

void
rose_index_ddl_define_settings(void)
{
	DefineCustomBoolVariable("rose.secondary_indexes",
							 "Allows indexes of rose tables beside that of the primary key.",
							 "Those that there are stay and are kept up to date, whatever this says.",
							 &secondary_indexes,
							 true,
							 PGC_USERSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);
}

/* ---- what there may be ---- */

static void
refuse_while_off(Relation rel, const char *index_name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot create index \"%s\" on rose table \"%s\"",
					index_name, RelationGetRelationName(rel)),
			 errdetail("%s is off, so rose tables get no indexes but that of the primary key.", "rose.secondary_indexes"),
			 errhint("Set it to on for this session: SET rose.secondary_indexes = on.")));
}

static void
refuse_kind(Relation rel, const char *index_name, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot create index \"%s\" on rose table \"%s\"",
					index_name, RelationGetRelationName(rel)),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static void
check_method(Relation rel, Relation index)
{
	Oid			method = index->rd_rel->relam;

	if (method == BTREE_AM_OID)
		return;
	refuse_kind(rel, RelationGetRelationName(index),
				psprintf("Rose tables have btree indexes; those of type %s are not built yet.", get_am_name(method)),
				method == HASH_AM_OID ? "A btree index finds equal values, too." :
				method == BRIN_AM_OID ? "A btree index finds ranges, too, and the primary key finds those of its first columns." :
				NULL);
}

/* A table of another access method; one that is not there is core's to report. */
static bool
is_of_others(const RangeVar *table)
{
	Oid			relid = RangeVarGetRelid(table, NoLock, true);
	Relation	rel = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : NULL;
	bool		result = true;

	if (rel == NULL)
		return true;
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
		result = !rose_relation_is_rose(rel);
	relation_close(rel, AccessShareLock);
	return result;
}

/*
 * ALTER TABLE makes by itself, without asking for rights, the indexes that it has dropped,
 * and when it attaches a partition those of the partitioned table.
 */
int
rose_index_ddl_enter_command(Node *stmt)
{
	int			outer = command;
	ListCell   *cell;

	command = 0;
	if (!IsA(stmt, AlterTableStmt))
		return outer;
	command = ROSE_INDEX_COMMAND_REMAKES;
	foreach(cell, ((AlterTableStmt *) stmt)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_AttachPartition)
			command &= ~ROSE_INDEX_COMMAND_REMAKES;
		if (cmd->subtype == AT_SetAccessMethod && is_of_others(((AlterTableStmt *) stmt)->relation))
			command |= ROSE_INDEX_COMMAND_TAKES;
	}
	return outer;
}

void
rose_index_ddl_leave_command(int outer)
{
	command = outer;
}

void
rose_index_ddl_check_created(Relation rel, Relation index, bool internal)
{
	bool		remade = IsBinaryUpgrade ||
		(internal && (command & ROSE_INDEX_COMMAND_REMAKES) != 0);

	check_method(rel, index);
	if (!secondary_indexes && !remade)
		refuse_while_off(rel, RelationGetRelationName(index));
}

/* Who writes a row locks a partition for each of them: a process can hold 200 locks of that kind. */
#define UNIQUE_INDEXES_MAX	100

/*
 * An entry that a function of a user has made may be one that its row has not any more, and
 * only the row tells; who looks at a value does so with locks that no function may be called
 * with.
 */
static void
check_lasting(Relation rel, const char *name, HeapTuple pg_index)
{
	RoseIndexExpr expr;

	rose_index_expr_read_tuple(pg_index, &expr);
	if (!rose_index_expr_is_lasting(&expr))
		refuse_kind(rel, name,
					"Expressions and WHERE clauses of unique indexes of rose tables consist of built-in functions, on built-in types, domains of them, and enums.",
					"Store the expression in a generated column, NULL for rows that are not to be unique, and index that.");
	/* ON CONFLICT looks for the value that the session's settings give */
	if (rose_index_expr_follows(&expr) != 0 && !IsBinaryUpgrade)
		refuse_kind(rel, name,
					"Text of floats, geometric values and bytea, quote_ident(), and age() of times with time zone, are as settings say, so they cannot be unique in an expression of an index.",
					"Index the column itself, or store the expression in a generated column, and index that.");
}

static void
check_unique(Relation rel, const char *name, HeapTuple pg_index)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;
	int			n = 0;

	check_lasting(rel, name, pg_index);
	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		n += index->rd_index->indisunique && !index->rd_index->indisprimary;
		index_close(index, NoLock);
	}
	list_free(indexes);
	if (n > UNIQUE_INDEXES_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot create index \"%s\" on rose table \"%s\"",
						name, RelationGetRelationName(rel)),
				 errdetail("A rose table has %d unique indexes at most, beside that of the primary key.",
						   UNIQUE_INDEXES_MAX)));
}

static void
check_kind(Relation rel, Relation index, IndexInfo *info)
{
	const char *name = RelationGetRelationName(index);

	check_method(rel, index);
	if (!secondary_indexes && (command & ROSE_INDEX_COMMAND_TAKES) != 0)
		refuse_while_off(rel, name);
	if (index->rd_index->indisexclusion)
		refuse_kind(rel, name, "Rose tables cannot have exclusion constraints.", NULL);
	if (info->ii_Unique)
		check_unique(rel, name, index->rd_indextuple);
}

/* Replicated changes are written blindly. */
static void
check_fed(Relation rel, Relation index, RoseTree *table, bool concurrent)
{
	if (!OidIsValid(rose_tree_written_by(table->shared)))
		return;
	if (concurrent)
		refuse_kind(rel, RelationGetRelationName(index),
					"A subscription feeds the table, and indexes of such ones cannot be built concurrently.",
					"Leave CONCURRENTLY out: queries go on, only changes of the upstream wait.");
	if (index->rd_index->indisunique)
		refuse_kind(rel, RelationGetRelationName(index),
					"A subscription feeds the table, and replicated changes are written without a look at what is there.",
					"Create an index that is not unique, or end the replication with rose.drop_subscription() first.");
}

/* ---- how they are made ---- */

static void
describe_index(RoseTree *table, RoseTree *tree, const RoseIndexMetaDisk *meta,
			   RoseIndexTree *described)
{
	memset(described, 0, sizeof(*described));
	described->indexid = RelationGetRelid(tree->rel);
	rose_index_set_shape(tree->rel, meta, tree->schema, table->schema->natts, &described->shape);
	rose_index_set_uniqueness(tree->rel, meta, described);
}

/* Have two rows one value, of those that the next statement sees? */
static void
check_values(Relation rel, RoseTree *tree, const RoseIndexTree *described)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];

	if (rose_unique_pair_find(tree, described, SnapshotSelf, values, nulls))
		rose_duplicate_key_report_value(rel, tree->rel, values, nulls);
}

/*
 * Beside writers: the beginning.  What two rows have by now, and rows that cannot have an entry, are
 * found while nobody keeps up the index, and so never enforces it.
 */
static void
begin_beside(RoseTree *table, RoseTree *tree, const RoseIndexTree *described)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];

	if (!described->unique)
		rose_index_beside_check(table, tree, &described->shape, GetActiveSnapshot());
	else if (rose_index_beside_find_pair(table, tree, described, GetActiveSnapshot(), values, nulls))
		rose_duplicate_key_report_value(table->rel, tree->rel, values, nulls);
	rose_index_beside_begin(table, tree);
}

double
rose_index_ddl_build(Relation rel, Relation index, IndexInfo *info)
{
	RoseTree   *table;
	RoseTree   *tree;
	RoseIndexDef def;
	RoseIndexTree described;
	double		nrows;

	check_kind(rel, index, info);
	table = rose_tree_open(rel);
	check_fed(rel, index, table, info->ii_Concurrent);
	rose_index_def_make(index, table->schema, &def);
	rose_index_file_create(index, &def, info->ii_Concurrent);

	tree = rose_tree_open(index);
	rose_copied_carry(table, tree);
	if (OidIsValid(rose_tree_written_by(table->shared)))
		rose_feed_begin(tree, rose_tree_written_by(table->shared), OidIsValid(table->shared->logged_by));
	describe_index(table, tree, &def.meta, &described);
	if (info->ii_Concurrent)
	{
		begin_beside(table, tree, &described);
		return rose_table_estimate_rows(table);
	}
	nrows = (double) rose_index_build(table, tree, &described.shape);
	if (described.unique)
		check_values(rel, tree, &described);
	return nrows;
}

/* ---- beside writers ---- */

/* Indexes that REINDEX CONCURRENTLY has made to take the place of a primary key's, in the command at hand. */
static List *copied_keys = NIL;

void
rose_index_ddl_forget_copies(void)
{
	list_free(copied_keys);
	copied_keys = NIL;
}

bool
rose_index_ddl_is_copied_key(Oid indexid)
{
	return list_member_oid(copied_keys, indexid);
}

/*
 * Is the index that REINDEX CONCURRENTLY is making a copy of the primary key's?  Core does not
 * tell of which one it is, and another may have the same columns; but it locks them one by one,
 * each for its copy and until all are made.
 */
static bool
is_copy_of_key(Relation rel)
{
	Oid			primary_id = rose_primary_key_index(rel);
	ListCell   *cell;

	if (!OidIsValid(primary_id) || !rose_relation_oid_is_locked(primary_id, RowExclusiveLock, false))
		return false;
	foreach(cell, copied_keys)
	{
		if (IndexGetRelation(lfirst_oid(cell), true) == RelationGetRelid(rel))
			return false;		/* it has one already */
	}
	return true;
}

static void
note_copied_key(Oid indexid)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	copied_keys = lappend_oid(copied_keys, indexid);
	MemoryContextSwitchTo(old);
}

void
rose_index_ddl_check_order(Relation rel)
{
	if (rose_tree_open_any_order(rel)->shared->other_order)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rose table \"%s\" cannot be sorted anew concurrently",
						RelationGetRelationName(rel)),
				 errhint("Leave CONCURRENTLY out.")));
}

void
rose_index_ddl_check_beside(Relation rel, Relation index, HeapTuple pg_index, bool copied)
{
	RoseTree   *table = rose_tree_open_any_order(rel);

	if (copied && is_copy_of_key(rel))
	{
		rose_index_ddl_check_order(rel);
		note_copied_key(RelationGetRelid(index));
		return;
	}
	if (((Form_pg_index) GETSTRUCT(pg_index))->indisunique)
		check_unique(rel, RelationGetRelationName(index), pg_index);
	check_fed(rel, index, table, true);
	if (table->shared->other_order)
		rose_tree_report_order(table, ERROR);
}

/* The end: the index gets what was there before, and what two rows have got meanwhile is found. */
static double
complete_beside(RoseTree *table, RoseTree *tree, const RoseIndexTree *described, Snapshot snapshot)
{
	uint64		nrows = rose_index_beside_complete(table, tree, &described->shape, snapshot);
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];

	if (described->unique && rose_unique_beside_find(tree, described, values, nulls))
		rose_duplicate_key_report_value(table->rel, tree->rel, values, nulls);
	return (double) nrows;
}

void
rose_index_validate_scan(Relation rel, Relation index, IndexInfo *info, Snapshot snapshot,
						 ValidateIndexState *state)
{
	RoseTree   *table = rose_tree_open(rel);
	RoseTree   *tree;
	RoseMetaInfo meta;
	RoseIndexTree described;

	if (rose_index_ddl_is_copied_key(RelationGetRelid(index)))
		return;
	check_fed(rel, index, table, true);
	tree = rose_tree_open(index);
	rose_meta_read(index, &meta);
	describe_index(table, tree, &meta.index, &described);
	state->htups = state->tups_inserted = complete_beside(table, tree, &described, snapshot);
}

/* ---- another tablespace ---- */

void
rose_index_ddl_check_moved(Oid indexid)
{
	Relation	index = RelationIdGetRelation(indexid);
	Relation	pg_class;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			tablespace = InvalidOid;

	if (index == NULL)
		return;
	if (index->rd_rel->relkind == RELKIND_INDEX && rose_relation_has_tree(index))
	{
		pg_class = table_open(RelationRelationId, AccessShareLock);
		ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(indexid));
		scan = systable_beginscan(pg_class, ClassOidIndexId, true, SnapshotSelf, 1, &key);
		tuple = systable_getnext(scan);
		tablespace = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->reltablespace :
			index->rd_rel->reltablespace;
		systable_endscan(scan);
		table_close(pg_class, AccessShareLock);
		if (tablespace != index->rd_rel->reltablespace)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot move index \"%s\" of a rose table to another tablespace",
							RelationGetRelationName(index)),
					 errhint("Use REINDEX (TABLESPACE ...).")));
	}
	RelationClose(index);
}
