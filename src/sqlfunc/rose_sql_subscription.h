/*-------------------------------------------------------------------------
 *
 * rose_sql_subscription.h
 *	  What the files of the subscription's SQL functions share.
 *
 * State is in the catalog; nothing here is shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SQL_SUBSCRIPTION_H
#define ROSE_SQL_SUBSCRIPTION_H

#include "fmgr.h"
#include "storage/lockdefs.h"

#include "repl/rose_repl.h"

struct WalReceiverConn;

/* A worker is given this long to make what it applied durable. */
#define ROSE_DRAIN_TIMEOUT_S	600

/* rose_sql_subscription.c */
/* Error if an argument is null; or one as a string, if it is null 'otherwise'. */
extern void rose_sql_require_arg(FunctionCallInfo fcinfo, int n, const char *name);
extern char *rose_sql_text_arg(FunctionCallInfo fcinfo, int n, const char *otherwise);

/* The one of this name, or an error. */
extern RoseSubscription *rose_sql_find_subscription(const char *name);

/* rose_sql_subscription_tables.c */
/* All tables of the publications join the subscription. */
extern void rose_sql_add_tables(struct WalReceiverConn *conn, const RoseSubscription *sub,
								bool copy_data);

/*
 * Returns when nobody has them, or partitions of theirs, locked against this mode, and locks none: for what locks them when the
 * worker is drained.  So the subscription goes on while others have them.
 */
extern void rose_sql_await_tables(List *relids, LOCKMODE mode);

/* The rest REQUIRES: drained. */
/* Bring the tables in line with the publications, and with another mapping of names than before. */
extern void rose_sql_refresh_tables(struct WalReceiverConn *conn, const RoseSubscription *sub,
									const char *mapped_before, bool copy_data);

/* Empty the table and have it copied again. */
extern void rose_sql_resync_table(const RoseSubscription *sub, Oid relid);

/*
 * Whatever the upstream is now, and wherever its slot stands: it is the one from now on,
 * and all tables are copied anew.
 */
extern void rose_sql_accept_tables(struct WalReceiverConn *conn, const RoseSubscription *sub);

/* rose_sql_pause.c.  REQUIRES: drained, and sub was read after that. */
extern void rose_sql_pause_table(const RoseSubscription *sub, Oid relid);
extern void rose_sql_resume_table(const RoseSubscription *sub, Oid relid);

/* Pass over what has failed at this position, or (0/0) not after all what was to be passed over. */
extern void rose_sql_skip(const RoseSubscription *sub, XLogRecPtr lsn);

/* rose_sql_subscription_tables.c */
/* The one of them with this relid, or an error. */
extern RoseSubscriptionTable *rose_sql_require_table(const RoseSubscription *sub, List *tables,
													 Oid relid);

#endif							/* ROSE_SQL_SUBSCRIPTION_H */
