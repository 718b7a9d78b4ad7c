/*-------------------------------------------------------------------------
 *
 * rose_upstream_pieces.h
 *	  Ranges of an upstream's table that can be read one by one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_UPSTREAM_PIECES_H
#define ROSE_UPSTREAM_PIECES_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "nodes/pg_list.h"

#include "repl/rose_repl.h"

struct RoseUpstreamRows;

/* By which columns rows are told apart there. */
typedef struct RoseUpstreamKey
{
	List	   *names;			/* C strings, in the key's order */
	List	   *types;			/* ... the names of their types, as strings ... */
	List	   *type_oids;		/* ... and what these are */
	char	   *order;			/* what their order may depend on, beside the columns themselves */
} RoseUpstreamKey;

/*
 * The primary key; false: it has none by which ranges can be made.  All of this is asked in the transaction in which the rows were locked.
 */
extern bool rose_upstream_find_key(struct WalReceiverConn *conn, Oid relid, RoseUpstreamKey *key);

/* Conditions of so many ranges, or fewer, which have all rows between them, none twice; NIL: no ranges. */
extern List *rose_upstream_make_ranges(struct WalReceiverConn *conn, Oid relid, const struct RoseUpstreamRows *rows,
									   const RoseUpstreamKey *key, int n);

/* Whatever must be the same for ranges that were read in different snapshots to be of one table. */
extern char *rose_upstream_describe_rows(struct WalReceiverConn *conn, const RoseUpstreamIdentity *identity,
										 List *publications, const RoseUpstreamTable *table, const struct RoseUpstreamRows *rows, const RoseUpstreamKey *key, List *columns);

#endif							/* ROSE_UPSTREAM_PIECES_H */
