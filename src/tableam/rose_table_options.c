/*-------------------------------------------------------------------------
 *
 * rose_table_options.c
 *	  Statements that set options of tables.
 *
 * Options stand in pg_class.reloptions beside core's storage parameters (util/rose_options.h
 * says why), but core refuses what it does not know, be it in a statement or there
 * already.  So a statement is run without them:
 *
 *	CREATE TABLE, AS, MATERIALIZED VIEW	they are written as soon as core has made the row of
 *		pg_class: before rows come, which are then written by them
 *	ALTER TABLE SET, RESET	what the table has is taken out, core does its part, and when it
 *		says that it has, all are put back; at the end, if the command does other things as
 *		well, of which we cannot tell apart what core says.  If there is nothing for core to
 *		do, and there are other things, they are written first: a rewrite needs them.
 *
 * Names can be written in two ways: rose.x, as people do, and "rose.x", as pg_dump does.
 *
 * A table that gets another access method loses them: who restores a dump of it may not
 * have rose.  Storage parameters that mean nothing to rose tables are kept, with a NOTICE.
 *
 * Locks: those of ALTER TABLE, from before the first change; the row of pg_class is kept
 * from others (rose_class_row.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "util/rose_options.h"
#include "store/rose_file_name.h"
#include "lsm/tree/rose_relation.h"
#include "lsm/rose_transaction.h"
#include "tableam/rose_table_options.h"
#include "tableam/rose_tableam.h"

/*
 * Storage parameters of core that rose tables make no use of.  parallel_workers is not
 * among them: Rose Scans do (scan/rose_node_parallel.c).
 */
static const char *const unused_parameters[] = {
	"fillfactor", "toast_tuple_target", "user_catalog_table",
	"vacuum_index_cleanup", "vacuum_max_eager_freeze_failure_rate",
	"autovacuum_freeze_min_age", "autovacuum_freeze_table_age",
	"autovacuum_multixact_freeze_min_age", "autovacuum_multixact_freeze_table_age"
};

/* The command that is being run, if any; those around it are behind it. */
static RoseOptionsCommand *current = NULL;

/* ---- lists of options ---- */

static bool
is_ours(const DefElem *def)
{
	if (def->defnamespace != NULL)
		return strcmp(def->defnamespace, "rose") == 0;
	return rose_options_has_prefix(def->defname);
}

static bool
is_among(List *list, const char *name)
{
	ListCell   *cell;

	foreach(cell, list)
		if (strcmp(lfirst_node(DefElem, cell)->defname, name) == 0)
		return true;
	return false;
}

/* The option by its whole name, checked; resets have no values. */
static DefElem *
checked_option(DefElem *def, bool reset)
{
	char	   *name = def->defnamespace == NULL ? def->defname :
		psprintf("%s%s", ROSE_OPTION_PREFIX, def->defname);

	rose_options_check_name(name);
	if (reset && def->arg != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("RESET must not include values for parameters")));
	if (!reset)
		rose_options_check_value(name, def->arg == NULL ? "true" : defGetString(def));
	return makeDefElem(name, def->arg, def->location);
}

/* Take our options out of a list of core's. */
static List *
take_ours(List **list)
{
	List	   *ours = NIL;
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, *list)
	{
		DefElem    *def = lfirst_node(DefElem, cell);

		if (is_ours(def))
			ours = lappend(ours, def);
		else
			others = lappend(others, def);
	}
	*list = others;
	return ours;
}

/* The same for what a statement says. */
static List *
take_stated(List **list, bool reset)
{
	List	   *stated = NIL;
	ListCell   *cell;

	foreach(cell, take_ours(list))
	{
		DefElem    *def = checked_option(lfirst_node(DefElem, cell), reset);

		if (is_among(stated, def->defname))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("parameter \"%s\" specified more than once", def->defname)));
		stated = lappend(stated, def);
	}
	return stated;
}

/* Names of what rose tables make no use of. */
static List *
unused_among(List *defs)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, defs)
	{
		DefElem    *def = lfirst_node(DefElem, cell);
		bool		unused = def->defnamespace != NULL;

		for (int i = 0; i < lengthof(unused_parameters); i++)
			unused |= strcmp(def->defname, unused_parameters[i]) == 0;
		if (unused)
			names = lappend(names, def->defnamespace == NULL ? def->defname :
							psprintf("%s.%s", def->defnamespace, def->defname));
	}
	return names;
}

static void
tell_unused(const char *relname, List *names)
{
	StringInfoData list;
	ListCell   *cell;

	if (names == NIL)
		return;
	initStringInfo(&list);
	foreach(cell, names)
		appendStringInfo(&list, "%s%s", list.len == 0 ? "" : ", ", (char *) lfirst(cell));
	ereport(NOTICE, (errmsg("rose table \"%s\" makes no use of %s", relname, list.data)));
}

/* ---- the row in pg_class ---- */

static List *
stored_options(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	List	   *options = NIL;
	Datum		value;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	value = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (!isnull)
		options = untransformRelOptions(value);
	ReleaseSysCache(tuple);
	return options;
}

static Datum
as_array(List *options)
{
	return options == NIL ? (Datum) 0 :
		transformRelOptions((Datum) 0, options, NULL, NULL, false, false);
}

/* The table's trees read its options again: those of its indexes have no others. */
static void
note_changed(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;

	rose_transaction_options_changed(rose_file_name(rel));
	foreach(cell, indexes)
	{
		Relation	index = RelationIdGetRelation(lfirst_oid(cell));

		if (index == NULL)
			continue;
		if (rose_relation_is_secondary_index(index))
			rose_transaction_options_changed(rose_file_name(index));
		RelationClose(index);
	}
	list_free(indexes);
}

/* Store core's options and these of ours.  REQUIRES: a lock of the table against ALTER TABLE. */
static void
store_options(Relation rel, List *core, Datum ours)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(RelationGetRelid(rel)));
	HeapTuple	changed;
	Datum		values[Natts_pg_class] = {0};
	bool		nulls[Natts_pg_class] = {0};
	bool		replace[Natts_pg_class] = {0};
	int			column = Anum_pg_class_reloptions - 1;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", RelationGetRelid(rel));
	replace[column] = true;
	values[column] = transformRelOptions(as_array(core), untransformRelOptions(ours), NULL,
										 NULL, false, false);
	nulls[column] = values[column] == (Datum) 0;
	changed = heap_modify_tuple(tuple, RelationGetDescr(pg_class), values, nulls, replace);
	CatalogTupleUpdate(pg_class, &changed->t_self, changed);
	heap_freetuple(changed);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);
	if (rose_relation_is_rose(rel))
		note_changed(rel);
	CommandCounterIncrement();
}

static bool
is_rose(Relation rel)
{
	return RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel);
}

static void
refuse_other_table(Relation rel)
{
	bool		parted = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;

	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot set options of rose for %s \"%s\"",
					parted ? "partitioned table" : "table", RelationGetRelationName(rel)),
			 parted ? errdetail("It has no rows of its own.") :
			 errdetail("Its access method is \"%s\".", get_am_name(rel->rd_rel->relam)),
			 parted ? errhint("Set them for its partitions, or use rose.set_options(), which does that.") :
			 errhint("Only tables that were created USING rose have them.")));
}

/* ---- CREATE ---- */

static void
begin_create(RoseOptionsCommand *command, const RangeVar *table, List **options)
{
	command->options = take_stated(options, false);
	command->unused = unused_among(*options);
	if (command->options != NIL || command->unused != NIL)
		command->creating = table->relname;
}

/* What commands within the command make is theirs: the first table is the one. */
void
rose_table_options_note_created(Oid relid)
{
	RoseOptionsCommand *command = current;
	Relation	rel;

	if (command == NULL || command->creating == NULL)
		return;
	CommandCounterIncrement();
	rel = RelationIdGetRelation(relid);
	if (rel == NULL)
		return;
	if ((RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) ||
		 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE) &&
		strcmp(RelationGetRelationName(rel), command->creating) == 0)
	{
		command->creating = NULL;
		if (command->options != NIL)
		{
			if (!is_rose(rel))
				refuse_other_table(rel);
			store_options(rel, stored_options(relid), as_array(command->options));
		}
		if (is_rose(rel))
			tell_unused(RelationGetRelationName(rel), command->unused);
	}
	RelationClose(rel);
}

/* ---- ALTER ---- */

static bool
sets_options(const AlterTableCmd *cmd)
{
	return cmd->subtype == AT_SetRelOptions || cmd->subtype == AT_ResetRelOptions;
}

/* What an ALTER TABLE does, as far as options are concerned. */
typedef struct AlterPlan
{
	int			ncommands;
	int			nchanges;		/* that set or reset options ... */
	int			nempty;			/* ... but none of core's */
	bool		has_ours;
	bool		to_rose;		/* it gives the table our access method */
	bool		retypes;		/* or another one */
	List	   *unused;
} AlterPlan;

static void
look_at_alter(AlterTableStmt *stmt, AlterPlan *plan)
{
	ListCell   *cell;
	ListCell   *option;

	memset(plan, 0, sizeof(*plan));
	foreach(cell, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		plan->ncommands++;
		if (cmd->subtype == AT_SetAccessMethod)
		{
			plan->retypes = true;
			plan->to_rose = strcmp(cmd->name != NULL ? cmd->name : default_table_access_method, "rose") == 0;
		}
		if (!sets_options(cmd))
			continue;
		plan->nchanges++;
		foreach(option, (List *) cmd->def)
			plan->has_ours |= is_ours(lfirst_node(DefElem, option));
	}
}

/*
 * Take our options out of the statement, and work out what the table is to have.  What is
 * left of a command that had no others does nothing.
 */
static Datum
take_changes(AlterTableStmt *stmt, AlterPlan *plan, Datum ours)
{
	ListCell   *cell;

	foreach(cell, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);
		List	   *defs;
		List	   *changes;

		if (!sets_options(cmd))
			continue;
		defs = (List *) cmd->def;
		changes = take_stated(&defs, cmd->subtype == AT_ResetRelOptions);
		if (changes != NIL)
			ours = transformRelOptions(ours, changes, NULL, NULL, false,
									   cmd->subtype == AT_ResetRelOptions);
		if (cmd->subtype == AT_SetRelOptions)
			plan->unused = list_concat(plan->unused, unused_among(defs));
		if (defs == NIL)
		{
			plan->nempty++;
			cmd->subtype = AT_ResetRelOptions;
			defs = list_make1(makeDefElem("rose.none", NULL, -1));
		}
		cmd->def = (Node *) defs;
	}
	return ours;
}

/* The statement has nothing for core's options, but other things: leave it those. */
static void
drop_changes(AlterTableStmt *stmt)
{
	ListCell   *cell;

	foreach(cell, stmt->cmds)
		if (sets_options(lfirst_node(AlterTableCmd, cell)))
		stmt->cmds = foreach_delete_current(stmt->cmds, cell);
}

/*
 * A command around this one has taken the table's options out, to put them back at its end, and it
 * runs an event trigger meanwhile: core would not know what this one puts back.
 */
static void
check_not_altering(const RoseOptionsCommand *command, Relation rel)
{
	for (command = command->outer; command != NULL; command = command->outer)
		if (command->altering == RelationGetRelid(rel))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot change options of rose for table \"%s\" within a command that changes its options",
							RelationGetRelationName(rel)),
					 errhint("Do so in an event trigger on ddl_command_end.")));
}

static void
plan_alter(RoseOptionsCommand *command, AlterTableStmt *stmt, AlterPlan *plan, Relation rel)
{
	List	   *core = stored_options(RelationGetRelid(rel));
	Datum		had = as_array(take_ours(&core));
	Datum		wanted = take_changes(stmt, plan, had);

	if (is_rose(rel))
		tell_unused(RelationGetRelationName(rel), plan->unused);
	if (had == (Datum) 0 && !plan->has_ours)
		return;
	check_not_altering(command, rel);
	rose_class_row_lock(rel);
	if (plan->nempty == plan->nchanges && plan->ncommands > plan->nchanges)
	{
		store_options(rel, core, wanted);
		drop_changes(stmt);
		return;
	}
	if (had != (Datum) 0)
		store_options(rel, core, (Datum) 0);
	command->altering = RelationGetRelid(rel);
	command->wanted = wanted;
	command->nevents = plan->ncommands == plan->nchanges ? plan->nchanges : 0;
}

/* Which lock core will take depends on its own options only. */
static LOCKMODE
lock_level(AlterTableStmt *stmt, AlterPlan *plan)
{
	AlterTableStmt *rest = copyObject(stmt);
	AlterPlan	unneeded = *plan;

	(void) take_changes(rest, &unneeded, (Datum) 0);
	return AlterTableGetLockLevel(rest->cmds);
}

/* Core says it if the table is not there, or if it is none. */
static void
begin_alter(RoseOptionsCommand *command, AlterTableStmt *stmt)
{
	AlterPlan	plan;
	Oid			relid;
	Relation	rel;

	look_at_alter(stmt, &plan);
	if (plan.retypes)
		command->retyped = copyObject(stmt->relation);
	if (plan.nchanges == 0)
		return;
	relid = AlterTableLookupRelation(stmt, lock_level(stmt, &plan));
	if (!OidIsValid(relid))
		return;
	rel = relation_open(relid, NoLock);
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE && plan.has_ours)
		refuse_other_table(rel);
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rel->rd_rel->relkind != RELKIND_TOASTVALUE)
	{
		if (plan.has_ours && !plan.to_rose && !is_rose(rel))
			refuse_other_table(rel);
		plan_alter(command, stmt, &plan, rel);
	}
	relation_close(rel, NoLock);
}

static void
put_back(RoseOptionsCommand *command)
{
	Relation	rel;

	CommandCounterIncrement();
	rel = relation_open(command->altering, NoLock);
	store_options(rel, stored_options(command->altering), command->wanted);
	relation_close(rel, NoLock);
	command->altering = InvalidOid;
}

void
rose_table_options_note_altered(Oid relid)
{
	RoseOptionsCommand *command = current;

	if (command != NULL && command->altering == relid && command->nevents > 0 &&
		--command->nevents == 0)
		put_back(command);
}

/* A table that is none of ours any more, or one of ours now. */
static void
end_retyped(const RangeVar *table)
{
	Oid			relid = RangeVarGetRelid(table, NoLock, true);
	Relation	rel;
	List	   *options;
	List	   *ours;

	if (!OidIsValid(relid))
		return;
	CommandCounterIncrement();
	rel = relation_open(relid, NoLock);
	options = stored_options(relid);
	ours = take_ours(&options);
	if (is_rose(rel))
		tell_unused(RelationGetRelationName(rel), unused_among(options));
	else if (ours != NIL)
	{
		ereport(NOTICE,
				(errmsg("table \"%s\" loses its options of rose, because it has another access method",
						RelationGetRelationName(rel))));
		rose_class_row_lock(rel);
		store_options(rel, options, (Datum) 0);
	}
	relation_close(rel, NoLock);
}

/* ---- around a command ---- */

/* The statement to look at: EXPLAIN may run another one. */
static Node *
statement_of(Node *stmt)
{
	if (IsA(stmt, ExplainStmt) && IsA(((ExplainStmt *) stmt)->query, Query))
	{
		Query	   *query = (Query *) ((ExplainStmt *) stmt)->query;

		if (query->commandType == CMD_UTILITY)
			return query->utilityStmt;
	}
	return stmt;
}

/* Most statements have nothing to do with options: no copy is made of them. */
static bool
is_concerned(Node *stmt)
{
	if (IsA(stmt, CreateStmt))
		return ((CreateStmt *) stmt)->options != NIL;
	if (IsA(stmt, CreateTableAsStmt))
		return ((CreateTableAsStmt *) stmt)->into->options != NIL;
	if (IsA(stmt, AlterTableStmt))
	{
		AlterPlan	plan;

		look_at_alter((AlterTableStmt *) stmt, &plan);
		return plan.nchanges > 0 || plan.retypes;
	}
	return false;
}

void
rose_table_options_begin(RoseOptionsCommand *command)
{
	memset(command, 0, sizeof(*command));
	command->outer = current;
	current = command;
}

PlannedStmt *
rose_table_options_take(RoseOptionsCommand *command, PlannedStmt *pstmt)
{
	Node	   *stmt;

	/* where nothing can be changed core says so */
	if (!is_concerned(statement_of(pstmt->utilityStmt)) || XactReadOnly || RecoveryInProgress())
		return pstmt;
	pstmt = copyObject(pstmt);
	stmt = statement_of(pstmt->utilityStmt);
	if (IsA(stmt, CreateStmt))
		begin_create(command, ((CreateStmt *) stmt)->relation,
					 &((CreateStmt *) stmt)->options);
	else if (IsA(stmt, CreateTableAsStmt))
		begin_create(command, ((CreateTableAsStmt *) stmt)->into->rel,
					 &((CreateTableAsStmt *) stmt)->into->options);
	else
		begin_alter(command, (AlterTableStmt *) stmt);
	return pstmt;
}

void
rose_table_options_end(RoseOptionsCommand *command)
{
	if (OidIsValid(command->altering))
		put_back(command);
	if (command->retyped != NULL)
		end_retyped(command->retyped);
}

void
rose_table_options_leave(RoseOptionsCommand *command)
{
	current = command->outer;
}
