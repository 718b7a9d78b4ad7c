/*-------------------------------------------------------------------------
 *
 * rose_owner.h
 *	  Who may have subscriptions, and what those of others than superusers may do.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OWNER_H
#define ROSE_OWNER_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "utils/relcache.h"

#include "compat/rose_compat.h"
#include "repl/rose_repl.h"

/* The extension's own wrapper, of which subscriptions are servers; InvalidOid: there is none, as the extension is of version 1.0. */
#define ROSE_OWNER_WRAPPER	"rose_subscription"

extern Oid	rose_owner_wrapper(void);

/* Why the role may not have a subscription, after "its owner"; NULL: he may.  *hint: what to do about it.  REQUIRES: a transaction. */
extern char *rose_owner_problem(Oid owner, char **hint);
extern bool rose_owner_may_subscribe(Oid role);

/* Error if the current user may not make subscriptions; or change this one; or drop it. */
extern void rose_owner_require_subscriber(void);
extern void rose_owner_require(const RoseSubscription *sub);
extern void rose_owner_require_to_drop(const RoseSubscription *sub);

/* Does a user have the rights of the owner? */
extern bool rose_owner_is(Oid owner);

/*
 * There is a last error, and the current user may see it: it may show values of tables whose owner he need not be, but whoever
 * owned the subscription when it was raised could write to all of them.
 */
extern bool rose_owner_may_see_error(const RoseReplSnapshot *snapshot);

/*
 * Tables, and partitions, that a subscription whose owner is no superuser may have; any, if he is one.
 *
 * may_have: he may become the table's owner.  require: error otherwise, or if row security applies to the table's owner; mode:
 * or if that one lacks one of these privileges.  require_relids: may_have, of tables that are not locked, if they are there.
 */
extern bool rose_owner_may_have(const RoseSubscription *sub, Oid relid);
extern void rose_owner_require_relid(const RoseSubscription *sub, Oid relid);
extern void rose_owner_require_relids(const RoseSubscription *sub, const List *relids);
extern void rose_owner_require_table(const RoseSubscription *sub, Relation rel, AclMode mode);

/* Of the privileges to INSERT, UPDATE and DELETE, those that the table's owner lacks; and the error if he needs one. */
extern AclMode rose_owner_lacking(const RoseSubscription *sub, Relation rel);
pg_noreturn extern void rose_owner_refuse(Relation rel, AclMode mode);

#endif							/* ROSE_OWNER_H */
