/*-------------------------------------------------------------------------
 *
 * rose_upstream_options.c
 *	  Options of a subscription that not every release of an upstream can do, and rows that one of them does not leave out.
 *
 * origin => 'none': the upstream is asked to leave out changes that have a replication
 * origin there, which is to say those that it has got from elsewhere itself.  It can do so
 * since 16, and core's library here can ask for it since 16.  Nothing is left out here, so
 * an upstream that cannot do it is an error: with its changes, a row might go round for ever.
 *
 * A copy has all rows of a table, whatever their origin.
 *
 * failover => true: since 17 standbys of an upstream take its slot along.  One that cannot have such a slot is an error, be it met later:
 * who asked for it counts on it.
 *
 * two_phase => true: since 15 upstreams send a transaction when it is prepared.  With failover, only since 18 do standbys know
 * from where on.
 *
 * Needs no locks; the upstream is asked on a connection of the caller's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "replication/walreceiver.h"

#include "compat/rose_compat_repl.h"
#include "repl/rose_repl_internal.h"

/* Since then upstreams know the origin of a change, and leave it out. */
#define ROSE_ORIGIN_VERSION		160000

/* Since then upstreams have slots that their standbys take along. */
#define ROSE_FAILOVER_VERSION	170000

/* Since then upstreams send what is prepared; and since then slots that standbys have, too, can be of that kind. */
#define ROSE_TWO_PHASE_VERSION	150000
#define ROSE_TWO_PHASE_FAILOVER_VERSION 180000

/* A warning names no more tables than that. */
#define ROSE_WARNED_TABLES		10

/* As versions are said since 10. */
static char *
version_of(WalReceiverConn *conn)
{
	int			version = walrcv_server_version(conn);

	return psprintf("%d.%d", version / 10000, version % 10000);
}

void
rose_upstream_require_origin_here(const RoseSubscription *sub)
{
	if (!sub->no_origin || rose_walrcv_knows_origin())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rose subscription \"%s\" cannot have origin \"%s\" on PostgreSQL %s", sub->name, ROSE_ORIGIN_NONE, PG_MAJORVERSION),
			 errdetail("Upstreams are asked for changes without an origin by PostgreSQL's own library, which can do that since 16."),
			 errhint("Use rose on PostgreSQL 16 or later, or origin => 'any'.")));
}

void
rose_upstream_require_failover(WalReceiverConn *conn, const RoseSubscription *sub)
{
	if (!sub->failover || walrcv_server_version(conn) >= ROSE_FAILOVER_VERSION)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rose subscription \"%s\" cannot have failover with an upstream of PostgreSQL %s", sub->name, version_of(conn)),
			 errdetail("Standbys take replication slots along since PostgreSQL 17."),
			 errhint("Upgrade the upstream, or give the subscription failover => false.")));
}

static void
require_origin(WalReceiverConn *conn, const RoseSubscription *sub)
{
	if (!sub->no_origin)
		return;
	if (walrcv_server_version(conn) < ROSE_ORIGIN_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rose subscription \"%s\" cannot have origin \"%s\" with an upstream of PostgreSQL %s", sub->name, ROSE_ORIGIN_NONE,
						version_of(conn)),
				 errdetail("Upstreams leave out changes that have a replication origin since PostgreSQL 16."),
				 errhint("Upgrade the upstream, or give the subscription origin => 'any'.")));
	rose_upstream_require_origin_here(sub);
}

static void
require_two_phase(WalReceiverConn *conn, const RoseSubscription *sub)
{
	if (!sub->two_phase)
		return;
	if (walrcv_server_version(conn) < ROSE_TWO_PHASE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rose subscription \"%s\" cannot have two_phase with an upstream of PostgreSQL %s", sub->name, version_of(conn)),
				 errdetail("Upstreams send transactions when they are prepared since PostgreSQL 15."),
				 errhint("Without two_phase, prepared transactions come when they are committed.")));
	if (sub->failover && walrcv_server_version(conn) < ROSE_TWO_PHASE_FAILOVER_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rose subscription \"%s\" cannot have two_phase and failover with an upstream of PostgreSQL %s", sub->name, version_of(conn)),
				 errdetail("Standbys take along from where on a slot is for prepared transactions since PostgreSQL 18.")));
}

void
rose_upstream_require_options(WalReceiverConn *conn, const RoseSubscription *sub)
{
	require_two_phase(conn, sub);
	require_origin(conn, sub);
	rose_upstream_require_failover(conn, sub);
}

/* The upstream's oids of tables that are to be copied, or of this one, as a list in SQL; NULL: there are none. */
static char *
tables_to_copy(Oid subid, Oid only)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, rose_subscription_tables(subid))
	{
		const RoseSubscriptionTable *table = lfirst(lc);

		if (OidIsValid(only) ? table->relid == only : rose_subscription_table_waits(table))
			appendStringInfo(&buf, "%s%u", buf.len > 0 ? ", " : "", table->remote.relid);
	}
	return buf.len > 0 ? buf.data : NULL;
}

/* Names of those into which another subscription of PostgreSQL's own writes there, also by way of partitions. */
static List *
tables_with_origins(WalReceiverConn *conn, const char *relids)
{
	return rose_upstream_strings(conn,
				psprintf("SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname)"
						 " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
						 " WHERE c.oid IN (%s) AND EXISTS (SELECT FROM pg_catalog.pg_subscription_rel r"
						 " WHERE r.srrelid OPERATOR(pg_catalog.=) c.oid"
						 " OR r.srrelid IN (SELECT a.relid FROM pg_catalog.pg_partition_ancestors(c.oid) a)"
						 " OR r.srrelid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(c.oid) t))"
						 " ORDER BY 1 LIMIT %d", relids, ROSE_WARNED_TABLES + 1),
				"ask which tables the upstream is subscribed with");
}

void
rose_upstream_warn_of_origins(WalReceiverConn *conn, const RoseSubscription *sub, Oid only)
{
	char	   *relids = sub->no_origin ? tables_to_copy(sub->subid, only) : NULL;
	List	   *tables = relids != NULL ? tables_with_origins(conn, relids) : NIL;
	StringInfoData names;
	ListCell   *lc;

	if (tables == NIL)
		return;
	initStringInfo(&names);
	foreach(lc, tables)
	{
		if (foreach_current_index(lc) == ROSE_WARNED_TABLES)
			appendStringInfoString(&names, ", ...");
		else if (lfirst(lc) != NULL)
			appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", (char *) lfirst(lc));
	}
	ereport(WARNING,
			(errmsg("tables are copied with rows that may have an origin, though rose subscription \"%s\" has origin \"%s\"", sub->name,
					ROSE_ORIGIN_NONE),
			 errdetail("On the upstream, other subscriptions write to: %s.", names.data),
			 errhint("Look whether rows that the upstream has got from elsewhere belong here.")));
}
