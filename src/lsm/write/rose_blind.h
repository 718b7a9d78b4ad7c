/*-------------------------------------------------------------------------
 *
 * rose_blind.h
 *	  Blind writes, many at a time: for replication.
 *
 * They read nothing of what is there, unless somebody asks (rose_blind_below.h).  What is written is durable elsewhere, or logged, as the way is in which the table is
 * fed.  If it is logged, others may write to the table, too: then rows that transactions in progress hold are waited for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLIND_H
#define ROSE_BLIND_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

/* What somebody wants to know of a row's key before the row is written. */
typedef enum RoseBlindAsk
{
	ROSE_BLIND_ASK_NOTHING = 0,
	ROSE_BLIND_ASK_CHEAPLY,		/* whether there is certainly no row, or certainly one, as far as memory and filters say */
	ROSE_BLIND_ASK_EXACTLY		/* whether there is one; what filters take for possible is looked up */
} RoseBlindAsk;

/* What is found. */
typedef enum RoseBlindBelow
{
	ROSE_BLIND_BELOW_UNKNOWN = 0,	/* nobody has asked, or was cheap */
	ROSE_BLIND_BELOW_NOTHING,
	ROSE_BLIND_BELOW_ROW
} RoseBlindBelow;

#define ROSE_BLIND_ASK_MAX	256

/*
 * Blind writes, for replication: no conflict check.  A row is formed, in the
 * current context, of values that may go away then: PUT has all columns, PARTIAL those
 * that present says (ROSE_PRESENT_BYTES(natts)), TOMBSTONE the key's.  Row-id tables take
 * PUT only.
 */
typedef struct RoseBlindRow
{
	RoseOp		op;
	MinimalTuple row;
	const bits8 *present;		/* PARTIAL only */
	Datum	   *key;			/* points into row */
	struct RoseBlindEntry *entries; /* of each index (rose_blind_entries.h); NULL: none is written */
	uint64		origin;			/* the caller's: what it is of; for who waits with it (rose_blind_beside.h) */
	uint8		ask;			/* a RoseBlindAsk */
} RoseBlindRow;

/* Secondary indexes of a table, open for blind writes. */
typedef struct RoseBlindIndexes RoseBlindIndexes;

extern void rose_blind_form(RoseTree *tree, RoseOp op, const Datum *values,
							const bool *nulls, const bits8 *present,
							RoseBlindRow *out);

/*
 * Write n of them, in this order, and then their entries.  Waits for room in C0 (may spill the table's own
 * C0, and that of its indexes, in this process), and for transactions that hold a row.  indexes: or NULL.
 * below: what was there before each of those that ask, as a RoseBlindBelow; NULL: none asks.  Then the tree has a
 * key, and there are no more than ROSE_BLIND_ASK_MAX of them.
 */
extern void rose_blind_write(RoseTree *tree, RoseBlindIndexes *indexes, const RoseBlindRow *rows,
							 int n, CommandId cid, uint8 *below);

/*
 * Hold a key's row, if there is one, until the end of the transaction, as an update that keeps the key: for who reads it before he
 * writes.  Waits as rose_blind_write.  REQUIRES: the tree is logged.
 */
extern void rose_blind_lock(RoseTree *tree, const Datum *key, CommandId cid);

#endif							/* ROSE_BLIND_H */
