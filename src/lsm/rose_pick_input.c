/*-------------------------------------------------------------------------
 *
 * rose_pick_input.c
 *	  What the picker is given: a table's manifest and the state around it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/rose_picker.h"

#include "lsm/rose_horizon.h"
#include "lsm/rose_private.h"
#include "memtable/rose_memtable.h"

uint64
rose_pick_c0_size(void)
{
	return Max(rose_arena_total_bytes() / 2, 1);
}

void
rose_pick_input(RoseTable *table, RosePickInput *input, bool *blocked)
{
	const RoseManifest *manifest = rose_table_manifest(table);

	memset(input, 0, sizeof(*input));
	input->c0_size = rose_pick_c0_size();
	input->ncomponents = manifest->ncomponents;
	input->components = manifest->components;
	input->blocked = blocked;
	input->horizon = rose_horizon_oldest(table->rel);
	input->min_ratio = 3.0;
	for (int i = 0; i < manifest->ncomponents; i++)
		blocked[i] = !rose_component_mergeable(&manifest->components[i]);
}
