/*-------------------------------------------------------------------------
 *
 * rose_partition.c
 *	  Key-partition locks: who looks for a key and then writes it does so alone.
 *
 * One set for the whole cluster; a key's lock is found by its hash and the table's file.  Locks are taken
 * in ascending order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/write/rose_write_internal.h"

#include "common/hashfn.h"
#include "storage/shmem.h"

typedef struct RosePartitionsShared
{
	int			tranche;		/* constant */
	LWLockPadded locks[ROSE_PARTITIONS];
} RosePartitionsShared;

static LWLockPadded *PartitionLocks = NULL;

/* ---- shared memory ---- */

Size
rose_partition_shmem_size(void)
{
	return sizeof(RosePartitionsShared);
}

void
rose_partition_shmem_init(bool found)
{
	RosePartitionsShared *area;
	bool		have;

	area = ShmemInitStruct("rose key partitions", sizeof(*area), &have);
	if (!have)
	{
		area->tranche = LWLockNewTrancheId();
		for (int i = 0; i < ROSE_PARTITIONS; i++)
			LWLockInitialize(&area->locks[i].lock, area->tranche);
	}
	LWLockRegisterTranche(area->tranche, "RoseKeyPartition");
	PartitionLocks = area->locks;
}

/* ---- locks ---- */

/*
 * Two sessions that find different locks for one key would both find it free.  What all of them use is
 * fixed when the table is first touched.
 */
static void
report_other_hash(RoseTree *tree)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot write to table \"%s\", because keys are hashed by other functions than before",
					RelationGetRelationName(tree->rel)),
			 errdetail("A hash operator class for a column of the primary key was dropped or replaced."),
			 errhint("Use REINDEX TABLE, or restart the server.")));
}

int
rose_partition_of_hash(RoseTree *tree, uint64 hash)
{
	uint32		h = hash_combine((uint32) rose_locator_rel(tree->locator),
								 (uint32) rose_locator_db(tree->locator));

	if (unlikely(tree->schema->hash_functions != tree->shared->hash_functions))
		report_other_hash(tree);
	if (tree->schema->nkeys > 0 && tree->schema->hashable)
		h = hash_combine(h, (uint32) hash);
	return murmurhash32(h) % ROSE_PARTITIONS;
}

int
rose_partition_of_key(RoseTree *tree, const Datum *key)
{
	return rose_partition_of_hash(tree, rose_key_hash(tree->schema, key));
}

void
rose_partition_lock(int partition)
{
	LWLockAcquire(&PartitionLocks[partition].lock, LW_EXCLUSIVE);
}

/* Who wanted to write past C0 has written, or need not. */
void
rose_partition_unlock(int partition)
{
	LWLockRelease(&PartitionLocks[partition].lock);
	if (unlikely(rose_direct_tree != NULL))
		rose_direct_end();
}
