/*-------------------------------------------------------------------------
 *
 * rose_transaction.h
 *	  What ends with a transaction, and files that it made or dropped.
 *
 * The top of lsm/: it tells trees, readers and writers that a transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TRANSACTION_H
#define ROSE_TRANSACTION_H

#include "postgres.h"

#include "compat/rose_compat.h"

/* The rel's files were made or dropped in this transaction (AM and hooks call these). */
extern void rose_transaction_file_created(RelFileLocator locator);
extern void rose_transaction_file_dropped(RelFileLocator locator);

/* The options of the table with this file are changed: others are to read them when it has ended. */
extern void rose_transaction_options_changed(RelFileLocator locator);

/* One that was dropped stays after all: another relation has it now. */
extern void rose_transaction_file_kept(RelFileLocator locator);

extern void rose_transaction_define_callbacks(void);	/* xact, subxact; _PG_init */

#endif							/* ROSE_TRANSACTION_H */
