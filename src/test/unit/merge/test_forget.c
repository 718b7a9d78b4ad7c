/*-------------------------------------------------------------------------
 *
 * test_forget.c
 *	  Unit test of src/lsm/merge/rose_forget.c: when a merge may forget, and what it
 *	  stores; then random histories of one row, in which no reader may find a
 *	  token twice.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/merge/rose_forget.h"
#include "unit_check.h"
#include "store/rose_settled.h"

static RoseComponentEntryDisk entries[3];

/* Two sources, the newer one with the greater xid, and everything in favour. */
static RoseForgetInput
easy(void)
{
	RoseForgetInput input = {0};

	memset(entries, 0, sizeof(entries));
	entries[0].flags = entries[1].flags = ROSE_COMPONENT_UNIQUE_KEYS;
	entries[0].max_xid = 50;
	entries[1].max_xid = 40;
	input.nsources = 2;
	input.sources[0] = &entries[0];
	input.sources[1] = &entries[1];
	input.bottom = true;
	input.horizon = 51;
	input.settled = 7;
	input.oldest_pin = PG_UINT64_MAX;
	return input;
}

static void
test_conditions(void)
{
	RoseForgetInput input = easy();

	CHECK(rose_forget_xid(&input) == 50);
	input.horizon = 50;
	CHECK(rose_forget_xid(&input) == 0);

	input = easy();
	input.bottom = false;
	CHECK(rose_forget_xid(&input) == 0);

	input = easy();
	input.settled = ROSE_UNSETTLED;
	CHECK(rose_forget_xid(&input) == 0);

	input = easy();
	input.oldest_pin = 7;		/* may have met them in memory */
	CHECK(rose_forget_xid(&input) == 0);
	input.oldest_pin = 8;
	CHECK(rose_forget_xid(&input) == 50);
	input.pinned_xmin = 50;		/* may have met what xid 50 superseded */
	CHECK(rose_forget_xid(&input) == 0);
	input.pinned_xmin = 51;
	CHECK(rose_forget_xid(&input) == 50);
}

static void
test_tokens(void)
{
	RoseForgetInput input = easy();

	/* an older version of a row may be by xid 50, a newer one by a lesser one */
	entries[1].max_xid = 50;
	CHECK(rose_forget_xid(&input) == 0);
	input.horizon = 52;
	CHECK(rose_forget_xid(&input) == 51);

	input = easy();
	entries[0].flags = 0;
	CHECK(rose_forget_xid(&input) == 0);
	input.horizon = 52;
	CHECK(rose_forget_xid(&input) == 51);

	input = easy();
	entries[1].max_xid = 60;
	input.horizon = 61;
	CHECK(rose_forget_xid(&input) == 0);
	input.horizon = 100;
	CHECK(rose_forget_xid(&input) == 61);
}

/*
 * One row that transactions write, which commit in any order; runs are made of one or
 * more versions and merged.  After each step a reader sees the newest version's
 * token, which must be one that no other version of the row has shown.
 */
#define NWRITES		12

static void
test_history(void)
{
	uint64		xids[NWRITES];	/* in commit order */
	uint64		shown[NWRITES * 2]; /* tokens and ... */
	int			version_of[NWRITES * 2];	/* ... of which write */
	int			nshown = 0;
	RoseComponentEntryDisk bottom = {0};
	uint64		token = 0;

	for (int i = 0; i < NWRITES; i++)
		xids[i] = 10 + i + i / 4;	/* some are of others */
	for (int i = 0; i + 1 < NWRITES; i += 1 + rand() % 2)
		if (rand() % 2)
		{
			uint64		swap = xids[i];

			xids[i] = xids[i + 1];
			xids[i + 1] = swap;
		}

	for (int i = 0; i < NWRITES;)
	{
		int			n = 1 + rand() % Min(3, NWRITES - i);
		uint64		newest_xid = 0;
		RoseComponentEntryDisk run = {.flags = ROSE_COMPONENT_UNIQUE_KEYS};
		RoseForgetInput input = {.bottom = true, .settled = 1, .oldest_pin = PG_UINT64_MAX};

		for (int j = i; j < i + n; j++)
		{
			shown[nshown] = xids[j];
			version_of[nshown++] = j;
			newest_xid = Max(newest_xid, xids[j]);
		}
		token = xids[i + n - 1];
		/* what rose_compactor.c does: the spill keeps the newest version only */
		run.max_xid = newest_xid > token ? newest_xid + 1 : token;
		i += n;

		input.sources[input.nsources++] = &run;
		if (bottom.max_xid != 0)
			input.sources[input.nsources++] = &bottom;
		input.horizon = 10 + NWRITES + NWRITES / 4 - rand() % 2;
		for (int j = i; j < NWRITES; j++)
			input.horizon = Min(input.horizon, xids[j]);
		if (rose_forget_xid(&input) != 0)
		{
			token = rose_forget_xid(&input);
			CHECK(token >= newest_xid && token < input.horizon);
		}
		shown[nshown] = token;
		version_of[nshown++] = i - 1;

		bottom.max_xid = Max(Max(bottom.max_xid, run.max_xid), token);
		bottom.flags = ROSE_COMPONENT_UNIQUE_KEYS;
	}
	for (int i = 0; i < nshown; i++)
		for (int j = 0; j < i; j++)
			CHECK(shown[i] != shown[j] || version_of[i] == version_of[j]);
}

int
main(void)
{
	srand(1);
	test_conditions();
	test_tokens();
	for (int i = 0; i < 100000; i++)
		test_history();
	printf("ok 1 - forgetting\n1..1\n");
	return 0;
}
