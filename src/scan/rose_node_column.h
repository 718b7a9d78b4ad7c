/*-------------------------------------------------------------------------
 *
 * rose_node_column.h
 *	  The columns that a node takes from batches.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_COLUMN_H
#define ROSE_NODE_COLUMN_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "nodes/bitmapset.h"

#include "lsm/read/rose_batch.h"
#include "scan/rose_node_scan.h"

/* Of so many rows less than one is wanted: its value is picked. */
#define ROSE_NODE_PICK_DATUMS_BELOW	8
#define ROSE_NODE_PICK_WORDS_BELOW	16

/* The rows of a batch that were selected among some that were looked at together. */
typedef struct RoseNodeRows
{
	RoseBatch  *batch;
	int			n;				/* selected rows */
	bool		all;			/* they are first, first + 1, ...; else: */
	int			first;
	uint16		rows[ROSE_NODE_VECTOR_ROWS];
} RoseNodeRows;

static inline int
rose_node_rows_at(const RoseNodeRows *rows, int i)
{
	return rows->all ? rows->first + i : rows->rows[i];
}

typedef struct RoseNodeColumn
{
	AttrNumber	attno;
	int			target;			/* where it goes, in a slot */
	Datum	   *values;			/* of the rows, NULL before the first */
	bool	   *nulls;
} RoseNodeColumn;

/* Columns that are decoded together, if one of them is wanted. */
typedef struct RoseNodeColumns
{
	MemoryContext context;
	int			max_rows;
	int			first;			/* values[i] is of row first + i; -1: of the i-th selected row */
	bool		loaded;			/* for the rows at hand */
	int			ncolumns;
	RoseNodeColumn columns[FLEXIBLE_ARRAY_MEMBER];
} RoseNodeColumns;

/* In the current context; room for ncolumns, none of which is there yet. */
extern RoseNodeColumns *rose_node_columns_create(int ncolumns, int max_rows);
extern void rose_node_columns_add(RoseNodeColumns *columns, AttrNumber attno, int target);

/*
 * Of n rows among so many, are the values of a column picked one by one?  length: of a value, or -1, which takes longer to decode.
 */
static inline bool
rose_node_column_is_picked(int n, int among, int length)
{
	return n * (length < 0 ? ROSE_NODE_PICK_DATUMS_BELOW : ROSE_NODE_PICK_WORDS_BELOW) < among;
}

/* Decode them for these rows; n > 0. */
extern void rose_node_columns_load(RoseNodeColumns *columns, const RoseNodeRows *rows);

/* What values are that were picked as Datums, of this length. */
extern void rose_node_column_words_of_datums(int64 *values, int n, int length);

/*
 * The words of a column (length > 0: of its values) or, length < 0, its Datums: of the selected rows, one after the other.  Arrays have room for all
 * rows from the first to the last.  False: there is no NULL.
 */
extern bool rose_node_column_words(const RoseNodeRows *rows, AttrNumber attno, int length,
								   int64 *values, bool *nulls);

/*
 * A column that is passed by reference as entries of a dictionary, as rose_batch_codes has it: codes[i], for which there is room as for all rows of a batch
 * between the first and the last one, is that of the i-th row.  NULL: take its Datums.
 */
extern const Datum *rose_node_column_codes(const RoseNodeRows *rows, AttrNumber attno, uint16 *codes, int *nentries);

/* Put the columns of the i-th selected row to their places. */
static inline void
rose_node_columns_put(RoseNodeColumns *columns, const RoseNodeRows *rows, int i,
					  Datum *values, bool *nulls)
{
	int			at;

	if (unlikely(!columns->loaded))
		rose_node_columns_load(columns, rows);
	at = columns->first < 0 ? i : rose_node_rows_at(rows, i) - columns->first;
	for (int c = 0; c < columns->ncolumns; c++)
	{
		const RoseNodeColumn *column = &columns->columns[c];

		values[column->target] = column->values[at];
		nulls[column->target] = column->nulls[at];
	}
}

#endif							/* ROSE_NODE_COLUMN_H */
