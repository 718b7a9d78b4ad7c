/*-------------------------------------------------------------------------
 *
 * rose_added.h
 *	  Columns that the upstream has added, and what its tables were like before.
 *
 * For the files of the replication consumer; part of rose_repl_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ADDED_H
#define ROSE_ADDED_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

#include "repl/rose_repl.h"

struct RoseReplRel;

/* What a table of the upstream was like when it was last looked at. */
typedef struct RoseUpstreamSeen
{
	int			natts;			/* the highest number that a column has, or had; of a description, that it was certain to have had */
	char	   *files;			/* its file, or its partitions': a text array of "oid:file" */
	char	   *published;		/* rows of the publications' catalogs by which it is published; with an 'l': as a list
								 * of columns */
} RoseUpstreamSeen;

/* What the upstream's catalog says of a column (rose_upstream_added.c). */
typedef struct RoseUpstreamAdded
{
	Oid			type;			/* there */
	char	   *type_schema;	/* its name; or, of an array's, its elements' */
	char	   *type_name;
	bool		is_array;
	int32		typmod;
	char	   *collation_schema;	/* NULL: the type's own */
	char	   *collation_name;
	bool		generated;
	int			between;		/* so many columns have lower numbers, but higher than what was known; also dropped ones, but no
								 * generated ones */
	char	   *published;		/* as RoseUpstreamSeen.published, of now */
	int			unwritten;		/* in how many of the files that were seen rows of before have nothing in it */
	int			missing;		/* in how many tables that were there before they have something; also ... */
	int			values;			/* ... how many different values, ... */
	char	   *value;			/* ... of which this is one */
} RoseUpstreamAdded;

/* A table's columns, as the connection's transaction sees them (none: there is no such table), which are generated, and what it is like. */
extern void rose_upstream_look(struct WalReceiverConn *conn, List *publications, Oid relid,
							   RoseUpstreamColumns *columns, Bitmapset **generated, RoseUpstreamSeen *seen);

/* False: there is no such column (any more).  known: numbers up to this were. */
extern bool rose_upstream_ask_added(struct WalReceiverConn *conn, List *publications, Oid relid, int16 attnum, int known,
									const RoseUpstreamSeen *seen, RoseUpstreamAdded *out);

/*
 * What was seen, in the catalog (rose_seen.c).  get: false: nothing.  An invalid relid: all of the subscription's tables.
 */
extern bool rose_seen_get(Oid subid, Oid relid, RoseUpstreamSeen *seen);
extern void rose_seen_set(Oid subid, Oid relid, const RoseUpstreamSeen *seen);
extern void rose_seen_forget(Oid subid, Oid relid);

/*
 * The upstream's table was looked at because it has described it so (sent).  take: if that says more than what is known, it is kept with the
 * description; note: it is what is known from now on, as all of these columns are here.
 */
extern void rose_added_take_seen(struct RoseReplRel *entry, const RoseUpstreamColumns *sent, const RoseUpstreamColumns *now,
								 const Bitmapset *generated, const RoseUpstreamSeen *seen);
extern void rose_added_note_seen(struct RoseReplRel *entry);

/*
 * The columns of a table's description, whose numbers are known (rose_added.c).  is_new: there is one for the first time, and the
 * subscription adds columns.  look: which are to be added here; false: none.  Error if one is missing that cannot be added, or if one that is
 * here already has other values in rows of before.  REQUIRES for look: all that came before this transaction is committed, and durable or not
 * described again.
 */
extern bool rose_added_is_new(const RoseColumnMap *map, const RoseUpstreamColumns *sent);
extern bool rose_added_look(struct WalReceiverConn *conn, struct RoseReplRel *entry, const RoseColumnMap *map,
							const RoseUpstreamColumns *sent);

/*
 * Between batches: are there some?  try: add them, in a transaction of its own.  Returns what somebody has locked, or InvalidOid: it is done.
 * lock: get a lock, in its queue for so many milliseconds at most.  forget: not by this worker.
 */
typedef bool (*RoseAddedLock) (Oid relid, LOCKMODE mode, int ms);

extern bool rose_added_are_wanted(void);
extern Oid	rose_added_try(RoseAddedLock lock);
extern void rose_added_forget(void);

#endif							/* ROSE_ADDED_H */
