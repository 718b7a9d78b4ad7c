/*-------------------------------------------------------------------------
 *
 * rose_flight.c
 *	  An epoch in flight: its runs are written beside the apply worker.
 *
 * At an epoch's boundary the apply worker freezes the memtables of its tables, which
 * takes moments, and notes the epoch's number and upstream position in shared
 * memory: then the epoch is in flight.  A background worker of its own, the spiller,
 * writes the frozen memtables to pending runs, commits number and position, publishes
 * the runs, frees the memtables, and ends.  The apply worker goes on into new
 * memtables meanwhile; when it sees that the epoch has landed, it moves durable_lsn.
 *
 * One epoch of a subscription is in flight at a time.  What comes next has the next
 * number: a memtable remembers for which epoch it was frozen, so nothing that was
 * applied later can get into the runs of the epoch in flight.
 *
 * Number and position stay in shared memory until the epoch has landed, whoever
 * dies, and everything that is done for it may be done twice.  So a spiller that
 * ended early is replaced by the apply worker itself, and a new apply worker first
 * waits for, or finishes, what it finds in flight.  If the server goes down, the
 * epoch is committed or it is not, as if it had been made in one process.
 *
 * The apply worker waits for the epoch in flight (and counts that) where it cannot go on
 * without: memory is full, or a TRUNCATE, the end of the worker or somebody's request
 * needs an epoch of its own.  If that happens within a batch, the batch holds locks on
 * tables; so the spiller never queues for a table's lock, behind somebody who waits for
 * the batch.  It tries again and says that it is blocked, and the batch gives up.  If the
 * spiller waits for another lock (it writes to the state table), it may be of somebody
 * who waits for the batch: the batch looks for that now and then, and gives up, too.
 *
 * Locking: rose_repl_shared->lock for RoseReplSubShared.flight.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "lsm/write/rose_make_room.h"
#include "repl/rose_repl_internal.h"

/* Looks at an epoch in flight at least this often, while waiting for it. */
#define ROSE_FLIGHT_NAP_MS			100

/* Looks for a deadlock after so many of these. */
#define ROSE_FLIGHT_DEADLOCK_NAPS	10

/* Who cannot have a table's lock tries again after this ... */
#define ROSE_FLIGHT_RETRY_MS		10
/* ... the worker for no longer than this, if another process can go on with it ... */
#define ROSE_FLIGHT_HAND_OVER_MS	200
/* ... and a batch that waits for it gives up after this. */
#define ROSE_FLIGHT_BLOCKED_MS		1000

static BackgroundWorkerHandle *spiller = NULL;	/* of the epoch in flight, or NULL */
static bool am_spiller = false;
static bool may_hand_over = false;	/* the stream goes on without this process's waiting for tables */
static bool exit_registered = false;

/* ---------------------------------------------------------------------
 * Writing it, in either process
 */

static void
wake_apply_worker(void)
{
	if (rose_apply.shared->latch != NULL)
		SetLatch(rose_apply.shared->latch);
}

/* This process ends before the epoch has landed: somebody else has to see to it. */
static void
flight_exit(int code, Datum arg)
{
	RoseFlightShared *flight = &rose_apply.shared->flight;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	if (flight->state == ROSE_FLIGHT_RUNNING && flight->pid == MyProcPid)
	{
		flight->state = ROSE_FLIGHT_FAILED;
		flight->pid = 0;
		memset(&flight->blocked, 0, sizeof(flight->blocked));
		wake_apply_worker();
	}
	LWLockRelease(&rose_repl_shared->lock);
}

/*
 * Become the process that writes this epoch (0: whichever it is); false if somebody
 * else does, or it has landed.
 */
static bool
take_over(uint64 epoch, RoseFlightShared *copy)
{
	RoseFlightShared *flight = &rose_apply.shared->flight;
	bool		taken;

	if (!exit_registered)
		before_shmem_exit(flight_exit, (Datum) 0);
	exit_registered = true;

	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	taken = (flight->state == ROSE_FLIGHT_ASKED || flight->state == ROSE_FLIGHT_FAILED) &&
		(epoch == 0 || flight->epoch == epoch);
	if (taken)
	{
		flight->state = ROSE_FLIGHT_RUNNING;
		flight->pid = MyProcPid;
		memset(&flight->blocked, 0, sizeof(flight->blocked));
		*copy = *flight;
	}
	LWLockRelease(&rose_repl_shared->lock);
	return taken;
}

/* REQUIRES: take_over.  False: another process is to go on with it. */
static bool
write_epoch(const RoseFlightShared *copy)
{
	bool		published;

	if (!rose_epoch_write(copy->epoch, copy->lsn, &copy->last_commit, &published))
		return false;
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->flight.state = ROSE_FLIGHT_LANDED;
	rose_apply.shared->flight.unpublished = !published;
	rose_apply.shared->flight.pid = 0;
	if (am_spiller)
		wake_apply_worker();
	LWLockRelease(&rose_repl_shared->lock);
	return true;
}

/* It has not said so before, or not of this one. */
static void
note_blocked(RoseReplWaitShared *wait, Oid relid)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	if (wait->relid == InvalidOid || relid == InvalidOid)
		wait->since = OidIsValid(relid) ? GetCurrentTimestamp() : 0;
	wait->relid = relid;
	wait->for_epoch = OidIsValid(relid);
	wait->alone = false;
	LWLockRelease(&rose_repl_shared->lock);
}

/* The spiller never queues (see the top of this file), nor does the worker, which has the upstream to talk to. */
bool
rose_flight_wait_for_lock(Oid relid)
{
	RoseReplWaitShared *mine = am_spiller ? &rose_apply.shared->flight.blocked : &rose_apply.shared->waiting;

	note_blocked(mine, relid);
	if (!OidIsValid(relid))
		return true;
	if (may_hand_over && TimestampDifferenceExceeds(mine->since, GetCurrentTimestamp(), ROSE_FLIGHT_HAND_OVER_MS))
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ROSE_FLIGHT_RETRY_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

/* The process that writes one epoch. */
void
rose_repl_spiller_main(Datum arg)
{
	RoseSpillerArgs args;
	RoseFlightShared copy;

	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));
	am_spiller = true;
	rose_repl_set_up_process(args.dbid);
	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	rose_apply.shared = rose_repl_entry(args.dbid, args.subid);
	LWLockRelease(&rose_repl_shared->lock);
	if (rose_apply.shared == NULL || !take_over(args.epoch, &copy))
		proc_exit(0);

	rose_apply.message_context = AllocSetContextCreate(TopMemoryContext, "rose spiller",
													   ALLOCSET_DEFAULT_SIZES);
	if (rose_repl_load_subscription(args.subid))
		(void) write_epoch(&copy);
	proc_exit(0);
}

/* ---------------------------------------------------------------------
 * The apply worker's side
 */

static bool
start_spiller(uint64 epoch)
{
	BackgroundWorker worker = {0};
	RoseSpillerArgs args = {MyDatabaseId, rose_apply.sub->subid, epoch};
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		started;

	if (spiller != NULL)
		pfree(spiller);
	spiller = NULL;
	StaticAssertStmt(sizeof(args) <= BGW_EXTRALEN, "a spiller's arguments must fit");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "rose", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "rose_repl_spiller_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "rose replication spiller for \"%s\"",
			 rose_apply.sub->name);
	strlcpy(worker.bgw_type, "rose replication spiller", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &args, sizeof(args));
	worker.bgw_notify_pid = MyProcPid;
	started = RegisterDynamicBackgroundWorker(&worker, &spiller);
	MemoryContextSwitchTo(old);
	return started;
}

/* What is done so far may be done again. */
static bool
hand_over(uint64 epoch)
{
	note_blocked(&rose_apply.shared->waiting, InvalidOid);
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->flight.state = ROSE_FLIGHT_ASKED;
	rose_apply.shared->flight.pid = 0;
	LWLockRelease(&rose_repl_shared->lock);
	return start_spiller(epoch);
}

/*
 * In this process; REQUIRES: no open batch.  may_be_beside: should a table be locked, another process waits for it, if there is
 * one for that, and the stream goes on.
 */
static void
write_here(bool may_be_beside)
{
	RoseFlightShared copy;
	bool		done;

	Assert(!rose_apply.batch.open);
	if (!take_over(0, &copy))
		return;
	may_hand_over = may_be_beside;
	done = write_epoch(&copy) || hand_over(copy.epoch);
	may_hand_over = false;
	if (!done && take_over(0, &copy))
		(void) write_epoch(&copy);
}

void
rose_flight_begin(uint64 epoch, XLogRecPtr lsn, bool beside, bool may_be_beside)
{
	RoseFlightShared *flight = &rose_apply.shared->flight;

	Assert(rose_apply.epochs.flight == 0);
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	Assert(flight->state == ROSE_FLIGHT_NONE);
	flight->state = ROSE_FLIGHT_ASKED;
	flight->epoch = epoch;
	flight->lsn = lsn;
	flight->last_commit = rose_apply.progress.last_commit;
	flight->pid = 0;
	memset(&flight->blocked, 0, sizeof(flight->blocked));
	flight->unpublished = false;
	LWLockRelease(&rose_repl_shared->lock);
	rose_apply.epochs.flight = epoch;

	/* without a free background worker it is done as if there were none */
	if (!beside || !start_spiller(epoch))
		write_here(may_be_beside);
}

/* The spiller never came: no process could be started, or it ended at once. */
static bool
spiller_is_missing(void)
{
	pid_t		pid;

	return spiller != NULL && GetBackgroundWorkerPid(spiller, &pid) == BGWH_STOPPED;
}

static void
land(const RoseFlightShared *copy)
{
	LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
	rose_apply.shared->flight.state = ROSE_FLIGHT_NONE;
	LWLockRelease(&rose_repl_shared->lock);
	if (spiller != NULL)
		pfree(spiller);
	spiller = NULL;
	rose_apply.epochs.flight = 0;
	rose_apply.epochs.unpublished |= copy->unpublished;
	rose_epoch_landed(copy->epoch, copy->lsn);
}

static RoseFlightShared
look_at_flight(void)
{
	RoseFlightShared copy;

	LWLockAcquire(&rose_repl_shared->lock, LW_SHARED);
	copy = rose_apply.shared->flight;
	LWLockRelease(&rose_repl_shared->lock);
	return copy;
}

bool
rose_flight_is_left(void)
{
	RoseFlightShared copy = look_at_flight();

	return copy.state == ROSE_FLIGHT_FAILED || (copy.state == ROSE_FLIGHT_ASKED && spiller_is_missing());
}

/* True: no epoch is in flight (any more).  One that nobody writes is written here. */
bool
rose_flight_poll(void)
{
	RoseFlightShared copy;

	if (rose_apply.epochs.flight == 0)
		return true;
	if (rose_flight_is_left())
	{
		if (rose_apply.batch.open)
			return false;
		write_here(rose_apply.keep_alive != NULL);
	}
	copy = look_at_flight();
	if (copy.state != ROSE_FLIGHT_LANDED)
		return false;
	land(&copy);
	return true;
}

/* Whoever writes the epoch, or is to, or 0. */
static int
writer_pid(const RoseFlightShared *copy)
{
	pid_t		pid;

	if (copy->pid != 0)
		return copy->pid;
	return spiller != NULL && GetBackgroundWorkerPid(spiller, &pid) == BGWH_STARTED ? pid : 0;
}

/* Within a batch: will it land without us?  Looks for a deadlock if asked to. */
static void
check_prospects(bool deadlock)
{
	RoseFlightShared copy = look_at_flight();
	int			pid = writer_pid(&copy);

	if (rose_flight_is_left())
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no room in memory before epoch " UINT64_FORMAT " is written, and its process has ended",
						copy.epoch),
				 errdetail("The worker starts over with writing it.")));
	if (OidIsValid(copy.blocked.relid) &&
		TimestampDifferenceExceeds(copy.blocked.since, GetCurrentTimestamp(),
								   ROSE_FLIGHT_BLOCKED_MS))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("no room in memory before epoch " UINT64_FORMAT " is written, and a table is locked against that",
						copy.epoch),
				 errdetail("The worker gives up its batch and starts over with writing it.")));
	if (deadlock && pid != 0 && rose_repl_waits_for_us(pid))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("no room in memory before epoch " UINT64_FORMAT " is written, whose process waits for somebody who waits for this batch",
						copy.epoch),
				 errdetail("The worker gives up its batch and starts over with writing it.")));
}

bool
rose_flight_is_held_up(void)
{
	RoseFlightShared copy = look_at_flight();

	return rose_apply.epochs.flight != 0 && OidIsValid(copy.blocked.relid);
}

static void
nap(void)
{
	rose_apply_keep_alive();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ROSE_FLIGHT_NAP_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

bool
rose_flight_wait_for_writer(void)
{
	while (!rose_flight_poll())
	{
		if (rose_flight_is_held_up())
			return false;
		nap();
	}
	return true;
}

/* True if it was necessary to wait. */
bool
rose_flight_wait(void)
{
	TimestampTz start = GetCurrentTimestamp();
	long		secs;
	int			microsecs;
	int			looks = 0;

	if (rose_flight_poll())
		return false;
	do
	{
		if (rose_apply.batch.open)
			check_prospects(++looks % ROSE_FLIGHT_DEADLOCK_NAPS == 0);
		nap();
	} while (!rose_flight_poll());

	TimestampDifference(start, GetCurrentTimestamp(), &secs, &microsecs);
	rose_apply.progress.spill_waits++;
	rose_apply.progress.spill_wait_ms += secs * 1000 + microsecs / 1000;
	return true;
}

/*
 * At the start of a worker: what the last one left in flight lands first, and the
 * state row says so.
 */
void
rose_flight_finish_left(void)
{
	RoseFlightShared *flight = &rose_apply.shared->flight;

	for (;;)
	{
		RoseFlightShared copy = look_at_flight();

		if (copy.state == ROSE_FLIGHT_NONE)
			break;
		if (copy.state == ROSE_FLIGHT_LANDED)
		{
			LWLockAcquire(&rose_repl_shared->lock, LW_EXCLUSIVE);
			flight->state = ROSE_FLIGHT_NONE;
			LWLockRelease(&rose_repl_shared->lock);
			break;
		}
		if (take_over(0, &copy))
		{
			(void) write_epoch(&copy);
			continue;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 ROSE_FLIGHT_NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	rose_wait_for_epoch_hook = rose_flight_wait;
}
