/*-------------------------------------------------------------------------
 *
 * rose_rows.h
 *	  Rows that stay in place: those of a leaf, or a batch of a memtable's.
 *
 * Rows are named by slots, 0 to nrows - 1, in the order of a scan.  Whoever needs one
 * longer than the scan stays at them holds all of them.  What is said of a row (its
 * columns by reference, its key) lives as long as they do.
 *
 * Columns are decoded for a window of rows together, when whoever implements the rows
 * thinks that it pays, and are then taken from here without another call
 * (rose_rows_attrs).  Everything else is asked by an operation, which is meant for a row
 * now and then, or for many rows at a time.
 *
 * Who makes rows has a RoseRows as the first member of a struct of his own (rose_leaf.c,
 * lsm/read/rose_mem_batch.c).  What transactions see of the rows is not known here.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ROWS_H
#define ROSE_ROWS_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "utils/memutils.h"

#include "util/rose_schema.h"
#include "util/rose_version.h"

typedef struct RoseRows RoseRows;

/* Stands for the hidden row id of tables without key where a column is asked for. */
#define ROSE_ROWS_ROWID		0

typedef struct RoseRowsOps
{
	/* The key of a row: key width Datums. */
	void		(*key) (RoseRows *rows, int slot, Datum *key);
	void		(*version) (RoseRows *rows, int slot, RoseVersion *version);

	/* A column of a row (from 1). */
	Datum		(*attr) (RoseRows *rows, int slot, AttrNumber attno, bool *isnull);
	/*
	 * Columns from..to into values[attno - 1], and more if that costs nothing: returns
	 * the last one that is there.  Behind rose_rows_attrs.
	 */
	int			(*attrs) (RoseRows *rows, int slot, AttrNumber from, AttrNumber to,
						  Datum *values, bool *nulls);

	/*
	 * A column by value of rows from a slot on, *n at most: sets *n to those that there
	 * are.  NULL: not these rows.  Both arrays are by slot - the one given, and good
	 * until the rows' window moves.
	 */
	const Datum *(*column) (RoseRows *rows, AttrNumber attno, int slot, int *n,
							const bool **nulls);

	/*
	 * A column, of any type, of rows [slot, slot + n) into values[i] and nulls[i], whatever the
	 * window is; a NULL's value is 0.  also (or NULL): columns of which the same will be asked.
	 */
	void		(*decode) (RoseRows *rows, AttrNumber attno, int slot, int n,
						   const Bitmapset *also, Datum *values, bool *nulls);
	/* A column by value of rows [slot, slot + n), as rose_page_runs has it; NULL: it never has. */
	int			(*runs) (RoseRows *rows, AttrNumber attno, int slot, int n, int max_runs,
						 int64 *values, uint16 *starts);
	/* A column by value of rows [slot, slot + n), as rose_page_extremes has it; NULL: it never has. */
	bool		(*extremes) (RoseRows *rows, AttrNumber attno, int slot, int n, int64 *min, int64 *max);
	/* A column by reference of rows [slot, slot + n), as rose_page_codes has it; NULL: it never has. */
	const Datum *(*codes) (RoseRows *rows, AttrNumber attno, int slot, int n, uint16 *codes, int *nentries);
	/* As decode, of n rows, slot + offsets[i], in ascending order, when these are few. */
	void		(*pick) (RoseRows *rows, AttrNumber attno, int slot, const uint16 *offsets, int n,
						 Datum *values, bool *nulls);

	/* Columns of this row and of most behind it will be asked for. */
	void		(*ahead) (RoseRows *rows, int slot);

	/*
	 * First row of [slot, nrows) whose first ncols key columns are >= key (after: > key),
	 * or nrows.  prefix: rose_key_prefix of key if it is a whole one, else NULL.  Cheap
	 * if it is not far.
	 */
	int			(*find) (RoseRows *rows, int slot, const Datum *key, int ncols,
						 const uint64 *prefix, bool after);
} RoseRowsOps;

/* A column of the rows in the window.  The fields before values are private to who decodes it. */
typedef struct RoseRowsColumn
{
	uint32		stamp;			/* decoded if it is the rows' */
	uint32		get_stamp;		/* window in which gets were counted */
	int			gets;			/* values asked for one by one */
	int			eager_windows;	/* more windows to decode without counting first */
	int			capacity;
	Datum	   *values;			/* by slot - window_first */
	bool	   *nulls;
} RoseRowsColumn;

struct RoseRows
{
	const RoseRowsOps *ops;
	int			refcount;
	MemoryContext context;		/* owns all of it */
	const RoseSchema *schema;
	int			nrows;

	/* by slot, or NULL: they would have to be read */
	const uint64 *seqs;			/* sequence numbers; those of rows in memory */
	const uint64 *prefixes;		/* rose_key_prefix of keys */

	/* rows [window_first, window_first + window_rows) are decoded together */
	int			window_first;
	int			window_rows;
	uint32		stamp;			/* counts windows */
	bool		plain;			/* decoded values are the rows', as they are */
	int			natts;			/* columns that are stored, the first ones ... */
	RoseRowsColumn *columns;	/* ... by attribute number - 1 */
};

static inline void
rose_rows_hold(RoseRows *rows)
{
	if (rows != NULL)
		rows->refcount++;
}

/* NULL is allowed. */
static inline void
rose_rows_release(RoseRows *rows)
{
	if (rows == NULL)
		return;
	Assert(rows->refcount > 0);
	if (--rows->refcount == 0)
		MemoryContextDelete(rows->context);
}

/*
 * Release by who made them, when its context goes: a tuple slot may keep them longer, but not
 * beyond the transaction.
 */
static inline void
rose_rows_abandon(RoseRows *rows)
{
	if (rows->refcount > 1)
		MemoryContextSetParent(rows->context, TopTransactionContext);
	rose_rows_release(rows);
}

static inline bool
rose_rows_in_window(const RoseRows *rows, int slot)
{
	return (unsigned int) (slot - rows->window_first) < (unsigned int) rows->window_rows;
}

/* Columns from..to (1-based, inclusive) of a row into values[attno - 1]; returns the last one that is there. */
static inline int
rose_rows_attrs(RoseRows *rows, int slot, AttrNumber from, AttrNumber to,
				Datum *values, bool *nulls)
{
	AttrNumber	attno = from;

	if (likely(rose_rows_in_window(rows, slot) && rows->plain))
	{
		int			at = slot - rows->window_first;
		AttrNumber	stored = Min(to, rows->natts);

		for (; attno <= stored; attno++)
		{
			const RoseRowsColumn *column = &rows->columns[attno - 1];

			if (unlikely(column->stamp != rows->stamp))
				break;
			values[attno - 1] = column->values[at];
			nulls[attno - 1] = column->nulls[at];
		}
		if (likely(attno > to))
			return to;
	}
	return rows->ops->attrs(rows, slot, attno, to, values, nulls);
}

#endif							/* ROSE_ROWS_H */
