/*-------------------------------------------------------------------------
 *
 * rose_sql_options.c
 *	  rose.set_options(): options of a table, or of all partitions of one.
 *
 * Writes the ALTER TABLE that says it and has it run, so that rights, locks, checks and
 * event triggers are those of ALTER TABLE (tableam/rose_table_options.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat/rose_compat_am.h"
#include "util/rose_options.h"
#include "util/rose_preload.h"
#include "lsm/tree/rose_relation.h"

PG_FUNCTION_INFO_V1(rose_sql_set_options);

/* ALTER TABLE's commands, in parentheses each; without contents if there is nothing to do. */
typedef struct OptionLists
{
	StringInfoData set;
	StringInfoData reset;
} OptionLists;

static void
add_set(OptionLists *lists, const char *name, const char *value)
{
	appendStringInfo(&lists->set, "%s\"%s%s\" = %s", lists->set.len > 0 ? ", " : "",
					 ROSE_OPTION_PREFIX, name, quote_literal_cstr(value));
}

static void
add_reset(OptionLists *lists, const char *name)
{
	char	   *full = rose_options_has_prefix(name) ? pstrdup(name) :
		psprintf("%s%s", ROSE_OPTION_PREFIX, name);

	rose_options_check_name(full);
	appendStringInfo(&lists->reset, "%s%s", lists->reset.len > 0 ? ", " : "",
					 quote_identifier(full));
}

static void
add_resets(OptionLists *lists, ArrayType *names)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("name of an option must not be null")));
		add_reset(lists, TextDatumGetCString(values[i]));
	}
}

static void
alter_table(Oid relid, const OptionLists *lists)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
												  get_rel_name(relid));
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command, "ALTER TABLE %s", name);
	if (lists->set.len > 0)
		appendStringInfo(&command, " SET (%s)", lists->set.data);
	if (lists->reset.len > 0)
		appendStringInfo(&command, "%s RESET (%s)", lists->set.len > 0 ? "," : "",
						 lists->reset.data);
	if (SPI_execute(command.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not set options of table %s", name);
}

static bool
is_rose(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		result = RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && rose_relation_is_rose(rel);

	relation_close(rel, NoLock);
	return result;
}

static void
alter_tables(Oid relid, const OptionLists *lists)
{
	ListCell   *cell;

	if (lists->set.len == 0 && lists->reset.len == 0)
		return;
	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
	{
		alter_table(relid, lists);
		return;
	}
	foreach(cell, find_all_inheritors(relid, AccessShareLock, NULL))
		if (is_rose(lfirst_oid(cell)))
		alter_table(lfirst_oid(cell), lists);
}

/* The argument of an option, in its own type, as ALTER TABLE takes it. */
static char *
option_value(RoseOption option, Datum argument)
{
	switch (option)
	{
		case ROSE_OPTION_FILTER_BITS:
			return psprintf("%d", DatumGetInt32(argument));
		case ROSE_OPTION_WAL_COMPONENTS:
			return pstrdup(DatumGetBool(argument) ? "on" : "off");
		case ROSE_OPTION_SPILL_INTERVAL:
		case ROSE_OPTION_CODEC_EFFORT:
			break;
	}
	return TextDatumGetCString(argument);
}

/* relation, then one argument an option, in the order of RoseOption, then what is to be reset. */
Datum
rose_sql_set_options(PG_FUNCTION_ARGS)
{
	OptionLists lists;

	rose_require_preload();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("relation must not be null")));
	if (get_rel_name(PG_GETARG_OID(0)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", PG_GETARG_OID(0))));
	initStringInfo(&lists.set);
	initStringInfo(&lists.reset);
	for (int i = 0; i < ROSE_NOPTIONS; i++)
		if (!PG_ARGISNULL(1 + i))
			add_set(&lists, rose_options_name(i), option_value(i, PG_GETARG_DATUM(1 + i)));
	if (!PG_ARGISNULL(1 + ROSE_NOPTIONS))
		add_resets(&lists, PG_GETARG_ARRAYTYPE_P(1 + ROSE_NOPTIONS));

	SPI_connect();
	alter_tables(PG_GETARG_OID(0), &lists);
	SPI_finish();
	PG_RETURN_VOID();
}
