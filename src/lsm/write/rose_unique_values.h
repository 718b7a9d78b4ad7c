/*-------------------------------------------------------------------------
 *
 * rose_unique_values.h
 *	  Values of unique indexes that a row is to have: locked, looked at, waited for.
 *
 * For this folder only.  A write lists the values that its row is to have and does not have
 * yet (rose_entries.h), among them the key of the table, locks their partitions, and looks
 * at all of them.  If all are free it writes the row and the entries, and unlocks them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_UNIQUE_VALUES_H
#define ROSE_UNIQUE_VALUES_H

#include "postgres.h"

#include "lsm/tree/rose_index_set.h"
#include "lsm/read/rose_key_range.h"
#include "lsm/write/rose_duplicate.h"
#include "lsm/write/rose_unique.h"

typedef struct RoseUniqueValue
{
	RoseTree   *tree;			/* of the index; or the table: then it is its key */
	const RoseIndexTree *index; /* NULL: the table's key */
	Oid			indexid;		/* of the primary key, then */
	Datum		key[INDEX_MAX_KEYS];	/* of the row's entry ... */
	Datum		left[INDEX_MAX_KEYS];	/* ... and of the one that it has still, if it has one */
	bool		leaves;
	bool		duplicate;		/* deferrable: when it was looked at, another row may have had it */
	bool		over;			/* nobody looks at it any more: rose_unique_value_is_over */
} RoseUniqueValue;

typedef struct RoseUniqueValues
{
	RoseTree   *table;
	bool		row_written;	/* the row is in the table, entries may not be */
	int			nvalues;
	RoseUniqueValue *values;	/* in the order of their indexes' OIDs, as core checks them; of valid ones first */
	int			npartitions;
	int		   *partitions;		/* of the values, and others that are to be locked with them */
} RoseUniqueValues;

/* Room for so many values, in the current context. */
extern RoseUniqueValues *rose_unique_values_create(RoseTree *table, int max);

/* Returns the new one: key and left are to be set, and copied Datums are to live as long. */
extern RoseUniqueValue *rose_unique_values_add(RoseUniqueValues *values, RoseTree *tree,
											   const RoseIndexTree *index);

/* The table's key is one of them; key: stays in place. */
extern void rose_unique_values_add_key(RoseUniqueValues *values, const Datum *key);

/* One that is locked with them. */
extern void rose_unique_values_add_partition(RoseUniqueValues *values, int partition);

/* All were added. */
extern void rose_unique_values_settle(RoseUniqueValues *values);

/* No LWLock may be held, and none but C0's sections be entered in between. */
extern void rose_unique_values_lock(const RoseUniqueValues *values);
extern void rose_unique_values_unlock(const RoseUniqueValues *values);

/*
 * The first one that is not free, *taken, and whom that depends on if it is BUSY.  Those of
 * deferrable constraints are noted only.  When the row is written, entries of it do not
 * count, nor the table's key.  REQUIRES: they are locked.
 */
extern RoseKeyState rose_unique_values_look(RoseUniqueValues *values, RoseUniqueValue **taken,
											TransactionId *xwait);

/*
 * It was taken; but the index is being dropped beside writers (DROP INDEX or REINDEX
 * CONCURRENTLY), some of whom do not keep it up any more, so what it says is not so?  Then
 * the next look passes it over.  No LWLock may be held.
 */
extern bool rose_unique_value_is_over(RoseUniqueValue *value);

/* The row has got its number: without a key its entries have another row id than was known before. */
extern void rose_unique_values_note_row(RoseUniqueValues *values, int64 rowid);

/* Tell whoever raises the error of this one. */
extern void rose_unique_value_describe(const RoseUniqueValue *value, MemoryContext context,
									   RoseDuplicate *duplicate);

/* The new row has this TID: deferrable constraints that may be violated are noted (rose_duplicate.h); false: none. */
extern bool rose_unique_values_note_duplicates(const RoseUniqueValues *values,
											   const ItemPointerData *tid);

/*
 * Have other rows than those of the entries 'own' and 'left' (each may be NULL) the value that
 * the first nvalue columns of key are?  *found: there is an entry 'own'; may be NULL.  Holds
 * for a moment, or as long as the value's partition is locked.
 */
extern RoseKeyState rose_unique_value_state(RoseTree *index, int nvalue, const Datum *key,
											const Datum *own, const Datum *left,
											TransactionId *xwait, bool *found);

/* All entries of the value that the first nvalue columns of this key are. */
extern void rose_unique_value_range(const RoseSchema *schema, int nvalue, const Datum *key,
									RoseKeyRange *range);

/* Is this a value that any number of rows may have, since there is a NULL in it? */
extern bool rose_unique_value_is_distinct(const RoseIndexTree *index, const RoseSchema *schema,
										  const Datum *key);

#endif							/* ROSE_UNIQUE_VALUES_H */
