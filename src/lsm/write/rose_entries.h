/*-------------------------------------------------------------------------
 *
 * rose_entries.h
 *	  Entries of secondary indexes, written with the rows that they are of.
 *
 * For this folder only.  An insertion or a change opens the indexes, tells what the row
 * was, writes the row, and then its entries.  The row is written only if these are still
 * the indexes that writers keep up (generation); else it opens them anew.  No LWLock may be
 * held in any of these.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ENTRIES_H
#define ROSE_ENTRIES_H

#include "postgres.h"

#include "lsm/component/rose_row.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/write/rose_new_version.h"
#include "lsm/write/rose_unique_values.h"

/* A table's indexes, open for the writes of one call. */
typedef struct RoseEntryWriter RoseEntryWriter;

typedef struct RoseEntries
{
	RoseEntryWriter *writer;	/* NULL: the table has no secondary indexes */
	uint64		generation;		/* what is written with it is told this (rose_write.h) */
	MemoryContext context;		/* in which all of it lives */
} RoseEntries;

extern RoseEntryWriter *rose_entries_open_set(RoseTree *table, const RoseIndexSet *set);

/* In the current context. */
static inline void
rose_entries_open(RoseTree *table, RoseEntries *entries)
{
	const RoseIndexSet *set = rose_index_set(table);

	entries->generation = table->index_generation;
	entries->context = CurrentMemoryContext;
	entries->writer = likely(set == NULL) ? NULL : rose_entries_open_set(table, set);
}

/* They may be other indexes by now: open those.  What was noted of an old row is gone. */
extern void rose_entries_reopen(RoseTree *table, RoseEntries *entries);

/* May a row be written with them, as far as can be told now? */
static inline bool
rose_entries_are_current(RoseTree *table, const RoseEntries *entries)
{
	return likely(entries->generation == rose_index_generation(table));
}

/* The row that is to be changed, before it is. */
extern void rose_entries_note_old(RoseEntryWriter *writer, const RoseRow *row);

/*
 * Values of unique indexes that the row of 'put' is to have and the row noted has not;
 * NULL: there is none.  They are not settled; 'put' has to stay in place.
 */
extern RoseUniqueValues *rose_entries_values(RoseEntryWriter *writer, const RoseNewVersion *put);

/* Are there unique ones among the indexes? */
extern bool rose_entries_have_unique(const RoseEntryWriter *writer);

/* Has that row another value than the row noted in a column that a foreign key may refer to? */
extern bool rose_entries_refer_change(RoseEntryWriter *writer, const RoseNewVersion *put);

/*
 * Before rose_entries_write: these versions were written, with 'values' locked, and free.
 * Writes the entries of unique indexes, and returns with values locked or, if not FREE, not:
 * an index had no room, they were let go of meanwhile, and somebody else has taken one
 * (*taken) or, if 'wait' is not set, may have.  Then the (sub)transaction has to fail, or the
 * row to be taken out again.
 */
extern RoseKeyState rose_entries_write_unique(RoseEntryWriter *writer, RoseUniqueValues *values,
											  const RoseNewVersion *versions, int n, bool wait,
											  RoseUniqueValue **taken);

/*
 * These versions of the table were written, in this order: new rows; or, if an old row was
 * noted, its tombstone or what it has become, and then the row under its new key.
 *
 * Waits for room in memory, and is slowed down as rose_pace_writes says, for table and
 * indexes.  An error means that the (sub)transaction fails, and the rows
 * that were written with it.
 */
extern void rose_entries_write(RoseEntryWriter *writer, const RoseNewVersion *versions, int n);

/* Raises an error if the key of the entry is too long; what is not in it may be of any size. */
extern void rose_entries_check_fits(RoseTree *index, const RoseEntry *entry);

extern void rose_entries_close(RoseEntryWriter *writer);

/* The last of these writes, perhaps of nothing. */
extern void rose_entries_finish(RoseEntryWriter *writer, const RoseNewVersion *versions, int n);

#endif							/* ROSE_ENTRIES_H */
