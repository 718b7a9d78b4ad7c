/*-------------------------------------------------------------------------
 *
 * rose_batch.c
 *	  Rows of a table for who takes many of them, column by column.  See rose_batch.h.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/read/rose_batch.h"

RoseBatches *
rose_batches_begin(RoseTree *tree, Snapshot snapshot, const RoseBatchRequest *request)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("batches are not implemented yet")));
	return NULL;
}

bool
rose_batches_next(RoseBatches *batches, RoseBatch *batch)
{
	return false;
}

uint64
rose_batches_count(RoseBatches *batches)
{
	return 0;
}

void
rose_batches_rescan(RoseBatches *batches, const RoseKeyQuals *keys)
{
}

void
rose_batches_end(RoseBatches *batches)
{
}

const RoseBatchCounts *
rose_batches_counts(const RoseBatches *batches)
{
	return NULL;
}

bool
rose_batch_datums(RoseBatch *batch, AttrNumber attno, int first, int n, Datum *values, bool *nulls)
{
	return false;
}

bool
rose_batch_words(RoseBatch *batch, AttrNumber attno, int first, int n, int64 *words, bool *nulls)
{
	return false;
}

void
rose_batch_pick(RoseBatch *batch, AttrNumber attno, const uint16 *rows, int n, Datum *values,
				bool *nulls)
{
}

Datum
rose_batch_value(RoseBatch *batch, AttrNumber attno, int row, bool *isnull)
{
	return (Datum) 0;
}

void
rose_batch_tid(RoseBatch *batch, int row, ItemPointer tid)
{
}

void
rose_batch_version(RoseBatch *batch, int row, RoseVersion *version)
{
}
