/*-------------------------------------------------------------------------
 *
 * rose_component_filter.c
 *	  Asking a component's Bloom filter, for one key or for many.
 *
 * A filter is asked only if keys are still hashed as they were when it was made.
 *
 * The filter lies in pages of the component.  To ask it through shared buffers is to
 * find, pin and lock a page and to wait for memory, for each key.  Who asks for many keys, such as
 * COPY, gets a copy of the whole filter once he has asked as often as that is worth:
 * then a key is one cache line, which is fetched for many keys together.
 *
 * A component never changes, so a copy is good as long as its handle.  All copies of
 * a backend together stay below maintenance_work_mem.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/component/rose_component_internal.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/* A page of a filter is worth copying when so many keys were asked for. */
#define ASKED_BEFORE_COPY	8

/* Keys whose cache lines are fetched together. */
#define FETCH_AHEAD			64

/* What this backend has in copies. */
static Size copied_bytes = 0;

/* ---- pages ---- */

static BlockNumber
bloom_page(const RoseComponent *component, uint32 page)
{
	for (int i = 0; i < component->nextents; i++)
	{
		if (page < component->extents[i].nblocks)
			return component->extents[i].first + page;
		page -= component->extents[i].nblocks;
	}
	elog(ERROR, "Bloom page out of range in component %u", component->info.entry.id);
}

static Buffer
lock_page(const RoseComponent *component, Relation rel, uint32 number)
{
	BlockNumber block = bloom_page(component, number);
	Buffer		buffer = rose_block_lock_owned(rel, block, component->info.entry.id);

	rose_component_check_page_kind(rel, block, ROSE_PAGE_BLOOM, BufferGetPage(buffer));
	return buffer;
}

/* ---- copies ---- */

static void
forget_copy(RoseComponent *component)
{
	copied_bytes -= component->filter_bytes;
	component->filter_bytes = 0;
	component->filter = NULL;
}

/* The component's memory goes. */
static void
component_ends(void *arg)
{
	forget_copy(arg);
}

void
rose_component_drop_filter_copy(RoseComponent *component)
{
	if (component->filter == NULL)
		return;
	pfree(component->filter_chunk);
	forget_copy(component);
}

static void
notice_end(RoseComponent *component)
{
	MemoryContextCallback *callback;

	if (component->filter_counted)
		return;
	callback = MemoryContextAlloc(component->context, sizeof(MemoryContextCallback));
	callback->func = component_ends;
	callback->arg = component;
	MemoryContextRegisterResetCallback(component->context, callback);
	component->filter_counted = true;
}

/* n more keys are asked for: make the copy if it is time and there is room. */
static void
consider_copy(RoseComponent *component, Relation rel, int n)
{
	uint32		nblocks = component->bloom.nblocks;
	Size		bytes = (Size) nblocks * ROSE_BLOOM_BLOCK_SIZE;
	char	   *chunk;
	char	   *filter;

	component->filter_asked += n;
	if (component->filter_asked < component->footer.bloom_pages * (uint64) ASKED_BEFORE_COPY ||
		copied_bytes + bytes > (Size) maintenance_work_mem * 1024)
		return;
	notice_end(component);
	chunk = MemoryContextAllocHuge(component->context, bytes + PG_CACHE_LINE_SIZE);
	filter = (char *) CACHELINEALIGN(chunk);
	for (uint32 from = 0; from < nblocks; from += ROSE_BLOOM_BLOCKS_PER_PAGE)
	{
		uint32		part = Min(nblocks - from, (uint32) ROSE_BLOOM_BLOCKS_PER_PAGE);
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		buffer = lock_page(component, rel, from / ROSE_BLOOM_BLOCKS_PER_PAGE);
		memcpy(filter + (Size) from * ROSE_BLOOM_BLOCK_SIZE,
			   (char *) BufferGetPage(buffer) + ROSE_PAGE_BODY,
			   (Size) part * ROSE_BLOOM_BLOCK_SIZE);
		UnlockReleaseBuffer(buffer);
	}
	component->filter_chunk = chunk;
	component->filter = filter;
	component->filter_bytes = bytes;
	copied_bytes += bytes;
}

/* ---- is it of use? ---- */

uint32
rose_component_hashed_keys(const RoseSchema *schema)
{
	uint32		hashed = 0;

	for (int i = 0; i < schema->nkeys; i++)
		if (schema->keys[i].hashable)
			hashed |= (uint32) 1 << i;
	return hashed;
}

uint64
rose_component_hash_sample(const RoseSchema *schema, const Datum *min_key, const Datum *max_key)
{
	if (schema->nkeys == 0 || !schema->hashable)
		return 0;
	return rose_key_hash(schema, min_key) * 31 + rose_key_hash(schema, max_key);
}

/*
 * Columns and functions that are hashed may have become others: an operator class was dropped, replaced
 * or made.  The filter would not know keys that are there.  A component of an older version does not say
 * how it was made, but its filter must know both ends of its range.
 */
bool
rose_component_bloom_suits(RoseComponent *component, Relation rel)
{
	const RoseSchema *schema = component->schema;
	const RoseFooterDisk *footer = &component->footer;

	if (schema->nkeys == 0 || !schema->hashable)
		return false;
	if (footer->version >= ROSE_COMPONENT_LAYOUT_VERSION)
		return footer->hashed_keys == rose_component_hashed_keys(schema) &&
			footer->hash_sample == rose_component_hash_sample(schema, component->min_key,
															  component->max_key);
	return rose_component_bloom_test(component, rel, rose_key_hash(schema, component->min_key)) &&
		rose_component_bloom_test(component, rel, rose_key_hash(schema, component->max_key));
}

/* ---- asking ---- */

bool
rose_component_bloom_test(RoseComponent *component, Relation rel, uint64 hash)
{
	uint32		block;
	Buffer		buffer;
	bool		found;

	if (!component->has_filter)
		return true;
	if (component->filter != NULL)
		return rose_bloom_test(component->filter, &component->bloom, hash);
	block = rose_bloom_block(&component->bloom, hash);
	buffer = lock_page(component, rel, block / ROSE_BLOOM_BLOCKS_PER_PAGE);
	found = rose_bloom_block_test((char *) BufferGetPage(buffer) + ROSE_PAGE_BODY +
								  (block % ROSE_BLOOM_BLOCKS_PER_PAGE) * ROSE_BLOOM_BLOCK_SIZE,
								  component->bloom.nprobes, hash);
	UnlockReleaseBuffer(buffer);
	return found;
}

static void
test_copy(const RoseComponent *component, const uint64 *hashes, const int *which, int n,
		  bool *maybe)
{
	const char *blocks[FETCH_AHEAD];

	for (int i = 0; i < n; i++)
	{
		blocks[i] = component->filter +
			(Size) rose_bloom_block(&component->bloom, hashes[which[i]]) * ROSE_BLOOM_BLOCK_SIZE;
		__builtin_prefetch(blocks[i]);
	}
	for (int i = 0; i < n; i++)
		if (rose_bloom_block_test(blocks[i], component->bloom.nprobes, hashes[which[i]]))
			maybe[which[i]] = true;
}

void
rose_component_bloom_test_many(RoseComponent *component, Relation rel, const uint64 *hashes,
							   const int *which, int n, bool *maybe)
{
	if (component->filter == NULL && component->has_filter)
		consider_copy(component, rel, n);
	if (component->filter != NULL)
	{
		for (int from = 0; from < n; from += FETCH_AHEAD)
			test_copy(component, hashes, which + from, Min(n - from, FETCH_AHEAD), maybe);
		return;
	}
	for (int i = 0; i < n; i++)
		if (rose_component_bloom_test(component, rel, hashes[which[i]]))
			maybe[which[i]] = true;
}
