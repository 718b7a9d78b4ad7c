/*-------------------------------------------------------------------------
 *
 * rose_copy_chunks.c
 *	  The copy of one table in pieces, each of which is there to stay.
 *
 * The rows of a range of keys are read and committed, with a row of the catalog that says so (rose_chunks.c), into a relation that
 * nobody reads (rose_staging.c), by one process or several (rose_copy_helpers.c).  When all are there, that relation's file becomes the table's, in one
 * transaction, as in a copy that replaces old rows.  A copy that ends before goes on where it was: with another snapshot
 * of the upstream, since the first one is gone.
 *
 * Pieces of several snapshots: changes are applied from the first one on.  Those that come again over a later piece end as they
 * are upstream, but for one that has to read an old row (rose_apply_row.c): that is not there any more, and the
 * table is copied again, as one.  That ranges fit each other is not guessed: the upstream's table must be
 * what it was, its files and the order of its keys, too, and so must what the table demands here.
 *
 * Locking: the table in RowExclusiveLock, by the session, as long as pieces are read; in each transaction
 * then the relation of pieces.
 *
 * What this does not do: say from where on the upstream must keep WAL (rose_copies.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "replication/walreceiver.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "util/rose_stop_point.h"
#include "lsm/tree/rose_tree.h"
#include "repl/rose_chunks.h"
#include "repl/rose_constants.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_replace.h"
#include "repl/rose_staging.h"
#include "repl/rose_upstream_pieces.h"

/* More than that, and the table's list of components would be full of them. */
#define MAX_PIECES	24

/* ---------------------------------------------------------------------
 * Whether, and which
 */

/* The local column that has the upstream's values of this name, or 0. */
static AttrNumber
local_column(Relation rel, const RoseCopyJob *job, const char *remote_name)
{
	ListCell   *remote;
	ListCell   *local;

	forboth(remote, job->remote_names, local, job->local_names)
	{
		if (strcmp(lfirst(remote), remote_name) == 0)
			return get_attnum(RelationGetRelid(rel), strVal(lfirst(local)));
	}
	return InvalidAttrNumber;
}

static bool
is_key_column(const RoseSchema *schema, AttrNumber attno, Oid type)
{
	for (int i = 0; i < schema->nkeys; i++)
	{
		const RoseKeyColumnDisk *def = &schema->keys[i].def;

		if (def->attno == attno)
			return TupleDescAttr(schema->tupdesc, attno - 1)->atttypid == type &&
				(!OidIsValid(def->collation) || get_collation_isdeterministic(def->collation));
	}
	return false;
}

/* Rows of two ranges have two keys here, too: else the one would take the other one's place, and nobody would know. */
static bool
keys_agree(Relation rel, const RoseCopyJob *job, const RoseUpstreamKey *key)
{
	RoseSchema *schema = rose_tree_open(rel)->schema;
	const Bitmapset *constants = rose_constants_create(rel, rose_apply.sub->constants)->attnums;
	int			n = schema->nkeys;
	ListCell   *name;
	ListCell   *type;

	for (int i = 0; i < schema->nkeys; i++)
		n -= bms_is_member(schema->keys[i].def.attno, constants);
	if (list_length(key->names) != n)
		return false;
	forboth(name, key->names, type, key->type_oids)
	{
		if (!is_key_column(schema, local_column(rel, job, lfirst(name)), lfirst_oid(type)))
			return false;
	}
	return true;
}

static bool
can_be_in_pieces(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, RoseUpstreamKey *key)
{
	return rose_copy_piece_size > 0 && rose_staging_fits(rel) &&
		rose_upstream_find_key(conn, job->listed->remote.relid, key) && keys_agree(rel, job, key);
}

static char *
describe_upstream(WalReceiverConn *conn, const RoseCopyJob *job, const RoseCopySource *source, const RoseUpstreamKey *key)
{
	return rose_upstream_describe_rows(conn, &source->identity, rose_apply.sub->publications, &job->listed->remote, &job->rows, key,
									   job->remote_names);
}

/* Of pieces that are there: does the upstream still have all that they lack? */
static bool
upstream_has_the_rest(const RoseCopySource *source, const RoseChunks *chunks)
{
	return source->identity.wal_end >= chunks->exact_lsn &&
		source->has_slot && source->slot.usable && source->slot.confirmed_lsn <= chunks->first_lsn;
}

static bool
are_of_use(const RoseCopySource *source, const RoseChunks *chunks, const char *upstream, const char *demands)
{
	Relation	made = OidIsValid(chunks->made) ? rose_staging_open(chunks->made, NoLock) : NULL;

	if (made == NULL)
		return false;
	relation_close(made, NoLock);
	return strcmp(chunks->upstream, upstream) == 0 && strcmp(chunks->demands, demands) == 0 &&
		upstream_has_the_rest(source, chunks);
}

static int
number_of_pieces(WalReceiverConn *conn, const RoseCopyJob *job)
{
	int64		rows;
	int64		bytes;

	rose_upstream_estimate(conn, job->listed->remote.relid, &rows, &bytes);
	return (int) Min(bytes / (rose_copy_piece_size * INT64CONST(1024)), MAX_PIECES);
}

static RoseChunks *
plan_pieces(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, const RoseUpstreamKey *key)
{
	List	   *conditions = rose_upstream_make_ranges(conn, job->listed->remote.relid, &job->rows, key, number_of_pieces(conn, job));
	RoseChunks *chunks;
	ListCell   *lc;

	if (conditions == NIL)
		return NULL;
	chunks = palloc0(sizeof(RoseChunks));
	chunks->made = rose_staging_create(rel);
	foreach(lc, conditions)
	{
		RoseChunk  *chunk = palloc0(sizeof(RoseChunk));

		chunk->number = foreach_current_index(lc) + 1;
		chunk->condition = lfirst(lc);
		chunks->chunks = lappend(chunks->chunks, chunk);
	}
	return chunks;
}

static int
count_done(const RoseChunks *chunks, uint64 *rows, uint64 *bytes)
{
	int			done = 0;
	ListCell   *lc;

	*rows = *bytes = 0;
	foreach(lc, chunks->chunks)
	{
		const RoseChunk *chunk = lfirst(lc);

		done += !XLogRecPtrIsInvalid(chunk->lsn);
		*rows += chunk->rows;
		*bytes += chunk->bytes;
	}
	return done;
}

/* What is read from now on is of this position. */
static void
go_on(Oid relid, RoseChunks *chunks, XLogRecPtr lsn)
{
	uint64		rows;
	uint64		bytes;
	int			done = count_done(chunks, &rows, &bytes);

	if (done == 0)
		chunks->first_lsn = chunks->exact_lsn = lsn;
	else if (done < list_length(chunks->chunks))
	{
		chunks->first_lsn = Min(chunks->first_lsn, lsn);
		chunks->exact_lsn = Max(chunks->exact_lsn, lsn);
	}
	rose_chunks_set_positions(rose_apply.sub->subid, relid, chunks->first_lsn, chunks->exact_lsn);
	ereport(LOG,
			(errmsg("rose subscription \"%s\" goes on with the copy of table \"%s\", of which %d of %d pieces are there",
					rose_apply.sub->name, get_rel_name(relid), done, list_length(chunks->chunks))));
}

/* Who helped the one who led before, and does not know that he has ended, has committed by then, or does not any more. */
static RoseChunks *
get_for_myself(Oid subid, Oid relid)
{
	RoseChunks *chunks = rose_chunks_get(subid, relid);

	if (chunks == NULL || !OidIsValid(chunks->made))
		return chunks;
	rose_copy_places_lock(chunks->made, ShareLock);
	return rose_chunks_get(subid, relid);
}

RoseChunks *
rose_copy_chunks_find(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, const RoseCopySource *source, XLogRecPtr lsn)
{
	Oid			subid = rose_apply.sub->subid;
	Oid			relid = RelationGetRelid(rel);
	RoseChunks *chunks = rose_chunks_can() ? get_for_myself(subid, relid) : NULL;
	RoseUpstreamKey key;
	char	   *upstream;
	char	   *demands;

	if (!rose_chunks_can() || !can_be_in_pieces(conn, rel, job, &key))
	{
		rose_chunks_forget_table(relid);
		return NULL;
	}
	upstream = describe_upstream(conn, job, source, &key);
	demands = rose_staging_describe(rel);
	if (chunks != NULL && are_of_use(source, chunks, upstream, demands))
	{
		go_on(relid, chunks, lsn);
		return chunks;
	}
	if (chunks != NULL && OidIsValid(chunks->made))
		ereport(LOG,
				(errmsg("rose subscription \"%s\" begins anew with the copy of table \"%s\", because it, or the upstream's, is not what it was",
						rose_apply.sub->name, RelationGetRelationName(rel))));
	rose_chunks_forget_table(relid);
	chunks = plan_pieces(conn, rel, job, &key);
	if (chunks == NULL)
		return NULL;
	chunks->first_lsn = chunks->exact_lsn = lsn;
	chunks->upstream = upstream;
	chunks->demands = demands;
	rose_chunks_note(subid, relid, chunks);
	return chunks;
}

/* ---------------------------------------------------------------------
 * Reading
 */

static Relation
open_made(Relation rel, const RoseChunks *chunks, LOCKMODE mode)
{
	Relation	made = rose_staging_open(chunks->made, mode);

	if (made == NULL || strcmp(rose_staging_describe(rel), chunks->demands) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("table \"%s\" was altered while it was being copied", RelationGetRelationName(rel)),
				 errdetail("The copy begins anew.")));
	return made;
}

/* Whoever had claimed it may have committed it, and ended before he said so. */
static bool
is_there(Oid relid, RoseChunk *chunk)
{
	RoseChunks *now = rose_chunks_get(rose_apply.sub->subid, relid);
	const RoseChunk *there = now != NULL ? list_nth(now->chunks, chunk->number - 1) : NULL;

	if (there == NULL || XLogRecPtrIsInvalid(there->lsn))
		return false;
	chunk->rows = there->rows;
	chunk->bytes = there->bytes;
	return true;
}

/* One piece, in a transaction of its own. */
static void
read_piece(WalReceiverConn *conn, Oid relid, const RoseCopyJob *job, const RoseChunks *chunks, RoseChunk *chunk, XLogRecPtr lsn)
{
	Relation	rel;
	Relation	made;

	rose_repl_local_begin();
	rose_copy_places_lock(relid, RowExclusiveLock);
	rel = relation_open(relid, NoLock);
	made = open_made(rel, chunks, RowExclusiveLock);
	rose_copy_helpers_require_leader();
	if (!is_there(relid, chunk))
	{
		chunk->rows = rose_copy_piece(conn, rel, job, made, chunk->condition, &chunk->bytes);
		ROSE_STOP_POINT("piece-loaded");
		chunk->lsn = lsn;
		rose_chunks_set_done(rose_apply.sub->subid, relid, chunk);
	}
	relation_close(made, NoLock);
	relation_close(rel, NoLock);
	ForceSyncCommit();
	rose_repl_local_commit();
	if (chunk->lsn != lsn)
		return;
	ROSE_STOP_POINT("piece-there");
	ereport(LOG,
			(errmsg("rose subscription \"%s\" has copied piece %d of %d of table \"%s\": " UINT64_FORMAT " rows",
					rose_apply.sub->name, chunk->number, list_length(chunks->chunks), job->listed->remote.relname, chunk->rows)));
}

/* start: NULL in who helps. */
static void
read_claimed(WalReceiverConn *conn, Oid relid, const RoseCopyJob *job, const RoseChunks *chunks, XLogRecPtr lsn,
			 RoseStartCopier start)
{
	int			number;

	while ((number = rose_copy_helpers_claim()) != 0)
	{
		RoseChunk  *chunk = list_nth(chunks->chunks, number - 1);

		read_piece(conn, relid, job, chunks, chunk, lsn);
		rose_copy_helpers_finished(chunk->rows, chunk->bytes);
		ROSE_STOP_POINT("piece-committed");
		if (start != NULL)
			rose_copy_helpers_start(start);
	}
}

void
rose_copy_chunks_read(WalReceiverConn *conn, Oid relid, const RoseCopyJob *job, RoseChunks *chunks, XLogRecPtr lsn,
					  RoseStartCopier start)
{
	rose_copy_helpers_lead(conn, chunks, lsn);
	rose_copy_helpers_start(start);
	do
		read_claimed(conn, relid, job, chunks, lsn, start);
	while (rose_copy_helpers_wait());
}

/* It is the same to him as to who leads, or he does not help. */
static RoseChunks *
join(WalReceiverConn *conn, Relation rel, RoseCopyJob *job, const RoseCopySource *source)
{
	RoseChunks *chunks = rose_chunks_get(rose_apply.sub->subid, RelationGetRelid(rel));
	RoseUpstreamKey key;

	rose_copy_begin(conn, rel, job, false);
	if (chunks == NULL || !can_be_in_pieces(conn, rel, job, &key) ||
		strcmp(chunks->upstream, describe_upstream(conn, job, source, &key)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the upstream's table is another one than that of the copy")));
	return chunks;
}

void
rose_copy_chunks_help(WalReceiverConn *conn, Oid relid, const RoseCopySource *source)
{
	RoseCopyJob job;
	RoseChunks *chunks;
	XLogRecPtr	lsn;
	Relation	rel;
	MemoryContext old;

	rose_repl_local_begin();
	rose_owner_require_relid(rose_apply.sub, relid);
	rose_copy_places_lock(relid, RowExclusiveLock);
	rel = relation_open(relid, NoLock);
	old = MemoryContextSwitchTo(rose_apply.message_context);
	lsn = rose_copy_helpers_join(conn);
	chunks = join(conn, rel, &job, source);
	MemoryContextSwitchTo(old);
	relation_close(rel, NoLock);
	rose_repl_local_commit();
	read_claimed(conn, relid, &job, chunks, lsn, NULL);
}

/* ---------------------------------------------------------------------
 * The end
 */

uint64
rose_copy_chunks_switch(WalReceiverConn *conn, Relation rel, const RoseCopyJob *job, const RoseChunks *chunks)
{
	Oid			relid = RelationGetRelid(rel);
	uint64		rows;
	uint64		bytes;

	const RoseChunks *there = rose_chunks_get(rose_apply.sub->subid, relid);

	if (count_done(there, &rows, &bytes) != list_length(there->chunks))
		elog(ERROR, "pieces of table %u are missing", relid);
	/* whoever merges it has it open */
	rose_replace_lock(chunks->made, list_make1_oid(chunks->made));
	rose_staging_drop_dependents(chunks->made);
	rose_copy_switch(conn, rel, job, open_made(rel, chunks, AccessExclusiveLock));
	if (chunks->exact_lsn > chunks->first_lsn)
		rose_chunks_set_switched(rose_apply.sub->subid, relid);
	else
	{
		/* the relation is the switch's to drop, and gone */
		rose_chunks_set_switched(rose_apply.sub->subid, relid);
		rose_chunks_forget(rose_apply.sub->subid, relid);
	}
	rose_repl_stats_forget_kept();
	rose_repl_stats_keep(relid, rows, 0, 0);
	return rows;
}
