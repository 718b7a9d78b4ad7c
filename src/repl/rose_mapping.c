/*-------------------------------------------------------------------------
 *
 * rose_mapping.c
 *	  Which names the upstream's tables have here.
 *
 * A subscription's option "tables" is a JSON object of names there and here:
 *
 *		{"public.orders": "replica.orders_eu", "sales.*": "eu_sales.*"}
 *
 * Names are written as in SQL, with their schema; "schema.*" is all tables of a schema that
 * are not named themselves, which keep their names.  What is not there has the same name on both sides.
 *
 * A mapping is asked when a table joins the subscription, and by commands that change it.  From then on tables
 * are known by their oids (rose_relmap.c), so what they are called later does not matter.
 *
 * Needs no lock: it looks at its arguments only.  That the tables are there, and that no two go to one, is seen by whoever
 * takes them in (rose_sql_subscription_tables.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

#include "repl/rose_mapping.h"

#define ALL_OF_SCHEMA ".*"

/* A side of a pair; relname is NULL: all tables of the schema. */
typedef RoseUpstreamTable MappedName;

typedef struct Pair
{
	MappedName		there;
	MappedName		here;
} Pair;

/* ---------------------------------------------------------------------
 * JSON
 */

void
rose_mapping_walk(const char *json, const char *what, RoseMappingPair pair, void *arg)
{
	Jsonb	   *object = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	char	   *key = NULL;

	if (!JB_ROOT_IS_OBJECT(object))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be a JSON object", what)));
	it = JsonbIteratorInit(&object->root);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = pnstrdup(value.val.string.val, value.val.string.len);
		if (token != WJB_VALUE)
			continue;
		if (value.type == jbvBinary)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the value of \"%s\" in %s must be no object or array", key, what)));
		pair(arg, key, &value);
	}
}

/* ---------------------------------------------------------------------
 * Names
 */

static MappedName
parse_name(const char *value)
{
	MappedName		name = {0};
	int			len = strlen(value) - strlen(ALL_OF_SCHEMA);
	bool		all = len > 0 && strcmp(value + len, ALL_OF_SCHEMA) == 0;
	List	   *names = textToQualifiedNameList(cstring_to_text_with_len(value, all ? len : strlen(value)));

	if (list_length(names) != (all ? 1 : 2))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("invalid name \"%s\" in tables", value),
				 errhint("Names are \"schema.table\", or \"schema.*\" for all tables of a schema.")));
	name.nspname = strVal(linitial(names));
	name.relname = all ? NULL : strVal(lsecond(names));
	return name;
}

static bool
same_name(const MappedName *a, const MappedName *b)
{
	if (strcmp(a->nspname, b->nspname) != 0)
		return false;
	return a->relname == NULL || b->relname == NULL ? a->relname == b->relname : strcmp(a->relname, b->relname) == 0;
}

static void
add_pair(void *arg, const char *key, const JsonbValue *value)
{
	List	  **pairs = arg;
	Pair	   *pair = palloc0(sizeof(Pair));

	if (value->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the name that \"%s\" is to have here must be a string", key)));
	pair->there = parse_name(key);
	pair->here = parse_name(pnstrdup(value->val.string.val, value->val.string.len));
	if ((pair->there.relname == NULL) != (pair->here.relname == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" in tables must go to a %s", key, pair->there.relname == NULL ? "schema" : "table"),
				 errhint("Names are \"schema.table\", or \"schema.*\" for all tables of a schema.")));
	*pairs = lappend(*pairs, pair);
}

static List *
parse(const char *mapping)
{
	List	   *pairs = NIL;

	if (mapping != NULL)
		rose_mapping_walk(mapping, "tables", add_pair, &pairs);
	return pairs;
}

/* The same name, written in two ways, or two tables that would go to one. */
static void
require_different(const Pair *a, const Pair *b)
{
	if (same_name(&a->there, &b->there))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("tables names \"%s.%s\" twice", a->there.nspname,
						a->there.relname != NULL ? a->there.relname : "*")));
	if (a->here.relname != NULL && same_name(&a->here, &b->here))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("tables \"%s.%s\" and \"%s.%s\" of the upstream cannot both go to \"%s.%s\"",
						a->there.nspname, a->there.relname, b->there.nspname, b->there.relname,
						a->here.nspname, a->here.relname)));
}

char *
rose_mapping_check(const char *json)
{
	List	   *pairs = parse(json);
	ListCell   *lc;

	foreach(lc, pairs)
	{
		for (int i = 0; i < foreach_current_index(lc); i++)
			require_different(list_nth(pairs, i), lfirst(lc));
	}
	if (pairs == NIL)
		return NULL;
	return JsonbToCString(NULL, &DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)))->root, -1);
}

RoseUpstreamTable
rose_mapping_target(const char *mapping, const RoseUpstreamTable *remote)
{
	RoseUpstreamTable result = {InvalidOid, remote->nspname, remote->relname};
	ListCell   *lc;

	foreach(lc, parse(mapping))
	{
		const Pair *pair = lfirst(lc);

		if (strcmp(pair->there.nspname, remote->nspname) != 0)
			continue;
		if (pair->there.relname == NULL)
			result.nspname = pair->here.nspname;	/* unless it is named itself */
		else if (strcmp(pair->there.relname, remote->relname) == 0)
			return pair->here;
	}
	return result;
}
