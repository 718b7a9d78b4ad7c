/*-------------------------------------------------------------------------
 *
 * rose_relation.h
 *	  Is this a rose table?
 *
 * tableam/ says once, when the library is loaded, what the routine of rose's tables is;
 * so whoever is below it can ask.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RELATION_H
#define ROSE_RELATION_H

#include "postgres.h"

#include "access/tableam.h"
#include "utils/rel.h"

extern const TableAmRoutine *rose_relation_routine;

static inline bool
rose_relation_is_rose(Relation rel)
{
	return rel->rd_tableam == rose_relation_routine;
}

#endif							/* ROSE_RELATION_H */
