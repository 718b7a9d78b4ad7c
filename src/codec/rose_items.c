/*-------------------------------------------------------------------------
 *
 * rose_items.c
 *	  Sequences of byte strings.  The layout is in rose_items.h.
 *
 * No locks.  Readers of an index check that every item lies within its area; what the
 * bytes of an item mean is not looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupmacs.h"

#include "util/rose_varint.h"
#include "codec/rose_items.h"

uint32
rose_item_alignment(const RoseColumnDesc *desc)
{
	switch (desc->kind)
	{
		case ROSE_COLUMN_VARLEN:
			return ALIGNOF_INT;
		case ROSE_COLUMN_FIXED:
			return (uint32) att_align_nominal(1, desc->attalign);
		default:
			return 1;
	}
}

/* Items decoded at a time. */
#define DECODE_CHUNK	256

uint32
rose_items_min_size(const RoseColumnBuffer *col, int n)
{
	uint32		min_size = n == 0 ? 1 : col->ends[0];
	int			i;

	for (i = 1; i < n; i++)
		min_size = Min(min_size, col->ends[i] - col->ends[i - 1]);
	return min_size;
}

char *
rose_item_index_write(char *out, RosePackScratch *scratch, const uint32 *ends, int n)
{
	uint32		raw_size = n == 0 ? 0 : ends[n - 1];
	uint32		stride = n == 0 ? 0 : ends[0];
	int			width;
	int			i;

	for (i = 1; i < n; i++)
		stride = Min(stride, ends[i] - ends[i - 1]);
	for (i = 0; i < n; i++)
		scratch->packed[i] = ends[i] - (uint32) (i + 1) * stride;
	width = n == 0 ? 0 : rose_bits_needed(scratch->packed[n - 1]);

	out = rose_varint_write(out, stride);
	*out++ = (char) width;
	out = rose_varint_write(out, raw_size);
	rose_bitpack_write(out, width, scratch->packed, n);
	return out + rose_bitpack_size(n, width);
}

const char *
rose_item_index_open(RoseItemIndex *index, int n, uint32 max_raw,
					 const char *p, const char *end, const char **next)
{
	uint64		stride;
	uint64		raw_size;

	if ((p = rose_varint_read(p, end, &stride)) == NULL || p >= end)
		return "item index is cut off";
	index->width = (uint8) *p++;
	if (index->width > 32)
		return "bit width is out of range";
	if ((p = rose_varint_read(p, end, &raw_size)) == NULL)
		return "item index is cut off";
	if (raw_size > max_raw || stride > raw_size)
		return "item sizes are out of range";
	if ((Size) (end - p) < rose_bitpack_size(n, index->width))
		return "item index is cut off";

	index->nitems = (uint32) n;
	index->stride = (uint32) stride;
	index->raw_size = (uint32) raw_size;
	index->bits = p;
	*next = p + rose_bitpack_size(n, index->width);
	return NULL;
}

static inline uint64
end_at(const RoseItemIndex *index, uint32 i)
{
	return (uint64) (i + 1) * index->stride +
		rose_bitpack_get(index->bits, index->width, i);
}

void
rose_item_index_get(const RoseSegment *seg, const RoseItemIndex *index, uint32 i,
					uint32 *start, uint32 *end)
{
	uint64		from = i == 0 ? 0 : end_at(index, i - 1);
	uint64		to = end_at(index, i);

	if (from >= to || to > index->raw_size)
		rose_codec_corrupt(seg, "item is out of range");
	*start = (uint32) from;
	*end = (uint32) to;
}

void
rose_item_index_get_many(const RoseSegment *seg, const RoseItemIndex *index, int from, int n,
						 uint32 *starts)
{
	uint64		excess[DECODE_CHUNK];
	uint64		start = from == 0 ? 0 : end_at(index, (uint32) from - 1);

	starts[0] = (uint32) Min(start, PG_UINT32_MAX);
	for (int done = 0; done < n; done += DECODE_CHUNK)
	{
		int			m = Min(n - done, DECODE_CHUNK);

		rose_bitpack_read(index->bits, index->width, from + done, m, excess);
		for (int i = done; i < done + m; i++)
		{
			uint64		end = (uint64) (from + i + 1) * index->stride + excess[i - done];

			if (unlikely(start >= end || end > index->raw_size))
				rose_codec_corrupt(seg, "item is out of range");
			starts[i + 1] = (uint32) end;
			start = end;
		}
	}
}

const char *
rose_item_index_check(const RoseItemIndex *index)
{
	uint64		start = 0;
	uint32		i;

	for (i = 0; i < index->nitems; i++)
	{
		uint64		end = end_at(index, i);

		if (start >= end || end > index->raw_size)
			return "item is out of range";
		start = end;
	}
	if (start != index->raw_size)
		return "items do not cover their area";
	return NULL;
}

static const char *
varlena_value(const RoseColumnDesc *desc, const char *item, uint32 size)
{
	uint32		padding = rose_item_padding(desc, item);

	if (padding >= size)
		return NULL;
	item += padding;
	size -= padding;
	if (VARATT_IS_1B(item))
		return !VARATT_IS_1B_E(item) && VARSIZE_1B(item) <= size ? item : NULL;
	if (size < VARHDRSZ || (uintptr_t) item % ALIGNOF_INT != 0 || !VARATT_IS_4B_U(item))
		return NULL;
	return VARSIZE_4B(item) >= VARHDRSZ && VARSIZE_4B(item) <= size ? item : NULL;
}

const char *
rose_item_value(const RoseColumnDesc *desc, const char *item, uint32 size)
{
	if (desc->kind == ROSE_COLUMN_VARLEN)
		return varlena_value(desc, item, size);
	if (desc->kind == ROSE_COLUMN_CSTRING)
		return memchr(item, '\0', size) != NULL ? item : NULL;
	if (size < (uint32) desc->attlen ||
		(uintptr_t) item % rose_item_alignment(desc) != 0)
		return NULL;
	return item;
}

/* rose_item_value, quickly for a short varlena, which most items are. */
static inline const char *
item_value(const RoseColumnDesc *desc, const char *item, uint32 size)
{
	if (likely(desc->kind == ROSE_COLUMN_VARLEN && VARATT_IS_1B(item) &&
			   !VARATT_IS_1B_E(item) && VARSIZE_1B(item) <= size))
		return item;
	return rose_item_value(desc, item, size);
}

void
rose_item_index_decode(const RoseSegment *seg, const RoseItemIndex *index, int from, int n,
					   Datum *values)
{
	uint64		excess[DECODE_CHUNK];
	uint64		start = from == 0 ? 0 : end_at(index, (uint32) from - 1);

	for (int done = 0; done < n; done += DECODE_CHUNK)
	{
		int			m = Min(n - done, DECODE_CHUNK);

		rose_bitpack_read(index->bits, index->width, from + done, m, excess);
		for (int i = 0; i < m; i++)
		{
			uint64		end = (uint64) (from + done + i + 1) * index->stride + excess[i];
			const char *value;

			if (unlikely(start >= end || end > index->raw_size))
				rose_codec_corrupt(seg, "item is out of range");
			value = item_value(seg->desc, seg->raw + start, (uint32) (end - start));
			if (unlikely(value == NULL))
				rose_codec_corrupt(seg, "item is not a value of its type");
			values[done + i] = PointerGetDatum(value);
			start = end;
		}
	}
}
