/*-------------------------------------------------------------------------
 *
 * rose_worker.h
 *	  Background maintenance: what the rest of rose knows of it.
 *
 * A launcher runs always.  It starts a worker for a database when there is something to
 * do in it: C0 to spill because it is old or memory is short, or components that may have
 * to be merged.  A worker that finds more to do than it can asks for another one of its
 * database, a helper, which does the same with other tables, as long as no other database
 * waits for a worker.  Workers end when they have been idle for a while, so nothing
 * stands in the way of DROP DATABASE or of using a database as a template.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WORKER_H
#define ROSE_WORKER_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Called from _PG_init, in this order; the shared memory in between. */
extern void rose_worker_define_settings(void);	/* rose.max_merge_workers */
extern Size rose_worker_shmem_size(void);
extern void rose_worker_shmem_init(bool found);
extern void rose_worker_register(void); /* also sets rose_request_spill_hook */

/* Databases that are remembered at a time, and helpers. */
#define ROSE_WORKER_SLOTS		64

/* What a worker is doing. */
typedef enum RoseWorkerWork
{
	ROSE_WORK_NONE = 0,
	ROSE_WORK_OPEN,				/* makes itself known with the database's tables */
	ROSE_WORK_SPILL,
	ROSE_WORK_MERGE,
	ROSE_WORK_REST,				/* between two steps of merges that are in time */
	ROSE_WORK_TRUNCATE			/* gives free room at the file's end back */
} RoseWorkerWork;

#define ROSE_WORKER_ERROR_LEN	256

/* For views: one database that has or had a worker, or one that helps it. */
typedef struct RoseWorkerInfo
{
	Oid			dbid;
	int			helper;			/* 0: the database's first worker; others help it */
	int			pid;			/* 0: not running */
	TimestampTz started;		/* last start, 0 = never */
	RoseWorkerWork work;		/* now, ... */
	Oid			work_relid;		/* ... on this table; InvalidOid: none */
	uint64		spills;			/* of the database since the server started, helpers' among them; ... */
	uint64		merges;			/* ... of a helper: its own */
	TimestampTz error_time;		/* of the last error, 0 = none */
	Oid			error_relid;	/* table it was working on */
	char		error[ROSE_WORKER_ERROR_LEN];
} RoseWorkerInfo;

/* Fills items, of which there must be ROSE_WORKER_SLOTS; their number. */
extern int	rose_worker_list(RoseWorkerInfo *items);

#endif							/* ROSE_WORKER_H */
