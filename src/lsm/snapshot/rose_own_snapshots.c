/*-------------------------------------------------------------------------
 *
 * rose_own_snapshots.c
 *	  Which snapshots this process has open.  See rose_own_snapshots.h.
 *
 * A short list, newest last, since queries end in about the order in which they begin.
 * When there is no room for one more, nothing is known until the transaction ends.
 *
 * Backend-local, so there are no locks.  Nothing here may fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tcop/pquery.h"

#include "lsm/snapshot/rose_own_snapshots.h"

int			rose_own_depth = 0;

static RoseOpenCommands open_commands;
static const void *queries[ROSE_MAX_OPEN_COMMANDS];
static bool too_many = false;

void
rose_own_snapshots_open(const void *query, CommandId curcid)
{
	if (open_commands.n == ROSE_MAX_OPEN_COMMANDS)
	{
		too_many = true;
		return;
	}
	queries[open_commands.n] = query;
	open_commands.at[open_commands.n++] = curcid;
}

/* The newest one of that address: one that failed may have had it before. */
void
rose_own_snapshots_close(const void *query)
{
	for (int i = open_commands.n - 1; i >= 0; i--)
	{
		if (queries[i] != query)
			continue;
		open_commands.n--;
		memmove(&queries[i], &queries[i + 1], (open_commands.n - i) * sizeof(queries[0]));
		memmove(&open_commands.at[i], &open_commands.at[i + 1],
				(open_commands.n - i) * sizeof(open_commands.at[0]));
		return;
	}
}

void
rose_own_snapshots_reset(void)
{
	open_commands.n = 0;
	too_many = false;
}

const RoseOpenCommands *
rose_own_snapshots(void)
{
	open_commands.known = rose_own_depth == 1 && !too_many &&
		ActivePortal != NULL && ActivePortal->status == PORTAL_ACTIVE;
	return &open_commands;
}
