/*-------------------------------------------------------------------------
 *
 * rose_rekey_columns.h
 *	  Rows of a table on their way to a file with another key, as columns.
 *
 * For rose_rekey.c only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REKEY_COLUMNS_H
#define ROSE_REKEY_COLUMNS_H

#include "postgres.h"

#include "utils/rel.h"

#include "compat/rose_compat.h"
#include "util/rose_schema.h"

typedef struct RoseRekeyColumns RoseRekeyColumns;

/*
 * NULL: the rows of this table, or of one with this key, have to go one by one.  Takes maintenance_work_mem, in a child of
 * the current context, and temporary files.
 */
extern RoseRekeyColumns *rose_rekey_columns_begin(Relation rel, int nkeys,
												  const RoseKeyColumnDisk *keys);

/* Read and sort all rows that are there now.  Then the table may get its new file, which load fills; returns how many. */
extern void rose_rekey_columns_collect(RoseRekeyColumns *columns, Relation rel);

/* index: that of the primary key, for messages. */
extern uint64 rose_rekey_columns_load(RoseRekeyColumns *columns, Relation rel, Relation index);
extern void rose_rekey_columns_end(RoseRekeyColumns *columns);

/* A column of the new key has a NULL. */
pg_noreturn extern void rose_rekey_columns_report_null(Relation rel, AttrNumber attno);

#endif							/* ROSE_REKEY_COLUMNS_H */
