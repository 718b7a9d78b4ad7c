/*-------------------------------------------------------------------------
 *
 * rose_staging.h
 *	  The relation that has the rows of a copy until all are there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_STAGING_H
#define ROSE_STAGING_H

#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/relcache.h"

/* Can the rows of this table be kept so, and still fit it after the transaction that has checked them? */
extern bool rose_staging_fits(Relation rel);

/* What was made for a table gets its key.  REQUIRES: it is empty, and nobody else has it open. */
extern void rose_staging_take_key(Relation rel, Relation made);

/* A new one, without rows.  REQUIRES: a lock that keeps the table as it is. */
extern Oid	rose_staging_create(Relation rel);

/* NULL: there is none (any more). */
extern Relation rose_staging_open(Oid made, LOCKMODE mode);
extern void rose_staging_drop(Oid made);

/* What a superuser has made of it does not stand in the way of the switch.  REQUIRES: AccessExclusiveLock on it. */
extern void rose_staging_drop_dependents(Oid made);

/* What the table demands of its rows, and how they are kept: rows of a staging relation fit as long as it is the same. */
extern char *rose_staging_describe(Relation rel);

#endif							/* ROSE_STAGING_H */
