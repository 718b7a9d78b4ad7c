/*-------------------------------------------------------------------------
 *
 * rose_old_rows.h
 *	  Tables that show the rows of before until their new copy is there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OLD_ROWS_H
#define ROSE_OLD_ROWS_H

#include "postgres.h"

#include "access/xlogdefs.h"

/*
 * The table is to be copied, and its rows stay until then.  They are those of this position; invalid: of none.  Error if the
 * extension in this database is of before that.
 */
extern void rose_old_rows_note(Oid subid, Oid relid, XLogRecPtr lsn);

/* Has it such rows?  Then the position is set; lsn may be NULL. */
extern bool rose_old_rows_are_there(Oid subid, Oid relid, XLogRecPtr *lsn);

/* It has its copy, or is the subscription's no more.  InvalidOid: all of them. */
extern void rose_old_rows_forget(Oid subid, Oid relid);

#endif							/* ROSE_OLD_ROWS_H */
