/*-------------------------------------------------------------------------
 *
 * rose_partition.c
 *	  Key-partition locks: those who change one row each take turns at its key.
 *
 * One set for the whole cluster; a key's lock is found by its hash and the table's file,
 * so that two tables, or two keys, rarely have the same one.  A process holds one of
 * them, or two for a row that moves to another key, in ascending order; and one more for
 * each value that the row is to have in a unique index (rose_unique_values.h).
 *
 * What they do: while one is held, nobody locks the key's row, or takes over the row lock
 * of an ended transaction, and those who change the same row do not make each other look
 * again.  What they do not do: keep new versions of the key out.  Who writes many rows
 * takes none of them, so a writer asks C0 whether a version has come since its look
 * (rose_c0_look).  That of a value is another matter: nobody links an entry of it without.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/shmem.h"

#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_partition.h"

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
 * Two sessions that find different locks for one key would both find it free.  What all
 * of them use is fixed when the table is first touched.
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

void
rose_partition_require_hash(RoseTree *tree)
{
	if (unlikely(tree->schema->hash_functions != tree->shared->hash_functions))
		report_other_hash(tree);
}

int
rose_partition_of_key(RoseTree *tree, const Datum *key)
{
	const RoseSchema *schema = tree->schema;
	uint32		h = hash_combine((uint32) rose_locator_rel(tree->locator),
								 (uint32) rose_locator_db(tree->locator));

	rose_partition_require_hash(tree);
	/* 0 for keys that cannot be hashed: one lock for all of them */
	h = hash_combine(h, (uint32) rose_key_hash(schema, key));
	return murmurhash32(h) % ROSE_PARTITIONS;
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

static int
compare_partitions(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

int
rose_partition_sort(int *partitions, int n)
{
	int			kept = 0;

	qsort(partitions, n, sizeof(int), compare_partitions);
	for (int i = 0; i < n; i++)
		if (kept == 0 || partitions[kept - 1] != partitions[i])
			partitions[kept++] = partitions[i];
	return kept;
}
