/*-------------------------------------------------------------------------
 *
 * rose_sql_subscription_server.c
 *	  The validator of the wrapper rose_subscription.
 *
 * What its servers are for is in repl/rose_subscription_server.c.  User mappings and
 * foreign tables of them mean nothing, so they have no options.
 *
 * Needs no lock: it looks at its arguments only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "replication/slot.h"
#include "utils/guc.h"

#include "repl/rose_constants.h"
#include "repl/rose_mapping.h"
#include "repl/rose_subscription_server.h"

PG_FUNCTION_INFO_V1(rose_subscription_validator);

static void
require_one_of(DefElem *def, const char *a, const char *b)
{
	if (strcmp(defGetString(def), a) != 0 && strcmp(defGetString(def), b) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for %s: \"%s\"", def->defname, defGetString(def)),
				 errhint("Valid values are \"%s\" and \"%s\".", a, b)));
}

static void
check_value(DefElem *def)
{
	if (strcmp(def->defname, "binary") == 0 || strcmp(def->defname, "streaming") == 0 ||
		strcmp(def->defname, "failover") == 0 || strcmp(def->defname, "two_phase") == 0)
		(void) defGetBoolean(def);
	else if (strcmp(def->defname, "synchronous_commit") == 0)
		(void) set_config_option("synchronous_commit", defGetString(def), PGC_BACKEND,
								 PGC_S_TEST, GUC_ACTION_SET, false, 0, false);
	else if (strcmp(def->defname, "slot_name") == 0)
		ReplicationSlotValidateName(defGetString(def), ERROR);
	else if (strcmp(def->defname, "tables") == 0)
		(void) rose_mapping_check(defGetString(def));
	else if (strcmp(def->defname, "constants") == 0)
		(void) rose_constants_check(defGetString(def));
	else if (strcmp(def->defname, "on_error") == 0)
		require_one_of(def, ROSE_ON_ERROR_STOP, ROSE_ON_ERROR_PAUSE);
	else if (strcmp(def->defname, "on_schema_change") == 0)
		require_one_of(def, ROSE_ON_SCHEMA_CHANGE_STOP, ROSE_ON_SCHEMA_CHANGE_ADD);
	else if (strcmp(def->defname, "durability") == 0)
		require_one_of(def, ROSE_DURABILITY_UPSTREAM, ROSE_DURABILITY_LOCAL);
	else if (strcmp(def->defname, "origin") == 0)
		require_one_of(def, ROSE_ORIGIN_ANY, ROSE_ORIGIN_NONE);
	else if (strcmp(def->defname, "count_conflicts") == 0)
		(void) rose_count_conflicts_read(defGetString(def));
}

Datum
rose_subscription_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (catalog != ForeignServerRelationId || !rose_subscription_server_knows(def->defname))
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\"", def->defname),
					 errhint("Create and change subscriptions with rose.create_subscription() and rose.alter_subscription().")));
		check_value(def);
	}
	PG_RETURN_VOID();
}
