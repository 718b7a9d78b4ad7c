/*-------------------------------------------------------------------------
 *
 * rose_conninfo.h
 *	  What the connection string of a subscription may say.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CONNINFO_H
#define ROSE_CONNINFO_H

#include "postgres.h"

/*
 * Error if it has not the form of one; needs_password: or has no password, as the subscription
 * is no superuser's; not by_superuser: or has options that only superusers may give.  REQUIRES: core's library is
 * loaded.
 */
extern void rose_conninfo_check(const char *conninfo, bool needs_password, bool by_superuser);

#endif							/* ROSE_CONNINFO_H */
