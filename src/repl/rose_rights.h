/*-------------------------------------------------------------------------
 *
 * rose_rights.h
 *	  Running a user's code with the rights of the table's owner.
 *
 * Begin and end are a pair, unless an error ends the transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RIGHTS_H
#define ROSE_RIGHTS_H

#include "postgres.h"

/* What was before, to be given back. */
typedef struct RoseRights
{
	Oid			user;
	int			security_context;
	int			guc_level;
} RoseRights;

/* May code that a user has written run when a value of this type is read? */
extern bool rose_rights_type_has_code(Oid type);

extern void rose_rights_take(Oid owner, RoseRights *before);
extern void rose_rights_give_back(const RoseRights *before);

#endif							/* ROSE_RIGHTS_H */
