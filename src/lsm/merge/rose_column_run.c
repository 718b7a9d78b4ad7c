/*-------------------------------------------------------------------------
 *
 * rose_column_run.c
 *	  Sorted rows in a temporary file, as columns.  See rose_column_sort_internal.h.
 *
 * A run is a file of blocks: a header, and one column behind the other.  A block has up to
 * ROSE_SORT_BLOCK rows, and fewer if they are large, so that many runs can be read at the
 * same time.  Values by reference are stored aligned and used where they were read.
 *
 * Backend-local.  The files go with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "lib/stringinfo.h"
#include "utils/datum.h"

#include "lsm/merge/rose_column_sort_internal.h"

/* A block ends behind the row with which its values by reference reach this. */
#define BLOCK_BYTES		(64 * 1024)

typedef struct BlockHeader
{
	int32		n;
	int32		bytes;			/* behind the header; MAXALIGNed */
} BlockHeader;

/* How a column is stored in a block, in the first byte of MAXIMUM_ALIGNOF. */
typedef enum ColumnKind
{
	COLUMN_WHOLE,				/* each row has a value */
	COLUMN_SPARSE				/* a byte a row says which have none */
} ColumnKind;

struct RoseSortRun
{
	RoseSortSource base;
	BufFile    *file;
	StringInfoData block;
};

static void fill_from_file(RoseSortSource *source);

RoseSortRun *
rose_sort_run_create(const RoseSortOrder *order)
{
	RoseSortRun *run = palloc0(sizeof(RoseSortRun));

	run->base.order = order;
	PrepareTempTablespaces();
	run->file = BufFileCreateTemp(false);
	initStringInfo(&run->block);
	return run;
}

void
rose_sort_run_free(RoseSortRun *run)
{
	BufFileClose(run->file);
	pfree(run->block.data);
}

/* ---- out ---- */

static void
pad(StringInfo block)
{
	static const char zeros[MAXIMUM_ALIGNOF];

	appendBinaryStringInfo(block, zeros, MAXALIGN(block->len) - block->len);
}

static void
put_fixed(StringInfo block, const Datum *values, int n, int attlen)
{
	char	   *to;

	enlargeStringInfo(block, n * sizeof(Datum) + MAXIMUM_ALIGNOF);
	to = block->data + block->len;
	switch (attlen)
	{
		case sizeof(int64):
			memcpy(to, values, n * sizeof(int64));
			break;
		case sizeof(int32):
			for (int i = 0; i < n; i++)
				((int32 *) to)[i] = DatumGetInt32(values[i]);
			break;
		case sizeof(int16):
			for (int i = 0; i < n; i++)
				((int16 *) to)[i] = DatumGetInt16(values[i]);
			break;
		default:
			for (int i = 0; i < n; i++)
				to[i] = DatumGetChar(values[i]);
	}
	block->len += n * attlen;
	pad(block);
}

static void
put_column(const RoseSortOrder *order, StringInfo block, int a, const Datum *values,
		   const bool *nulls, int n)
{
	const RoseTupleColumn *column = &order->schema->tuple_columns[a];

	appendStringInfoCharMacro(block, nulls == NULL ? COLUMN_WHOLE : COLUMN_SPARSE);
	if (nulls != NULL)
		appendBinaryStringInfo(block, (const char *) nulls, n * sizeof(bool));
	pad(block);
	if (column->attbyval)
	{
		put_fixed(block, values, n, column->attlen);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		if (nulls != NULL && nulls[i])
			continue;
		appendBinaryStringInfo(block, DatumGetPointer(values[i]),
							   datumGetSize(values[i], false, column->attlen));
		pad(block);
	}
}

/* Rows from 'from' on that make up a block. */
static int
rows_of_block(const RoseSortOrder *order, Datum *const *values, bool *const *nulls, int from, int n)
{
	const RoseSchema *schema = order->schema;
	Size		bytes = 0;
	int			i = from;

	while (i < n && bytes < BLOCK_BYTES)
	{
		for (int a = 0; a < schema->natts; a++)
			if (order->kept[a] && !schema->tuple_columns[a].attbyval &&
				(nulls[a] == NULL || !nulls[a][i]))
				bytes += MAXALIGN(datumGetSize(values[a][i], false, schema->tuple_columns[a].attlen));
		i++;
	}
	return i - from;
}

void
rose_sort_run_append(RoseSortRun *run, Datum *const *values, bool *const *nulls, int n)
{
	const RoseSortOrder *order = run->base.order;
	StringInfo	block = &run->block;

	for (int from = 0; from < n;)
	{
		BlockHeader header = {.n = rows_of_block(order, values, nulls, from, n)};

		resetStringInfo(block);
		appendBinaryStringInfo(block, (char *) &header, sizeof(header));
		for (int a = 0; a < order->schema->natts; a++)
			if (order->kept[a])
				put_column(order, block, a, values[a] + from,
						   nulls[a] == NULL ? NULL : nulls[a] + from, header.n);
		header.bytes = block->len - (int) sizeof(header);
		memcpy(block->data, &header, sizeof(header));
		BufFileWrite(run->file, block->data, block->len);
		from += header.n;
	}
}

/* ---- in ---- */

RoseSortSource *
rose_sort_run_open(RoseSortRun *run)
{
	rose_sort_source_init(&run->base, run->base.order, fill_from_file);
	if (BufFileSeek(run->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind temporary file of a sort: %m")));
	return &run->base;
}

static void
read_exactly(RoseSortRun *run, void *to, Size bytes)
{
	Size		got = BufFileRead(run->file, to, bytes);

	if (got != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read temporary file of a sort: read only %zu of %zu bytes",
						got, bytes)));
}

static const char *
get_fixed(const char *from, Datum *values, int n, int attlen)
{
	switch (attlen)
	{
		case sizeof(int64):
			memcpy(values, from, n * sizeof(int64));
			break;
		case sizeof(int32):
			for (int i = 0; i < n; i++)
				values[i] = Int32GetDatum(((const int32 *) from)[i]);
			break;
		case sizeof(int16):
			for (int i = 0; i < n; i++)
				values[i] = Int16GetDatum(((const int16 *) from)[i]);
			break;
		default:
			for (int i = 0; i < n; i++)
				values[i] = CharGetDatum(from[i]);
	}
	return from + MAXALIGN(n * attlen);
}

static const char *
get_column(RoseSortSource *source, int a, const char *from)
{
	const RoseTupleColumn *column = &source->order->schema->tuple_columns[a];
	bool		sparse = *from == COLUMN_SPARSE;
	const bool *nulls = NULL;

	if (sparse)
	{
		nulls = rose_sort_source_nulls(source, a);
		memcpy(source->nulls[a], from + 1, source->n * sizeof(bool));
	}
	else
		source->nulls[a] = NULL;
	from += MAXALIGN(1 + (sparse ? source->n * sizeof(bool) : 0));
	if (column->attbyval)
		return get_fixed(from, source->values[a], source->n, column->attlen);
	for (int i = 0; i < source->n; i++)
	{
		Datum		value = PointerGetDatum(from);

		if (sparse && nulls[i])
			value = (Datum) 0;
		else
			from += MAXALIGN(datumGetSize(value, false, column->attlen));
		source->values[a][i] = value;
	}
	return from;
}

static void
fill_from_file(RoseSortSource *source)
{
	RoseSortRun *run = (RoseSortRun *) source;
	const RoseSortOrder *order = source->order;
	BlockHeader header;
	const char *from;
	Size		got = BufFileRead(run->file, &header, sizeof(header));

	source->n = 0;
	if (got == 0)
		return;
	if (got != sizeof(header))
		elog(ERROR, "temporary file of a sort ends within a block's header");
	resetStringInfo(&run->block);
	enlargeStringInfo(&run->block, header.bytes);
	read_exactly(run, run->block.data, header.bytes);
	source->n = header.n;
	from = run->block.data;
	for (int a = 0; a < order->schema->natts; a++)
		if (order->kept[a])
			from = get_column(source, a, from);
	Assert(from == run->block.data + header.bytes);
}
