/*-------------------------------------------------------------------------
 *
 * rose_tail.h
 *	  The tail log: local writes, WAL-logged, so that C0 can be rebuilt.
 *
 * Writing it; rose_tail_replay.h reads it.  All but has_segment and record_size REQUIRE a
 * writing section of C0 (memtable/rose_c0.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TAIL_H
#define ROSE_TAIL_H

#include "postgres.h"

#include "access/htup_details.h"
#include "utils/rel.h"

#include "util/rose_layout.h"
#include "util/rose_version.h"
#include "store/rose_store.h"

typedef struct RoseTailRecord
{
	RoseVersion version;		/* present may be NULL */
	MinimalTuple row;			/* may be NULL */
} RoseTailRecord;

/* Bytes that a record takes in the log, at most. */
extern Size rose_tail_record_size(int natts, const RoseTailRecord *record);

/*
 * Make room (a segment if none is open, regions), so that the next append of up
 * to nbytes cannot fail for want of disk.  May do I/O and raise errors; call
 * before anything irrevocable.
 *
 * False: a segment is needed, and the list of them is too long.  Writers then have the
 * table spilled; for_spill: the last few are for the spill.
 */
extern bool rose_tail_reserve(Relation rel, RoseStoreShared *store, const RoseLayout *layout,
							  Size nbytes, bool for_spill);

/* Would a writer get a segment just now?  Exact in a writing section of C0. */
extern bool rose_tail_has_segment(RoseStoreShared *store);

/*
 * Append records, whose rows have this layout, or an earlier one that it goes on from;
 * room for them must be reserved.  After an error (I/O only) some of them may be in the
 * log; their (sub)transaction aborts, so that replay's reader discards them.
 */
extern void rose_tail_append(Relation rel, RoseStoreShared *store, const RoseLayout *layout,
							 const RoseTailRecord *records, int nrecords);

/*
 * Close the open segment (a memtable was frozen); the next append opens a new
 * one.  Returns the newest segment there is, for drop_tails_upto of the edit
 * that publishes the memtable's run; 0 = the tail list is empty.
 */
extern uint32 rose_tail_close_segment(RoseStoreShared *store);

/*
 * Nothing is in C0, so nobody needs what is in the tail log: drop all segments.
 * Transactions that aborted leave such ones.  next_seq: C0's.
 */
extern void rose_tail_drop_all(Relation rel, RoseStoreShared *store, uint64 next_seq);

#endif							/* ROSE_TAIL_H */
