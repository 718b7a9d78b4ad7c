/*-------------------------------------------------------------------------
 *
 * rose_claims.c
 *	  Who merges what of a table.  See rose_claims.h.
 *
 * All of it is a few arrays in the table's shared entry.  Hands name their process by
 * slot and incarnation, as owners that are being built do (store/rose_owner.c), so nobody
 * needs to clean up after a process that dies: whoever looks next finds that it is gone,
 * breaks the strides that wait for it, and frees its job if it was the last hand.  The
 * entry itself stays as long as there is a hand that lives (rose_registry.c).
 *
 * Locking: RoseClaimsShared.lock, for moments; nothing is read or waited for while it is
 * held.
 *
 * What this does not do: choose what to merge (merge/rose_picker.c), plan strides or
 * publish them (merge/rose_merge_pass.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "store/rose_pin.h"
#include "lsm/tree/rose_claims.h"

/* Processes that may work on one pass. */
#define HANDS_OF_PASS	4

void
rose_claims_init(RoseClaimsShared *claims, int tranche)
{
	memset(claims, 0, sizeof(*claims));
	LWLockInitialize(&claims->lock, tranche);
}

static bool
is_alive(const RoseHandShared *hand)
{
	return hand->job != 0 && rose_pin_is_alive(hand->slot, hand->incarnation);
}

bool
rose_claims_are_any(const RoseClaimsShared *claims)
{
	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
		if (is_alive(&claims->hands[i]))
			return true;
	return false;
}

/* ---- jobs and hands.  All REQUIRE: lock exclusive ---- */

static int
find_job(const RoseClaimsShared *claims, uint64 number)
{
	for (int i = 0; i < ROSE_CLAIM_JOBS; i++)
		if (claims->jobs[i].number == number)
			return i;
	return -1;
}

static int
count_hands(const RoseClaimsShared *claims, uint64 job)
{
	int			n = 0;

	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
		n += claims->hands[i].job == job;
	return n;
}

static void
free_job(RoseClaimsShared *claims, uint64 number)
{
	int			job = find_job(claims, number);
	int			n = 0;

	for (int i = 0; i < claims->nids; i++)
		if (claims->ids[i].job != job)
			claims->ids[n++] = claims->ids[i];
	claims->nids = n;
	claims->jobs[job].number = 0;
	claims->version++;
}

/* The other hands of its job that have strides, or want one, look again. */
static void
wake_others(RoseClaimsShared *claims, const RoseHandShared *hand)
{
	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
		if (claims->hands[i].job == hand->job && &claims->hands[i] != hand)
			SetLatch(claims->hands[i].latch);
}

/*
 * Those behind it are broken.  Not behind one that is broken itself: they were broken
 * with it, and what has been taken since does not follow it.
 */
static void
give_stride_up(RoseClaimsShared *claims, RoseHandShared *hand)
{
	if (hand->turn == 0)
		return;
	for (int i = 0; i < ROSE_CLAIM_HANDS && !hand->broken; i++)
		if (claims->hands[i].job == hand->job &&
			(claims->hands[i].turn > hand->turn || claims->hands[i].plans))
			claims->hands[i].broken = true;
	hand->turn = 0;
	wake_others(claims, hand);
}

static void
free_hand(RoseClaimsShared *claims, RoseHandShared *hand)
{
	uint64		job = hand->job;

	give_stride_up(claims, hand);
	memset(hand, 0, sizeof(*hand));
	if (count_hands(claims, job) == 0)
		free_job(claims, job);
}

/* Before anything is looked at: what dead processes have left goes. */
static void
lock_claims(RoseClaimsShared *claims)
{
	LWLockAcquire(&claims->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
		if (claims->hands[i].job != 0 && !is_alive(&claims->hands[i]))
			free_hand(claims, &claims->hands[i]);
}

static void
unlock_claims(RoseClaimsShared *claims)
{
	LWLockRelease(&claims->lock);
}

/* NULL: claims were dropped. */
static RoseHandShared *
hand_of(RoseClaimsShared *claims, const RoseTicket *ticket)
{
	RoseHandShared *hand = &claims->hands[ticket->hand];

	return ticket->job != 0 && hand->job == ticket->job ? hand : NULL;
}

/* False: there is no place. */
static bool
add_hand(RoseClaimsShared *claims, const RoseJobShared *job, RoseTicket *ticket)
{
	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
	{
		RoseHandShared *hand = &claims->hands[i];

		if (hand->job != 0)
			continue;
		hand->job = job->number;
		rose_pin_whoami(&hand->slot, &hand->incarnation);
		hand->latch = MyLatch;
		ticket->hand = i;
		ticket->job = job->number;
		ticket->begun = job->begun;
		return true;
	}
	return false;
}

/* ---- claims ---- */

int
rose_claims_count(RoseClaimsShared *claims)
{
	int			n = 0;

	lock_claims(claims);
	for (int i = 0; i < ROSE_CLAIM_JOBS; i++)
		n += claims->jobs[i].number != 0;
	unlock_claims(claims);
	return n;
}

static bool
is_claimed(const RoseClaimsShared *claims, const RoseComponentEntryDisk *entry)
{
	for (int i = 0; i < claims->nids; i++)
		if (claims->ids[i].id == entry->id)
			return true;
	for (int i = 0; i < ROSE_CLAIM_JOBS; i++)
		if (claims->jobs[i].number != 0 && claims->jobs[i].takes_c2 && entry->level == 2)
			return true;
	return false;
}

uint64
rose_claims_find(RoseClaimsShared *claims, int ncomponents, const RoseComponentEntryDisk *components,
				 bool *claimed)
{
	uint64		version;

	lock_claims(claims);
	for (int i = 0; i < ncomponents; i++)
		claimed[i] = is_claimed(claims, &components[i]);
	version = claims->version;
	unlock_claims(claims);
	return version;
}

bool
rose_claims_begin(RoseClaimsShared *claims, uint64 version, const uint32 *ids, int n, bool takes_c2,
				  uint32 newest_owner, RoseTicket *ticket)
{
	bool		begun = false;
	int			job;

	lock_claims(claims);
	job = find_job(claims, 0);
	if (claims->version == version && job >= 0 && claims->nids + n <= ROSE_CLAIM_IDS)
	{
		claims->jobs[job].number = ++claims->last_number;
		claims->jobs[job].takes_c2 = takes_c2;
		claims->jobs[job].open = false;
		claims->jobs[job].begun = newest_owner;
		begun = add_hand(claims, &claims->jobs[job], ticket);
		if (!begun)
			claims->jobs[job].number = 0;
	}
	for (int i = 0; begun && i < n; i++)
	{
		claims->ids[claims->nids].id = ids[i];
		claims->ids[claims->nids++].job = job;
	}
	if (begun)
		claims->version++;
	unlock_claims(claims);
	return begun;
}

void
rose_claims_open(RoseClaimsShared *claims, const RoseTicket *ticket)
{
	lock_claims(claims);
	if (hand_of(claims, ticket) != NULL)
		claims->jobs[find_job(claims, ticket->job)].open = true;
	unlock_claims(claims);
}

/* Has this process a hand in the job? */
static bool
is_mine(const RoseClaimsShared *claims, uint64 job)
{
	uint32		incarnation;
	int			slot;

	rose_pin_whoami(&slot, &incarnation);
	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
		if (claims->hands[i].job == job && claims->hands[i].slot == slot &&
			claims->hands[i].incarnation == incarnation)
			return true;
	return false;
}

bool
rose_claims_join(RoseClaimsShared *claims, RoseTicket *ticket, uint32 *ids, int *n)
{
	bool		joined = false;

	*n = 0;
	lock_claims(claims);
	for (int i = 0; i < ROSE_CLAIM_JOBS && !joined; i++)
	{
		const RoseJobShared *job = &claims->jobs[i];

		if (job->number == 0 || !job->open || is_mine(claims, job->number) ||
			count_hands(claims, job->number) >= HANDS_OF_PASS)
			continue;
		joined = add_hand(claims, job, ticket);
		for (int j = 0; joined && j < claims->nids; j++)
			if (claims->ids[j].job == i)
				ids[(*n)++] = claims->ids[j].id;
	}
	unlock_claims(claims);
	return joined;
}

bool
rose_claims_add(RoseClaimsShared *claims, const RoseTicket *ticket, uint32 id)
{
	bool		added;

	lock_claims(claims);
	added = hand_of(claims, ticket) != NULL && claims->nids < ROSE_CLAIM_IDS;
	if (added)
	{
		claims->ids[claims->nids].id = id;
		claims->ids[claims->nids++].job = find_job(claims, ticket->job);
		claims->version++;
	}
	unlock_claims(claims);
	return added;
}

void
rose_claims_end(RoseClaimsShared *claims, RoseTicket *ticket)
{
	RoseHandShared *hand;

	lock_claims(claims);
	hand = hand_of(claims, ticket);
	if (hand != NULL)
		free_hand(claims, hand);
	unlock_claims(claims);
	ticket->job = 0;
}

bool
rose_claims_hold(RoseClaimsShared *claims, const RoseTicket *ticket)
{
	bool		hold;

	lock_claims(claims);
	hold = hand_of(claims, ticket) != NULL;
	unlock_claims(claims);
	return hold;
}

void
rose_claims_drop(RoseClaimsShared *claims)
{
	lock_claims(claims);
	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
		if (claims->hands[i].job != 0)
			free_hand(claims, &claims->hands[i]);
	unlock_claims(claims);
}

/* ---- strides ---- */

bool
rose_claims_plan(RoseClaimsShared *claims, const RoseTicket *ticket, RoseStridesTaken *taken)
{
	RoseHandShared *mine;
	uint64		latest = 0;
	bool		may = true;

	memset(taken, 0, sizeof(*taken));
	lock_claims(claims);
	mine = hand_of(claims, ticket);
	Assert(mine == NULL || mine->turn == 0);
	for (int i = 0; i < ROSE_CLAIM_HANDS; i++)
	{
		const RoseHandShared *hand = &claims->hands[i];

		if (hand->job != ticket->job || hand == mine)
			continue;
		may = may && !hand->plans;
		if (hand->turn == 0 || hand->broken)
			continue;
		taken->noutputs += hand->noutputs;
		if (hand->turn < latest)
			continue;
		latest = hand->turn;
		taken->last_piece = hand->last_piece;
		taken->takes_rest = hand->takes_rest;
	}
	if (mine != NULL && may)
	{
		mine->plans = true;
		mine->broken = false;
	}
	unlock_claims(claims);
	return may;
}

void
rose_claims_take_stride(RoseClaimsShared *claims, const RoseTicket *ticket,
						const RoseStridesTaken *stride)
{
	RoseHandShared *hand;

	lock_claims(claims);
	hand = hand_of(claims, ticket);
	if (hand != NULL)
	{
		hand->plans = false;
		hand->turn = stride != NULL ? ++claims->last_turn : 0;
		hand->last_piece = stride != NULL ? stride->last_piece : 0;
		hand->takes_rest = stride != NULL && stride->takes_rest;
		hand->noutputs = stride != NULL ? stride->noutputs : 0;
		wake_others(claims, hand);
	}
	unlock_claims(claims);
}

RoseStrideTurn
rose_claims_turn(RoseClaimsShared *claims, const RoseTicket *ticket)
{
	RoseStrideTurn turn = ROSE_STRIDE_NEXT;
	const RoseHandShared *mine;

	lock_claims(claims);
	mine = hand_of(claims, ticket);
	if (mine == NULL || mine->broken)
		turn = ROSE_STRIDE_BROKEN;
	for (int i = 0; turn == ROSE_STRIDE_NEXT && i < ROSE_CLAIM_HANDS; i++)
		if (claims->hands[i].job == ticket->job && claims->hands[i].turn != 0 &&
			!claims->hands[i].broken && claims->hands[i].turn < mine->turn)
			turn = ROSE_STRIDE_WAITS;
	unlock_claims(claims);
	return turn;
}

void
rose_claims_end_stride(RoseClaimsShared *claims, const RoseTicket *ticket, bool published)
{
	RoseHandShared *hand;

	lock_claims(claims);
	hand = hand_of(claims, ticket);
	if (hand != NULL && !published)
		give_stride_up(claims, hand);
	else if (hand != NULL)
	{
		hand->turn = 0;
		wake_others(claims, hand);
	}
	unlock_claims(claims);
}
