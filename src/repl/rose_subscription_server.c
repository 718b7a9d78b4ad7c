/*-------------------------------------------------------------------------
 *
 * rose_subscription_server.c
 *	  A subscription as an object of the database: a foreign server of its name.
 *
 * Rows of ours are nothing that core knows.  A foreign server of the wrapper
 * rose_subscription has an owner whom DROP ROLE does not let go, and whom REASSIGN OWNED
 * replaces; it depends on the wrapper, and so DROP EXTENSION meets it; and pg_dump carries
 * it.  It has the options that a dump is to have, which are those of the subscription's row
 * at any time: what changes one changes the other, and whoever changes the server by
 * itself is refused, but for its owner, who becomes the subscription's.  The connection
 * string is not among them.  Everybody may read options of servers, and members of
 * pg_read_all_data those of user mappings, too.
 *
 * A server that is made where no subscription of its name is comes from a dump: it becomes
 * one that is disabled and has no connection string.
 *
 * Servers of subscriptions of this database depend on the database, too, in the catalog of
 * dependencies on what databases share.  That is seen from elsewhere, by DROP DATABASE,
 * whether or not they are enabled; and the servers of a copy of a database, whose
 * subscriptions stay the original's, do not depend on the copy.
 *
 * A database whose extension is of version 1.0 has no wrapper, and no servers.
 *
 * Locking: the subscription's row as in rose_subscription.c; the database's object, shared,
 * by whoever makes a server, and exclusively by whoever drops the database (rose_commands_hook.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "replication/slot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_subrows.h"
#include "repl/rose_subscription_server.h"

/* Options of a server. */
#define OPTION_PUBLICATIONS			"publications"
#define OPTION_SLOT_NAME			"slot_name"
#define OPTION_BINARY				"binary"
#define OPTION_SYNCHRONOUS_COMMIT	"synchronous_commit"
#define OPTION_ON_ERROR				"on_error"	/* not there: stop */
#define OPTION_STREAMING			"streaming"	/* not there: true */
#define OPTION_TABLES				"tables"	/* not there: the same names */
#define OPTION_CONSTANTS			"constants" /* not there: none */
#define OPTION_DURABILITY			"durability"	/* not there: upstream */
#define OPTION_ON_SCHEMA_CHANGE		"on_schema_change"	/* not there: add */
#define OPTION_ORIGIN				"origin"	/* not there: any */
#define OPTION_FAILOVER				"failover"	/* not there: false */
#define OPTION_COUNT_CONFLICTS		"count_conflicts"	/* not there: off */
#define OPTION_TWO_PHASE			"two_phase" /* not there: false */

static const char *const option_names[] = {
	OPTION_PUBLICATIONS, OPTION_SLOT_NAME, OPTION_BINARY, OPTION_SYNCHRONOUS_COMMIT, OPTION_ON_ERROR,
	OPTION_STREAMING, OPTION_TABLES, OPTION_CONSTANTS, OPTION_DURABILITY, OPTION_ON_SCHEMA_CHANGE,
	OPTION_ORIGIN, OPTION_FAILOVER, OPTION_COUNT_CONFLICTS, OPTION_TWO_PHASE
};

/* ---------------------------------------------------------------------
 * What depends on a database
 */

/*
 * The kind means nothing to anybody: core looks for kinds of its own of dependencies on
 * roles and tablespaces, and takes all that a server has away with it.
 */
static void
depend_on_database(Oid serverid)
{
	ObjectAddress server;
	ObjectAddress database;

	ObjectAddressSet(server, ForeignServerRelationId, serverid);
	ObjectAddressSet(database, DatabaseRelationId, MyDatabaseId);
	recordSharedDependencyOn(&server, &database, SHARED_DEPENDENCY_TABLESPACE);
}

/* Servers that depend on their database: of one database, and one of them if serverid is valid. */
static int
count_servers(Oid dbid, Oid serverid)
{
	Relation	rel = table_open(SharedDependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	int			n = 0;

	ScanKeyInit(&keys[0], Anum_pg_shdepend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(DatabaseRelationId));
	ScanKeyInit(&keys[1], Anum_pg_shdepend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(dbid));
	scan = systable_beginscan(rel, SharedDependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_shdepend form = (Form_pg_shdepend) GETSTRUCT(tuple);

		/* a copy of the database has rows of the same reference */
		if (form->dbid == dbid && form->classid == ForeignServerRelationId &&
			(!OidIsValid(serverid) || form->objid == serverid))
			n++;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return n;
}

/* Is it one of a subscription of this database? */
static bool
is_ours(Oid serverid)
{
	return count_servers(MyDatabaseId, serverid) > 0;
}

/* Those of an extension of version 1.0 are known only as long as they run. */
void
rose_repl_check_drop_database(Oid dbid)
{
	int			n = Max(count_servers(dbid, InvalidOid), rose_repl_count_running(dbid));

	if (n == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("database \"%s\" is being used by rose subscriptions", get_database_name(dbid)),
			 errdetail_plural("There is %d subscription.", "There are %d subscriptions.", n, n),
			 errhint("Drop them with rose.drop_subscription() in that database, for their slots on the upstream keep WAL.")));
}

/* ---------------------------------------------------------------------
 * Options
 */

bool
rose_subscription_server_knows(const char *option)
{
	for (int i = 0; i < lengthof(option_names); i++)
	{
		if (strcmp(option, option_names[i]) == 0)
			return true;
	}
	return false;
}

/* NULL: it is not there. */
static char *
find_option(const List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return NULL;
}

static char *
publications_text(List *publications)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(list_length(publications), 1));
	ArrayType  *array;
	int			n = 0;
	ListCell   *lc;

	foreach(lc, publications)
		elems[n++] = CStringGetTextDatum(strVal(lfirst(lc)));
	array = construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT);
	return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array));
}

static List *
parse_publications(const char *list)
{
	Datum		array = OidInputFunctionCall(F_ARRAY_IN, pstrdup(list), TEXTOID, -1);
	List	   *result = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elems,
					  &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (!nulls[i])
			result = lappend(result, makeString(TextDatumGetCString(elems[i])));
	}
	return result;
}

/* As the row has it; NULL: it has none. */
static char *
option_of(const RoseSubscription *sub, const char *name)
{
	if (strcmp(name, OPTION_PUBLICATIONS) == 0)
		return publications_text(sub->publications);
	if (strcmp(name, OPTION_SLOT_NAME) == 0)
		return sub->slot_name;
	if (strcmp(name, OPTION_BINARY) == 0)
		return sub->binary ? "true" : "false";
	if (strcmp(name, OPTION_ON_ERROR) == 0)
		return sub->pause_on_error ? ROSE_ON_ERROR_PAUSE : NULL;
	if (strcmp(name, OPTION_STREAMING) == 0)
		return sub->streaming ? NULL : "false";
	if (strcmp(name, OPTION_TABLES) == 0)
		return sub->tables;
	if (strcmp(name, OPTION_CONSTANTS) == 0)
		return sub->constants;
	if (strcmp(name, OPTION_DURABILITY) == 0)
		return sub->logged ? ROSE_DURABILITY_LOCAL : NULL;
	if (strcmp(name, OPTION_ON_SCHEMA_CHANGE) == 0)
		return sub->add_columns ? NULL : ROSE_ON_SCHEMA_CHANGE_STOP;
	if (strcmp(name, OPTION_ORIGIN) == 0)
		return sub->no_origin ? ROSE_ORIGIN_NONE : NULL;
	if (strcmp(name, OPTION_FAILOVER) == 0)
		return sub->failover ? "true" : NULL;
	if (strcmp(name, OPTION_TWO_PHASE) == 0)
		return sub->two_phase ? "true" : NULL;
	if (strcmp(name, OPTION_COUNT_CONFLICTS) == 0)
		return sub->count_conflicts != ROSE_COUNT_CONFLICTS_OFF ? pstrdup(rose_count_conflicts_name(sub->count_conflicts)) : NULL;
	return sub->synchronous_commit;
}

/* For a server that has some already, or NIL. */
static List *
form_options(const RoseSubscription *sub, const List *there)
{
	List	   *result = NIL;

	for (int i = 0; i < lengthof(option_names); i++)
	{
		char	   *name = pstrdup(option_names[i]);
		char	   *value = option_of(sub, name);
		bool		has = find_option(there, name) != NULL;
		DefElem    *def = makeDefElem(name, value != NULL ? (Node *) makeString(value) : NULL, -1);

		if (value == NULL && !has)
			continue;
		def->defaction = value == NULL ? DEFELEM_DROP : has ? DEFELEM_SET : DEFELEM_ADD;
		result = lappend(result, def);
	}
	return result;
}

/* The server's options are the row's. */
static void
require_options(const ForeignServer *server, const RoseSubscription *sub)
{
	for (int i = 0; i < lengthof(option_names); i++)
	{
		const char *value = option_of(sub, option_names[i]);
		const char *here = find_option(server->options, option_names[i]);

		if (value == NULL ? here == NULL : here != NULL && strcmp(value, here) == 0)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("option \"%s\" of server \"%s\" is not that of the rose subscription of this name",
						option_names[i], server->servername),
				 errhint("Change the subscription with rose.alter_subscription().")));
	}
}

/* ---------------------------------------------------------------------
 * With the subscription
 */

static void
drop_server(Oid serverid)
{
	ObjectAddress server;

	/* now it may be dropped */
	deleteSharedDependencyRecordsFor(ForeignServerRelationId, serverid, 0);
	CommandCounterIncrement();
	ObjectAddressSet(server, ForeignServerRelationId, serverid);
	performDeletion(&server, DROP_RESTRICT, 0);
}

static void
create_server(const RoseSubscription *sub)
{
	CreateForeignServerStmt *stmt = makeNode(CreateForeignServerStmt);

	stmt->servername = sub->name;
	stmt->fdwname = ROSE_OWNER_WRAPPER;
	stmt->options = form_options(sub, NIL);
	(void) CreateForeignServer(stmt);
	CommandCounterIncrement();
	if (sub->owner != GetUserId())
		(void) AlterForeignServerOwner(sub->name, sub->owner);
}

static void
alter_server(const RoseSubscription *sub, const ForeignServer *server)
{
	AlterForeignServerStmt *stmt = makeNode(AlterForeignServerStmt);

	stmt->servername = sub->name;
	stmt->options = form_options(sub, server->options);
	(void) AlterForeignServer(stmt);
}

/* Of the wrapper, or NULL; error if another one has the name. */
static ForeignServer *
find_server(const char *name, Oid wrapper)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	if (server != NULL && server->fdwid != wrapper)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("foreign server \"%s\" already exists", name),
				 errdetail("A rose subscription has a foreign server of its name, by which it is an object of the database."),
				 errhint("Name the subscription otherwise, or rename the server.")));
	return server;
}

void
rose_subscription_server_save(const RoseSubscription *sub)
{
	Oid			wrapper = rose_owner_wrapper();
	ForeignServer *server;

	if (!OidIsValid(wrapper))
		return;
	server = find_server(sub->name, wrapper);
	if (server != NULL && !is_ours(server->serverid))
	{
		/* this is a copy of a database, and it is the original's */
		if (!rose_owner_is(server->owner))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("must be owner of foreign server \"%s\"", sub->name),
					 errdetail("It is that of a subscription of the database that this one is a copy of.")));
		drop_server(server->serverid);
		server = NULL;
	}
	if (server == NULL)
		create_server(sub);
	else
		alter_server(sub, server);
	CommandCounterIncrement();
}

void
rose_subscription_server_drop(const char *name)
{
	Oid			wrapper = rose_owner_wrapper();
	ForeignServer *server = OidIsValid(wrapper) ? GetForeignServerByName(name, true) : NULL;

	if (server != NULL && server->fdwid == wrapper)
		drop_server(server->serverid);
}

/* ---------------------------------------------------------------------
 * By commands
 */

/* A server out of a dump. */
static void
restore(const ForeignServer *server)
{
	RoseSubscription sub = {0};
	char	   *publications = find_option(server->options, OPTION_PUBLICATIONS);
	char	   *binary = find_option(server->options, OPTION_BINARY);
	char	   *commit = find_option(server->options, OPTION_SYNCHRONOUS_COMMIT);
	char	   *slot_name = find_option(server->options, OPTION_SLOT_NAME);
	char	   *on_error = find_option(server->options, OPTION_ON_ERROR);
	char	   *streaming = find_option(server->options, OPTION_STREAMING);
	char	   *durability = find_option(server->options, OPTION_DURABILITY);
	char	   *on_schema_change = find_option(server->options, OPTION_ON_SCHEMA_CHANGE);
	char	   *origin = find_option(server->options, OPTION_ORIGIN);
	char	   *failover = find_option(server->options, OPTION_FAILOVER);
	char	   *count_conflicts = find_option(server->options, OPTION_COUNT_CONFLICTS);
	char	   *two_phase = find_option(server->options, OPTION_TWO_PHASE);

	rose_owner_require_subscriber();
	sub.name = server->servername;
	sub.owner = server->owner;
	sub.binary = true;
	if (binary != NULL)
		(void) parse_bool(binary, &sub.binary);
	sub.synchronous_commit = commit != NULL ? commit : "off";
	sub.pause_on_error = on_error != NULL && strcmp(on_error, ROSE_ON_ERROR_PAUSE) == 0;
	sub.streaming = true;
	if (streaming != NULL)
		(void) parse_bool(streaming, &sub.streaming);
	sub.tables = find_option(server->options, OPTION_TABLES);
	sub.constants = find_option(server->options, OPTION_CONSTANTS);
	sub.logged = durability != NULL && strcmp(durability, ROSE_DURABILITY_LOCAL) == 0;
	sub.add_columns = on_schema_change == NULL || strcmp(on_schema_change, ROSE_ON_SCHEMA_CHANGE_STOP) != 0;
	sub.no_origin = origin != NULL && strcmp(origin, ROSE_ORIGIN_NONE) == 0;
	if (failover != NULL)
		(void) parse_bool(failover, &sub.failover);
	if (two_phase != NULL)
		(void) parse_bool(two_phase, &sub.two_phase);
	if (count_conflicts != NULL)
		sub.count_conflicts = rose_count_conflicts_read(count_conflicts);
	sub.slot_name = slot_name != NULL ? slot_name : sub.name;
	ReplicationSlotValidateName(sub.slot_name, ERROR);
	sub.publications = publications != NULL ? parse_publications(publications) : NIL;
	if (sub.publications == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_DYNAMIC_PARAMETER_VALUE_NEEDED),
				 errmsg("option \"%s\" is required", OPTION_PUBLICATIONS),
				 errhint("Create subscriptions with rose.create_subscription().")));
	sub.subid = rose_subscription_insert(&sub);
	rose_repl_reserve(sub.subid, sub.name);
	ereport(NOTICE,
			(errmsg("rose subscription \"%s\" is disabled and has no connection string", sub.name),
			 errhint("Give it one, and its tables, with rose.alter_subscription(..., conninfo => ..., refresh => true, enabled => true).")));
}

static void
created(Oid serverid)
{
	ForeignServer *server;
	RoseSubscription *sub;
	Oid			wrapper = rose_owner_wrapper();

	if (!OidIsValid(wrapper))
		return;
	CommandCounterIncrement();
	server = GetForeignServer(serverid);
	if (server->fdwid != wrapper)
		return;
	depend_on_database(serverid);
	CommandCounterIncrement();
	/* pg_upgrade: the row comes with its file */
	if (IsBinaryUpgrade)
		return;
	sub = rose_subscription_find(server->servername);
	if (sub == NULL)
		restore(server);
	else
		require_options(server, sub);
}

/*
 * One that comes from a dump does nothing yet, and a dump grants privileges last.  Whether whoever gives it away may do
 * that, core has asked, as of any server.
 */
static void
take_over(const RoseSubscription *sub, Oid owner)
{
	if (sub->conninfo != NULL && !rose_owner_may_subscribe(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to change owner of rose subscription \"%s\"", sub->name),
				 errhint("The owner of a subscription must be a superuser, or have USAGE on the foreign-data wrapper \"rose_subscription\".")));
	rose_subscription_lock(sub->subid);
	rose_subscription_set_owner(sub->subid, owner);
	rose_repl_reserve(sub->subid, sub->name);
	rose_repl_changed_at_commit(sub->subid);
}

static void
altered(Oid serverid)
{
	ForeignServer *before;
	ForeignServer *after;
	RoseSubscription *sub;

	if (!is_ours(serverid))
		return;
	/* what the command has changed is not seen before the counter moves */
	before = GetForeignServer(serverid);
	CommandCounterIncrement();
	after = GetForeignServer(serverid);
	sub = rose_subscription_find(before->servername);
	if (sub == NULL)
		return;
	if (strcmp(before->servername, after->servername) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot rename server \"%s\" because it is a rose subscription",
						before->servername)));
	require_options(after, sub);
	if (after->owner != sub->owner)
		take_over(sub, after->owner);
}

/* The extension may be on its way out itself, and its relations before the server. */
static bool
has_row(const char *name)
{
	Oid			nspid = get_namespace_oid("rose", true);

	return !OidIsValid(nspid) || !OidIsValid(get_relname_relid("subscription", nspid)) ||
		rose_subscription_find(name) != NULL;
}

static void
dropped(Oid serverid)
{
	const char *name = is_ours(serverid) ? GetForeignServer(serverid)->servername : NULL;

	if (name == NULL || !has_row(name))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot drop server \"%s\" because it is a rose subscription", name),
			 errhint("Drop the subscription with rose.drop_subscription(), for its slot on the upstream keeps WAL.")));
}

void
rose_subscription_server_note(ObjectAccessType access, Oid serverid)
{
	if (access == OAT_POST_CREATE)
		created(serverid);
	else if (access == OAT_POST_ALTER)
		altered(serverid);
	else if (access == OAT_DROP)
		dropped(serverid);
}
