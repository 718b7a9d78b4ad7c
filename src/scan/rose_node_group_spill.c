/*-------------------------------------------------------------------------
 *
 * rose_node_group_spill.c
 *	  Rows of groups that a Rose Aggregate has no room for.
 *
 * When there is no room for more groups, those that are there stay, and take their rows as they come.  Rows of others go to tapes, in
 * partitions by the hash of their keys (rose_node_group_tapes.h): their keys and what aggregates take, as columns and expressions have it.  When
 * the scan ends the groups are complete, and are given out.  Then each partition is read, as a batch of rows at hand, in the same way: it may be divided
 * once more.  So each group is given out once, of all of its rows, which were taken in the order in which they came: sums of floats are those of a
 * plain plan, and of keys that are equal, and differ, the first one is given out.
 *
 * Memory.  Beside groups there are a page for each partition that is written, one for the batch that is read, and its rows at hand: for these
 * some of the limit is set apart at the start.  How many partitions there are depends on how many groups are expected, and on what is left.  A batch takes
 * some groups, however little room there is, so it goes on.
 *
 * Groups that come in order are not for this.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "compat/rose_compat_varatt.h"
#include "scan/rose_node.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_group_cells.h"
#include "scan/rose_node_group_tapes.h"
#include "scan/rose_node_state.h"

/* Groups take so much at least, beside tapes. */
#define MIN_BYTES		4096

/* So many times the partitions that would fill the memory: some have more groups than others, and estimates are wrong. */
#define PARTITIONS_FACTOR	1.5

typedef struct RoseNodeGroupSpill
{
	RoseNodeTapes *tapes;
	bool		writing;
	bool		reading;
	double		expected;		/* groups of the rows that are read */
	StringInfoData row;			/* to be written */

	/* of the rows at hand that are taken together */
	bool	   *left_out;		/* it is of no group that is there */
	bool	   *nulls;			/* it is left out, or NULL */
	int			nkept;			/* of those that are not left out ... */
	uint32	   *kept;			/* ... the groups */
	uint32	   *with_value;		/* the same of those that are not NULL */
} RoseNodeGroupSpill;

/* ---- begin ---- */

/* So many partitions of groups that take so much, where memory is no matter. */
static int
partitions_for(double groups, double most)
{
	double		partitions = PARTITIONS_FACTOR * groups / Max(most, 1);

	return (int) Min(Max(partitions, ROSE_TAPES_MIN_PARTITIONS), ROSE_TAPES_MAX_PARTITIONS);
}

/* An eighth of the memory is for partitions at most, or what the fewest take. */
static Size
bytes_for_tapes(const RoseNodeGroup *group, Size limit)
{
	int			most = Max((int) Min(limit / 8 / BLCKSZ, ROSE_TAPES_MAX_PARTITIONS), ROSE_TAPES_MIN_PARTITIONS);
	int			npartitions = Min(partitions_for(group->expected, rose_node_group_table_most(&group->table)), most);

	return (Size) (npartitions + 3) * BLCKSZ + 2 * ROSE_TAPES_ROWS_BYTES;
}

void
rose_node_group_spill_init(RoseNodeGroup *group)
{
	RoseNodeGroupSpill *spill;
	Size		limit = group->table.limit;
	Size		tapes = bytes_for_tapes(group, limit);

	if (group->ordered)
		return;
	spill = palloc0(sizeof(RoseNodeGroupSpill));
	spill->tapes = rose_node_tapes_create();
	initStringInfo(&spill->row);
	spill->left_out = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	spill->nulls = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	spill->kept = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint32));
	spill->with_value = palloc(ROSE_NODE_VECTOR_ROWS * sizeof(uint32));
	group->spill = spill;
	group->table.limit = Max(limit > tapes ? limit - tapes : 0, Max(limit / 4, MIN_BYTES));
}

bool
rose_node_group_spill_is_writing(const RoseNodeGroup *group)
{
	return group->spill != NULL && group->spill->writing;
}

bool
rose_node_group_spill_is_reading(const RoseNodeGroup *group)
{
	return group->spill != NULL && group->spill->reading;
}

/* Tapes count for the memory of groups. */
static void
note_memory(RoseNodeGroup *group)
{
	Size		bytes = rose_node_group_table_bytes(&group->table) + rose_node_tapes_memory(group->spill->tapes);

	group->table.peak = Max(group->table.peak, bytes);
}

void
rose_node_group_spill_start(RoseNodeGroup *group)
{
	RoseNodeGroupSpill *spill = group->spill;
	Size		limit = rose_node_group_table_limit();
	Size		used = rose_node_group_table_bytes(&group->table) + rose_node_tapes_memory(spill->tapes);
	double		groups = spill->expected;
	int			fit = limit > used ? (int) Min((limit - used) / BLCKSZ, ROSE_TAPES_MAX_PARTITIONS) : 0;

	if (!spill->reading)
		groups = Max(group->expected, rose_node_group_pass_extrapolate(group));
	groups -= group->table.groups.ngroups;
	if (!spill->reading)
		fit -= 3;				/* the batch's page, rows, and what else there is */
	fit = Max(fit, ROSE_TAPES_MIN_PARTITIONS);
	rose_node_tapes_start(spill->tapes, Min(partitions_for(groups, rose_node_group_table_most(&group->table)), fit));
	spill->writing = true;
}

/* ---- writing ---- */

static Size
head_size(const RoseNodeGroup *group)
{
	return MAXALIGN(sizeof(uint32) + (group->columns.ncolumns + BITS_PER_BYTE - 1) / BITS_PER_BYTE);
}

/* Bytes of a value by reference. */
static inline Size
size_of(const RoseNodeGroupColumn *column, const void *value)
{
	return column->typlen == -1 ? VARSIZE_ANY(value) : (Size) column->typlen;
}

static void
append_zeros(StringInfo row, int n)
{
	enlargeStringInfo(row, n);
	memset(row->data + row->len, 0, n);
	row->len += n;
}

static void
append_value(StringInfo row, const RoseNodeGroupColumn *column, int number)
{
	int64		word = column->values[number];
	void	   *value;
	Size		size;

	if (column->by_value)
	{
		appendBinaryStringInfo(row, (const char *) &word, sizeof(word));
		return;
	}
#ifdef HAVE_INT128
	if (column->decimals != NULL)
		word = (int64) rose_node_numeric_of_integer(word, column->decimals->scale,
													rose_node_decimal_shown(column->decimals, number));
#endif
	value = DatumGetPointer((Datum) word);
	if (column->typlen == -1)
		value = PG_DETOAST_DATUM_PACKED((Datum) word);
	size = size_of(column, value);
	appendBinaryStringInfo(row, value, (int) size);
	append_zeros(row, (int) (MAXALIGN(size) - size));
	/* a copy */
	if (PointerGetDatum(value) != (Datum) column->values[number])
		pfree(value);
}

/* Its length, which of its columns are NULL, and values of the others, if somebody asks for them. */
static void
make_row(RoseNodeGroup *group, StringInfo row, int number)
{
	uint32		length;

	resetStringInfo(row);
	append_zeros(row, (int) head_size(group));
	for (int c = 0; c < group->columns.ncolumns; c++)
	{
		const RoseNodeGroupColumn *column = &group->columns.columns[c];

		if (column->any_null && column->nulls[number])
			row->data[sizeof(uint32) + c / BITS_PER_BYTE] |= (char) (1 << c % BITS_PER_BYTE);
		else if (column->wanted)
			append_value(row, column, number);
	}
	length = (uint32) row->len;
	memcpy(row->data, &length, sizeof(length));
}

static void
write_rows(RoseNodeGroup *group, int from, int n)
{
	RoseNodeGroupSpill *spill = group->spill;
	const RoseNodeGroupTable *table = &group->table;

	for (int c = 0; c < group->columns.ncolumns; c++)
		rose_node_group_columns_load(&group->columns, c);
	for (int i = 0; i < n; i++)
	{
		uint64		hash = 0;

		if (!spill->left_out[i])
			continue;
		for (int k = 0; k < table->nkeys; k++)
		{
			const RoseNodeGroupKey *key = &table->keys[k];

			hash = rose_node_group_key_hash(key, &group->columns.columns[key->column], from + i, hash);
		}
		make_row(group, &spill->row, from + i);
		rose_node_tapes_write(spill->tapes, hash, spill->row.data);
	}
}

/* ---- rows of groups that are there ---- */

/* Returns how many of the rows are of others. */
static int
find_groups(RoseNodeGroup *group, int from, int n)
{
	RoseNodeGroupSpill *spill = group->spill;
	RoseNodeGroupTable *table = &group->table;

	memset(spill->left_out, false, n);
	for (int k = 0; k < table->nkeys; k++)
	{
		RoseNodeGroupKey *key = &table->keys[k];
		RoseNodeGroupColumn *column = rose_node_group_columns_load(&group->columns, key->column);

		rose_node_group_key_look_up(key, column, from, from + n, spill->left_out);
		group->keys.words[k] = (key->words != NULL ? key->words : column->values) + from;
	}
	group->keys.nwords = table->nkeys;
	rose_node_group_find_flags(group, from, from + n);
	spill->nkept = rose_vec_group_look_up(&table->groups, &group->keys, n, group->hashes, group->found, spill->left_out,
										  spill->kept);
	return n - spill->nkept;
}

static void
take_agg(RoseNodeGroup *group, RoseNodeGroupAgg *agg, int from, int n)
{
	RoseNodeGroupSpill *spill = group->spill;
	const RoseNodeGroupColumn *column;

	if (agg->column < 0)
	{
		rose_node_cells_count(agg->cells, spill->kept, spill->nkept);
		return;
	}
	column = rose_node_group_columns_load(&group->columns, agg->column);
	for (int i = 0; i < n; i++)
	{
		spill->nulls[i] = spill->left_out[i] || (column->any_null && column->nulls[from + i]);
		group->values[i] = spill->nulls[i] ? 0 : column->values[from + i];
	}
	if (ROSE_AGG_IS_OF_NUMERIC(agg->kind) && column->decimals != NULL)
	{
		rose_node_cells_take_decimals(agg->kind, agg->cells, group->table.groups.ngroups, group->found, column->decimals, from,
									  group->values, spill->nulls, n, &agg->memory);
		return;
	}
	n = rose_vec_group_keep(group->values, spill->with_value, group->found, spill->nulls, n);
	rose_node_cells_take(agg->kind, agg->type, agg->cells, spill->with_value, group->values, n, &agg->order, &agg->memory);
}

int
rose_node_group_spill_take(RoseNodeGroup *group)
{
	int			from = group->taken;
	int			n = group->nrows - from;
	MemoryContext old = MemoryContextSwitchTo(group->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	int			others = find_groups(group, from, n);

	for (int a = 0; a < group->table.naggs && others < n; a++)
	{
		if (group->table.aggs[a].same == a)
			take_agg(group, &group->table.aggs[a], from, n);
	}
	if (others > 0)
		write_rows(group, from, n);
	MemoryContextSwitchTo(old);
	group->strategies[ROSE_GROUP_HASHED]++;
	return n;
}

/* ---- reading ---- */

void
rose_node_group_spill_finish(RoseNodeGroup *group)
{
	RoseNodeGroupSpill *spill = group->spill;

	if (spill == NULL)
		return;
	if (spill->writing || spill->reading)
		note_memory(group);
	if (!spill->writing)
		return;
	rose_node_tapes_finish(spill->tapes);
	spill->writing = false;
	group->sample = 0;			/* too late to retreat */
}

bool
rose_node_group_spill_next_batch(RoseNodeGroup *group)
{
	RoseNodeGroupSpill *spill = group->spill;

	if (spill == NULL || !rose_node_tapes_next_batch(spill->tapes, &spill->expected))
		return false;
	spill->reading = true;
	return true;
}

/* A row's columns to their places. */
static void
put_row(RoseNodeGroup *group, const char *row, int number)
{
	const char *at = row + head_size(group);

	for (int c = 0; c < group->columns.ncolumns; c++)
	{
		RoseNodeGroupColumn *column = &group->columns.columns[c];
		bool		null = (row[sizeof(uint32) + c / BITS_PER_BYTE] >> c % BITS_PER_BYTE & 1) != 0;

		column->nulls[number] = null;
		column->any_null |= null;
		column->values[number] = 0;
		if (null || !column->wanted)
			continue;
		if (column->by_value)
		{
			memcpy(&column->values[number], at, sizeof(int64));
			at += sizeof(int64);
			continue;
		}
		column->values[number] = (int64) PointerGetDatum(at);
		at += MAXALIGN(size_of(column, at));
	}
}

bool
rose_node_group_spill_next_rows(RoseNodeGroup *group)
{
	RoseNodeTapes *tapes = group->spill->tapes;
	const char *row;

	CHECK_FOR_INTERRUPTS();
	rose_node_tapes_forget_rows(tapes);
	for (int c = 0; c < group->columns.ncolumns; c++)
	{
		RoseNodeGroupColumn *column = &group->columns.columns[c];

		column->any_null = false;
		column->loaded = true;
		column->decimals = NULL;
	}
	while (group->nrows < rose_node_vector_rows && rose_node_tapes_rows_bytes(tapes) < ROSE_TAPES_ROWS_BYTES &&
		   (row = rose_node_tapes_read(tapes)) != NULL)
		put_row(group, row, group->nrows++);
	return group->nrows > 0;
}

void
rose_node_group_spill_reset(RoseNodeGroup *group)
{
	if (group->spill == NULL)
		return;
	/* who makes columns of rows may count on what is there where nothing is NULL */
	for (int c = 0; c < group->columns.ncolumns && group->spill->reading; c++)
		memset(group->columns.columns[c].nulls, false, ROSE_NODE_VECTOR_ROWS * sizeof(bool));
	rose_node_tapes_reset(group->spill->tapes);
	group->spill->writing = group->spill->reading = false;
}

uint64
rose_node_group_spill_batches(const RoseNodeGroup *group)
{
	return group->spill != NULL ? rose_node_tapes_batches(group->spill->tapes) : 0;
}

uint64
rose_node_group_spill_disk(const RoseNodeGroup *group)
{
	return group->spill != NULL ? rose_node_tapes_disk(group->spill->tapes) : 0;
}
