/*-------------------------------------------------------------------------
 *
 * rose_node_group_tapes.c
 *	  Rows on tapes, in partitions by the hash of their keys.
 *
 * Tapes are core's, of one file: space of what was read is used again for what is written, and the file goes with the transaction or the
 * portal, whatever happens.  temp_file_limit counts.
 *
 * Partitions are written together, and read as batches, one after the other, the last one first: so there is never more on
 * the disk than all rows and what one batch is divided into.  A row's partition depends on its hash and on how often the rows
 * were divided, so that rows of one partition are divided anew.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/hyperloglog.h"
#include "nodes/pg_list.h"
#include "utils/logtape.h"
#include "utils/memutils.h"

#include "scan/rose_node_group_tapes.h"

/* Estimates of hashes: 2 to this power registers of a byte, and wrong by a sixth, mostly. */
#define ESTIMATE_BITS	5

#define MULTIPLIER		UINT64CONST(0x9E3779B97F4A7C15)

typedef struct Partition
{
	LogicalTape *tape;
	uint64		nrows;
	hyperLogLogState estimate;
} Partition;

typedef struct Batch
{
	LogicalTape *tape;
	int			level;			/* so often its rows were divided */
	double		groups;
} Batch;

struct RoseNodeTapes
{
	MemoryContext context;		/* of all below */
	MemoryContext rows;
	LogicalTapeSet *set;		/* NULL: nothing was written yet */

	/* what is written */
	int			npartitions;	/* 0: nothing is */
	Partition  *partitions;
	int			level;

	/* what is read */
	List	   *batches;		/* to come */
	Batch	   *batch;			/* NULL: nothing is */
	Size		rows_bytes;
	char	   *room;			/* for rows ... */
	Size		left;			/* ... of so many bytes */

	/* so far */
	uint64		disk;
	uint64		nbatches;
};

RoseNodeTapes *
rose_node_tapes_create(void)
{
	RoseNodeTapes *tapes = palloc0(sizeof(RoseNodeTapes));

	tapes->context = AllocSetContextCreate(CurrentMemoryContext, "rose group tapes", ALLOCSET_SMALL_SIZES);
	tapes->rows = AllocSetContextCreate(tapes->context, "rose group rows", ALLOCSET_SMALL_SIZES);
	return tapes;
}

static void
note_disk(RoseNodeTapes *tapes)
{
	if (tapes->set != NULL)
		tapes->disk = Max(tapes->disk, (uint64) LogicalTapeSetBlocks(tapes->set) * BLCKSZ);
}

void
rose_node_tapes_reset(RoseNodeTapes *tapes)
{
	note_disk(tapes);
	if (tapes->set != NULL)
		LogicalTapeSetClose(tapes->set);
	tapes->set = NULL;
	MemoryContextReset(tapes->rows);
	MemoryContextResetOnly(tapes->context);
	tapes->npartitions = 0;
	tapes->partitions = NULL;
	tapes->level = 0;
	tapes->batches = NIL;
	tapes->batch = NULL;
	tapes->rows_bytes = tapes->left = 0;
}

Size
rose_node_tapes_memory(const RoseNodeTapes *tapes)
{
	return MemoryContextMemAllocated(tapes->context, true);
}

uint64
rose_node_tapes_disk(const RoseNodeTapes *tapes)
{
	return tapes->disk;
}

uint64
rose_node_tapes_batches(const RoseNodeTapes *tapes)
{
	return tapes->nbatches;
}

/* ---- writing ---- */

void
rose_node_tapes_start(RoseNodeTapes *tapes, int npartitions)
{
	MemoryContext old = MemoryContextSwitchTo(tapes->context);

	Assert(tapes->npartitions == 0);
	if (tapes->set == NULL)
	{
		tapes->set = LogicalTapeSetCreate(true, NULL, -1);
		tapes->nbatches++;		/* what there was before */
	}
	tapes->level = tapes->batch != NULL ? tapes->batch->level + 1 : 1;
	tapes->npartitions = npartitions;
	tapes->partitions = palloc0(npartitions * sizeof(Partition));
	for (int i = 0; i < npartitions; i++)
	{
		tapes->partitions[i].tape = LogicalTapeCreate(tapes->set);
		initHyperLogLog(&tapes->partitions[i].estimate, ESTIMATE_BITS);
	}
	MemoryContextSwitchTo(old);
}

/* Other bits of it, in other places, for each level. */
static inline uint64
mix(uint64 hash, int level)
{
	hash += (uint64) level * MULTIPLIER;
	hash = (hash ^ (hash >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	hash = (hash ^ (hash >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return hash ^ (hash >> 31);
}

void
rose_node_tapes_write(RoseNodeTapes *tapes, uint64 hash, char *row)
{
	MemoryContext old = MemoryContextSwitchTo(tapes->context);
	uint64		mixed = mix(hash, tapes->level);
	Partition  *partition = &tapes->partitions[(mixed >> 32) * tapes->npartitions >> 32];
	uint32		length;

	memcpy(&length, row, sizeof(length));
	partition->nrows++;
	/* the other half of the bits: these are alike in no partition */
	addHyperLogLog(&partition->estimate, (uint32) mixed);
	LogicalTapeWrite(partition->tape, row, length);
	MemoryContextSwitchTo(old);
}

static void
add_batch(RoseNodeTapes *tapes, Partition *partition)
{
	Batch	   *batch = palloc(sizeof(Batch));

	batch->tape = partition->tape;
	batch->level = tapes->level;
	batch->groups = Min(estimateHyperLogLog(&partition->estimate), (double) partition->nrows);
	LogicalTapeRewindForRead(batch->tape, BLCKSZ);
	tapes->batches = lappend(tapes->batches, batch);
	tapes->nbatches++;
}

void
rose_node_tapes_finish(RoseNodeTapes *tapes)
{
	MemoryContext old = MemoryContextSwitchTo(tapes->context);

	for (int i = 0; i < tapes->npartitions; i++)
	{
		Partition  *partition = &tapes->partitions[i];

		if (partition->nrows > 0)
			add_batch(tapes, partition);
		else
			LogicalTapeClose(partition->tape);
		freeHyperLogLog(&partition->estimate);
	}
	if (tapes->partitions != NULL)
		pfree(tapes->partitions);
	tapes->partitions = NULL;
	tapes->npartitions = 0;
	note_disk(tapes);
	MemoryContextSwitchTo(old);
}

/* ---- reading ---- */

bool
rose_node_tapes_next_batch(RoseNodeTapes *tapes, double *groups)
{
	rose_node_tapes_forget_rows(tapes);
	if (tapes->batch != NULL)
	{
		LogicalTapeClose(tapes->batch->tape);
		pfree(tapes->batch);
		tapes->batch = NULL;
	}
	if (tapes->batches == NIL)
		return false;
	tapes->batch = llast(tapes->batches);
	tapes->batches = list_delete_last(tapes->batches);
	*groups = tapes->batch->groups;
	return true;
}

void
rose_node_tapes_forget_rows(RoseNodeTapes *tapes)
{
	MemoryContextReset(tapes->rows);
	tapes->rows_bytes = tapes->left = 0;
}

Size
rose_node_tapes_rows_bytes(const RoseNodeTapes *tapes)
{
	return tapes->rows_bytes;
}

/* Rows are put together, as far as they are small. */
static char *
room_for(RoseNodeTapes *tapes, Size length)
{
	char	   *room;

	length = MAXALIGN(length);
	tapes->rows_bytes += length;
	if (length > ROSE_TAPES_ROWS_BYTES / 4)
		return MemoryContextAllocHuge(tapes->rows, length);
	if (length > tapes->left)
	{
		tapes->left = ROSE_TAPES_ROWS_BYTES / 2;
		tapes->room = MemoryContextAlloc(tapes->rows, tapes->left);
	}
	room = tapes->room;
	tapes->room += length;
	tapes->left -= length;
	return room;
}

static void
report_end(size_t wanted, size_t got)
{
	ereport(ERROR,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("could not read from temporary file of a Rose Aggregate: read only %zu of %zu bytes", got, wanted)));
}

char *
rose_node_tapes_read(RoseNodeTapes *tapes)
{
	MemoryContext old = MemoryContextSwitchTo(tapes->context);
	LogicalTape *tape = tapes->batch->tape;
	char	   *row = NULL;
	uint32		length;
	size_t		got = LogicalTapeRead(tape, &length, sizeof(length));

	if (got > 0)
	{
		if (got != sizeof(length))
			report_end(sizeof(length), got);
		row = room_for(tapes, length);
		memcpy(row, &length, sizeof(length));
		got = LogicalTapeRead(tape, row + sizeof(length), length - sizeof(length));
		if (got != length - sizeof(length))
			report_end(length - sizeof(length), got);
	}
	MemoryContextSwitchTo(old);
	return row;
}
