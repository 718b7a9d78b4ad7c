/*-------------------------------------------------------------------------
 *
 * rose_tail_replay.h
 *	  Reading the tail log, after a start of the server.
 *
 * No lock: whoever recovers a table keeps others from writing it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TAIL_REPLAY_H
#define ROSE_TAIL_REPLAY_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

#include "store/rose_tail.h"

/*
 * Reads all segments in the tail list, oldest first.  Each segment ends at its last
 * complete record.  Records come in the order in which they were appended and are valid
 * until the next one; version.present has ROSE_PRESENT_BYTES(natts) bytes, natts those of
 * the layout at hand, also for older and shorter rows.
 *
 * layout() is called before records of another layout come, with one that is valid as
 * long as the reader.  Not for records of segments of version 2, in which nothing says
 * it: they have natts columns.
 *
 * tell: the position between two records; go: on from there, also with another reader and
 * in another process, as long as the tail list is the same.  layout() is called for what
 * the records there have.
 */
typedef void (*RoseTailLayoutCallback) (void *arg, const RoseLayout *layout);

typedef struct RoseTailPosition
{
	uint32		segment;
	BlockNumber block;			/* page, and where on it; InvalidBlockNumber: the first one */
	uint32		page_number;
	uint32		offset;
	uint32		inside;			/* of what is packed there, if it is not 0 */
	struct
	{
		uint8		op;
		CommandId	cid;
		TransactionId subxid;
		uint64		seq;
		FullTransactionId xid;
	}			before;			/* of the record before it; op 0: there is none */
	bool		told;			/* the segment has said a layout ... */
	BlockNumber layout_block;	/* ... there */
	uint32		layout_page_number;
	uint32		layout_offset;
} RoseTailPosition;

typedef struct RoseTailReader RoseTailReader;

extern RoseTailReader *rose_tail_reader_create(Relation rel, int natts,
											   RoseTailLayoutCallback layout, void *arg,
											   MemoryContext parent);
extern bool rose_tail_reader_next(RoseTailReader *reader, RoseTailRecord *record);
extern void rose_tail_reader_tell(const RoseTailReader *reader, RoseTailPosition *position);
extern void rose_tail_reader_go(RoseTailReader *reader, const RoseTailPosition *position);
extern void rose_tail_reader_free(RoseTailReader *reader);

#define ROSE_TAIL_UNTOLD_VERSION	2	/* and older: does not say it */

/*
 * The layout that the tail log begins with, or NULL if it has no records.  *told: false
 * if there are records that do not say it.  No lock is needed.
 */
extern RoseLayout *rose_tail_first_layout(Relation rel, bool *told);

#endif							/* ROSE_TAIL_REPLAY_H */
