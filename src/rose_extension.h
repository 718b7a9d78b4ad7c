/*-------------------------------------------------------------------------
 *
 * rose_extension.h
 *	  Commands that make the extension, or miss it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_EXTENSION_H
#define ROSE_EXTENSION_H

#include "postgres.h"

#include "nodes/plannodes.h"

#include "compat/rose_compat.h"

/* CREATE EXTENSION rose SCHEMA rose, as older dumps have it, becomes one without SCHEMA. */
extern PlannedStmt *rose_extension_take(PlannedStmt *pstmt);

/*
 * Would the command give a table an access method that this database does not have, for
 * want of the extension?  Then its error is to be raised by the second one, in the memory
 * context that was current before it.
 */
extern bool rose_extension_is_missed(Node *stmt);
pg_noreturn extern void rose_extension_rethrow(MemoryContext context);

#endif							/* ROSE_EXTENSION_H */
