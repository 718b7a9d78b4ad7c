/*-------------------------------------------------------------------------
 *
 * rose_options.c
 *	  Options of one table.  See rose_options.h.
 *
 * A value in the catalog that is not understood, because another release wrote it or
 * somebody changed the catalog, counts as not set: a table can be read in any case.
 *
 * Statements that set options are tableam/rose_table_options.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#include "util/rose_options.h"

typedef enum OptionKind
{
	OPTION_INT,
	OPTION_MS,
	OPTION_BOOL,
	OPTION_EFFORT
} OptionKind;

typedef struct OptionInfo
{
	const char *name;			/* without the prefix */
	OptionKind	kind;
	int			min;			/* of numbers */
	int			max;
	const char *range;			/* for errors */
} OptionInfo;

static const OptionInfo infos[] = {
	[ROSE_OPTION_SPILL_INTERVAL] = {"spill_interval", OPTION_MS, 10, 24 * 3600 * 1000,
	"Valid values are between \"10ms\" and \"24h\"."},
	[ROSE_OPTION_FILTER_BITS] = {"filter_bits", OPTION_INT, 2, 24,
	"Valid values are between \"2\" and \"24\"."},
	[ROSE_OPTION_CODEC_EFFORT] = {"codec_effort", OPTION_EFFORT, 0, 0,
	"Valid values are \"low\", \"normal\" and \"high\"."},
	[ROSE_OPTION_WAL_COMPONENTS] = {"wal_components", OPTION_BOOL, 0, 0,
	"Valid values are \"on\" and \"off\"."},
};

StaticAssertDecl(lengthof(infos) == ROSE_NOPTIONS, "each option has a name");

static const char *const effort_names[] = {
	[ROSE_EFFORT_LOW] = "low",
	[ROSE_EFFORT_NORMAL] = "normal",
	[ROSE_EFFORT_HIGH] = "high"
};

/* ---- names and values ---- */

const char *
rose_options_name(RoseOption option)
{
	return infos[option].name;
}

bool
rose_options_has_prefix(const char *name)
{
	return strncmp(name, ROSE_OPTION_PREFIX, strlen(ROSE_OPTION_PREFIX)) == 0;
}

static const OptionInfo *
find_info(const char *name)
{
	if (rose_options_has_prefix(name))
	{
		for (int i = 0; i < ROSE_NOPTIONS; i++)
			if (strcmp(name + strlen(ROSE_OPTION_PREFIX), infos[i].name) == 0)
				return &infos[i];
	}
	return NULL;
}

static bool
parse_effort(const char *string, int *value)
{
	for (int i = 0; i < lengthof(effort_names); i++)
	{
		if (pg_strcasecmp(string, effort_names[i]) == 0)
		{
			*value = i;
			return true;
		}
	}
	return false;
}

static bool
parse_value(const OptionInfo *info, const char *string, int *value)
{
	bool		on;

	switch (info->kind)
	{
		case OPTION_INT:
		case OPTION_MS:
			return parse_int(string, value, info->kind == OPTION_MS ? GUC_UNIT_MS : 0, NULL) &&
				*value >= info->min && *value <= info->max;
		case OPTION_EFFORT:
			return parse_effort(string, value);
		case OPTION_BOOL:
			if (!parse_bool(string, &on))
				return false;
			*value = on;
			return true;
	}
	return false;
}

void
rose_options_check_name(const char *name)
{
	StringInfoData names;

	if (find_info(name) != NULL)
		return;
	initStringInfo(&names);
	for (int i = 0; i < ROSE_NOPTIONS; i++)
		appendStringInfo(&names, "%s%s%s", i == 0 ? "" : i == ROSE_NOPTIONS - 1 ? " and " : ", ",
						 ROSE_OPTION_PREFIX, infos[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized parameter \"%s\"", name),
			 errhint("Rose tables have %s.", names.data)));
}

void
rose_options_check_value(const char *name, const char *value)
{
	const OptionInfo *info = find_info(name);
	int			parsed;

	Assert(info != NULL);
	if (!parse_value(info, value, &parsed))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
				 errdetail("%s", info->range)));
}

/* ---- shared state ---- */

void
rose_options_init(RoseOptionsShared *shared)
{
	for (int i = 0; i < ROSE_NOPTIONS; i++)
		pg_atomic_init_u32(&shared->values[i], (uint32) ROSE_OPTION_UNSET);
	pg_atomic_init_u32(&shared->stale, 0);
}

static void
read_options(Oid relid, int *values)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Datum		options;
	bool		isnull;
	ListCell   *cell;

	for (int i = 0; i < ROSE_NOPTIONS; i++)
		values[i] = ROSE_OPTION_UNSET;
	if (!HeapTupleIsValid(tuple))
		return;
	options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	foreach(cell, isnull ? NIL : untransformRelOptions(options))
	{
		DefElem    *option = lfirst_node(DefElem, cell);
		const OptionInfo *info = find_info(option->defname);
		int			value;

		if (info != NULL && option->arg != NULL &&
			parse_value(info, defGetString(option), &value))
			values[info - infos] = value;
	}
	ReleaseSysCache(tuple);
}

/* Whoever changes them says so afterwards: what is read before that is read again. */
void
rose_options_publish(RoseOptionsShared *shared, Oid relid)
{
	int			values[ROSE_NOPTIONS];

	if (pg_atomic_read_u32(&shared->stale) != 0)
		pg_atomic_write_u32(&shared->stale, 0);
	pg_memory_barrier();
	read_options(relid, values);
	for (int i = 0; i < ROSE_NOPTIONS; i++)
		if (rose_options_get(shared, i) != values[i])
			pg_atomic_write_u32(&shared->values[i], (uint32) values[i]);
}
