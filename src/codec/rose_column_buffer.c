/*-------------------------------------------------------------------------
 *
 * rose_column_buffer.c
 *	  The values of one column of the page being built, and its plan.
 *
 * Values are collected as they come, words as int64, items end to end; beside them grow
 * the set of distinct values and, for items, compressed blocks, which plans use.  Going
 * back to an earlier plan takes them back, too.
 *
 * Backend-local; memory grows in the context that the buffer was made with.  Adding
 * values is for page/, planning for the codecs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_blocks.h"
#include "codec/rose_distinct.h"

RoseColumnDesc
rose_column_desc(int16 attlen, bool attbyval, char attalign, bool is_float)
{
	RoseColumnDesc desc;

	desc.attlen = attlen;
	desc.attbyval = attbyval;
	desc.attalign = attalign;
	desc.long_headers = false;
	if (attbyval)
		desc.kind = is_float ? ROSE_COLUMN_FLOAT : ROSE_COLUMN_INT;
	else if (attlen == -1)
		desc.kind = ROSE_COLUMN_VARLEN;
	else if (attlen == -2)
		desc.kind = ROSE_COLUMN_CSTRING;
	else
		desc.kind = ROSE_COLUMN_FIXED;
	return desc;
}

void
rose_column_buffer_restore(RoseColumnBuffer *col, int nvalues, const RosePlan *plan)
{
	uint32		raw_size;

	Assert(plan->n <= nvalues && nvalues <= col->nvalues);
	col->nvalues = nvalues;
	col->plan = *plan;
	rose_distinct_truncate(col->distinct, col, nvalues);
	if (col->is_words)
		return;
	raw_size = nvalues == 0 ? 0 : col->ends[nvalues - 1];
	rose_blocks_truncate(col->blocks, raw_size, plan->codec->closed_blocks != NULL ?
						 plan->codec->closed_blocks(plan) : PG_INT32_MAX);
}

void
rose_column_buffer_reset(RoseColumnBuffer *col)
{
	col->nvalues = 0;
	rose_distinct_reset(col->distinct);
	if (!col->is_words)
		rose_blocks_reset(col->blocks);
	rose_codec_plan_empty(col, &col->plan);
}

void
rose_column_buffer_init(RoseColumnBuffer *col, const RoseColumnDesc *desc,
						RosePackScratch *scratch, MemoryContext context)
{
	memset(col, 0, sizeof(*col));
	col->desc = *desc;
	col->is_words = desc->attbyval;
	col->scratch = scratch;
	col->context = context;
	col->distinct = rose_distinct_create(context);
	if (!col->is_words)
		col->blocks = rose_blocks_create(context);
	rose_column_buffer_reset(col);
}
