/*-------------------------------------------------------------------------
 *
 * rose_duplicate_key.h
 *	  The errors of a key that two rows would have.
 *
 * Each says what a unique btree of heap's would say at that place, where there is one.
 * None of them returns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DUPLICATE_KEY_H
#define ROSE_DUPLICATE_KEY_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "utils/rel.h"

/* A row was to be written whose key another row has: by its values of all columns, or by those of the index. */
extern void rose_duplicate_key_report_row(Relation rel, const Datum *values,
										  const bool *nulls);
extern void rose_duplicate_key_report_entry(Relation rel, Relation index, Datum *keys,
											bool *nulls);

/* The same of a secondary index; description: of the value (rose_duplicate_describe), or NULL. */
extern void rose_duplicate_key_report_index(Relation rel, Oid indexid, const char *description);

/* A unique secondary index cannot be made, because two rows have this value in its columns. */
extern void rose_duplicate_key_report_value(Relation rel, Relation index, Datum *values,
											bool *nulls);

/* The primary key's index cannot be made, because slot's key is there twice. */
extern void rose_duplicate_key_report_build(Relation rel, Relation index,
											TupleTableSlot *slot);

/*
 * Nor can rows be sorted anew, because slot's key is equal to another one by the present
 * version of a collation.  arg: the table's Relation.
 */
extern void rose_duplicate_key_report_equal(void *arg, TupleTableSlot *slot);

/* Among the rows of a bulk load a key is there twice. */
extern void rose_duplicate_key_report_load(Relation rel);

/* A row with a duplicate key was not written, and nobody has come for the error until the commit. */
extern void rose_duplicate_key_report_late(Oid relid);

#endif							/* ROSE_DUPLICATE_KEY_H */
