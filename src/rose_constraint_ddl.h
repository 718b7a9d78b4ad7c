/*-------------------------------------------------------------------------
 *
 * rose_constraint_ddl.h
 *	  Commands by which rows are said to satisfy a constraint.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CONSTRAINT_DDL_H
#define ROSE_CONSTRAINT_DDL_H

#include "postgres.h"

#include "catalog/objectaccess.h"

/* The hook on objects: an object was made or altered.  What has to be looked at is noted (rose_ddl_notes.h). */
extern void rose_constraint_ddl_note(ObjectAccessType access, Oid classid, Oid objectid, int subid);

#endif							/* ROSE_CONSTRAINT_DDL_H */
