/*-------------------------------------------------------------------------
 *
 * rose_spool.h
 *	  Bytes that are kept for later: in memory if they are few, else in a temporary file.
 *
 * Not for what has to survive.  One reads or writes where one is, and seeks in between.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SPOOL_H
#define ROSE_SPOOL_H

#include "postgres.h"

typedef struct RoseSpool RoseSpool;

/* Lives in the current context, and belongs to no resource owner: transactions begin and end meanwhile. */
extern RoseSpool *rose_spool_create(void);
extern void rose_spool_close(RoseSpool *spool);

/* From 0, and not behind the last byte that was written; false: it cannot. */
extern bool rose_spool_seek(RoseSpool *spool, int64 at);

/* What was behind counts no more.  Raises an error if the disk is full, or the limit of temporary files is met. */
extern void rose_spool_write(RoseSpool *spool, const void *data, size_t len);

/* False: there are not so many. */
extern bool rose_spool_read(RoseSpool *spool, void *data, size_t len);

#endif							/* ROSE_SPOOL_H */
