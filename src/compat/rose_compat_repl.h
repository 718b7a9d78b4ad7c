/*-------------------------------------------------------------------------
 *
 * rose_compat_repl.h
 *	  Release differences of the interfaces that the replication consumer uses.
 *
 * Apart from rose_compat.h, because nobody else needs these headers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_REPL_H
#define ROSE_COMPAT_REPL_H

#include "postgres.h"

#include "catalog/index.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "fmgr.h"
#include "libpq-fe.h"
#include "replication/origin.h"
#include "replication/slot.h"
#include "replication/walreceiver.h"
#include "storage/latch.h"
#include "utils/acl.h"

#include "compat/rose_compat.h"

/*
 * 16 added must_use_password, 17 the choice between a replication and an ordinary connection.
 * The library of 15 does not say whether the server has asked for a password; libpq does, of the
 * connection that is the first field of what the library gives out.  (A second connection, to look
 * at, might lead to another server than this one.)
 */
static inline WalReceiverConn *
rose_walrcv_connect(const char *conninfo, const char *appname, bool must_use_password, char **err)
{
#if PG_VERSION_NUM >= 170000
	return walrcv_connect(conninfo, true, true, must_use_password, appname, err);
#elif PG_VERSION_NUM >= 160000
	return walrcv_connect(conninfo, true, must_use_password, appname, err);
#else
	WalReceiverConn *conn = walrcv_connect(conninfo, true, appname, err);
	int			(*used_password) (const PGconn *conn);

	if (conn == NULL || !must_use_password)
		return conn;
	used_password = (int (*) (const PGconn *))
		load_external_function("libpqwalreceiver", "PQconnectionUsedPassword", true, NULL);
	if (used_password(*(PGconn **) conn))
		return conn;
	walrcv_disconnect(conn);
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg("password is required"),
			 errdetail("Non-superuser cannot connect if the server does not request a password."),
			 errhint("Target server's authentication method must be changed.")));
#endif
}

/* 16 told members that may become a role from those that have its rights. */
static inline bool
rose_can_set_role(Oid member, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return member_can_set_role(member, role);
#else
	return is_member_of_role(member, role);
#endif
}

/* 16 has one function for objects of all kinds. */
static inline bool
rose_may_use_wrapper(Oid wrapper, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ForeignDataWrapperRelationId, wrapper, role, ACL_USAGE) == ACLCHECK_OK;
#else
	return pg_foreign_data_wrapper_aclcheck(wrapper, role, ACL_USAGE) == ACLCHECK_OK;
#endif
}

/* 17 added the failover property of a slot. */
static inline char *
rose_walrcv_create_slot(WalReceiverConn *conn, const char *slotname, bool temporary,
						CRSSnapshotAction snapshot_action, XLogRecPtr *lsn)
{
#if PG_VERSION_NUM >= 170000
	return walrcv_create_slot(conn, slotname, temporary, false, false,
							  snapshot_action, lsn);
#else
	return walrcv_create_slot(conn, slotname, temporary, false,
							  snapshot_action, lsn);
#endif
}

/* 16 made it a choice of three; "parallel" is for those who apply before the commit. */
static inline void
rose_walrcv_set_streaming(WalRcvStreamOptions *options, bool on)
{
#if PG_VERSION_NUM >= 160000
	options->proto.logical.streaming_str = on ? pstrdup("on") : NULL;
#else
	options->proto.logical.streaming = on;
#endif
}

/* 16 has upstreams leave out changes that have an origin; the library of before has no way to ask for that. */
static inline bool
rose_walrcv_knows_origin(void)
{
	return PG_VERSION_NUM >= 160000;
}

/* none: send only changes without an origin.  REQUIRES: rose_walrcv_knows_origin, if so. */
static inline void
rose_walrcv_set_origin(WalRcvStreamOptions *options, bool none)
{
#if PG_VERSION_NUM >= 160000
	options->proto.logical.origin = none ? pstrdup("none") : NULL;
#else
	Assert(!none);
#endif
}

/* 18 gave places for origins a setting of their own; before, there are as many as for slots. */
static inline int
rose_max_origins(void)
{
#if PG_VERSION_NUM >= 180000
	return max_active_replication_origins;
#else
	return max_replication_slots;
#endif
}

static inline const char *
rose_max_origins_name(void)
{
#if PG_VERSION_NUM >= 180000
	return "max_active_replication_origins";
#else
	return "max_replication_slots";
#endif
}

/* 16 has several processes share an origin; nobody does here. */
static inline void
rose_replorigin_session_setup(RepOriginId node)
{
#if PG_VERSION_NUM >= 160000
	replorigin_session_setup(node, 0);
#else
	replorigin_session_setup(node);
#endif
}

/* 17 has sets belong to a resource owner; this one to none.  It must be freed by hand. */
static inline WaitEventSet *
rose_create_wait_event_set(MemoryContext context, int nevents)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(NULL, nevents);
#else
	return CreateWaitEventSet(context, nevents);
#endif
}

/* 17 added the statement, for event triggers. */
static inline void
rose_reindex_relation(Oid relid, int flags)
{
	ReindexParams params = {0};

#if PG_VERSION_NUM >= 170000
	reindex_relation(NULL, relid, flags, &params);
#else
	reindex_relation(relid, flags, &params);
#endif
}

#endif							/* ROSE_COMPAT_REPL_H */
