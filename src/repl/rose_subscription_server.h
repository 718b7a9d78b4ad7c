/*-------------------------------------------------------------------------
 *
 * rose_subscription_server.h
 *	  A subscription as an object of the database: a foreign server of its name.
 *
 * What the server has, and what it is good for, is in rose_subscription_server.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SUBSCRIPTION_SERVER_H
#define ROSE_SUBSCRIPTION_SERVER_H

#include "postgres.h"

#include "catalog/objectaccess.h"

#include "repl/rose_repl.h"

/* Make or change it as the subscription's row is now. */
extern void rose_subscription_server_save(const RoseSubscription *sub);

/* Drop it with its subscription.  REQUIRES: the row is locked. */
extern void rose_subscription_server_drop(const char *name);

/* Is this an option of such a server? */
extern bool rose_subscription_server_knows(const char *option);

/* A command has made or altered a foreign server of any wrapper, or is about to drop it. */
extern void rose_subscription_server_note(ObjectAccessType access, Oid serverid);

#endif							/* ROSE_SUBSCRIPTION_SERVER_H */
