/*-------------------------------------------------------------------------
 *
 * rose_write_transaction.h
 *	  What ends of (sub)transactions mean to those who write.
 *
 * Called from rose_transaction.c alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_TRANSACTION_H
#define ROSE_WRITE_TRANSACTION_H

#include "postgres.h"


extern void rose_write_transaction_end(void);

/* The subtransaction of this nesting level is aborted. */
extern void rose_write_transaction_abort_sub(int level);

#endif							/* ROSE_WRITE_TRANSACTION_H */
