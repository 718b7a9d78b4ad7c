/*-------------------------------------------------------------------------
 *
 * rose_apply_row.h
 *	  One row: read from what the upstream sent of it, completed, and given on to be written.
 *
 * For the files of the replication consumer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_APPLY_ROW_H
#define ROSE_APPLY_ROW_H

#include "postgres.h"

#include "lib/stringinfo.h"

#include "repl/rose_repl_internal.h"
#include "repl/rose_wire.h"

/*
 * Fill values and nulls of all local columns; sets present and returns true if a value
 * was not sent because it did not change.  Of those that only the local table has none but
 * constants are present; without 'present' they are null.
 */
extern bool rose_apply_row_read(RoseReplRel *entry, RoseWireTuple *tuple, Datum *values, bool *nulls,
								bits8 *present);

/* The key of a row as the upstream sent it, for error messages. */
extern void rose_apply_row_describe_key(const RoseReplTarget *target, const RoseWireTuple *tuple, StringInfo out);

/*
 * The new row of an UPDATE, from what the upstream sent of the old one: its replica
 * identity, which may be all of it.  A large value of the key that did not change is in
 * there only.  True: something is missing even so.
 */
extern bool rose_apply_row_complete_from_old(RoseReplRel *entry, const RoseWireTuple *old);

/*
 * Take the values that the new row lacks from the one that the target has; false: it has
 * none.
 */
extern bool rose_apply_row_complete_from_table(RoseReplTarget *target, const Datum *key);

/* All of the new row is known. */
extern void rose_apply_row_write(RoseReplTarget *target);

/*
 * Write a row of which only what is present is known.  If nothing is below it, it is no
 * row: the upstream has one that never came here.  key_is_same: it is the very same as that of
 * the row that is below.
 */
extern void rose_apply_row_write_incomplete(RoseReplTarget *target, bool key_is_same);

/* The row that the upstream had before is gone. */
extern void rose_apply_row_write_tombstone(RoseReplTarget *target);

#endif							/* ROSE_APPLY_ROW_H */
