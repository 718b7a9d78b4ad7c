/*-------------------------------------------------------------------------
 *
 * rose_partial.h
 *	  Completing a PARTIAL version from older versions of its key.
 *
 * Versions are given newest first, visible ones only, until one of them is a whole row.
 * If none is, there is no row: what replication applied to a row that was never here does
 * not make one.  Backend-local; values are copied.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PARTIAL_H
#define ROSE_PARTIAL_H

#include "lsm/component/rose_component.h"

typedef struct RosePartial
{
	const RoseSchema *schema;
	MemoryContext parent;
	MemoryContext context;		/* made by the first start, reset by each; NULL: there was none */
	bool		active;
	RoseVersion version;		/* of the newest one */
	Datum	   *values;
	bool	   *nulls;
	bits8	   *have;			/* columns found so far */
} RosePartial;

extern void rose_partial_init(RosePartial *partial, const RoseSchema *schema,
							  MemoryContext parent);

/* Begin with a PARTIAL row. */
extern void rose_partial_start(RosePartial *partial, const RoseRow *row);

/* Add the next older one; true when the row is complete. */
extern bool rose_partial_add(RosePartial *partial, const RoseRow *row);

/*
 * The row (in partial's context), with the newest version's header as a PUT.
 * The key is left pointing into the tuple's values.
 */
extern void rose_partial_finish(RosePartial *partial, RoseRow *row, Datum *key);

/* No complete version was found of what was a row before: the chain is damaged. */
pg_noreturn extern void rose_partial_missing_base(const RosePartial *partial);

#endif							/* ROSE_PARTIAL_H */
