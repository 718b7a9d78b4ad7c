/*-------------------------------------------------------------------------
 *
 * rose_blind_entries.h
 *	  Entries of secondary indexes of what is written blindly.
 *
 * For replication, as rose_blind.h: the indexes of a table are opened once for many rows, the
 * entries of a row are formed with the row, and written with it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLIND_ENTRIES_H
#define ROSE_BLIND_ENTRIES_H

#include "postgres.h"

#include "memtable/rose_c0.h"
#include "lsm/tree/rose_entry.h"
#include "lsm/write/rose_blind.h"

/* The entry of a row in one index. */
typedef struct RoseBlindEntry
{
	MinimalTuple row;			/* NULL: none is written */
	Datum	   *key;			/* points into row */
} RoseBlindEntry;

/*
 * NULL: the table has none.  Lives in context, and until the end of the transaction.  The indexes are
 * locked until then, too.  No LWLock may be held.
 */
extern RoseBlindIndexes *rose_blind_indexes_open(RoseTree *table, MemoryContext context);
extern void rose_blind_indexes_close(RoseBlindIndexes *indexes);

/*
 * A PARTIAL version is to be written, of which these columns are present: must the old row be asked
 * for the others, because an entry has some of both?  key_is_same: of a row that is there, the
 * columns of the table's key keep their images.  indexes: or NULL.
 */
extern bool rose_blind_needs_row(const RoseBlindIndexes *indexes, const bits8 *present,
								 bool key_is_same);

/*
 * The entries of a row that is formed, in the current context; values as rose_blind_form's.
 * Returns their bytes.  Calls functions of users, as the table's owner, and raises what they
 * raise.  indexes: or NULL.
 */
extern Size rose_blind_form_entries(RoseBlindIndexes *indexes, const Datum *values,
									const bool *nulls, RoseBlindRow *row);

/* The table and its indexes: n. */
extern RoseTree *const *rose_blind_trees(const RoseBlindIndexes *indexes, int *n);

/* For this folder only. */

/* Of the i-th index. */
extern const RoseEntryShape *rose_blind_shape(const RoseBlindIndexes *indexes, int i);

/*
 * These rows were written, the i-th with the number seqs[i] and for the rest with this stamp: write
 * their entries.  Waits for room in C0.
 */
extern void rose_blind_write_entries(RoseBlindIndexes *indexes, const RoseBlindRow *rows,
									 const uint64 *seqs, int n, const RoseVersion *stamp,
									 const RoseOwnRules *rules);

#endif							/* ROSE_BLIND_ENTRIES_H */
