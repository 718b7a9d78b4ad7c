/*-------------------------------------------------------------------------
 *
 * rose_node_group_tapes.h
 *	  Rows on tapes, in partitions by the hash of their keys.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_GROUP_TAPES_H
#define ROSE_NODE_GROUP_TAPES_H

#include "postgres.h"

typedef struct RoseNodeTapes RoseNodeTapes;

/* Partitions that rows are written to: few make too little of them, and each has a buffer of a page in memory. */
#define ROSE_TAPES_MIN_PARTITIONS	4
#define ROSE_TAPES_MAX_PARTITIONS	256

/* Beside these, what reading takes in memory: a page, and rows that are at hand, of which there are no more than so many bytes. */
#define ROSE_TAPES_ROWS_BYTES		8192

/* In the current context. */
extern RoseNodeTapes *rose_node_tapes_create(void);

/* Rows are written to so many partitions: of those that are read, or, if none are, of all. */
extern void rose_node_tapes_start(RoseNodeTapes *tapes, int npartitions);

/* One of them.  Its first bytes are its length, with these, as a uint32. */
extern void rose_node_tapes_write(RoseNodeTapes *tapes, uint64 hash, char *row);

/* All are written: each partition is to be read, as a batch. */
extern void rose_node_tapes_finish(RoseNodeTapes *tapes);

/* Go on to the next batch; false: all were read.  *groups: about so many hashes are in it. */
extern bool rose_node_tapes_next_batch(RoseNodeTapes *tapes, double *groups);

/* Rows that were read are not needed any more. */
extern void rose_node_tapes_forget_rows(RoseNodeTapes *tapes);

/* The batch's next row, aligned; NULL: there is none. */
extern char *rose_node_tapes_read(RoseNodeTapes *tapes);

/* Bytes of rows that were read, and are not forgotten. */
extern Size rose_node_tapes_rows_bytes(const RoseNodeTapes *tapes);

/* There are no rows any more, and no files. */
extern void rose_node_tapes_reset(RoseNodeTapes *tapes);

/* What they take in memory; and, so far, what they took of the disk, in bytes, and how many batches there were. */
extern Size rose_node_tapes_memory(const RoseNodeTapes *tapes);
extern uint64 rose_node_tapes_disk(const RoseNodeTapes *tapes);
extern uint64 rose_node_tapes_batches(const RoseNodeTapes *tapes);

#endif							/* ROSE_NODE_GROUP_TAPES_H */
