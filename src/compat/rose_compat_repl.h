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
#include "replication/origin.h"
#include "replication/slot.h"
#include "replication/walreceiver.h"
#include "storage/latch.h"

#include "compat/rose_compat.h"

/*
 * 16 added must_use_password, 17 the choice between a replication and an
 * ordinary connection.  Subscriptions belong to superusers, so no password is
 * demanded.
 */
static inline WalReceiverConn *
rose_walrcv_connect(const char *conninfo, const char *appname, char **err)
{
#if PG_VERSION_NUM >= 170000
	return walrcv_connect(conninfo, true, true, false, appname, err);
#elif PG_VERSION_NUM >= 160000
	return walrcv_connect(conninfo, true, false, appname, err);
#else
	return walrcv_connect(conninfo, true, appname, err);
#endif
}

static inline void
rose_walrcv_check_conninfo(const char *conninfo)
{
#if PG_VERSION_NUM >= 160000
	walrcv_check_conninfo(conninfo, false);
#else
	walrcv_check_conninfo(conninfo);
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
