/*-------------------------------------------------------------------------
 *
 * rose_constants.c
 *	  Local columns that have one value in all rows of a subscription.
 *
 * A subscription's option "constants" is a JSON object of columns and values, as {"shard": 3}.  Each of its tables must have
 * these columns, and the upstream must not publish any of their names.  They are part of each row that comes, of
 * the initial copy and of changes; so they may be in the primary key, or be what a table is partitioned by, and an
 * old row is named by what the upstream sends of it and by them.
 *
 * A value is read by the column's input function, as the table's owner (rose_rights.h): a string as it is, what else is
 * JSON as its text.
 *
 * Who removes all rows that a subscription has in a table, for a TRUNCATE or a new copy, empties the table.  If it has rows
 * with other values, that is refused (rose_constants_require_own).
 *
 * Locking: the caller has the table open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "util/rose_stop_point.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_scan.h"
#include "repl/rose_constants.h"
#include "repl/rose_mapping.h"
#include "repl/rose_rights.h"
#include "repl/rose_target.h"

/* Rows of a scan between two breaths. */
#define BREATHE_ROWS	1024

/* ---------------------------------------------------------------------
 * The option
 */

/* As an input function takes it. */
static char *
text_of(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			return NULL;
	}
}

static void
check_pair(void *arg, const char *key, const JsonbValue *value)
{
	int		   *n = arg;

	if (text_of(value) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the value of \"%s\" in constants must not be null", key)));
	(*n)++;
}

char *
rose_constants_check(const char *json)
{
	int			n = 0;

	rose_mapping_walk(json, "constants", check_pair, &n);
	return n > 0 ? pstrdup(json) : NULL;
}

/* ---------------------------------------------------------------------
 * Of a table
 */

typedef struct Making
{
	Relation	rel;
	RoseConstants *constants;
} Making;

static Form_pg_attribute
require_column(Relation rel, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);
	Form_pg_attribute att;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("table \"%s\" has no column \"%s\", which is to have a constant of the subscription",
						RelationGetRelationName(rel), name),
				 errhint("Add the column here with ALTER TABLE.")));
	att = attnum > 0 ? TupleDescAttr(RelationGetDescr(rel), attnum - 1) : NULL;
	if (att == NULL || att->attgenerated)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_DEFINITION),
				 errmsg("column \"%s\" of table \"%s\" cannot have a constant of the subscription",
						name, RelationGetRelationName(rel))));
	return att;
}

static void
add_constant(void *arg, const char *key, const JsonbValue *value)
{
	Making	   *making = arg;
	RoseConstants *constants = making->constants;
	Form_pg_attribute att = require_column(making->rel, key);
	RoseConstant *constant;
	Oid			input;
	Oid			ioparam;

	constants->columns = constants->columns == NULL ? palloc(sizeof(RoseConstant)) :
		repalloc(constants->columns, sizeof(RoseConstant) * (constants->n + 1));
	constant = &constants->columns[constants->n++];
	getTypeInputInfo(att->atttypid, &input, &ioparam);
	constant->attnum = att->attnum;
	constant->value = OidInputFunctionCall(input, text_of(value), ioparam, att->atttypmod);
	constants->attnums = bms_add_member(constants->attnums, att->attnum);
}

/* Values mean the same wherever they are read, whatever the session's or the server's settings are. */
static void
fix_formats(void)
{
	static const char *const settings[][2] = {
		{"TimeZone", "UTC"}, {"DateStyle", "ISO, MDY"}, {"IntervalStyle", "postgres"}, {"lc_monetary", "C"}
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

RoseConstants *
rose_constants_create(Relation rel, const char *json)
{
	Making		making = {rel, palloc0(sizeof(RoseConstants))};
	RoseRights	before;

	if (json == NULL)
		return making.constants;
	rose_rights_take(rel->rd_rel->relowner, &before);
	fix_formats();
	rose_mapping_walk(json, "constants", add_constant, &making);
	rose_rights_give_back(&before);
	return making.constants;
}

void
rose_constants_fill(const RoseConstants *constants, Datum *values, bool *nulls)
{
	for (int i = 0; i < constants->n; i++)
	{
		int			column = constants->columns[i].attnum - 1;

		values[column] = constants->columns[i].value;
		nulls[column] = false;
	}
}

/* Values are compared as text, which each type has: not all have an operator for it. */
char *
rose_constants_source(const RoseConstants *constants, Relation rel, const char *source)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, source);
	for (int i = 0; i < constants->n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), constants->columns[i].attnum - 1);
		Oid			output;
		bool		varlena;
		char	   *value;

		getTypeOutputInfo(att->atttypid, &output, &varlena);
		value = OidOutputFunctionCall(output, constants->columns[i].value);
		appendStringInfo(&sql, " %s (%s)::pg_catalog.text OPERATOR(pg_catalog.=) (%s::%s)::pg_catalog.text",
						 i == 0 ? "WHERE" : "AND", quote_identifier(NameStr(att->attname)), quote_literal_cstr(value),
						 format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
	}
	return sql.data;
}

/* ---------------------------------------------------------------------
 * Rows of others
 */

static bool
is_own(const RoseConstants *constants, const RoseRow *row, const RoseSchema *schema, TupleDesc desc)
{
	for (int i = 0; i < constants->n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, constants->columns[i].attnum - 1);
		bool		isnull;
		Datum		value = rose_row_getattr(row, schema, att->attnum, &isnull);

		/* one that is equal, and looks otherwise, was not written by the subscription */
		if (isnull || !datum_image_eq(value, constants->columns[i].value, att->attbyval, att->attlen))
			return false;
	}
	return true;
}

static bool
has_others(Relation rel, const char *json, void (*breathe) (void))
{
	RoseConstants *constants = rose_constants_create(rel, json);
	RoseTree   *tree = rose_tree_open(rel);
	const RoseRow *row;
	RoseScan   *scan;
	uint64		nrows = 0;
	bool		result = false;

	ROSE_STOP_POINT("constants-scan");
	PushActiveSnapshot(GetLatestSnapshot());
	scan = rose_scan_begin(tree, GetActiveSnapshot(), NULL, false);
	while (!result && (row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (breathe != NULL && nrows++ % BREATHE_ROWS == 0)
		{
			breathe();
			ROSE_STOP_POINT("constants-breathed");
		}
		result = !is_own(constants, row, tree->schema, RelationGetDescr(rel));
	}
	rose_scan_end(scan);
	PopActiveSnapshot();
	return result;
}

void
rose_constants_require_own(List *rels, const char *json, void (*at) (Relation rel), void (*breathe) (void))
{
	ListCell   *lc;

	if (json == NULL)
		return;
	foreach(lc, rels)
	{
		Relation	rel = lfirst(lc);

		if (at != NULL)
			at(rel);
		if (rose_target_tables_has_rows(rel) && has_others(rel, json, breathe))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot empty table \"%s\", which has rows with other values than the subscription's constants",
							RelationGetRelationName(rel)),
					 errdetail("They did not come with this subscription, and would be removed with those that did.")));
	}
}
