/*-------------------------------------------------------------------------
 *
 * rose_relation.h
 *	  Is this a rose table, or an index of one that has a tree of its own?
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
#include "catalog/pg_class.h"
#include "utils/rel.h"

extern const TableAmRoutine *rose_relation_routine;

static inline bool
rose_relation_is_rose(Relation rel)
{
	return rel->rd_tableam == rose_relation_routine;
}

/* Of relations that have a tree. */
static inline bool
rose_relation_is_index(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX;
}

/*
 * May this index of a rose table have a tree of its own?  The primary key's has none.
 * Whoever asks has a lock on the index; so its table cannot go.
 */
extern bool rose_relation_is_secondary_index(Relation rel);

/*
 * Has it a tree: a rose table, or a secondary index whose file was made?  One without is a
 * relation of any other kind, or an index that is being built.
 */
extern bool rose_relation_has_tree(Relation rel);

#endif							/* ROSE_RELATION_H */
