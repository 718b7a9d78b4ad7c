/*-------------------------------------------------------------------------
 *
 * rose_version.h
 *	  The version: one write of one key, the unit that all layers exchange.
 *
 * Versions are ordered by key ascending, then sequence descending (newest
 * first).  A table's sequence numbers are unique and, for one key, in commit
 * order.  Merges forget those that nobody can need any more: ROSE_SEQ_OLDEST.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VERSION_H
#define ROSE_VERSION_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"

/* Embedded on disk: never renumber. */
typedef enum RoseOp
{
	ROSE_OP_PUT = 1,			/* the whole row */
	ROSE_OP_PARTIAL = 2,		/* the columns named by the presence bitmap */
	ROSE_OP_TOMBSTONE = 3,		/* the key is deleted; the row has only the key */
	ROSE_OP_LOCK = 4			/* a row lock; lives in C0 only, no data */
} RoseOp;

/*
 * The header of a version, common to C0 and components.
 *
 * xid is the full top-level transaction id.  subxid is the (sub)transaction
 * that wrote it if that is not the top-level one, else InvalidTransactionId;
 * subxid and cid are kept in C0 and in private runs only, elsewhere they are
 * InvalidTransactionId and 0.
 *
 * moved_to is, for the tombstone half of an UPDATE that changed the key, the sequence of
 * the PUT under the new key; ROSE_MOVED_TO_PARTITION if the row went to another table.
 * That PUT has ROSE_MOVED_HERE, as long as somebody may come from the tombstone and look
 * for its number.  Else 0.
 */
#define ROSE_MOVED_TO_PARTITION PG_UINT64_MAX
#define ROSE_MOVED_HERE ((uint64) 1)

typedef struct RoseVersion
{
	uint64		seq;
	FullTransactionId xid;
	TransactionId subxid;
	CommandId	cid;
	uint8		op;				/* RoseOp */
	uint8		lockmode;		/* LockTupleMode of a ROSE_OP_LOCK; of a PUT that has changed what foreign keys
								 * may refer to LockTupleExclusive, as long as it is in memory; else 0 */
	int64		rowid;			/* hidden row id; 0 in tables with a key */
	uint64		moved_to;
	const bits8 *present;		/* PARTIAL: att i present if bit i-1 set
								 * (att_isnull sense reversed); else NULL */
} RoseVersion;

/*
 * Sequence of a version that is the oldest one of its key, whatever it was before; its
 * xid stands for any older or equal one.  Numbers of new versions begin behind it.
 */
#define ROSE_SEQ_OLDEST		((uint64) 1)
#define ROSE_SEQ_FIRST		((uint64) 2)

/*
 * Is the newest version of a key that a snapshot sees, as found now, the one that this
 * transaction holds, read earlier, of the same key?  The snapshot must see the one held.
 * What was forgotten meanwhile is older than, or is, all that anybody holds ("Forgotten
 * versions" in src/lsm/merge/README.md).
 */
static inline bool
rose_version_is_held(const RoseVersion *found, const RoseVersion *held)
{
	return found->seq == held->seq || found->seq == ROSE_SEQ_OLDEST;
}

#define ROSE_PRESENT_BYTES(natts) (((natts) + 7) / 8)
#define rose_present_test(bits, attno) \
	(((bits)[((attno) - 1) >> 3] & (1 << (((attno) - 1) & 7))) != 0)
#define rose_present_set(bits, attno) \
	((bits)[((attno) - 1) >> 3] |= (1 << (((attno) - 1) & 7)))
#define rose_present_clear(bits, attno) \
	((bits)[((attno) - 1) >> 3] &= ~(1 << (((attno) - 1) & 7)))

#endif							/* ROSE_VERSION_H */
