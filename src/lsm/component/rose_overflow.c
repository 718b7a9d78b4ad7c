/*-------------------------------------------------------------------------
 *
 * rose_overflow.c
 *	  What is too large for a leaf: a byte stream over chained pages of the
 *	  component, shared by values and rows, each LZ4-compressed if that helps.
 *
 * The leaf keeps a RoseOverflowPointerDisk; see rose_component_format.h.
 *
 * Backend-local.  Pages of a component never change, so reading needs no lock
 * beyond what rose_block_read takes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <lz4.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "store/rose_block.h"
#include "lsm/component/rose_component_internal.h"

/* Compression must save at least this part of the value. */
#define OVERFLOW_MIN_SAVING	10

struct RoseOverflowWriter
{
	MemoryContext context;
	uint32		component_id;
	RoseBlockWriter *writer;
	char	   *page;			/* being filled ... */
	Size		page_end;		/* ... up to here */
	BlockNumber block;			/* its block; InvalidBlockNumber: none yet */
	Size		end;			/* of its data */
	uint64		npages;
	char	   *scratch;		/* compressed value */
	Size		scratch_size;
};

RoseOverflowWriter *
rose_overflow_writer_create(uint32 component_id, RoseBlockWriter *writer,
							MemoryContext context)
{
	RoseOverflowWriter *overflow = MemoryContextAllocZero(context, sizeof(RoseOverflowWriter));

	overflow->context = context;
	overflow->component_id = component_id;
	overflow->writer = writer;
	overflow->block = InvalidBlockNumber;
	overflow->page = MemoryContextAllocZero(context, BLCKSZ);
	overflow->page_end = rose_blockwriter_page_end(writer);
	return overflow;
}

/* Write the page that is full (or, next being invalid, the last one). */
static void
overflow_flush(RoseOverflowWriter *overflow, BlockNumber next)
{
	rose_component_set_page_end(overflow->page, overflow->end);
	rose_page_header(overflow->page)->next = next;
	rose_blockwriter_write(overflow->writer, overflow->block, overflow->page);
	overflow->npages++;
}

static void
overflow_make_room(RoseOverflowWriter *overflow)
{
	BlockNumber next;
	BlockNumber previous = overflow->block;

	if (previous != InvalidBlockNumber && overflow->end < overflow->page_end)
		return;
	next = rose_blockwriter_reserve(overflow->writer);
	if (previous != InvalidBlockNumber)
		overflow_flush(overflow, next);
	rose_component_init_page(overflow->page, overflow->component_id, ROSE_PAGE_OVERFLOW);
	rose_page_header(overflow->page)->prev = previous;
	overflow->block = next;
	overflow->end = ROSE_PAGE_BODY;
}

static void
overflow_append(RoseOverflowWriter *overflow, const char *data, Size length)
{
	while (length > 0)
	{
		Size		n;

		overflow_make_room(overflow);
		n = Min(length, overflow->page_end - overflow->end);
		memcpy(overflow->page + overflow->end, data, n);
		overflow->end += n;
		data += n;
		length -= n;
	}
}

/* Compress into scratch; 0 if it does not pay. */
static Size
overflow_compress(RoseOverflowWriter *overflow, const char *data, Size length)
{
	Size		limit = length - length / OVERFLOW_MIN_SAVING;
	int			size;

	if (limit > overflow->scratch_size)
	{
		if (overflow->scratch)
			pfree(overflow->scratch);
		overflow->scratch_size = limit;
		overflow->scratch = MemoryContextAllocHuge(overflow->context, limit);
	}
	size = LZ4_compress_default(data, overflow->scratch, (int) length, (int) limit);
	return size > 0 ? (Size) size : 0;
}

void
rose_overflow_write(RoseOverflowWriter *overflow, const char *data, Size length,
					RoseOverflowPointerDisk *pointer)
{
	Size		compressed = overflow_compress(overflow, data, length);

	overflow_make_room(overflow);
	memset(pointer, 0, sizeof(*pointer));
	pointer->block = overflow->block;
	pointer->offset = (uint16) overflow->end;
	pointer->raw_bytes = (uint32) length;
	if (compressed > 0)
	{
		pointer->compression = ROSE_OVERFLOW_LZ4;
		pointer->stored_bytes = (uint32) compressed;
		overflow_append(overflow, overflow->scratch, compressed);
	}
	else
	{
		pointer->compression = ROSE_OVERFLOW_PLAIN;
		pointer->stored_bytes = (uint32) length;
		overflow_append(overflow, data, length);
	}
}

void
rose_overflow_finish(RoseOverflowWriter *overflow, uint64 *npages)
{
	if (overflow->block != InvalidBlockNumber)
		overflow_flush(overflow, InvalidBlockNumber);
	overflow->block = InvalidBlockNumber;
	*npages = overflow->npages;
}

static void
overflow_corrupted(uint32 component_id, BlockNumber block)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("bad overflow value in component %u at block %u", component_id, block)));
}

/* Collect the stored bytes of a value into dst. */
static void
overflow_collect(Relation rel, uint32 component_id, const RoseOverflowPointerDisk *pointer,
				 char *dst)
{
	PGAlignedBlock page;
	BlockNumber block = pointer->block;
	Size		offset = pointer->offset;
	Size		left = pointer->stored_bytes;

	while (left > 0)
	{
		Size		end;
		Size		n;

		CHECK_FOR_INTERRUPTS();
		if (block == InvalidBlockNumber)
			overflow_corrupted(component_id, pointer->block);
		rose_component_read_page(rel, component_id, block, ROSE_PAGE_OVERFLOW, page.data, NULL);
		end = ((PageHeader) page.data)->pd_lower;
		if (offset < ROSE_PAGE_BODY || end > BLCKSZ || offset >= end)
			overflow_corrupted(component_id, block);
		n = Min(left, end - offset);
		memcpy(dst, page.data + offset, n);
		dst += n;
		left -= n;
		block = rose_page_header(page.data)->next;
		offset = ROSE_PAGE_BODY;
	}
}

void
rose_overflow_check(uint32 component_id, const RoseOverflowPointerDisk *pointer)
{
	if (pointer->raw_bytes > MaxAllocSize - VARHDRSZ ||
		pointer->stored_bytes > pointer->raw_bytes ||
		(pointer->compression == ROSE_OVERFLOW_PLAIN &&
		 pointer->stored_bytes != pointer->raw_bytes) ||
		pointer->compression > ROSE_OVERFLOW_LZ4)
		overflow_corrupted(component_id, pointer->block);
}

void
rose_overflow_read(Relation rel, uint32 component_id,
				   const RoseOverflowPointerDisk *pointer, char *dst)
{
	char	   *stored;

	if (pointer->compression == ROSE_OVERFLOW_PLAIN)
	{
		overflow_collect(rel, component_id, pointer, dst);
		return;
	}
	stored = palloc(pointer->stored_bytes);
	overflow_collect(rel, component_id, pointer, stored);
	if (LZ4_decompress_safe(stored, dst, (int) pointer->stored_bytes,
							(int) pointer->raw_bytes) != (int) pointer->raw_bytes)
		overflow_corrupted(component_id, pointer->block);
	pfree(stored);
}
