/*-------------------------------------------------------------------------
 *
 * rose_write_reader.h
 *	  The reader of keys that the writes of a transaction share.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_READER_H
#define ROSE_WRITE_READER_H

#include "postgres.h"

#include "lsm/read/rose_key_reader.h"

/* A reader of the current transaction, made once. */
extern RoseKeyReader *rose_write_reader(RoseTree *tree);

extern void rose_write_reader_forget(void); /* the transaction ends */

/*
 * Before a row is looked for and written: what merges have replaced is not kept for this transaction, if
 * it reads nothing of the table but by this reader.
 */
extern void rose_write_let_go(RoseTree *tree);

#endif							/* ROSE_WRITE_READER_H */
