/*-------------------------------------------------------------------------
 *
 * rose_chunks.h
 *	  Which pieces of a table's copy there are, in the catalog.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CHUNKS_H
#define ROSE_CHUNKS_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/* A piece: the upstream's rows for which a condition holds. */
typedef struct RoseChunk
{
	int			number;			/* from 1 */
	char	   *condition;
	XLogRecPtr	lsn;			/* of its snapshot; invalid: it is not there */
	uint64		rows;
	uint64		bytes;
} RoseChunk;

typedef struct RoseChunks
{
	Oid			subid;
	Oid			made;			/* the relation that has them (rose_staging.h); invalid: the table itself */
	XLogRecPtr	first_lsn;		/* changes from here on have to be applied ... */
	XLogRecPtr	exact_lsn;		/* ... and up to here, before the rows are those of one position */
	char	   *upstream;		/* see rose.subscription_copy */
	char	   *demands;
	List	   *chunks;			/* RoseChunk, by number */
} RoseChunks;

/* The extension is of a release that has them. */
extern bool rose_chunks_can(void);

/* NULL: none. */
extern RoseChunks *rose_chunks_get(Oid subid, Oid relid);
extern void rose_chunks_note(Oid subid, Oid relid, const RoseChunks *chunks);
extern void rose_chunks_set_positions(Oid subid, Oid relid, XLogRecPtr first_lsn, XLogRecPtr exact_lsn);
extern void rose_chunks_set_done(Oid subid, Oid relid, const RoseChunk *chunk);

/* They are the table's own rows: what is left to know is up to which position they are not exact. */
extern void rose_chunks_set_switched(Oid subid, Oid relid);

/* A change could not be applied to rows of several positions. */
extern void rose_chunks_set_broken(Oid subid, Oid relid);

/* All of it, with the relation, if they have one.  An invalid relid: of all tables. */
extern void rose_chunks_forget(Oid subid, Oid relid);

/* Of any subscription: one of the database that this one was made from has rows here, too. */
extern void rose_chunks_forget_table(Oid relid);

/* What this snapshot sees of it is put into the list of a subscription's tables, whose states must be those that it sees. */
extern void rose_chunks_tell_tables(Oid subid, List *tables, Snapshot snapshot);

#endif							/* ROSE_CHUNKS_H */
