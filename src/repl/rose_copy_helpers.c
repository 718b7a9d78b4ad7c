/*-------------------------------------------------------------------------
 *
 * rose_copy_helpers.c
 *	  Several processes copy pieces of one table.
 *
 * One leads: it has the slot and its snapshot, which it exports, so that all of them read the same one, each on a connection of its own.
 * Which piece is whose is in the leader's place in shared memory.  Who helps takes one after the other; what he does not
 * finish, whatever has become of him, is free again, and in the end the leader's.
 *
 * The leader may end before his helpers.  Then another one goes on, with another snapshot, and reads what the catalog says
 * is not there.  So a piece is committed only under a lock that he waits for, by who has seen, with the lock in hand, that his
 * own leader is still there.
 *
 * Locking: rose_repl_shared->lock for places, never while waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "replication/walreceiver.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "repl/rose_chunks.h"
#include "repl/rose_repl_internal.h"

/* Looks again whether helpers are done after so long. */
#define NAP_MS	50

#define BIT(number)	(((uint32) 1) << ((number) - 1))

static int	reading = 0;		/* the piece that this process has claimed; 0: none */

/* ---------------------------------------------------------------------
 * The snapshot, and whose it is
 */

/* Which server it is: another one may have a snapshot of the same name. */
static char *
server_of(WalReceiverConn *conn)
{
	char	   *value = NULL;

	(void) rose_upstream_row(conn, "SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.text", 1, &value, "ask when the upstream was started");
	if (value == NULL || strlen(value) >= ROSE_SNAPSHOT_LENGTH)
		rose_upstream_malformed("ask when the upstream was started");
	return value;
}

static char *
export_snapshot(WalReceiverConn *conn)
{
	char	   *value = NULL;

	(void) rose_upstream_row(conn, "SELECT pg_catalog.pg_export_snapshot()", 1, &value, "export a snapshot");
	/* it goes into a command */
	if (value == NULL || strlen(value) >= ROSE_SNAPSHOT_LENGTH || strspn(value, "0123456789ABCDEF-") != strlen(value))
		rose_upstream_malformed("export a snapshot");
	return value;
}

void
rose_copy_helpers_lead(WalReceiverConn *conn, const RoseChunks *chunks, XLogRecPtr lsn)
{
	RoseReplCopyShared *place = rose_copy_places_mine();
	char	   *snapshot;
	char	   *server;
	ListCell   *lc;

	rose_repl_local_begin();
	snapshot = export_snapshot(conn);
	server = server_of(conn);
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	place->pieces = list_length(chunks->chunks);
	place->snapshot_lsn = lsn;
	strlcpy(place->snapshot, snapshot, sizeof(place->snapshot));
	strlcpy(place->server, server, sizeof(place->server));
	foreach(lc, chunks->chunks)
	{
		const RoseChunk *chunk = lfirst(lc);

		if (XLogRecPtrIsInvalid(chunk->lsn))
			continue;
		place->claimed |= BIT(chunk->number);
		place->finished |= BIT(chunk->number);
		place->done_rows += chunk->rows;
		place->done_bytes += chunk->bytes;
	}
	place->begun_rows = place->done_rows;
	LWLockRelease(&rose_repl_shared->lock);
	rose_repl_local_commit();
}

/* REQUIRES: lock.  NULL: he is not there any more. */
static RoseReplCopyShared *
leader_of(const RoseReplCopyShared *place)
{
	if (place->leader == 0)
		return rose_copy_places_mine();
	for (int i = 0; i < ROSE_MAX_COPIES; i++)
	{
		RoseReplCopyShared *other = &rose_apply.shared->copies[i];

		if (OidIsValid(other->relid) && other->pid != 0 && other->ticket == place->leader)
			return other;
	}
	return NULL;
}

pg_noreturn static void
report_gone(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("the copy that this process helps with has ended")));
}

/* A helper ends before all is done. */
static void
give_up(int code, Datum arg)
{
	RoseReplCopyShared *leader;

	/* he has left in good order */
	if (rose_copy_places_mine() == NULL)
		return;
	/* what he had claimed is somebody else's only if it is not committed */
	rose_copy_places_unlock_all();
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	leader = leader_of(rose_copy_places_mine());
	if (leader != NULL)
	{
		leader->refused = true;
		if (reading != 0)
			leader->claimed &= ~BIT(reading);
	}
	LWLockRelease(&rose_repl_shared->lock);
}

XLogRecPtr
rose_copy_helpers_join(WalReceiverConn *conn)
{
	RoseReplCopyShared *leader;
	RoseReplCopyShared there;

	before_shmem_exit(give_up, (Datum) 0);
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	leader = leader_of(rose_copy_places_mine());
	if (leader != NULL)
		there = *leader;
	LWLockRelease(&rose_repl_shared->lock);
	if (leader == NULL)
		report_gone();
	rose_upstream_prepare_copy(conn);
	rose_upstream_command(conn, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ");
	rose_upstream_command(conn, psprintf("SET TRANSACTION SNAPSHOT '%s'", there.snapshot));
	if (strcmp(server_of(conn), there.server) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the connection leads to another server than that of the copy")));
	return there.snapshot_lsn;
}

void
rose_copy_helpers_require_leader(void)
{
	bool		there;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	there = leader_of(rose_copy_places_mine()) != NULL;
	LWLockRelease(&rose_repl_shared->lock);
	if (!there)
		report_gone();
}

/* ---------------------------------------------------------------------
 * Who helps
 */

/* As many as there is room for, and something to do. */
void
rose_copy_helpers_start(RoseStartCopier start)
{
	RoseReplCopyShared *place = rose_copy_places_mine();
	int			n;
	bool		refused;

	/* the worker itself copies because there is no other process */
	if (rose_apply.copies.here)
		return;
	n = rose_copy_places_spare(rose_max_copy_workers);
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	n = Min(n, place->pieces - pg_popcount32(place->claimed) - 1);
	refused = place->refused;
	LWLockRelease(&rose_repl_shared->lock);
	while (!refused && n-- > 0)
	{
		uint64		ticket;

		if (!rose_copy_places_take_helper(&ticket))
			return;
		if (!start(place->relid, ticket, true))
		{
			rose_copy_places_give_back(ticket);
			return;
		}
	}
}

/* A table by itself goes before the next piece of one that is being copied anyway. */
static bool
is_wanted_elsewhere(void)
{
	return rose_copy_places_mine()->leader != 0 && rose_copy_places_spare(rose_max_copy_workers) < 0;
}

int
rose_copy_helpers_claim(void)
{
	RoseReplCopyShared *leader;
	int			result = 0;

	if (is_wanted_elsewhere())
		return 0;
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	leader = leader_of(rose_copy_places_mine());
	for (int number = 1; leader != NULL && result == 0 && number <= leader->pieces; number++)
	{
		if ((leader->claimed & BIT(number)) == 0)
			result = number;
	}
	if (result != 0)
		leader->claimed |= BIT(result);
	LWLockRelease(&rose_repl_shared->lock);
	reading = result;
	return result;
}

void
rose_copy_helpers_finished(uint64 rows, uint64 bytes)
{
	RoseReplCopyShared *place = rose_copy_places_mine();
	RoseReplCopyShared *leader;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	leader = leader_of(place);
	place->rows = place->bytes = 0;
	place->phase = ROSE_COPY_READING;
	if (leader != NULL)
	{
		leader->finished |= BIT(reading);
		leader->done_rows += rows;
		leader->done_bytes += bytes;
	}
	LWLockRelease(&rose_repl_shared->lock);
	reading = 0;
}

bool
rose_copy_helpers_wait(void)
{
	RoseReplCopyShared *place = rose_copy_places_mine();

	for (;;)
	{
		bool		all;
		bool		some;

		LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
		all = pg_popcount32(place->finished) == place->pieces;
		some = pg_popcount32(place->claimed) < place->pieces;
		LWLockRelease(&rose_repl_shared->lock);
		if (all || some)
			return !all;
		rose_apply.copies.breathe();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
