/*-------------------------------------------------------------------------
 *
 * rose_own_commits.c
 *	  Which transactions this process has committed, of late.  See rose_own_commits.h.
 *
 * A bit for each of the last transaction ids, of whomever they were, in a ring.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/snapshot/rose_own_commits.h"

static uint64 noted = 0;		/* the transaction at hand, or 0 */
static uint64 until = 0;		/* one past the last that was remembered */
static uint64 committed_bits[ROSE_OWN_COMMITS / 64];

static inline uint64 *
word_of(uint64 xid)
{
	return &committed_bits[xid % ROSE_OWN_COMMITS / 64];
}

static inline uint64
bit_of(uint64 xid)
{
	return UINT64CONST(1) << (xid % 64);
}

void
rose_own_commits_note(FullTransactionId xid)
{
	noted = U64FromFullTransactionId(xid);
}

/* Those between it and the last one are others', or were not noted. */
static void
remember(uint64 xid)
{
	Assert(xid >= until);
	if (xid - until >= ROSE_OWN_COMMITS)
		memset(committed_bits, 0, sizeof(committed_bits));
	else
	{
		for (; until < xid; until++)
			*word_of(until) &= ~bit_of(until);
	}
	*word_of(xid) |= bit_of(xid);
	until = xid + 1;
}

void
rose_own_commits_end(bool committed)
{
	if (noted != 0 && committed)
		remember(noted);
	noted = 0;
}

bool
rose_own_commits_has(FullTransactionId xid)
{
	uint64		it = U64FromFullTransactionId(xid);

	return it < until && until - it <= ROSE_OWN_COMMITS && (*word_of(it) & bit_of(it)) != 0;
}
