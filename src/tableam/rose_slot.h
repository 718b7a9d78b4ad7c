/*-------------------------------------------------------------------------
 *
 * rose_slot.h
 *	  Tuple table slots for rows of rose tables.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SLOT_H
#define ROSE_SLOT_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "lsm/rose_table.h"

extern const TupleTableSlotOps rose_slot_ops;

#define ROSE_SLOT_IS(slot) ((slot)->tts_ops == &rose_slot_ops)

/*
 * Put a row of this table into the slot.  The slot keeps it alive (a leaf by
 * reference, a tuple by copy) until it is cleared; columns are decoded when asked for.
 */
extern void rose_slot_store(TupleTableSlot *slot, RoseTable *table,
							const RoseRow *row, const ItemPointerData *tid);

/*
 * The slot's values were just written by the current transaction as the row
 * tid: lets RETURNING and foreign keys see tid, tableoid, xmin and cmin.  Any
 * kind of slot.
 */
extern void rose_slot_written(TupleTableSlot *slot, RoseTable *table, CommandId cid);

#endif							/* ROSE_SLOT_H */
