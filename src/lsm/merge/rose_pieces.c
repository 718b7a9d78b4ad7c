/*-------------------------------------------------------------------------
 *
 * rose_pieces.c
 *	  How large the pieces of C2 are to be, and how many.
 *
 * A piece is small when it has less than half of the size that is aimed at.  A stride takes
 * small neighbours together, and makes several pieces of what is more than twice that
 * size.  With many pieces small ones are joined whatever comes of it, and no more are made
 * than it takes to have none that is more than twice as large as it should be.
 *
 * No locks, no I/O: equal input gives an equal answer.  Which pieces a pass takes for other
 * reasons is decided in rose_merge_pass.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/merge/rose_pieces.h"

/* Half of the size that is aimed at may be nothing: less than so many blocks is small, and not made. */
#define LEAST_BLOCKS	2

bool
rose_pieces_is_small(uint64 aim, uint64 nblocks)
{
	return nblocks < Max(aim / 2, LEAST_BLOCKS);
}

bool
rose_pieces_should_join(uint64 aim, int npieces, uint64 nblocks, uint64 next)
{
	return rose_pieces_is_small(aim, nblocks) &&
		(npieces > ROSE_PIECES_MANY || nblocks + next <= 2 * aim);
}

uint64
rose_pieces_to_make(uint64 aim, uint64 nblocks, int nothers, int room)
{
	uint64		size = Max(aim, LEAST_BLOCKS);
	uint64		few = Max(ROSE_PIECES_MANY - nothers, 1);
	uint64		n;

	if (nblocks <= 2 * size)
		return 1;
	n = Min(nblocks / size, Max(few, nblocks / (2 * size)));
	return Min(n, (uint64) Max(room, 1));
}
