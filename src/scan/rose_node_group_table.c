/*-------------------------------------------------------------------------
 *
 * rose_node_group_table.c
 *	  The memory of a Rose Aggregate's groups.
 *
 * Keys, values and states are in arrays by the group's number, which grow together, within a limit.  There is no room beyond
 * it: then who owns the table gives out what is there, as partial states of groups that may come again, and it begins empty.
 * A vector of new groups is always taken, whatever the limit is.  Where groups come in order, the last one stays, which may be
 * incomplete.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "miscadmin.h"
#include "utils/memutils.h"

#include "scan/rose_node.h"
#include "scan/rose_node_group.h"
#include "scan/rose_node_group_cells.h"

#define FIRST_GROUPS	64

/* Slots of the hash table, a group. */
#define SLOTS_PER_GROUP 2

Size
rose_node_group_table_limit(void)
{
	if (rose_node_aggregate_memory >= 0)
		return (Size) rose_node_aggregate_memory * 1024;
	return get_hash_memory_limit();
}

static bool
has_values(const RoseNodeGroupKey *key)
{
	return key->kind != ROSE_KEY_WORD;
}

static Size
bytes_per_group(const RoseNodeGroupTable *table)
{
	Size		bytes = (table->nkeys + 1) * sizeof(int64) + SLOTS_PER_GROUP * sizeof(RoseVecGroupSlot);

	for (int k = 0; k < table->nkeys; k++)
	{
		if (has_values(&table->keys[k]))
			bytes += sizeof(Datum);
	}
	for (int a = 0; a < table->naggs; a++)
		bytes += rose_node_cell_size(table->aggs[a].kind);
	return bytes;
}

static Size
memory_of_values(const RoseNodeGroupTable *table)
{
	Size		bytes = 0;

	for (int k = 0; k < table->nkeys; k++)
		bytes += rose_node_group_key_memory(&table->keys[k]);
	for (int a = 0; a < table->naggs; a++)
		bytes += rose_node_agg_memory_bytes(&table->aggs[a].memory);
	return bytes;
}

/* The same, and what a value more of each key takes beside itself. */
static Size
needs_of_values(const RoseNodeGroupTable *table)
{
	Size		bytes = memory_of_values(table);

	for (int k = 0; k < table->nkeys; k++)
		bytes += rose_node_group_key_needs(&table->keys[k]) - rose_node_group_key_memory(&table->keys[k]);
	return bytes;
}

Size
rose_node_group_table_rest(const RoseNodeGroupTable *table)
{
	Size		used = table->groups.capacity * bytes_per_group(table);

	return used < table->limit ? table->limit - used : 0;
}

double
rose_node_group_table_most(const RoseNodeGroupTable *table)
{
	double		values = (double) memory_of_values(table) / Max(table->groups.ngroups, 1);

	return table->limit / (bytes_per_group(table) + values);
}

/* ---- growing ---- */

/* An array that has room for more; what is new is zero. */
static void *
grow(const RoseNodeGroupTable *table, void *array, uint32 old, uint32 new, Size size)
{
	char	   *result;

	if (array == NULL)
		result = MemoryContextAllocHuge(table->context, new * size);
	else
		result = repalloc_huge(array, new * size);
	memset(result + old * size, 0, (new - old) * size);
	return result;
}

static void
grow_slots(RoseNodeGroupTable *table, uint32 capacity)
{
	RoseVecGroups *groups = &table->groups;

	if (groups->slots != NULL)
		pfree(groups->slots);
	groups->nslots = capacity * SLOTS_PER_GROUP;
	groups->slots = MemoryContextAllocExtended(table->context,
											   groups->nslots * sizeof(RoseVecGroupSlot),
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	rose_vec_group_rehash(groups);
}

static void
grow_to(RoseNodeGroupTable *table, uint32 capacity)
{
	RoseVecGroups *groups = &table->groups;
	uint32		old = groups->capacity;

	groups->keys = grow(table, groups->keys, old, capacity, (table->nkeys + 1) * sizeof(int64));
	for (int k = 0; k < table->nkeys; k++)
	{
		RoseNodeGroupKey *key = &table->keys[k];

		if (has_values(key))
			key->values = grow(table, key->values, old, capacity, sizeof(Datum));
	}
	for (int a = 0; a < table->naggs; a++)
	{
		RoseNodeGroupAgg *agg = &table->aggs[a];

		agg->cells = grow(table, agg->cells, old, capacity, rose_node_cell_size(agg->kind));
	}
	groups->capacity = capacity;
	grow_slots(table, capacity);
}

void
rose_node_group_table_init(RoseNodeGroupTable *table, Size limit)
{
	table->context = CurrentMemoryContext;
	table->limit = limit;
	for (int a = 0; a < table->naggs; a++)
		table->aggs[a].memory.parent = CurrentMemoryContext;
	table->groups.nwords = table->nkeys;
	rose_vec_dense_reset(&table->dense);
	grow_to(table, FIRST_GROUPS);
}

bool
rose_node_group_table_make_room(RoseNodeGroupTable *table, int n, uint32 stay)
{
	RoseVecGroups *groups = &table->groups;
	Size		values = memory_of_values(table);
	uint32		capacity = groups->capacity;

	table->peak = Max(table->peak, capacity * bytes_per_group(table) + values);
	if (groups->ngroups > stay && values + capacity * bytes_per_group(table) > table->limit)
		return false;
	if (groups->ngroups + n <= capacity)
		return true;
	while (capacity < groups->ngroups + n)
		capacity *= 2;
	if (groups->ngroups > stay && values + capacity * bytes_per_group(table) > table->limit)
		return false;
	grow_to(table, capacity);
	return true;
}

Size
rose_node_group_table_bytes(const RoseNodeGroupTable *table)
{
	return table->groups.capacity * bytes_per_group(table) + memory_of_values(table);
}

int
rose_node_group_table_make_some_room(RoseNodeGroupTable *table, int n)
{
	RoseVecGroups *groups = &table->groups;
	Size		values = needs_of_values(table);
	uint32		capacity = groups->capacity;

	table->peak = Max(table->peak, rose_node_group_table_bytes(table));
	if (groups->ngroups > 0 && values + capacity * bytes_per_group(table) > table->limit)
		return 0;
	while (capacity < groups->ngroups + n && values + capacity * 2 * bytes_per_group(table) <= table->limit)
		capacity *= 2;
	if (capacity > groups->capacity)
		grow_to(table, capacity);
	return (int) Min((uint32) n, groups->capacity - groups->ngroups);
}

/* ---- groups ---- */

void
rose_node_group_table_note(RoseNodeGroupTable *table, const RoseNodeGroupColumns *columns,
						   uint32 first, int from, const uint16 *rows, int n)
{
	for (int k = 0; k < table->nkeys; k++)
	{
		RoseNodeGroupKey *key = &table->keys[k];
		const RoseNodeGroupColumn *column = &columns->columns[key->column];

		if (!has_values(key))
			continue;
		for (int i = 0; i < n; i++)
		{
			int			row = from + rows[i];

			key->values[first + i] = (Datum) column->values[row];
			if (!column->nulls[row])
				key->values[first + i] = rose_node_group_key_kept(key, key->values[first + i], key->words[row]);
		}
	}
}

/* The group takes the place of the first one. */
static void
move_to_front(RoseNodeGroupTable *table, uint32 group)
{
	Size		width = (table->nkeys + 1) * sizeof(int64);

	memcpy(table->groups.keys, rose_vec_group_key(&table->groups, group), width);
	for (int k = 0; k < table->nkeys; k++)
	{
		if (has_values(&table->keys[k]))
			table->keys[k].values[0] = table->keys[k].values[group];
	}
	for (int a = 0; a < table->naggs; a++)
	{
		Size		size = rose_node_cell_size(table->aggs[a].kind);

		memmove(table->aggs[a].cells, table->aggs[a].cells + group * size, size);
	}
}

/* Of a key, but those of the groups that are left. */
static void
forget_values(RoseNodeGroupTable *table, int k, uint32 left)
{
	RoseNodeGroupKey *key = &table->keys[k];

	if (left > 0 && (rose_vec_group_flags(&table->groups, 0) >> k & 1) == 0)
	{
		rose_node_group_key_forget(key, &table->groups.keys[k]);
		return;
	}
	rose_node_group_key_reset(key);
}

void
rose_node_group_table_forget(RoseNodeGroupTable *table, uint32 n)
{
	RoseVecGroups *groups = &table->groups;
	uint32		there = groups->ngroups;
	uint32		left = there - n;

	Assert(n <= there && left <= 1);
	if (left > 0)
		move_to_front(table, n);
	for (int a = 0; a < table->naggs; a++)
	{
		Size		size = rose_node_cell_size(table->aggs[a].kind);

		rose_node_cells_forget(table->aggs[a].kind, table->aggs[a].cells, left > 0,
							   &table->aggs[a].memory);
		memset(table->aggs[a].cells + left * size, 0, (there - left) * size);
	}
	for (int k = 0; k < table->nkeys; k++)
		forget_values(table, k, left);
	rose_vec_group_reset(groups);
	rose_vec_dense_reset(&table->dense);
	groups->ngroups = left;
	rose_vec_group_rehash(groups);
}
