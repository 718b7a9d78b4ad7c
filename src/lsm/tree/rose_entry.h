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
 * A row that the index's predicate leaves out has no entry, as if it were none.  What is
 * computed, expressions and the predicate, is computed above this folder
 * (rose_entry_eval_hook), of what a row was as well, each time anew.  So if a function gives
 * another result than it gave before, the entry that a row leaves behind is not found; for an
 * index where that is not out of the question (ROSE_INDEX_VALIDATED), an entry is believed
 * only if the row that it leads to agrees.  Therefore the entry of a row that goes may stay, too, if
 * its function fails by now: on heap nobody would have called it.
 *
 * No locks.  Pure functions, but for what the hook calls.
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
	AttrNumber	source;			/* column of the table, ROSE_ENTRY_ROWID, or that of an expression */
	bool		rank;			/* int2: whether that column is NULL (rose_key_rank) ... */
	bool		null_is_less;	/* ... so that this has its place */
	bool		byval;
	int16		len;			/* as attlen */
} RoseEntryColumn;

typedef struct RoseEntryShape
{
	int			ncolumns;
	bool		evaluates;		/* it has expressions or a predicate ... */
	bool		validated;		/* ... that may give another result one day (ROSE_INDEX_VALIDATED) */
	AttrNumber	last_source;	/* no column of the table behind this one is read */
	Bitmapset  *depends;		/* columns of the table that are read */
	RoseEntryColumn columns[ROSE_ENTRY_COLUMNS];
} RoseEntryShape;

/* E(v); by-reference values point to where the row's do, unless they are computed. */
typedef struct RoseEntry
{
	bool		exists;			/* false: there is none, as for a tombstone; the rest is not set, but ... */
	bool		failed;			/* ... that a function has failed (ROSE_ENTRY_OF_DELETED, _CHANGED) */
	Datum		values[ROSE_ENTRY_COLUMNS];
	bool		nulls[ROSE_ENTRY_COLUMNS];
} RoseEntry;

/* As whom functions of users run. */
typedef enum RoseEntryUser
{
	ROSE_ENTRY_OF_WRITER,		/* the current user, who writes the row */
	ROSE_ENTRY_OF_OWNER,		/* the table's owner, and restricted: the row was there before */

	/* for writes, of an index that is VALIDATED or not valid (yet): if a function fails, there is no entry */
	ROSE_ENTRY_OF_DELETED,		/* as the owner */
	ROSE_ENTRY_OF_CHANGED		/* as the writer, if he is the owner himself; else as the owner */
} RoseEntryUser;

typedef enum RoseEntryEval
{
	ROSE_EVAL_ROW,
	ROSE_EVAL_NO_ROW,			/* the predicate leaves it out */
	ROSE_EVAL_FAILED			/* of ROSE_ENTRY_OF_DELETED and _CHANGED: a function has failed */
} RoseEntryEval;

/*
 * Compute the index's expressions for a row.  results are made in the current context, not toasted.
 * Raises what functions raise.
 */
typedef RoseEntryEval (*RoseEntryEvalHook) (Relation index, RoseEntryUser user, const Datum *values,
								   const bool *nulls, Datum *results, bool *result_nulls);
extern RoseEntryEvalHook rose_entry_eval_hook;

/*
 * The entry of a row, if it has one.  values, nulls: of the table's columns that the shape
 * depends on, by attno - 1, and not toasted.  index, user: for one that evaluates; what is
 * computed is made in the current context.  No LWLock may be held then.
 */
extern void rose_entry_of_row(const RoseEntryShape *shape, Relation index, RoseEntryUser user,
							  const Datum *values, const bool *nulls, int64 rowid,
							  RoseEntry *entry);

static inline void
rose_entry_of_none(RoseEntry *entry)
{
	entry->exists = entry->failed = false;
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
