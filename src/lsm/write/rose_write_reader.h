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

#endif							/* ROSE_WRITE_READER_H */
