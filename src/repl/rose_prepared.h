/*-------------------------------------------------------------------------
 *
 * rose_prepared.h
 *	  What upstream transactions did that are prepared there, kept until they are committed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PREPARED_H
#define ROSE_PREPARED_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

typedef struct RosePrepared
{
	TransactionId xid;			/* of the upstream */
	const char *gid;
	XLogRecPtr	lsn;			/* of PREPARE's record */
	TimestampTz time;
	int64		nbytes;			/* of its messages; -1: they came to somebody else */
} RosePrepared;

/* The next len bytes of something; or bytes that come next. */
typedef void (*RosePreparedRead) (void *data, int len, void *arg);
typedef void (*RosePreparedWrite) (const void *data, int len, void *arg);

/* Each needs a transaction and an active snapshot, if nothing else is said. */

/* Keep one, whose nbytes 'read' brings; what was kept of its xid before goes. */
extern void rose_prepared_keep(Oid subid, const RosePrepared *prepared, RosePreparedRead read, void *arg);

/* All bytes of one, in order; if there is such one, and it did not come to somebody else. */
typedef enum RosePreparedFound
{
	ROSE_PREPARED_NONE,
	ROSE_PREPARED_ELSEWHERE,
	ROSE_PREPARED_KEPT
} RosePreparedFound;

extern RosePreparedFound rose_prepared_fetch(Oid subid, TransactionId xid, const char *gid, RosePreparedWrite write, void *arg);

/*
 * A slot that sends what is prepared may have sent some of it to somebody else before the subscription took it over.
 * has_taken_over: it has done so with this slot, and knows lsn: of commits up to there nothing may have come.  take_over: that is
 * so from now on; elsewhere: what is prepared just now, and is not kept here, as a list of RosePrepared.
 */
extern bool rose_prepared_has_taken_over(Oid subid, const char *slot, XLogRecPtr *lsn);
extern void rose_prepared_take_over(Oid subid, const char *slot, XLogRecPtr lsn, List *elsewhere);

/* xids of those that were noted so, and not finished. */
extern List *rose_prepared_elsewhere(Oid subid);

/* It was committed, and that is applied by this transaction: it goes when the upstream sends nothing from before this any more. */
extern void rose_prepared_finish(Oid subid, TransactionId xid, XLogRecPtr end_lsn);

/* It was rolled back; or (all of them) nobody needs any. */
extern void rose_prepared_forget(Oid subid, TransactionId xid);
extern void rose_prepared_forget_all(Oid subid);

/*
 * Of those that were committed, forget what the upstream cannot send again.  take_up: a worker begins with the subscription.
 * may_be_confirmed: it is worth looking, which it is not more than now and then; needs no transaction.
 */
extern void rose_prepared_take_up(void);
extern bool rose_prepared_may_be_confirmed(TimestampTz now);
extern void rose_prepared_forget_confirmed(Oid subid, XLogRecPtr confirmed);

#endif							/* ROSE_PREPARED_H */
