/*-------------------------------------------------------------------------
 *
 * rose_sql_subscription.c
 *	  SQL functions that make, change and drop subscriptions.
 *
 * These run in the user's backend: they talk to the upstream, change the
 * catalog and ask the worker, which notices at commit.  They are for superusers, for those who may
 * subscribe, and for owners of subscriptions (repl/rose_owner.c).
 *
 * Locking: the subscription's row, until the transaction ends.  No LWLock is held while
 * the upstream is asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "replication/slot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"

#include "repl/rose_constants.h"
#include "repl/rose_mapping.h"
#include "repl/rose_owner.h"
#include "repl/rose_prepared.h"
#include "repl/rose_subscription_server.h"
#include "sqlfunc/rose_sql_subscription.h"

PG_FUNCTION_INFO_V1(rose_create_subscription);
PG_FUNCTION_INFO_V1(rose_alter_subscription);
PG_FUNCTION_INFO_V1(rose_pause_table);
PG_FUNCTION_INFO_V1(rose_resume_table);
PG_FUNCTION_INFO_V1(rose_drop_subscription);

/* ---------------------------------------------------------------------
 * Arguments
 */

void
rose_sql_require_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

char *
rose_sql_text_arg(FunctionCallInfo fcinfo, int n, const char *otherwise)
{
	if (PG_ARGISNULL(n))
		return otherwise != NULL ? pstrdup(otherwise) : NULL;
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

static bool
bool_arg(FunctionCallInfo fcinfo, int n, bool otherwise)
{
	return PG_ARGISNULL(n) ? otherwise : PG_GETARG_BOOL(n);
}

/* A list of String nodes. */
static List *
publications_arg(FunctionCallInfo fcinfo, int n)
{
	List	   *result = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(n), TEXTOID, -1, false, TYPALIGN_INT,
					  &elems, &nulls, &nelems);
	for (int i = 0; i < nelems; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("publication names must not be null")));
		result = lappend(result, makeString(TextDatumGetCString(elems[i])));
	}
	if (result == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a subscription needs at least one publication")));
	return result;
}

/* An argument that came with version 1.1 of the extension. */
static bool
is_given(FunctionCallInfo fcinfo, int n)
{
	return PG_NARGS() > n && !PG_ARGISNULL(n);
}

/* One of two words; true: it is yes. */
static bool
choice_arg(FunctionCallInfo fcinfo, int n, bool otherwise, const char *name, const char *no, const char *yes)
{
	char	   *value;

	if (!is_given(fcinfo, n))
		return otherwise;
	value = rose_sql_text_arg(fcinfo, n, NULL);
	if (strcmp(value, yes) == 0)
		return true;
	if (strcmp(value, no) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for %s: \"%s\"", name, value),
				 errhint("Valid values are \"%s\" and \"%s\".", no, yes)));
	return false;
}

static bool
on_error_arg(FunctionCallInfo fcinfo, int n, bool otherwise)
{
	return choice_arg(fcinfo, n, otherwise, "on_error", ROSE_ON_ERROR_STOP, ROSE_ON_ERROR_PAUSE);
}

static bool
on_schema_change_arg(FunctionCallInfo fcinfo, int n, bool otherwise)
{
	return choice_arg(fcinfo, n, otherwise, "on_schema_change", ROSE_ON_SCHEMA_CHANGE_STOP, ROSE_ON_SCHEMA_CHANGE_ADD);
}

static RoseCountConflicts
count_conflicts_arg(FunctionCallInfo fcinfo, int n, RoseCountConflicts otherwise)
{
	return is_given(fcinfo, n) ? rose_count_conflicts_read(rose_sql_text_arg(fcinfo, n, NULL)) : otherwise;
}

/* Error if it is given, and this release cannot do it. */
static bool
origin_arg(FunctionCallInfo fcinfo, int n, const RoseSubscription *sub)
{
	RoseSubscription wanted = *sub;

	wanted.no_origin = choice_arg(fcinfo, n, sub->no_origin, "origin", ROSE_ORIGIN_ANY, ROSE_ORIGIN_NONE);
	if (is_given(fcinfo, n))
		rose_upstream_require_origin_here(&wanted);
	return wanted.no_origin;
}

/* The text of a jsonb, checked, as it is kept; NULL: there is nothing in it. */
static char *
json_arg(FunctionCallInfo fcinfo, int n, char *otherwise, char *(*check) (const char *json))
{
	return is_given(fcinfo, n) ? check(DatumGetCString(DirectFunctionCall1(jsonb_out, PG_GETARG_DATUM(n)))) : otherwise;
}

static char *
synchronous_commit_arg(FunctionCallInfo fcinfo, int n, const char *otherwise)
{
	char	   *value = rose_sql_text_arg(fcinfo, n, otherwise);

	(void) set_config_option("synchronous_commit", value, PGC_BACKEND, PGC_S_TEST,
							 GUC_ACTION_SET, false, 0, false);
	return value;
}

static void
check_name(const char *name)
{
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("subscription name \"%s\" is empty or longer than %d bytes",
						name, NAMEDATALEN - 1)));
}

RoseSubscription *
rose_sql_find_subscription(const char *name)
{
	RoseSubscription *sub = rose_subscription_find(name);

	if (sub == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("rose subscription \"%s\" does not exist", name)));
	return sub;
}

/*
 * Find a subscription that nobody else changes or drops until the transaction ends.  may: error if the current user may not have
 * it; he waits for nobody then.
 */
static RoseSubscription *
lock_subscription(const char *name, void (*may) (const RoseSubscription *sub))
{
	RoseSubscription *sub = rose_sql_find_subscription(name);
	Oid			locked;

	do
	{
		may(sub);
		locked = sub->subid;
		rose_subscription_lock(locked);
		sub = rose_sql_find_subscription(name);
	} while (sub->subid != locked); /* dropped meanwhile, and made anew */
	may(sub);
	return sub;
}

/* ---------------------------------------------------------------------
 * CREATE
 */

enum
{
	CREATE_NAME, CREATE_CONNINFO, CREATE_PUBLICATIONS, CREATE_CONNECT, CREATE_SLOT,
	CREATE_SLOT_NAME, CREATE_ENABLED, CREATE_COPY_DATA, CREATE_BINARY,
	CREATE_SYNCHRONOUS_COMMIT, CREATE_DURABILITY, CREATE_ON_ERROR, CREATE_STREAMING, CREATE_TABLES,
	CREATE_CONSTANTS, CREATE_ON_SCHEMA_CHANGE, CREATE_ORIGIN, CREATE_FAILOVER, CREATE_COUNT_CONFLICTS,
	CREATE_TWO_PHASE
};

/* True: local. */
static bool
durability_is_local(const char *durability)
{
	if (strcmp(durability, ROSE_DURABILITY_LOCAL) == 0)
		return true;
	if (strcmp(durability, ROSE_DURABILITY_UPSTREAM) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid durability \"%s\"", durability),
				 errhint("Valid values are \"upstream\" and \"local\".")));
	return false;
}

/* Options that contradict each other, as CREATE SUBSCRIPTION sees it. */
static void
check_create_options(bool do_connect, bool create_slot, bool enabled, bool copy_data)
{
	const char *option = NULL;

	if (do_connect)
		return;
	if (create_slot)
		option = "create_slot";
	else if (enabled)
		option = "enabled";
	else if (copy_data)
		option = "copy_data";
	if (option != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("connect => false and %s => true are mutually exclusive options", option)));
}

/* Whose slot it is, and where it stands, is known from the beginning. */
static void
create_with_upstream(RoseSubscription *sub, bool create_slot, bool copy_data)
{
	RoseUpstreamIdentity identity;

	struct WalReceiverConn *conn = rose_upstream_connect(sub);

	PG_TRY();
	{
		rose_upstream_identity_ask(conn, &identity);
		rose_upstream_require_options(conn, sub);
		rose_upstream_check_publications(conn, sub->publications);
		if (!create_slot)
			rose_upstream_refuse_two_phase(conn, sub);
		rose_sql_add_tables(conn, sub, copy_data);
		rose_upstream_warn_of_origins(conn, sub, InvalidOid);
		rose_subscription_set_identity(sub->subid, &identity);
		/* Last, as it is the one thing that does not roll back. */
		if (create_slot)
		{
			rose_upstream_make_slot(conn, sub, &sub->durable_lsn);
			rose_subscription_set_state(sub->subid, 0, sub->durable_lsn, &sub->last_commit);
		}
		else
			rose_upstream_set_failover(conn, sub);
		if (sub->two_phase && !create_slot && copy_data)
			rose_upstream_note_prepared(conn, sub);
	}
	PG_FINALLY();
	{
		rose_upstream_disconnect(conn);
	}
	PG_END_TRY();
}

Datum
rose_create_subscription(PG_FUNCTION_ARGS)
{
	RoseSubscription sub = {0};
	bool		do_connect = bool_arg(fcinfo, CREATE_CONNECT, true);
	bool		create_slot = bool_arg(fcinfo, CREATE_SLOT, do_connect);
	bool		copy_data = bool_arg(fcinfo, CREATE_COPY_DATA, do_connect);

	rose_owner_require_subscriber();
	rose_sql_require_arg(fcinfo, CREATE_NAME, "the name");
	rose_sql_require_arg(fcinfo, CREATE_CONNINFO, "conninfo");
	rose_sql_require_arg(fcinfo, CREATE_PUBLICATIONS, "publications");

	sub.name = rose_sql_text_arg(fcinfo, CREATE_NAME, NULL);
	sub.owner = GetUserId();
	sub.limited = !superuser();
	sub.enabled = bool_arg(fcinfo, CREATE_ENABLED, do_connect);
	sub.binary = bool_arg(fcinfo, CREATE_BINARY, true);
	sub.synchronous_commit = synchronous_commit_arg(fcinfo, CREATE_SYNCHRONOUS_COMMIT, "off");
	sub.pause_on_error = on_error_arg(fcinfo, CREATE_ON_ERROR, false);
	sub.add_columns = on_schema_change_arg(fcinfo, CREATE_ON_SCHEMA_CHANGE, true);
	sub.no_origin = origin_arg(fcinfo, CREATE_ORIGIN, &sub);
	sub.failover = is_given(fcinfo, CREATE_FAILOVER) && PG_GETARG_BOOL(CREATE_FAILOVER);
	sub.count_conflicts = count_conflicts_arg(fcinfo, CREATE_COUNT_CONFLICTS, ROSE_COUNT_CONFLICTS_OFF);
	sub.two_phase = is_given(fcinfo, CREATE_TWO_PHASE) && PG_GETARG_BOOL(CREATE_TWO_PHASE);
	sub.streaming = is_given(fcinfo, CREATE_STREAMING) ? PG_GETARG_BOOL(CREATE_STREAMING) : true;
	sub.tables = json_arg(fcinfo, CREATE_TABLES, NULL, rose_mapping_check);
	sub.constants = json_arg(fcinfo, CREATE_CONSTANTS, NULL, rose_constants_check);
	sub.slot_name = rose_sql_text_arg(fcinfo, CREATE_SLOT_NAME, sub.name);
	sub.publications = publications_arg(fcinfo, CREATE_PUBLICATIONS);
	sub.conninfo = rose_sql_text_arg(fcinfo, CREATE_CONNINFO, NULL);
	check_name(sub.name);
	sub.logged = durability_is_local(rose_sql_text_arg(fcinfo, CREATE_DURABILITY, ROSE_DURABILITY_UPSTREAM));
	check_create_options(do_connect, create_slot, sub.enabled, copy_data);
	ReplicationSlotValidateName(sub.slot_name, ERROR);
	rose_upstream_check_conninfo(&sub);
	if (create_slot)
		PreventInTransactionBlock(true, "rose.create_subscription with create_slot => true");
	if (rose_subscription_find(sub.name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("rose subscription \"%s\" already exists", sub.name)));

	sub.subid = rose_subscription_insert(&sub);
	rose_repl_reserve(sub.subid, sub.name);
	rose_subscription_server_save(&sub);
	if (do_connect)
		create_with_upstream(&sub, create_slot, copy_data);
	else
		ereport(WARNING,
				(errmsg("tables were not subscribed"),
				 errhint("Call rose.alter_subscription with enabled => true and refresh => true.")));
	if (sub.enabled)
		rose_repl_changed_at_commit(sub.subid);
	PG_RETURN_VOID();
}

/* ---------------------------------------------------------------------
 * ALTER
 */

enum
{
	ALTER_NAME, ALTER_CONNINFO, ALTER_PUBLICATIONS, ALTER_SLOT_NAME, ALTER_ENABLED,
	ALTER_BINARY, ALTER_SYNCHRONOUS_COMMIT, ALTER_REFRESH, ALTER_COPY_DATA, ALTER_RESYNC,
	ALTER_ACCEPT, ALTER_ON_ERROR, ALTER_SKIP_LSN, ALTER_STREAMING, ALTER_TABLES, ALTER_DURABILITY,
	ALTER_ON_SCHEMA_CHANGE, ALTER_ORIGIN, ALTER_FAILOVER, ALTER_COUNT_CONFLICTS, ALTER_TWO_PHASE
};

/* Tables or slots of an upstream that the subscription does not follow are none of its business. */
static void
require_known_upstream(struct WalReceiverConn *conn, const RoseSubscription *sub, const char *hint)
{
	RoseUpstreamIdentity identity;

	rose_upstream_identity_ask(conn, &identity);
	if (!rose_upstream_identity_is_known(sub, &identity))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the upstream that rose subscription \"%s\" leads to is another one than its rows came from",
						sub->name),
				 errhint("%s", hint)));
}

static void
refresh_with_upstream(const RoseSubscription *sub, const char *mapped_before, bool copy_data)
{
	struct WalReceiverConn *conn = rose_upstream_connect(sub);
	bool		all_new = copy_data && rose_subscription_tables(sub->subid) == NIL;

	PG_TRY();
	{
		require_known_upstream(conn, sub,
							   "Put the connection string right, or take this upstream over with accept => 'resync'.");
		rose_upstream_require_options(conn, sub);
		rose_upstream_check_publications(conn, sub->publications);
		rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
		rose_sql_refresh_tables(conn, sub, mapped_before, copy_data);
		/* as if it was made now */
		if (sub->two_phase && all_new)
			rose_upstream_note_prepared(conn, sub);
		rose_upstream_warn_of_origins(conn, sub, InvalidOid);
	}
	PG_FINALLY();
	{
		rose_upstream_disconnect(conn);
	}
	PG_END_TRY();
}

/* A slot from which a copy that begins now can go on. */
static void
ensure_slot(struct WalReceiverConn *conn, const RoseSubscription *sub)
{
	RoseUpstreamIdentity identity;
	RoseUpstreamSlot slot;
	XLogRecPtr	lsn;

	rose_upstream_identity_ask(conn, &identity);
	if (rose_upstream_find_slot(conn, sub->slot_name, &slot))
	{
		/* one that was told of WAL beyond the end would pass over what is written there */
		if (slot.usable && (sub->two_phase || !slot.two_phase) && slot.confirmed_lsn <= identity.wal_end)
		{
			rose_upstream_set_failover(conn, sub);
			if (sub->two_phase)
				rose_upstream_note_prepared(conn, sub);
			return;
		}
		rose_upstream_drop_slot(conn, sub->slot_name);
	}
	rose_upstream_make_slot(conn, sub, &lsn);
}

/*
 * Whatever the upstream is now, and wherever its slot stands: it is the one from now on,
 * and all tables are copied anew.
 */
static void
accept_upstream(const RoseSubscription *sub)
{
	struct WalReceiverConn *conn = rose_upstream_connect(sub);

	PG_TRY();
	{
		rose_upstream_require_options(conn, sub);
		rose_upstream_check_publications(conn, sub->publications);
		rose_owner_require_relids(sub, rose_partitions_tables(sub->subid));
		rose_sql_await_tables(rose_partitions_tables(sub->subid), ShareRowExclusiveLock);
		rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
		rose_sql_accept_tables(conn, rose_subscription_get(sub->subid));
		rose_prepared_forget_all(sub->subid);
		rose_repl_accepted_at_commit(sub->subid);
		rose_upstream_warn_of_origins(conn, sub, InvalidOid);
		ensure_slot(conn, sub);
	}
	PG_FINALLY();
	{
		rose_upstream_disconnect(conn);
	}
	PG_END_TRY();
}

/*
 * Can the upstream do what it is asked for from now on?  And the slot is as it is to be, if failover is given: that does not roll
 * back, and needs the slot for itself.  One that comes from a dump leads to no upstream yet.
 */
static void
tell_upstream(const RoseSubscription *sub, bool failover)
{
	struct WalReceiverConn *conn = sub->conninfo != NULL ? rose_upstream_connect(sub) : NULL;

	if (conn == NULL)
		return;
	PG_TRY();
	{
		rose_upstream_require_options(conn, sub);
		if (failover)
		{
			require_known_upstream(conn, sub, "Put the connection string right.");
			rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
			rose_upstream_set_failover(conn, sub);
		}
	}
	PG_FINALLY();
	{
		rose_upstream_disconnect(conn);
	}
	PG_END_TRY();
}

/*
 * Rows of elsewhere come with a copy.  An upstream that cannot be asked is no reason not to have the table copied when it is there
 * again.  One that comes from a dump has none.
 */
static void
warn_of_resync(const RoseSubscription *sub, Oid relid)
{
	struct WalReceiverConn *volatile conn = NULL;
	MemoryContext context = CurrentMemoryContext;

	if (!sub->no_origin || sub->conninfo == NULL)
		return;
	PG_TRY();
	{
		conn = rose_upstream_connect(sub);
		rose_upstream_warn_of_origins(conn, sub, relid);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		if (conn != NULL)
			rose_upstream_disconnect(conn);
		conn = NULL;
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_CONNECTION_FAILURE)
			PG_RE_THROW();
		FlushErrorState();
		ereport(WARNING,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("table \"%s\" of rose subscription \"%s\" is copied with rows that may have an origin, though it has origin \"%s\"",
						get_rel_name(relid), sub->name, ROSE_ORIGIN_NONE),
				 errdetail("The upstream could not be asked whether other subscriptions write to it: %s", edata->message)));
	}
	PG_END_TRY();
	if (conn != NULL)
		rose_upstream_disconnect(conn);
}

/* One that comes from a dump has no connection string until it is given one. */
static void
require_conninfo(const RoseSubscription *sub, const char *hint)
{
	if (sub->conninfo == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rose subscription \"%s\" has no connection string", sub->name),
				 errdetail("It comes from a dump, which does not carry that."),
				 errhint("%s", hint)));
}

/* Nothing but 'resync' yet, and with nothing that it contradicts.  True: it was given. */
static bool
accept_arg(FunctionCallInfo fcinfo)
{
	char	   *accept = rose_sql_text_arg(fcinfo, ALTER_ACCEPT, NULL);

	if (is_given(fcinfo, ALTER_TABLES) && (accept != NULL || !bool_arg(fcinfo, ALTER_REFRESH, true)))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("tables needs a refresh, and cannot be given together with accept")));
	if (accept == NULL)
		return false;
	if (strcmp(accept, "resync") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for accept: \"%s\"", accept),
				 errhint("The valid value is \"resync\": copy all tables again from the upstream as it is now.")));
	PreventInTransactionBlock(true, "rose.alter_subscription with accept");
	return true;
}

/*
 * All that is applied is durable in the old way, and the state row says where that is.  The next worker changes the tables'
 * files, as it comes to write to them.
 */
static void
change_durability(const RoseSubscription *sub)
{
	List	   *tables = rose_partitions_with_strays(sub->subid);
	ListCell   *lc;

	rose_sql_await_tables(tables, ShareUpdateExclusiveLock);
	if (!sub->logged)
		rose_local_writes_lock_out(sub->subid);
	rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
	foreach(lc, tables)
		rose_repl_settle(lfirst_oid(lc));
	if (sub->logged)
		rose_origin_create(sub->subid);
	else
		rose_rewind_end_origin(sub);
}

/* A slot stays as it is, but for one that is made anew. */
static bool
two_phase_arg(FunctionCallInfo fcinfo, const RoseSubscription *sub)
{
	if (!is_given(fcinfo, ALTER_TWO_PHASE))
		return sub->two_phase;
	if (sub->two_phase && !PG_GETARG_BOOL(ALTER_TWO_PHASE) && !is_given(fcinfo, ALTER_ACCEPT))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot take two_phase from rose subscription \"%s\"", sub->name),
				 errdetail("The upstream goes on to send transactions of its slot when they are prepared."),
				 errhint("With accept => 'resync', it gets another slot, and all tables are copied again.")));
	return PG_GETARG_BOOL(ALTER_TWO_PHASE);
}

/* What is said of the subscription itself; its connection string, its publications and its tables are something else. */
static void
alter_options(FunctionCallInfo fcinfo, RoseSubscription *sub)
{
	sub->enabled = bool_arg(fcinfo, ALTER_ENABLED, sub->enabled);
	sub->binary = bool_arg(fcinfo, ALTER_BINARY, sub->binary);
	sub->synchronous_commit = synchronous_commit_arg(fcinfo, ALTER_SYNCHRONOUS_COMMIT, sub->synchronous_commit);
	sub->pause_on_error = on_error_arg(fcinfo, ALTER_ON_ERROR, sub->pause_on_error);
	sub->add_columns = on_schema_change_arg(fcinfo, ALTER_ON_SCHEMA_CHANGE, sub->add_columns);
	sub->no_origin = origin_arg(fcinfo, ALTER_ORIGIN, sub);
	sub->count_conflicts = count_conflicts_arg(fcinfo, ALTER_COUNT_CONFLICTS, sub->count_conflicts);
	sub->two_phase = two_phase_arg(fcinfo, sub);
	if (is_given(fcinfo, ALTER_STREAMING))
		sub->streaming = PG_GETARG_BOOL(ALTER_STREAMING);
	if (is_given(fcinfo, ALTER_FAILOVER))
	{
		PreventInTransactionBlock(true, "rose.alter_subscription with failover");
		sub->failover = PG_GETARG_BOOL(ALTER_FAILOVER);
	}
	if (is_given(fcinfo, ALTER_DURABILITY))
		sub->logged = durability_is_local(rose_sql_text_arg(fcinfo, ALTER_DURABILITY, NULL));
	sub->slot_name = rose_sql_text_arg(fcinfo, ALTER_SLOT_NAME, sub->slot_name);
	ReplicationSlotValidateName(sub->slot_name, ERROR);
}

Datum
rose_alter_subscription(PG_FUNCTION_ARGS)
{
	RoseSubscription *sub;
	bool		was_logged;
	const char *mapped_before;
	bool		accept;
	bool		refresh;

	rose_sql_require_arg(fcinfo, ALTER_NAME, "the name");
	accept = accept_arg(fcinfo);
	sub = lock_subscription(rose_sql_text_arg(fcinfo, ALTER_NAME, NULL), rose_owner_require);

	was_logged = sub->logged;
	alter_options(fcinfo, sub);
	mapped_before = sub->tables;
	sub->tables = json_arg(fcinfo, ALTER_TABLES, sub->tables, rose_mapping_check);
	sub->conninfo = rose_sql_text_arg(fcinfo, ALTER_CONNINFO, sub->conninfo);
	if (!PG_ARGISNULL(ALTER_PUBLICATIONS))
		sub->publications = publications_arg(fcinfo, ALTER_PUBLICATIONS);
	refresh = bool_arg(fcinfo, ALTER_REFRESH, !PG_ARGISNULL(ALTER_PUBLICATIONS) || is_given(fcinfo, ALTER_TABLES));
	if (sub->enabled || refresh || accept)
		require_conninfo(sub, "Give it one with conninfo => '...'.");
	if (!PG_ARGISNULL(ALTER_CONNINFO))
		rose_upstream_check_conninfo(sub);
	rose_subscription_update(sub);
	rose_repl_reserve(sub->subid, sub->name);
	rose_subscription_server_save(sub);

	if (sub->logged != was_logged)
		change_durability(sub);
	if (accept)
		accept_upstream(sub);
	else if (refresh)
		refresh_with_upstream(sub, mapped_before, bool_arg(fcinfo, ALTER_COPY_DATA, true));
	if (is_given(fcinfo, ALTER_SKIP_LSN))
	{
		rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
		rose_sql_skip(rose_subscription_get(sub->subid), PG_GETARG_LSN(ALTER_SKIP_LSN));
	}
	if (!PG_ARGISNULL(ALTER_RESYNC))
	{
		(void) rose_sql_require_table(sub, rose_subscription_tables(sub->subid), PG_GETARG_OID(ALTER_RESYNC));
		rose_owner_require_relids(sub, rose_target_tables_of(PG_GETARG_OID(ALTER_RESYNC)));
		warn_of_resync(sub, PG_GETARG_OID(ALTER_RESYNC));
		rose_sql_await_tables(list_make1_oid(PG_GETARG_OID(ALTER_RESYNC)), ShareRowExclusiveLock);
		rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
		rose_sql_resync_table(rose_subscription_get(sub->subid), PG_GETARG_OID(ALTER_RESYNC));
	}
	if (is_given(fcinfo, ALTER_FAILOVER) || (is_given(fcinfo, ALTER_ORIGIN) && sub->no_origin) ||
		(is_given(fcinfo, ALTER_TWO_PHASE) && sub->two_phase))
		tell_upstream(sub, is_given(fcinfo, ALTER_FAILOVER));
	rose_repl_changed_at_commit(sub->subid);
	PG_RETURN_VOID();
}

/* For what is done to one of its tables: locked, drained, and as it is then. */
static RoseSubscription *
drained_subscription(FunctionCallInfo fcinfo, int n)
{
	RoseSubscription *sub;

	sub = lock_subscription(rose_sql_text_arg(fcinfo, n, NULL), rose_owner_require);
	rose_repl_reserve(sub->subid, sub->name);
	rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
	rose_repl_changed_at_commit(sub->subid);
	return rose_subscription_get(sub->subid);
}

Datum
rose_pause_table(PG_FUNCTION_ARGS)
{
	rose_sql_pause_table(drained_subscription(fcinfo, 0), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}

Datum
rose_resume_table(PG_FUNCTION_ARGS)
{
	rose_sql_resume_table(drained_subscription(fcinfo, 0), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}

/* ---------------------------------------------------------------------
 * DROP
 */

enum
{
	DROP_NAME, DROP_KEEP_SLOT
};

static struct WalReceiverConn *
connect_for_drop(const RoseSubscription *sub)
{
	struct WalReceiverConn *volatile conn = NULL;
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		conn = rose_upstream_connect(sub);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_CONNECTION_FAILURE)
			PG_RE_THROW();
		FlushErrorState();
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("cannot drop replication slot \"%s\" of rose subscription \"%s\": %s",
						sub->slot_name, sub->name, edata->message),
				 errhint("Drop the subscription with keep_slot => true, and the slot on the upstream with pg_drop_replication_slot() when it is there again: until then it keeps WAL.")));
	}
	PG_END_TRY();
	return conn;
}

/* conn: to the upstream, whose slot is dropped; NULL: keep it. */
static void
drop(const RoseSubscription *sub, struct WalReceiverConn *conn)
{
	List	   *tables;
	ListCell   *lc;

	rose_sql_await_tables(rose_partitions_tables(sub->subid), ShareUpdateExclusiveLock);
	rose_repl_drain(sub->subid, ROSE_DRAIN_TIMEOUT_S);
	tables = list_concat(rose_partitions_tables(sub->subid), rose_partitions_strays(sub->subid));
	foreach(lc, tables)
		rose_repl_settle(lfirst_oid(lc));
	rose_rewind_require_recorded(sub);	/* its origin does not come back if this is rolled back */
	rose_subscription_delete(sub->subid);
	rose_subscription_server_drop(sub->name);
	foreach(lc, tables)
		rose_repl_unfeed_at_commit(lfirst_oid(lc), sub->subid);
	/* the one thing that does not roll back, so it comes when nothing is left to wait for */
	if (conn != NULL)
		rose_upstream_drop_slot(conn, sub->slot_name);
	rose_repl_dropped_at_commit(sub->subid);
}

Datum
rose_drop_subscription(PG_FUNCTION_ARGS)
{
	RoseSubscription *sub;
	struct WalReceiverConn *conn;

	rose_sql_require_arg(fcinfo, DROP_NAME, "the name");
	sub = lock_subscription(rose_sql_text_arg(fcinfo, DROP_NAME, NULL), rose_owner_require_to_drop);
	if (bool_arg(fcinfo, DROP_KEEP_SLOT, false))
	{
		drop(sub, NULL);
		PG_RETURN_VOID();
	}

	PreventInTransactionBlock(true, "rose.drop_subscription with keep_slot => false");
	require_conninfo(sub, "Drop it with keep_slot => true.");
	conn = connect_for_drop(sub);
	PG_TRY();
	{
		require_known_upstream(conn, sub,
							   "Drop the subscription with keep_slot => true, and its slot where it is, with pg_drop_replication_slot().");
		drop(sub, conn);
	}
	PG_FINALLY();
	{
		rose_upstream_disconnect(conn);
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}
