/*-------------------------------------------------------------------------
 *
 * rose_filter_build.c
 *	  Making a component's Bloom filter, part by part.
 *
 * A filter has a part for each PART_KEYS keys, one after the other in key order.  Hashes
 * are kept until their part has all of its keys.  Then it is known how many there are,
 * whatever the builder's creator had expected, the part is made just as large as these
 * need, and its pages are written.  So memory is bounded by a part's, however many rows
 * the component has, and no bits are spent on keys that a merge has found twice.
 *
 * Whoever asks the filter finds the part by the greatest key of each, which the footer
 * has if there are several.  Parts end between two keys, never between two versions of
 * one.
 *
 * Asking is rose_filter_ask.c's.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"
#include "utils/memutils.h"

#include "store/rose_block.h"
#include "lsm/component/rose_builder_internal.h"

/*
 * Bits for a key, and wrong answers.  The fewer keys a level has, the more bits they get:
 * see "Filters" in the README.  There may be many runs, and private runs are such.
 * rose.filter_bits of a table tells those of the bottom.
 */
#define BITS_BOTTOM			10	/* 1 % */
#define BITS_MORE_C1		4	/* 0.2 % */
#define BITS_MORE_RUN		8	/* 0.04 % */

/* Keys of a part: 16 MB of hashes, and then 2 to 4 MB of bits. */
#define PART_KEYS			(2 * 1024 * 1024)

/* Room for hashes at first, unless more keys are expected. */
#define LEAST_HASHES		256

/* Hashes whose cache lines are fetched ahead of the one that is entered. */
#define FETCH_AHEAD			16

static int	part_keys = PART_KEYS;	/* rose.debug_filter_part */

void
rose_component_define_settings(void)
{
	DefineCustomIntVariable("rose.debug_filter_part",
							"Sets the number of keys for which a component's Bloom filter has a part.",
							"For tests of rose: with little data and a small number a filter has many parts.",
							&part_keys,
							PART_KEYS,
							16,
							PART_KEYS,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
}

static double
bits_per_key(int options, int bits)
{
	if (bits == ROSE_OPTION_UNSET)
		bits = BITS_BOTTOM;
	if (options & (ROSE_BUILD_RUN | ROSE_BUILD_PRIVATE))
		return bits + BITS_MORE_RUN;
	return (options & ROSE_BUILD_C1) ? bits + BITS_MORE_C1 : bits;
}

RoseFilterBuilder *
rose_filter_builder_create(const RoseSchema *schema, uint32 owner, RoseBlockWriter *writer,
						   uint64 expected_keys, int options, int bits, MemoryContext context)
{
	RoseFilterBuilder *filter = MemoryContextAllocZero(context, sizeof(RoseFilterBuilder));

	filter->context = context;
	filter->schema = schema;
	filter->owner = owner;
	filter->writer = writer;
	filter->bits_per_key = bits_per_key(options, bits);
	filter->part_keys = part_keys;
	filter->size = (int) Max(LEAST_HASHES, Min(expected_keys, (uint64) part_keys));
	filter->hashes = MemoryContextAllocHuge(context, filter->size * sizeof(uint64));
	filter->extents = MemoryContextAllocZero(context, sizeof(StringInfoData));
	filter->keys = MemoryContextAllocZero(context, sizeof(StringInfoData));
	return filter;
}

void
rose_filter_builder_grow(RoseFilterBuilder *filter)
{
	filter->size *= 2;
	filter->hashes = repalloc_huge(filter->hashes, filter->size * sizeof(uint64));
}

/* Add a block to the list of extents. */
static void
extents_add(StringInfo extents, BlockNumber block)
{
	RoseExtentDisk *last = NULL;
	RoseExtentDisk extent = {.first = block, .nblocks = 1};

	if (extents->len > 0)
		last = (RoseExtentDisk *) (extents->data + extents->len - sizeof(RoseExtentDisk));
	if (last != NULL && last->first + last->nblocks == block)
		last->nblocks++;
	else
		appendBinaryStringInfo(extents, (char *) &extent, sizeof(extent));
}

/*
 * A hash goes to a random place of something that may be larger than the processor's
 * caches: ask for it some hashes before it is used.
 */
static void
enter_hashes(const RoseFilterBuilder *filter, const RoseBloomShape *shape, char *bits)
{
	for (int i = 0; i < filter->n; i++)
	{
		if (i + FETCH_AHEAD < filter->n)
			__builtin_prefetch(bits + (Size) rose_bloom_block(shape, filter->hashes[i + FETCH_AHEAD]) *
							   ROSE_BLOOM_BLOCK_SIZE, 1);
		rose_bloom_add(bits, shape, filter->hashes[i]);
	}
}

static void
write_bits(RoseFilterBuilder *filter, const RoseBloomShape *shape, const char *bits)
{
	PGAlignedBlock page;
	uint32		per_page = rose_bloom_blocks_of_page(rose_blockwriter_page_end(filter->writer));

	for (uint32 from = 0; from < shape->nblocks; from += per_page)
	{
		BlockNumber block = rose_blockwriter_reserve(filter->writer);
		Size		bytes = (Size) Min(shape->nblocks - from, per_page) * ROSE_BLOOM_BLOCK_SIZE;

		rose_component_init_page(page.data, filter->owner, ROSE_PAGE_BLOOM);
		memcpy(page.data + ROSE_PAGE_BODY, bits + (Size) from * ROSE_BLOOM_BLOCK_SIZE, bytes);
		rose_component_set_page_end(page.data, ROSE_PAGE_BODY + bytes);
		rose_blockwriter_write(filter->writer, block, page.data);
		extents_add(filter->extents, block);
		filter->npages++;
	}
}

/* Lists that most components have no use for are made when they are needed. */
static void
prepare_lists(RoseFilterBuilder *filter)
{
	if (filter->extents->data == NULL)
	{
		initStringInfo(filter->extents);
		initStringInfo(filter->keys);
	}
	if (filter->nparts == filter->max_parts)
	{
		filter->max_parts = Max(4, 2 * filter->max_parts);
		filter->parts = filter->parts == NULL ?
			palloc(filter->max_parts * sizeof(RoseFilterPartDisk)) :
			repalloc_huge(filter->parts, filter->max_parts * sizeof(RoseFilterPartDisk));
	}
}

void
rose_filter_builder_end_part(RoseFilterBuilder *filter, const Datum *last_key)
{
	MemoryContext old = MemoryContextSwitchTo(filter->context);
	RoseBloomShape shape = rose_bloom_shape(filter->n, filter->bits_per_key);
	char	   *chunk = MemoryContextAllocExtended(filter->context,
												   rose_bloom_bytes(&shape) + PG_CACHE_LINE_SIZE,
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	char	   *bits = (char *) CACHELINEALIGN(chunk);
	int			keys_before;

	prepare_lists(filter);
	enter_hashes(filter, &shape, bits);
	write_bits(filter, &shape, bits);
	pfree(chunk);

	keys_before = filter->keys->len;
	rose_key_write(filter->schema, last_key, filter->keys);
	filter->parts[filter->nparts].nblocks = shape.nblocks;
	filter->parts[filter->nparts++].key_bytes = filter->keys->len - keys_before;
	filter->nblocks += shape.nblocks;
	filter->nprobes = shape.nprobes;
	filter->n = 0;
	MemoryContextSwitchTo(old);
}
