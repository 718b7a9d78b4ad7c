/*-------------------------------------------------------------------------
 *
 * rose_filter_ask.c
 *	  Asking a component's Bloom filter, for one key or for many.
 *
 * A filter is asked only if keys are still hashed as they were when it was made.  Which
 * of its parts has a key is rose_filter_parts.c's.
 *
 * The filter lies in pages of the component.  To ask it through shared buffers is to
 * find, pin and lock a page and to wait for memory, for each key.  Who asks for many
 * keys, such as COPY, gets a copy of the whole filter once he has asked as often as that
 * is worth: then a key is one cache line, which is fetched for many keys together.
 *
 * A component never changes, so a copy is good as long as its handle.  All copies of
 * a backend together stay below maintenance_work_mem.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "store/rose_block.h"
#include "lsm/component/rose_component_internal.h"

/* A page of a filter is worth copying when so many keys were asked for. */
#define ASKED_BEFORE_COPY	8

/* Keys whose cache lines are fetched together. */
#define FETCH_AHEAD			64

/* What this backend has in copies: memory of their own, because they are bounded by themselves. */
static Size copied_bytes = 0;
static MemoryContext copies_context = NULL;

/* ---- pages ---- */

static Buffer
lock_page(const RoseComponent *component, Relation rel, const RoseFilterPart *part, uint32 number)
{
	BlockNumber block = rose_filter_part_page(component, part, number);
	Buffer		buffer = rose_block_lock_owned(rel, block, component->info.entry.id);

	rose_component_check_page_kind(rel, block, ROSE_PAGE_BLOOM, BufferGetPage(buffer));
	return buffer;
}

/* ---- copies ---- */

void
rose_filter_ask_drop_copy(RoseComponent *component)
{
	if (component->filter_chunk == NULL)
		return;
	pfree(component->filter_chunk);
	copied_bytes -= component->filter_bytes;
	component->filter_chunk = NULL;
	component->filter = NULL;
}

/* The component's memory goes. */
static void
component_ends(void *arg)
{
	rose_filter_ask_drop_copy(arg);
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

/* Copy a part to its place. */
static void
copy_part(const RoseComponent *component, Relation rel, const RoseFilterPart *part, char *filter)
{
	char	   *to = filter + (Size) part->first_block * ROSE_BLOOM_BLOCK_SIZE;
	uint32		nblocks = part->shape.nblocks;
	uint32		per_page = component->bloom_per_page;

	for (uint32 from = 0; from < nblocks; from += per_page)
	{
		uint32		n = Min(nblocks - from, per_page);
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		buffer = lock_page(component, rel, part, from / per_page);
		memcpy(to + (Size) from * ROSE_BLOOM_BLOCK_SIZE,
			   (char *) BufferGetPage(buffer) + ROSE_PAGE_BODY,
			   (Size) n * ROSE_BLOOM_BLOCK_SIZE);
		UnlockReleaseBuffer(buffer);
	}
}

/* n more keys are asked for: make the copy if it is time and there is room. */
static void
consider_copy(RoseComponent *component, Relation rel, int n)
{
	Size		bytes = (Size) component->footer.bloom_nblocks * ROSE_BLOOM_BLOCK_SIZE;
	char	   *filter;

	rose_filter_ask_drop_copy(component);	/* one that an error has left half done */
	component->filter_asked += n;
	if (component->filter_asked < component->footer.bloom_pages * (uint64) ASKED_BEFORE_COPY ||
		copied_bytes + bytes > (Size) maintenance_work_mem * 1024)
		return;
	notice_end(component);
	if (copies_context == NULL)
		copies_context = AllocSetContextCreate(TopMemoryContext, "rose filter copies",
											   ALLOCSET_SMALL_SIZES);
	component->filter_chunk = MemoryContextAllocHuge(copies_context, bytes + PG_CACHE_LINE_SIZE);
	component->filter_bytes = bytes;
	copied_bytes += bytes;
	filter = (char *) CACHELINEALIGN(component->filter_chunk);
	for (int i = 0; i < component->nparts; i++)
		copy_part(component, rel, &component->parts[i], filter);
	component->filter = filter;
}

/* ---- is it of use? ---- */

uint32
rose_filter_ask_hashed_keys(const RoseSchema *schema)
{
	uint32		hashed = 0;

	for (int i = 0; i < schema->nkeys; i++)
		if (schema->keys[i].hashable)
			hashed |= (uint32) 1 << i;
	return hashed;
}

uint64
rose_filter_ask_hash_sample(const RoseSchema *schema, const Datum *min_key, const Datum *max_key)
{
	if (schema->nkeys == 0 || !schema->hashable)
		return 0;
	return rose_key_hash(schema, min_key) * 31 + rose_key_hash(schema, max_key);
}

/*
 * Columns and functions that are hashed may have become others: an operator class was
 * dropped, replaced or made.  The filter would not know keys that are there.  A component
 * of an older version does not say how it was made, but its filter must know both ends of
 * its range.
 */
bool
rose_filter_ask_suits(RoseComponent *component, Relation rel)
{
	const RoseSchema *schema = component->schema;
	const RoseFooterDisk *footer = &component->footer;

	if (schema->nkeys == 0 || !schema->hashable)
		return false;
	if (footer->version >= ROSE_COMPONENT_LAYOUT_VERSION)
		return footer->hashed_keys == rose_filter_ask_hashed_keys(schema) &&
			footer->hash_sample == rose_filter_ask_hash_sample(schema, component->min_key,
															   component->max_key);
	return rose_filter_ask(component, rel, component->min_key,
						   rose_key_hash(schema, component->min_key)) &&
		rose_filter_ask(component, rel, component->max_key,
						rose_key_hash(schema, component->max_key));
}

/* ---- asking ---- */

/* Where a copied filter has the block of a key. */
static const char *
copied_block(const RoseComponent *component, const RoseFilterPart *part, uint64 hash)
{
	return component->filter +
		((Size) part->first_block + rose_bloom_block(&part->shape, hash)) * ROSE_BLOOM_BLOCK_SIZE;
}

static bool
ask_part(RoseComponent *component, Relation rel, const RoseFilterPart *part, uint64 hash)
{
	uint32		block;
	Buffer		buffer;
	bool		found;

	if (component->filter != NULL)
		return rose_bloom_block_test(copied_block(component, part, hash), part->shape.nprobes, hash);
	block = rose_bloom_block(&part->shape, hash);
	buffer = lock_page(component, rel, part, block / component->bloom_per_page);
	found = rose_bloom_block_test((char *) BufferGetPage(buffer) + ROSE_PAGE_BODY +
								  (block % component->bloom_per_page) * ROSE_BLOOM_BLOCK_SIZE,
								  part->shape.nprobes, hash);
	UnlockReleaseBuffer(buffer);
	return found;
}

bool
rose_filter_ask(RoseComponent *component, Relation rel, const Datum *key, uint64 hash)
{
	if (!component->has_filter)
		return true;
	return ask_part(component, rel, rose_filter_part_find(component, key), hash);
}

bool
rose_filter_ask_prefix(RoseComponent *component, Relation rel, const Datum *key, int ncols,
					   uint64 hash)
{
	const RoseFilterPart *part;

	if (!component->has_filter)
		return true;
	for (part = rose_filter_part_first(component, key, ncols); part != NULL;
		 part = rose_filter_part_next(component, part, key, ncols))
		if (ask_part(component, rel, part, hash))
			return true;
	return false;
}

static void
test_copy(const RoseComponent *component, const Datum *const *keys, const uint64 *hashes,
		  const int *which, int n, bool *maybe)
{
	const char *blocks[FETCH_AHEAD];

	for (int i = 0; i < n; i++)
	{
		const RoseFilterPart *part = rose_filter_part_find(component, keys[which[i]]);

		blocks[i] = copied_block(component, part, hashes[which[i]]);
		__builtin_prefetch(blocks[i]);
	}
	for (int i = 0; i < n; i++)
		if (rose_bloom_block_test(blocks[i], component->footer.bloom_nprobes, hashes[which[i]]))
			maybe[which[i]] = true;
}

void
rose_filter_ask_many(RoseComponent *component, Relation rel, const Datum *const *keys,
					 const uint64 *hashes, const int *which, int n, bool *maybe)
{
	if (component->filter == NULL && component->has_filter)
		consider_copy(component, rel, n);
	if (component->filter != NULL)
	{
		for (int from = 0; from < n; from += FETCH_AHEAD)
			test_copy(component, keys, hashes, which + from, Min(n - from, FETCH_AHEAD), maybe);
		return;
	}
	for (int i = 0; i < n; i++)
		if (rose_filter_ask(component, rel, keys[which[i]], hashes[which[i]]))
			maybe[which[i]] = true;
}
