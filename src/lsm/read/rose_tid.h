/*-------------------------------------------------------------------------
 *
 * rose_tid.h
 *	  TIDs: names of versions, private to a transaction and to those that share its snapshot.
 *
 * A TID has room for 2^40 rows of a tree: 32 bits of block number and the
 * offsets 1 .. 256 (below MaxHeapTuplesPerPage, as core demands).  There are three kinds:
 *
 *	- by sequence number, in the third quarter of the blocks;
 *	- by place in the base, in the lowest quarter.  The base is a list of components, as of
 *	  the first statement of the transaction that uses ctids of the table;
 *	- by place in any other component that the transaction meets, in the second
 *	  quarter.
 *
 * A version that is spilled and merged while the transaction lasts could be named in more
 * than one of these ways.  That does no harm as long as nobody compares names: each of
 * them leads to the version.  Statements in which ctids are used are exact: they give
 * every version the one name that rose_tid_base.c decides on, and that the whole
 * transaction keeps to.  Other statements, whose TIDs nobody sees, take what costs
 * nothing.
 *
 * Nothing of this outlives the transaction.  Where the names begin differs from
 * transaction to transaction, so a TID that somebody kept finds nothing.
 *
 * Components stay pinned until the transaction ends.  A C0 version may be spilled and
 * even merged meanwhile; it is then looked for by its sequence number in the
 * components that can have it, through an array of the sequence numbers that
 * this transaction may have handed out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TID_H
#define ROSE_TID_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "store/rose_manifest.h"
#include "lsm/tree/rose_tree.h"

#define ROSE_TID_PER_BLOCK		256
#define ROSE_TID_OTHER_BLOCK	((BlockNumber) 0x40000000)
#define ROSE_TID_MEMORY_BLOCK	((BlockNumber) 0x80000000)

/* TIDs as numbers: block, then offset. */
#define ROSE_TID_MEMORY			((uint64) ROSE_TID_MEMORY_BLOCK * ROSE_TID_PER_BLOCK)
#define ROSE_TID_SEQS			(UINT64CONST(1) << 38)
#define ROSE_TID_SEQ_MASK		(ROSE_TID_SEQS - 1)

/*
 * Are names of versions used in the statement that is being executed?  Set by whoever
 * starts and ends statements.
 */
extern bool rose_tid_exact;

/*
 * Before an exact statement looks at the table's sources: its names are decided on.
 */
extern void rose_tid_prepare_exact(RoseTree *tree);

static inline void
rose_tid_prepare(RoseTree *tree)
{
	if (unlikely(rose_tid_exact))
		rose_tid_prepare_exact(tree);
}

/* TID of a row of this table, for the transaction's own use; component NULL means C0. */
extern void rose_tid_assign(RoseTree *tree, const RoseComponentEntryDisk *component,
							uint64 ordinal, uint64 seq, ItemPointer tid);

/*
 * TID of a row that the snapshot sees, for anybody: row->key, ordinal and version's
 * sequence number are used.
 */
extern void rose_tid_name(RoseTree *tree, const RoseComponentEntryDisk *component,
						  const RoseRow *row, Snapshot snapshot, ItemPointer tid);

/*
 * Row n of this component has the TID with this number plus n.  Good until the statement
 * ends.  False: it has no such number, the rows must be named one by one.
 */
extern bool rose_tid_first_number(RoseTree *tree, const RoseComponentEntryDisk *component,
								  uint64 *number);

/* For versions in C0 with sequence numbers from min_seq to max_seq: see rose_tid_from_seq. */
extern uint64 rose_tid_memory_salt(RoseTree *tree, uint64 min_seq, uint64 max_seq);

static inline void
rose_tid_from_number(uint64 number, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (number / ROSE_TID_PER_BLOCK),
				   (OffsetNumber) (number % ROSE_TID_PER_BLOCK + FirstOffsetNumber));
}

static inline void
rose_tid_from_seq(uint64 salt, uint64 seq, ItemPointer tid)
{
	rose_tid_from_number(ROSE_TID_MEMORY | ((salt + seq) & ROSE_TID_SEQ_MASK), tid);
}

typedef struct RoseTidTarget
{
	uint64		seq;			/* C0 version, if component is NULL */
	RoseComponent *component;
	const RoseComponentEntryDisk *entry;
	uint64		ordinal;
} RoseTidTarget;

/* False: no TID of this transaction. */
extern bool rose_tid_resolve(RoseTree *tree, const ItemPointerData *tid,
							 RoseTidTarget *target);

/* Row of a component that has this sequence number: fills target; false if there is none. */
extern bool rose_tid_find_in_components(RoseTree *tree, uint64 seq,
										RoseTidTarget *target);

/* Does a name of this transaction stand for a place in a component? */
extern bool rose_tid_names_places(RoseTree *tree);

/* End of the top-level transaction: forget everything. */
extern void rose_tid_reset_all(void);

/* --- snapshots that transactions share (lsm/read/rose_tid_share.c) --- */
extern Size rose_tid_shmem_size(void);
extern void rose_tid_shmem_init(bool found);

/* The transaction has imported the snapshot of this name. */
extern void rose_tid_note_import(const char *name);

#endif							/* ROSE_TID_H */
