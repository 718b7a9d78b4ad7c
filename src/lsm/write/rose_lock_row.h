/*-------------------------------------------------------------------------
 *
 * rose_lock_row.h
 *	  Row locks by TID.
 *
 * PostgreSQL's rules of conflicts hold, as for changes (rose_modify.h).  May wait for other
 * transactions and for room; no LWLock may be held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LOCK_ROW_H
#define ROSE_LOCK_ROW_H

#include "postgres.h"

#include "access/tableam.h"
#include "nodes/lockoptions.h"

#include "lsm/read/rose_lookup.h"

/*
 * As table_tuple_lock: same TM_Result and TM_FailureData rules.  On TM_Ok *row is the locked
 * version (valid until the next call with lookup).
 */
extern TM_Result rose_lock_row(RoseTree *tree, RoseLookup *lookup, ItemPointer tid,
							   CommandId cid, LockTupleMode mode,
							   LockWaitPolicy wait_policy, uint8 flags,
							   const RoseRow **row, ItemPointer newest_tid,
							   TM_FailureData *tmfd);

#endif							/* ROSE_LOCK_ROW_H */
