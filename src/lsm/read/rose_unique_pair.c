/*-------------------------------------------------------------------------
 *
 * rose_unique_pair.c
 *	  Have two rows one value in an index?  See rose_unique_pair.h.
 *
 * Entries of one value are neighbours in the tree, so one scan finds a pair.
 *
 * Locks are a scan's.  Who has the index to himself learns all; others what their snapshot
 * sees.  Writers do not come here: they look at one value (write/rose_unique_values.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "lsm/component/rose_key_buffer.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_unique_pair.h"

/* May other entries have the value of this one? */
static bool
may_repeat(const RoseIndexTree *index, const RoseSchema *schema, const Datum *key)
{
	for (int i = 0; !index->nulls_equal && i < index->nvalue; i++)
		if (rose_key_is_null(schema, key, i))
			return true;
	return false;
}

void
rose_unique_pair_take(const RoseIndexTree *index, const RoseSchema *schema, const Datum *key,
					  MemoryContext context, Datum *values, bool *nulls)
{
	Datum		copy[INDEX_MAX_KEYS];
	int			n = 0;

	rose_key_copy(schema, copy, key, context);
	for (int i = 0; i < index->nvalue; i++)
	{
		if (schema->keys[i].def.flags & ROSE_KEY_RANK)
			continue;
		values[n] = copy[i];
		nulls[n++] = rose_key_is_null(schema, copy, i);
	}
}

bool
rose_unique_pair_find(RoseTree *tree, const RoseIndexTree *index, Snapshot snapshot,
					  Datum *values, bool *nulls)
{
	const RoseSchema *schema = tree->schema;
	RoseScan   *scan = rose_scan_begin(tree, snapshot, NULL, true);
	RoseKeyBuffer last;
	const RoseRow *entry;
	bool		found = false;

	rose_key_buffer_init(&last, CurrentMemoryContext);
	while (!found && (entry = rose_scan_next_keyed(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (may_repeat(index, schema, entry->key))
			continue;
		found = last.valid && rose_key_compare(schema, last.key, entry->key, index->nvalue) == 0;
		if (found)
			rose_unique_pair_take(index, schema, entry->key, CurrentMemoryContext, values, nulls);
		else
			rose_key_buffer_set(&last, schema, entry->key);
	}
	rose_scan_end(scan);
	return found;
}
