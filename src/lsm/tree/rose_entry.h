/*-------------------------------------------------------------------------
 *
 * rose_entry.h
 *	  The entry that a row has in a secondary index, and what a change of the row changes
 *	  there.
 *
 * An index is a tree of its own, whose rows are entries: the indexed columns, the
 * columns of the table's key that are not among them (or the hidden row id), INCLUDE
 * columns, and for each indexed column that may be NULL a rank, which puts NULLs in
 * their place.  The tree's key names one row of the table, so of the versions of one
 * row at most one entry is current.
 *
 * An entry's versions have the stamps (number, transaction, command) of the row's
 * version that they belong to.  For the versions v1, v2, ... of one key of the table
 * that are not aborted, and their entries E(v): where E(v) is another one than that of
 * the version before, a tombstone of the former entry is written if its key is another
 * one, and E(v) is put.  So a snapshot finds exactly the entry of the version that it
 * sees, without a look at the table.
 *
 * Pure functions; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ENTRY_H
#define ROSE_ENTRY_H

#include "postgres.h"

#include "access/attnum.h"
#include "nodes/bitmapset.h"

#include "util/rose_index_def.h"
#include "util/rose_schema.h"

/* Where a column of an entry comes from. */
typedef struct RoseEntryColumn
{
	AttrNumber	source;			/* column of the table, or ROSE_ENTRY_ROWID */
	bool		rank;			/* int2: whether that column is NULL (rose_key_rank) ... */
	bool		null_is_less;	/* ... so that this has its place */
	bool		byval;
	int16		len;			/* as attlen */
} RoseEntryColumn;

typedef struct RoseEntryShape
{
	int			ncolumns;
	AttrNumber	last_source;	/* no column of the table behind this one is read */
	Bitmapset  *depends;		/* columns of the table that are read */
	RoseEntryColumn columns[ROSE_ENTRY_COLUMNS];
} RoseEntryShape;

/* E(v); by-reference values point to where the row's do. */
typedef struct RoseEntry
{
	bool		exists;			/* false: there is none, as for a tombstone; the rest is not set */
	Datum		values[ROSE_ENTRY_COLUMNS];
	bool		nulls[ROSE_ENTRY_COLUMNS];
} RoseEntry;

/*
 * The entry of a row.  values, nulls: of the table's columns that the shape depends on,
 * by attno - 1, and not toasted.
 */
extern void rose_entry_of_row(const RoseEntryShape *shape, const Datum *values,
							  const bool *nulls, int64 rowid, RoseEntry *entry);

static inline void
rose_entry_of_none(RoseEntry *entry)
{
	entry->exists = false;
}

/* Are all columns the same, as stored?  Not existing ones are. */
extern bool rose_entry_same(const RoseEntryShape *shape, const RoseEntry *a,
							const RoseEntry *b);

/* What a row's new version writes to the index: both, one of them, or nothing. */
typedef struct RoseEntryChange
{
	bool		tombstone;		/* of the key of the old entry */
	bool		put;			/* the new entry */
} RoseEntryChange;

/* schema: of the index's tree. */
extern RoseEntryChange rose_entry_compare(const RoseEntryShape *shape, const RoseSchema *schema,
										  const RoseEntry *old, const RoseEntry *new);

/* The tree's key of an entry; points to where its values do. */
extern void rose_entry_key(const RoseSchema *schema, const RoseEntry *entry, Datum *key);

#endif							/* ROSE_ENTRY_H */
