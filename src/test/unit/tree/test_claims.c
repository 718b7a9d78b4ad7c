/*-------------------------------------------------------------------------
 *
 * test_claims.c
 *	  Unit test of src/lsm/tree/rose_claims.c: processes share passes, and come and go.
 *
 * A pass goes over a row of pieces.  Processes take strides, build them in some steps and
 * publish them, as rose_merge_pass.c does, in any order; some leave in the middle of it.
 * What is published must follow what was published before, all must get done, and no
 * stride may be given up but for a process that has left: each of those costs each of the
 * others one stride at most.
 *
 * Processes are simulated: locks and latches are stubs.  A program of its own; run.sh
 * builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "store/rose_pin.h"
#include "lsm/tree/rose_claims.h"
#include "unit_check.h"

#define PROCESSES	4
#define PIECES		40			/* with ids from 1 on */

typedef enum Doing
{
	NOTHING,
	PLANNING,
	BUILDING
} Doing;

typedef struct Process
{
	uint32		incarnation;
	RoseTicket	ticket;			/* job 0: it has none */
	Doing		doing;
	RoseStridesTaken taken;
	uint32		first;			/* of its stride: pieces from here ... */
	uint32		last;			/* ... to there */
	int			steps;			/* to go until it is built */
} Process;

struct Latch *MyLatch = NULL;

static RoseClaimsShared claims;
static Process processes[PROCESSES];
static int	me;					/* the process whose step it is */
static uint32 done;				/* pieces that are published */
static int	departures;
static int	broken;
static uint64 random_state;

/* ---- stubs ---- */

void
LWLockInitialize(LWLock *lock, int tranche_id)
{
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	return true;
}

void
LWLockRelease(LWLock *lock)
{
}

void
SetLatch(Latch *latch)
{
}

void
rose_pin_whoami(int *slot, uint32 *incarnation)
{
	*slot = me;
	*incarnation = processes[me].incarnation;
}

bool
rose_pin_is_alive(int slot, uint32 incarnation)
{
	return processes[slot].incarnation == incarnation;
}

/* ---- a process ---- */

static uint32
random_below(uint32 n)
{
	random_state = random_state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) (random_state >> 33) % n;
}

static void
get_ticket(Process *process)
{
	uint32		ids[ROSE_CLAIM_IDS];
	uint32		input = 1000;
	bool		claimed;
	int			n;
	RoseComponentEntryDisk entry = {.id = input};

	if (rose_claims_join(&claims, &process->ticket, ids, &n))
	{
		CHECK(n == 1 && ids[0] == input);
		return;
	}
	if (rose_claims_count(&claims) == 0)
	{
		uint64		version = rose_claims_find(&claims, 1, &entry, &claimed);

		CHECK(!claimed);
		CHECK(rose_claims_begin(&claims, version, &input, 1, true, PIECES, &process->ticket));

		/* nobody joins before it is opened */
		me = (me + 1) % PROCESSES;
		CHECK(!rose_claims_join(&claims, &processes[me].ticket, ids, &n));
		me = (int) (process - processes);
		rose_claims_open(&claims, &process->ticket);
	}
}

/* Take what is behind all that is taken; if there is nothing, the process has no part in the pass any more. */
static void
take_stride(Process *process)
{
	RoseStridesTaken stride = {0};
	uint32		before = process->taken.last_piece > done ? process->taken.last_piece : done;

	process->doing = NOTHING;
	if (process->taken.takes_rest || before == PIECES)
	{
		rose_claims_take_stride(&claims, &process->ticket, NULL);
		rose_claims_end(&claims, &process->ticket);
		return;
	}
	process->first = before + 1;
	process->last = Min(before + 1 + random_below(2), PIECES);
	process->steps = 2 + random_below(3);
	process->doing = BUILDING;
	stride.last_piece = process->last;
	stride.takes_rest = process->last == PIECES;
	rose_claims_take_stride(&claims, &process->ticket, &stride);
}

/* As often as not it takes a stride at once; else others have steps meanwhile. */
static void
plan(Process *process)
{
	if (!rose_claims_plan(&claims, &process->ticket, &process->taken))
		return;
	process->doing = PLANNING;
	if (random_below(2) == 0)
		take_stride(process);
}

static void
build(Process *process)
{
	RoseStrideTurn turn = rose_claims_turn(&claims, &process->ticket);

	if (turn == ROSE_STRIDE_BROKEN)
	{
		rose_claims_end_stride(&claims, &process->ticket, false);
		process->doing = NOTHING;
		broken++;
		plan(process);
	}
	else if (process->steps > 0)
		process->steps--;
	else if (turn == ROSE_STRIDE_NEXT)
	{
		CHECK_AT(process->first == done + 1, " publishes %u behind %u\n", process->first, done);
		done = process->last;
		rose_claims_end_stride(&claims, &process->ticket, true);
		process->doing = NOTHING;
	}
}

/* It is killed, or its merge fails, which it notices. */
static void
leave(Process *process)
{
	if (process->ticket.job != 0)
		departures++;
	if (random_below(2) == 0)
		rose_claims_end(&claims, &process->ticket);
	process->incarnation++;
	memset(&process->ticket, 0, sizeof(process->ticket));
	process->doing = NOTHING;
}

static void
step(Process *process, uint32 stability)
{
	me = (int) (process - processes);
	if (stability > 0 && random_below(stability) == 0)
		leave(process);
	else if (process->ticket.job == 0)
		get_ticket(process);
	else if (process->doing == PLANNING)
		take_stride(process);
	else if (process->doing == BUILDING)
		build(process);
	else
		plan(process);
}

/* ---- passes ---- */

/* in_turn: processes have steps one after the other, else by chance.  stability: one step in so many is the last; 0 = none. */
static void
simulate(bool in_turn, uint32 stability, uint64 seed)
{
	int			steps = 0;

	random_state = seed;
	memset(processes, 0, sizeof(processes));
	rose_claims_init(&claims, 0);
	done = 0;
	departures = broken = 0;
	while (done < PIECES)
	{
		step(&processes[in_turn ? (uint32) (steps % PROCESSES) : random_below(PROCESSES)], stability);
		CHECK_AT(++steps < 100000, " after %u of %d pieces, seed " UINT64_FORMAT "\n", done, PIECES, seed);
		CHECK_AT(broken <= departures * (PROCESSES - 1), " %d strides of others given up for %d processes, seed " UINT64_FORMAT "\n",
				 broken, departures, seed);
	}
	for (int i = 0; i < PROCESSES; i++)
	{
		processes[i].incarnation++;
		CHECK(i < PROCESSES - 1 || rose_claims_count(&claims) == 0);
	}
}

int
main(void)
{
	for (uint64 seed = 1; seed <= 2000; seed++)
		for (int in_turn = 0; in_turn < 2; in_turn++)
		{
			simulate(in_turn != 0, 0, seed);
			simulate(in_turn != 0, 40, seed);
		}
	printf("ok 1 - strides of several processes\n1..1\n");
	return 0;
}
