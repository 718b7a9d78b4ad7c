/*-------------------------------------------------------------------------
 *
 * rose_target.h
 *	  What takes the rows of a table of the subscription: the table, or a partition of it.
 *
 * And which local tables fit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TARGET_H
#define ROSE_TARGET_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "utils/rel.h"

#include "lsm/tree/rose_tree.h"
#include "repl/rose_route.h"
#include "repl/rose_rules.h"

struct RoseReplRel;

/* Of one batch. */
typedef struct RoseReplTarget
{
	struct RoseReplRel *of;		/* whose rows it takes */
	const RoseRoutePart *part;	/* NULL: it is the table itself */
	Relation	rel;
	RoseTree   *table;			/* NULL: it is not open */
	struct RoseBlindIndexes *indexes;	/* or NULL: it has none */
	RoseRules  *rules;
	AclMode		lacking;		/* privileges that its owner lacks, and would need (rose_owner.c) */
	bool		identity_known; /* what follows is valid */
	bool		identity;		/* its key, and what leads to it, are part of the replica identity */
	bool		deferrable;		/* ... and two rows of the upstream may have one until a transaction ends */
	Datum	   *values;			/* as those of 'of', in its own columns */
	bool	   *nulls;
	Datum	   *old_values;
	bool	   *old_nulls;
	bits8	   *present;
	uint64		inserts;		/* for core's statistics, if it is a partition */
	uint64		updates;
	uint64		deletes;
} RoseReplTarget;

/* part: of a partitioned table's; NULL: it is the table.  REQUIRES: its table is open, and rel. */
extern void rose_target_open(RoseReplTarget *target, struct RoseReplRel *of, Relation rel, const RoseRoutePart *part,
							 MemoryContext context);

/* REQUIRES: the columns of the table are mapped. */
extern void rose_target_bind(RoseReplTarget *target);
extern void rose_target_close(RoseReplTarget *target);

/* Of a partitioned table, in the batch.  What partitions have got is kept for core's statistics. */
extern RoseRoute *rose_target_open_route(struct RoseReplRel *entry, RoseRouteLock lock);
extern void rose_target_keep_counts(struct RoseReplRel *entry);
extern void rose_target_close_route(struct RoseReplRel *entry);

/*
 * The one that takes the row at hand, of which only what is present is known (partial), or the
 * one that has the old row.  verb: for errors.
 */
extern RoseReplTarget *rose_target_of_new(struct RoseReplRel *entry, bool partial, const char *verb);
extern RoseReplTarget *rose_target_of_old(struct RoseReplRel *entry, const char *verb);

/* The row at hand, or the old one, in the target's own columns; present: that, too. */
extern void rose_target_take_new(RoseReplTarget *target, bool present);
extern void rose_target_take_old(RoseReplTarget *target);

/* Which fit (rose_target_tables.c).  require: error if no subscription can write to it, whatever its partitions are. */
extern void rose_target_tables_require(Relation rel);

/* False: it is partitioned. */
extern bool rose_target_tables_has_rows(Relation rel);

#endif							/* ROSE_TARGET_H */
