/*-------------------------------------------------------------------------
 *
 * rose_rules.h
 *	  What a local table demands of its rows, and computes in them.
 *
 * Errors are those that an INSERT of the owner would get.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RULES_H
#define ROSE_RULES_H

#include "postgres.h"

#include "utils/rel.h"

typedef struct RoseRules RoseRules;

/* For as long as the relation stays open and locked. */
extern RoseRules *rose_rules_create(Relation rel, MemoryContext parent);
extern void rose_rules_free(RoseRules *rules);

/* Rows come by the bounds of the partition, so these need not be looked at. */
extern void rose_rules_trust_bounds(RoseRules *rules);

/*
 * Compute the generated columns of a row, and raise an error if the table does not take
 * it.  What is computed stays until the next row.
 */
extern void rose_rules_apply(RoseRules *rules, Datum *values, bool *nulls);

/*
 * rose_rules_apply for a row of which only the columns that 'present' names are known
 * (rose_present_test).  False: an expression looks at one that is not, so nothing but NOT
 * NULL was looked at, and generated columns are not among those that are known.
 */
extern bool rose_rules_apply_partial(RoseRules *rules, Datum *values, bool *nulls,
									 bits8 *present);

#endif							/* ROSE_RULES_H */
