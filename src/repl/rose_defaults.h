/*-------------------------------------------------------------------------
 *
 * rose_defaults.h
 *	  What new rows have in columns that only the local table has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DEFAULTS_H
#define ROSE_DEFAULTS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/rel.h"

#include "repl/rose_repl_value.h"

typedef struct RoseDefaults RoseDefaults;

/* Of columns that are kept.  In the current context, for as long as the table is not altered; NULL: none has one. */
extern RoseDefaults *rose_defaults_create(Relation rel, const RoseReplColumn *columns);

/*
 * Fill them in a row, whose columns are the table's; what is computed stays until the next row.
 * REQUIRES: an active snapshot.
 */
extern void rose_defaults_fill(RoseDefaults *defaults, Datum *values, bool *nulls);

/* May a COPY of these columns (names) run code of the table's owner, for the others? */
extern bool rose_defaults_of_others(Relation rel, List *names);

#endif							/* ROSE_DEFAULTS_H */
