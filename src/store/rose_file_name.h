/*-------------------------------------------------------------------------
 *
 * rose_file_name.h
 *	  By which name the file of a relation is known, in memory.
 *
 * That is its locator.  But a temporary relation's file is told from others by the
 * session that it belongs to, and not by its locator: when OIDs have come round, a
 * permanent table may have the same.  So its name has no database, which that of no other
 * file lacks.  Only its session knows it; that has one database only.
 *
 * Names are compared, and looked up; files are opened by locators.
 *
 * No state, no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_FILE_NAME_H
#define ROSE_FILE_NAME_H

#include "postgres.h"

#include "catalog/pg_class.h"
#include "utils/rel.h"

#include "compat/rose_compat.h"

/* Of a file of this locator. */
static inline RelFileLocator
rose_file_name_of(RelFileLocator locator, char persistence)
{
	if (unlikely(persistence == RELPERSISTENCE_TEMP))
		rose_locator_db(locator) = InvalidOid;
	return locator;
}

static inline RelFileLocator
rose_file_name(Relation rel)
{
	return rose_file_name_of(rose_rel_locator(rel), rel->rd_rel->relpersistence);
}

/* Is it a temporary relation's, of this session?  A name that is all zero is no file's. */
static inline bool
rose_file_is_local(RelFileLocator name)
{
	return !OidIsValid(rose_locator_db(name)) && rose_locator_rel(name) != InvalidRelFileNumber;
}

#endif							/* ROSE_FILE_NAME_H */
