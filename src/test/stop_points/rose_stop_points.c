/*-------------------------------------------------------------------------
 *
 * rose_stop_points.c
 *	  What happens at stop points, in test clusters: the tests' half of
 *	  util/rose_stop_point.h.
 *
 * Loaded after rose by shared_preload_libraries.  Functions, for superusers as
 * all functions in C are until somebody grants them:
 *
 *	stop_at(name, action, who, skip, times)
 *		arm a stop point.  action: 'wait', 'error', 'terminate' (FATAL), 'crash'
 *		(SIGKILL to itself), 'skip' (ROSE_STOP_POINT_SKIPS is true).  who: 'any', 'client', 'worker'.  The first 'skip'
 *		arrivals pass; it acts on the next 'times' ones, 0 = on all.
 *	go_on(name)
 *		disarm a stop point and release those that wait there; in the session that
 *		armed it.
 *	stop_hits(name)
 *		how often it has acted since it was armed.
 *	stop_clear()
 *		disarm all.
 *
 * What a server meets before anybody can be in it, such as the recovery of tables, is
 * armed by a file "rose_stop_points" in its data directory, with a line "name action who
 * skip times".  The server removes it when it starts, so the points are armed once.
 *
 * To wait is to ask for an advisory lock that the session that armed the point
 * holds, two-key form, the first key being 'rose'.  So isolationtester sees that
 * the process is blocked, everybody else finds it in pg_locks, a cancel ends
 * it, and nobody waits for ever when the session ends.
 *
 * Locking: one spinlock for the table of points; nothing is done under it that
 * could fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "util/rose_stop_point.h"

PG_MODULE_MAGIC;

#define MAX_POINTS	32
#define NAME_LEN	48
#define LOCK_CLASS	0x726f7365	/* "rose" */

typedef enum StopAction
{
	STOP_NOT,
	STOP_WAIT,
	STOP_ERROR,
	STOP_TERMINATE,
	STOP_CRASH,
	STOP_LIMIT,
	STOP_SKIP
} StopAction;

typedef enum StopWho
{
	STOP_ANY,
	STOP_CLIENT,
	STOP_WORKER
} StopWho;

typedef struct StopPoint
{
	char		name[NAME_LEN]; /* empty: unused */
	StopAction	action;			/* STOP_NOT: disarmed, the rest is history */
	StopWho		who;
	int			skip;
	int			times;			/* 0 = no end */
	int64		hits;
} StopPoint;

typedef struct StopPointsShared
{
	slock_t		mutex;			/* all that follows */
	StopPoint	points[MAX_POINTS];
} StopPointsShared;

static StopPointsShared *stop_points = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

void		_PG_init(void);

PG_FUNCTION_INFO_V1(stop_at);
PG_FUNCTION_INFO_V1(go_on);
PG_FUNCTION_INFO_V1(stop_hits);
PG_FUNCTION_INFO_V1(stop_clear);

/* ---- the table of points ---- */

/* REQUIRES: mutex. */
static StopPoint *
find_point(const char *name)
{
	for (int i = 0; i < MAX_POINTS; i++)
		if (strcmp(stop_points->points[i].name, name) == 0)
			return &stop_points->points[i];
	return NULL;
}

static bool
concerns_us(const StopPoint *point)
{
	switch (point->who)
	{
		case STOP_CLIENT:
			return MyBackendType == B_BACKEND;
		case STOP_WORKER:
			return MyBackendType == B_BG_WORKER;
		case STOP_ANY:
			break;
	}
	return true;
}

/* What to do at this point, this time. */
static StopAction
arrive(const char *name)
{
	StopAction	action = STOP_NOT;
	StopPoint  *point;

	SpinLockAcquire(&stop_points->mutex);
	point = find_point(name);
	if (point != NULL && point->action != STOP_NOT && concerns_us(point))
	{
		if (point->skip > 0)
			point->skip--;
		else
		{
			action = point->action;
			point->hits++;
			if (point->times > 0 && --point->times == 0)
				point->action = STOP_NOT;
		}
	}
	SpinLockRelease(&stop_points->mutex);
	return action;
}

/* ---- waiting ---- */

static void
set_lock_tag(LOCKTAG *tag, const char *name)
{
	uint32		hash = DatumGetUInt32(hash_any((const unsigned char *) name, strlen(name)));

	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, LOCK_CLASS, hash, 2);
}

static void
wait_here(const char *name)
{
	LOCKTAG		tag;

	set_lock_tag(&tag, name);
	(void) LockAcquire(&tag, ShareLock, true, false);
	LockRelease(&tag, ShareLock, true);
}

/* RoseStopPointHook */
static bool
stop_here(const char *name)
{
	if (stop_points == NULL)
		return false;
	switch (arrive(name))
	{
		case STOP_NOT:
			break;
		case STOP_WAIT:
			wait_here(name);
			break;
		case STOP_ERROR:
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("error at stop point \"%s\"", name)));
			break;
		case STOP_TERMINATE:
			ereport(FATAL,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("end at stop point \"%s\"", name)));
			break;
		case STOP_CRASH:
			kill(MyProcPid, SIGKILL);
			pg_usleep(60 * USECS_PER_SEC);
			break;
		case STOP_LIMIT:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("limit at stop point \"%s\"", name)));
			break;
		case STOP_SKIP:
			return true;
	}
	return false;
}

/* ---- functions ---- */

static void
check_ready(void)
{
	if (stop_points == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rose_stop_points must be loaded via shared_preload_libraries")));
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to control stop points")));
}

static int
choose(const char *what, const char *word, const char *const *words)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcmp(word, words[i]) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown %s \"%s\"", what, word)));
	return 0;
}

static void
set_point(StopPoint *point, const char *name, const char *action, const char *who,
		  int skip, int times)
{
	static const char *const actions[] = {"not", "wait", "error", "terminate", "crash", "limit", "skip", NULL};
	static const char *const whos[] = {"any", "client", "worker", NULL};

	memset(point, 0, sizeof(*point));
	strlcpy(point->name, name, NAME_LEN);
	point->action = choose("action", action, actions);
	point->who = choose("kind of process", who, whos);
	point->skip = skip;
	point->times = times;
}

static void
arm(const StopPoint *point)
{
	StopPoint  *slot;

	SpinLockAcquire(&stop_points->mutex);
	slot = find_point(point->name);
	if (slot == NULL)
		slot = find_point("");
	if (slot != NULL)
		*slot = *point;
	SpinLockRelease(&stop_points->mutex);
	if (slot == NULL)
		elog(ERROR, "more than %d stop points", MAX_POINTS);
}

Datum
stop_at(PG_FUNCTION_ARGS)
{
	StopPoint	point;
	LOCKTAG		tag;

	check_ready();
	set_point(&point, text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1)),
			  text_to_cstring(PG_GETARG_TEXT_PP(2)), PG_GETARG_INT32(3), PG_GETARG_INT32(4));
	set_lock_tag(&tag, point.name);
	if (point.action == STOP_WAIT)
		(void) LockAcquire(&tag, ExclusiveLock, true, false);
	arm(&point);
	PG_RETURN_VOID();
}

static void
disarm(const char *name)
{
	StopPoint  *point;

	SpinLockAcquire(&stop_points->mutex);
	point = find_point(name);
	if (point != NULL)
		point->action = STOP_NOT;
	SpinLockRelease(&stop_points->mutex);
}

Datum
go_on(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	LOCKTAG		tag;

	check_ready();
	disarm(name);
	set_lock_tag(&tag, name);
	if (!LockRelease(&tag, ExclusiveLock, true))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this session did not make anybody wait at \"%s\"", name)));
	PG_RETURN_VOID();
}

Datum
stop_hits(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	StopPoint  *point;
	int64		hits;

	check_ready();
	SpinLockAcquire(&stop_points->mutex);
	point = find_point(name);
	hits = point ? point->hits : 0;
	SpinLockRelease(&stop_points->mutex);
	PG_RETURN_INT64(hits);
}

Datum
stop_clear(PG_FUNCTION_ARGS)
{
	check_ready();
	SpinLockAcquire(&stop_points->mutex);
	memset(stop_points->points, 0, sizeof(stop_points->points));
	SpinLockRelease(&stop_points->mutex);
	PG_RETURN_VOID();
}

/* ---- wiring ---- */

static void
request_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(sizeof(StopPointsShared));
}

/* By the file that the start of this one finds, see the top. */
static void
arm_by_file(void)
{
	const char *path = "rose_stop_points";
	FILE	   *file = fopen(path, "r");
	char		name[NAME_LEN];
	char		action[16];
	char		who[16];
	int			skip;
	int			times;

	if (file == NULL)
		return;
	while (fscanf(file, "%47s %15s %15s %d %d", name, action, who, &skip, &times) == 5)
	{
		StopPoint	point;

		set_point(&point, name, action, who, skip, times);
		arm(&point);
	}
	fclose(file);
	if (unlink(path) != 0)
		elog(FATAL, "could not remove file \"%s\": %m", path);
}

static void
start_memory(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	stop_points = ShmemInitStruct("rose stop points", sizeof(StopPointsShared), &found);
	if (!found)
	{
		memset(stop_points, 0, sizeof(StopPointsShared));
		SpinLockInit(&stop_points->mutex);
		arm_by_file();
	}
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_memory;
	rose_stop_point_hook = stop_here;
}
