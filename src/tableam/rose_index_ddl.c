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
 * While rose.secondary_indexes is off, no new one can be made.  Those that there are stay,
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
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "util/rose_index_def.h"
#include "store/rose_metapage.h"
#include "lsm/tree/rose_duplicate_key.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_unique_pair.h"
#include "lsm/write/rose_index_beside.h"
#include "lsm/write/rose_index_build.h"
#include "lsm/rose_index_file.h"
#include "tableam/rose_tableam.h"

/* rose.secondary_indexes */
static bool secondary_indexes = false;

/* What the command that is being run does to indexes that there are (ROSE_INDEX_COMMAND_*). */
static int	command = 0;

#define ROSE_INDEX_COMMAND_REMAKES	0x01	/* indexes that core makes by itself were there */
#define ROSE_INDEX_COMMAND_TAKES	0x02	/* a table, with its indexes, may become one of ours */

void
rose_index_ddl_define_settings(void)
{
	DefineCustomBoolVariable("rose.secondary_indexes",
							 "Allows indexes of rose tables beside that of the primary key.",
							 "They are being worked on: not for data that matters.",
							 &secondary_indexes,
							 false,
							 PGC_USERSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);
}

/* ---- what there may be ---- */

void
rose_refuse_secondary_index(Relation rel, const char *index_name)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot create index \"%s\" on rose table \"%s\"",
					index_name, RelationGetRelationName(rel)),
			 errdetail("Rose tables have no indexes but that of the primary key yet."),
			 errhint("Declare a PRIMARY KEY, or use a heap table for columns that need other indexes or unique constraints.")));
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
	if (index->rd_rel->relam != BTREE_AM_OID)
		refuse_kind(rel, RelationGetRelationName(index), "Rose tables have btree indexes only.", NULL);
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

	if (!secondary_indexes && !remade)
		rose_refuse_secondary_index(rel, RelationGetRelationName(index));
	check_method(rel, index);
}

/* Who writes a row locks a partition for each of them: a process can hold 200 locks of that kind. */
#define UNIQUE_INDEXES_MAX	100

static void
check_unique(Relation rel, Relation unique, IndexInfo *info)
{
	const char *name = RelationGetRelationName(unique);
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;
	int			n = 0;

	if (info->ii_Expressions != NIL || info->ii_Predicate != NIL)
		refuse_kind(rel, name, "Unique indexes of rose tables cannot have expressions, or a WHERE clause, yet.",
					"Store the expression in a generated column, NULL for rows that are not to be unique, and index that.");
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

	if (!secondary_indexes && (command & ROSE_INDEX_COMMAND_TAKES) != 0)
		rose_refuse_secondary_index(rel, name);
	check_method(rel, index);
	if (index->rd_index->indisexclusion)
		refuse_kind(rel, name, "Rose tables cannot have exclusion constraints.", NULL);
	if (info->ii_Unique)
		check_unique(rel, index, info);
}

static void
check_not_fed(Relation rel, Relation index, RoseTree *table)
{
	if (OidIsValid(table->shared->fed_by))
		refuse_kind(rel, RelationGetRelationName(index),
					"Tables that a subscription feeds cannot have indexes but that of the primary key yet.",
					"End the replication with rose.drop_subscription() first.");
}

/* ---- how they are made ---- */

/* Have two rows one value, of those that the next statement sees? */
static void
check_values(Relation rel, RoseTree *tree, const RoseIndexTree *described)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];

	if (rose_unique_pair_find(tree, described, SnapshotSelf, values, nulls))
		rose_duplicate_key_report_value(rel, tree->rel, values, nulls);
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
	check_not_fed(rel, index, table);
	rose_index_def_make(index, table->schema, &def);
	rose_index_file_create(index, &def, info->ii_Concurrent);

	tree = rose_tree_open(index);
	if (info->ii_Concurrent)
	{
		rose_index_beside_begin(table, tree);
		return rose_table_estimate_rows(table);
	}
	rose_index_set_shape(index, &def.meta, tree->schema, table->schema->natts,
						 &described.shape);
	rose_index_set_uniqueness(index, &def.meta, &described);
	nrows = (double) rose_index_build(table, tree, &described.shape);
	if (described.unique)
		check_values(rel, tree, &described);
	return nrows;
}

/* ---- beside writers ---- */

static bool
is_of_columns(Relation primary, Form_pg_index index)
{
	int			n = IndexRelationGetNumberOfKeyAttributes(primary);

	if (index->indnatts != n)
		return false;
	for (int i = 0; i < n; i++)
		if (index->indkey.values[i] != primary->rd_index->indkey.values[i])
			return false;
	return true;
}

static bool
is_of_key(Relation rel, Form_pg_index form)
{
	Oid			primary_id = rose_primary_key_index(rel);
	Relation	primary;
	bool		same;

	if (!OidIsValid(primary_id))
		return false;
	primary = index_open(primary_id, AccessShareLock);
	same = is_of_columns(primary, form);
	index_close(primary, NoLock);
	return same;
}

/* Is there a unique index of the key's columns beside the primary key's?  Then it is not known which one a copy is of. */
static bool
has_like_key(Relation rel)
{
	Oid			primary_id = rose_primary_key_index(rel);
	ListCell   *cell;
	bool		found = false;

	foreach(cell, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		found = found || (lfirst_oid(cell) != primary_id && index->rd_index->indisunique &&
						  index->rd_index->indisvalid && is_of_key(rel, index->rd_index));
		index_close(index, NoLock);
	}
	return found;
}

bool
rose_index_ddl_is_copied_key(Relation rel, Form_pg_index form)
{
	return form->indisunique && !form->indisprimary && is_of_key(rel, form);
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
	Form_pg_index form = (Form_pg_index) GETSTRUCT(pg_index);
	const char *name = RelationGetRelationName(index);
	RoseTree   *table = rose_tree_open_any_order(rel);

	if (copied && rose_index_ddl_is_copied_key(rel, form) && !has_like_key(rel))
	{
		rose_index_ddl_check_order(rel);
		return;
	}
	if (form->indisunique)
		refuse_kind(rel, name, "Unique indexes of rose tables cannot be built concurrently yet.",
					"Leave CONCURRENTLY out.");
	check_not_fed(rel, index, table);
	if (table->shared->other_order)
		rose_tree_report_order(table, ERROR);
}

void
rose_index_validate_scan(Relation rel, Relation index, IndexInfo *info, Snapshot snapshot,
						 ValidateIndexState *state)
{
	RoseTree   *table = rose_tree_open(rel);
	RoseTree   *tree;
	RoseMetaInfo meta;
	RoseEntryShape shape;

	if (rose_index_ddl_is_copied_key(rel, index->rd_index))
		return;
	check_not_fed(rel, index, table);
	tree = rose_tree_open(index);
	rose_meta_read(index, &meta);
	rose_index_set_shape(index, &meta.index, tree->schema, table->schema->natts, &shape);
	state->htups = state->tups_inserted =
		(double) rose_index_beside_complete(table, tree, &shape, snapshot);
}
