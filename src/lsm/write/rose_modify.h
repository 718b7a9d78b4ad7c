/*-------------------------------------------------------------------------
 *
 * rose_modify.h
 *	  UPDATE and DELETE by TID.
 *
 * PostgreSQL's rules of conflicts hold: what the functions return, and what they say in
 * TM_FailureData, is what heap's would.  All may wait for other transactions and for
 * room; no LWLock may be held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MODIFY_H
#define ROSE_MODIFY_H

#include "postgres.h"

#include "access/tableam.h"

#include "lsm/read/rose_lookup.h"
#include "lsm/write/rose_duplicate.h"

/* A change of one row: what table_tuple_delete and _update are told, and where they say why it could not be. */
typedef struct RoseChange
{
	ItemPointerData tid;
	CommandId	cid;
	Snapshot	crosscheck;		/* that must see the row, too, or InvalidSnapshot */
	bool		wait;			/* for others who change the row */
	TM_FailureData *tmfd;
} RoseChange;

typedef struct RoseUpdated
{
	LockTupleMode lockmode;		/* in which the old row is held */
	bool		duplicate;		/* the (sub)transaction has to fail, because a row has the new key, or a value
								 * of a unique index, already ... */
	RoseDuplicate which;		/* ... in the current context ... */
	ItemPointerData tid;		/* ... or on TM_Ok the new row */
	bool		recheck;		/* deferrable constraints may be violated (rose_duplicate.h) */
} RoseUpdated;

/*
 * As table_tuple_delete and _update: same TM_Result and TM_FailureData rules.
 * changing_part: the row goes on in another partition.
 */
extern TM_Result rose_delete(RoseTree *tree, const RoseChange *change, bool changing_part);
extern TM_Result rose_update(RoseTree *tree, const RoseChange *change, const Datum *values,
							 const bool *nulls, RoseUpdated *updated);

#endif							/* ROSE_MODIFY_H */
