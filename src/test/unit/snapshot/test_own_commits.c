/*-------------------------------------------------------------------------
 *
 * test_own_commits.c
 *	  Unit test of src/lsm/snapshot/rose_own_commits.c: what it says of each transaction id,
 *	  beside a list of all that were committed, through many turns of its ring.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/snapshot/rose_own_commits.h"
#include "unit_check.h"

#define NXIDS		(5 * ROSE_OWN_COMMITS)
#define FIRST_XID	UINT64CONST(4294967000) /* just before an epoch ends */

static bool committed[NXIDS];
static int	last = -1;			/* that was committed */

static int
below(int n)
{
	static uint64 state = UINT64CONST(88172645463325252);

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (int) (state % n);
}

static void
end(int i, bool commits)
{
	rose_own_commits_note(FullTransactionIdFromU64(FIRST_XID + i));
	rose_own_commits_end(commits);
	if (commits)
	{
		committed[i] = true;
		last = i;
	}
}

static void
check(int i)
{
	bool		expected = i >= 0 && i <= last && last - i < ROSE_OWN_COMMITS && committed[i];

	CHECK(rose_own_commits_has(FullTransactionIdFromU64(FIRST_XID + i)) == expected);
}

int
main(void)
{
	int			i = 0;

	check(0);
	rose_own_commits_end(true);
	check(-1);
	while (i < NXIDS)
	{
		int			kind = below(10000);

		if (kind < 5000)
			end(i, true);
		else if (kind < 7000)
			end(i, false);
		/* else it was somebody else's, or was not noted */
		else if (kind < 7500)
			rose_own_commits_end(true);
		/* some leaps go once around, or farther */
		i += kind == 9999 ? below(2 * ROSE_OWN_COMMITS) : kind > 9990 ? below(1000) : 1;
		for (int look = 0; look < 4; look++)
			check(i - below(look == 0 ? 10 : ROSE_OWN_COMMITS + 10));
	}
	for (i = 0; i < NXIDS; i++)
		check(i);
	check(last - ROSE_OWN_COMMITS);
	check(last - ROSE_OWN_COMMITS + 1);
	printf("# own_commits: all checks passed\n");
	return 0;
}
