/*-------------------------------------------------------------------------
 *
 * rose_run_state.c
 *	  What became of the transactions that own a private run.
 *
 * A private run has rows of transactions that were in progress when it was made.  The
 * answer is of the moment in which it is asked for; only what has ended stays so.  No
 * locks: the commit log and the processes are asked.  What is done about it is merge's
 * (rose_settle.c, rose_picker.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"

#include "lsm/tree/rose_run_state.h"
#include "lsm/tree/rose_view.h"

RoseXidStatus
rose_private_owner_status(uint64 owner)
{
	RoseVersion version = {.xid = FullTransactionIdFromU64(owner)};

	return rose_version_status(&version);
}

/* Whose rows it has: the footer is asked only if that is not in the manifest. */
static const uint64 *
owners_of(RoseTree *tree, const RoseComponentEntryDisk *entry, int *n)
{
	const RoseComponentInfo *info;

	*n = 1;
	if ((entry->flags & ROSE_COMPONENT_OWNERS) == 0)
		return &entry->owner_xid;
	info = rose_component_info(rose_view_component_of(tree, entry));
	*n = info->nowners;
	return info->owners;
}

RosePrivateState
rose_private_owners(RoseTree *tree, const RoseComponentEntryDisk *entry,
					RosePrivateOwners *owners)
{
	int			n;
	const uint64 *xids = owners_of(tree, entry, &n);

	Assert(entry->flags & ROSE_COMPONENT_PRIVATE);
	memset(owners, 0, sizeof(*owners));
	for (int i = 0; i < n; i++)
		switch (rose_private_owner_status(xids[i]))
		{
			case ROSE_XID_OWN:
			case ROSE_XID_IN_PROGRESS:
				owners->nopen++;
				break;
			case ROSE_XID_COMMITTED:
				owners->ncommitted++;
				break;
			case ROSE_XID_ABORTED:
				owners->naborted++;
				break;
		}
	if (owners->nopen > 0)
		return owners->ncommitted > 0 ? ROSE_PRIVATE_PARTLY : ROSE_PRIVATE_OPEN;
	return owners->ncommitted > 0 ? ROSE_PRIVATE_COMMITTED : ROSE_PRIVATE_ABORTED;
}

RosePrivateState
rose_private_state(RoseTree *tree, const RoseComponentEntryDisk *entry)
{
	RosePrivateOwners owners;

	return rose_private_owners(tree, entry, &owners);
}

bool
rose_component_mergeable(RoseTree *tree, const RoseComponentEntryDisk *entry)
{
	if (entry->state != ROSE_COMPONENT_LIVE)
		return false;
	return !(entry->flags & ROSE_COMPONENT_PRIVATE) ||
		rose_private_state(tree, entry) == ROSE_PRIVATE_COMMITTED;
}

/* Row locks die with the server, but for those of prepared transactions. */
bool
rose_tree_logs_locks(void)
{
	return max_prepared_xacts > 0;
}

bool
rose_manifest_has_private_runs(const RoseManifest *manifest)
{
	for (int i = 0; i < manifest->ncomponents; i++)
		if (manifest->components[i].flags & ROSE_COMPONENT_PRIVATE)
			return true;
	return false;
}
