/*-------------------------------------------------------------------------
 *
 * rose_slot.h
 *	  Tuple table slots for rows of rose tables.
 *
 * Backend-local.  A slot says which version it shows; what that version is to a snapshot
 * was decided when it was stored.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SLOT_H
#define ROSE_SLOT_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

#include "lsm/read/rose_lookup.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_wanted.h"

extern const TupleTableSlotOps rose_slot_ops;

#define ROSE_SLOT_IS(slot) ((slot)->tts_ops == &rose_slot_ops)

typedef enum RoseSlotVersion
{
	ROSE_SLOT_NO_VERSION,
	ROSE_SLOT_HAS_VERSION,		/* row.version is that of the slot's row */
	ROSE_SLOT_REPLACES_LOCKED,	/* likewise, and it replaces one that its command had locked */
	ROSE_SLOT_VERSION_IN_ROWS	/* it is to be asked of the rows that it is one of */
} RoseSlotVersion;

typedef struct RoseSlotGuard RoseSlotGuard;

/* Private to rose_slot.c and the functions below. */
typedef struct RoseTupleSlot
{
	VirtualTupleTableSlot base;
	const RoseSchema *schema;	/* of the row */
	bool		has_row;		/* row holds the values */
	bool		in_stretch;		/* ... and is one of many that are taken from row.rows */
	RoseSlotVersion version;
	RoseRow		row;			/* key is not kept */
	char	   *buffer;			/* a C0 row's tuple */
	Size		buffer_size;
	bool		rows_are_shared;	/* row.rows belong to a cached lookup */
	RoseSlotGuard *guard;		/* NULL until it had one like that */
	const Scan *plan;			/* that alone reads the slot, and was not asked for columns yet; or NULL ... */
	const Plan *reader;			/* ... whose rows go as they are to this one, which alone reads them; or NULL */
	const RoseWanted *wanted;	/* columns that it reads; NULL: not known, or all up to the last one */
	bool		skipped;		/* others before tts_nvalid are not there */
} RoseTupleSlot;

/* The executor has made these nodes: their slots have the plans that read them (rose_slot_wanted.c). */
extern void rose_slot_note_plans(PlanState *state);

/* REQUIRES plan. */
extern const RoseWanted *rose_slot_find_wanted(RoseTupleSlot *rslot);

/* Is it the slot of a scan that the executor has made, and keeps until it ends the scan? */
static inline bool
rose_slot_is_of_plan(const TupleTableSlot *slot)
{
	return ROSE_SLOT_IS(slot) && (((const RoseTupleSlot *) slot)->plan != NULL ||
								  ((const RoseTupleSlot *) slot)->wanted != NULL);
}

/* The columns that are read of the slot's rows, if it is known that others before them are not; or NULL. */
static inline const RoseWanted *
rose_slot_wanted(RoseTupleSlot *rslot)
{
	return unlikely(rslot->plan != NULL) ? rose_slot_find_wanted(rslot) : rslot->wanted;
}

/*
 * Put a row of this table into the slot.  The slot keeps it alive (rows in place by
 * reference, a tuple by copy) until it is cleared; columns are decoded when asked for.
 */
extern void rose_slot_store(TupleTableSlot *slot, RoseTree *tree,
							const RoseRow *row, const ItemPointerData *tid);

/* The same for a row of a cached lookup (rose_lookup_cached), which outlives the statement. */
extern void rose_slot_store_shared(TupleTableSlot *slot, RoseTree *tree,
								   const RoseRow *row, const ItemPointerData *tid);

/*
 * The slot's values were just written by the current transaction as the row
 * tid: lets RETURNING and foreign keys see tid, tableoid, xmin and cmin.  Any
 * kind of slot.
 */
extern void rose_slot_written(TupleTableSlot *slot, RoseTree *tree, CommandId cid);

/* What was just written replaces a row that its command had locked: xmax says so. */
extern void rose_slot_replaces_locked(TupleTableSlot *slot);

/* Clear the rose slots of a list of slots. */
extern void rose_slot_clear_list(List *slots);

/* Take the first row from a stretch that the slot is not on yet. */
extern void rose_slot_open_stretch(TupleTableSlot *slot, RoseTree *tree,
								   RoseStretch *stretch);

/* The same if the slot holds a row of another stretch of this scan. */
extern void rose_slot_switch_stretch(TupleTableSlot *slot, RoseStretch *stretch);

/*
 * Make the slot ready for values that the caller puts into it, for one row after the other: all
 * columns are NULL.  That holds until somebody clears the slot, or makes it keep what it has
 * (rose_slot_takes_values).
 */
extern void rose_slot_open_values(TupleTableSlot *slot, RoseTree *tree);

static inline bool
rose_slot_takes_values(const TupleTableSlot *slot)
{
	return !TTS_EMPTY(slot) && !TTS_SHOULDFREE(slot);
}

/* The version that those values are of. */
extern void rose_slot_set_version(TupleTableSlot *slot, const RoseVersion *version);

/* Does the slot hold a row of a stretch of this table? */
static inline bool
rose_slot_in_stretch(const TupleTableSlot *slot, const RoseTree *tree)
{
	const RoseTupleSlot *rslot = (const RoseTupleSlot *) slot;

	return rslot->in_stretch && rslot->schema == tree->schema;
}

/* Of this one, or one of the same rows? */
static inline bool
rose_slot_on_stretch(const TupleTableSlot *slot, const RoseStretch *stretch)
{
	const RoseTupleSlot *rslot = (const RoseTupleSlot *) slot;

	return rslot->in_stretch && rslot->row.rows == stretch->rows;
}

/* Take the next row from it. */
static inline void
rose_slot_next_of_stretch(TupleTableSlot *slot, RoseStretch *stretch)
{
	RoseTupleSlot *rslot = (RoseTupleSlot *) slot;

	rslot->row.slot = stretch->next++;
	rslot->version = ROSE_SLOT_VERSION_IN_ROWS;
	slot->tts_nvalid = 0;
	rose_stretch_tid(stretch, rslot->row.slot, &slot->tts_tid);
}

#endif							/* ROSE_SLOT_H */
