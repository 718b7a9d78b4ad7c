/*-------------------------------------------------------------------------
 *
 * rose_tid.h
 *	  TIDs: names of versions, private to a backend and a transaction.
 *
 * A TID has room for 2^40 rows of a table: 32 bits of block number and the
 * offsets 1 .. 256 (below MaxHeapTuplesPerPage, as core demands).  Each component that
 * a transaction meets gets a range of "blocks" of its own below
 * ROSE_TID_MEMORY_BLOCK, in which a row is named by its ordinal; above it a C0
 * version is named by its sequence number.  Nothing of this outlives the
 * transaction, so a TID that somebody kept names nothing, never a wrong row.
 *
 * A component stays pinned until the transaction ends.  A C0 version may be spilled and
 * even merged meanwhile; it is then looked for by its sequence number in the
 * components that can have it, through an array of the sequence numbers that
 * this transaction may have handed out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TID_H
#define ROSE_TID_H

#include "postgres.h"

#include "lsm/rose_table.h"
#include "storage/itemptr.h"

#define ROSE_TID_PER_BLOCK		256
#define ROSE_TID_MEMORY_BLOCK	((BlockNumber) 0x80000000)

/* TID of a row of this table; component 0 means C0. */
extern void rose_tid_assign(RoseTable *table, const RoseComponentEntryDisk *component,
							uint64 ordinal, uint64 seq, ItemPointer tid);

/*
 * TIDs as numbers: row n of this component has the TID with the number that this
 * returns, plus n.  Good until the transaction ends.
 */
extern uint64 rose_tid_first_number(RoseTable *table,
									const RoseComponentEntryDisk *component);

/* The same for versions in C0 with sequence numbers from min_seq to max_seq: plus the number. */
extern uint64 rose_tid_memory_number(RoseTable *table, uint64 min_seq, uint64 max_seq);

static inline void
rose_tid_from_number(uint64 number, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (number / ROSE_TID_PER_BLOCK),
				   (OffsetNumber) (number % ROSE_TID_PER_BLOCK + FirstOffsetNumber));
}

typedef struct RoseTidTarget
{
	uint64		seq;			/* C0 version, if component is NULL */
	RoseComponent *component;
	const RoseComponentEntryDisk *entry;
	uint64		ordinal;
} RoseTidTarget;

/* False: no TID of this transaction. */
extern bool rose_tid_resolve(RoseTable *table, const ItemPointerData *tid,
							 RoseTidTarget *target);

/* Row of a component that has this sequence number: fills target; false if there is none. */
extern bool rose_tid_find_in_components(RoseTable *table, uint64 seq,
										RoseTidTarget *target);

/* End of the top-level transaction: forget everything. */
extern void rose_tid_reset_all(void);

#endif							/* ROSE_TID_H */
