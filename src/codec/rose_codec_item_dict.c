/*-------------------------------------------------------------------------
 *
 * rose_codec_item_dict.c
 *	  Items as codes of a dictionary in the page.
 *
 *		uint8	width			bits of a code
 *		varint	count
 *		item index of the entries
 *		bits	n codes
 *		zero bytes up to the alignment of the items, counted from the page's start
 *		raw area of the entries
 *
 * Entries are in the order in which they first occur.  (The order of their
 * type is not known here; searching a sorted column needs no ordered codes.)  A constant
 * is a dictionary of one entry, with codes of no bits.
 *
 * Backend-local.  Finding the distinct items is rose_distinct.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_varint.h"
#include "codec/rose_distinct.h"
#include "codec/rose_items.h"
#include "codec/rose_kernels.h"

/* Values decoded at a time. */
#define DECODE_CHUNK		256

/* Fewer values than one for so many entries are few. */
#define FEW_PART			4

/* Bytes before the entries' index, with the count at its longest. */
#define ITEM_DICT_HEADER	(1 + 2)

/* The most that an entry takes in the raw area of the dictionary. */
static inline uint32
entry_bytes(const RoseColumnBuffer *col, int code)
{
	int			i = rose_distinct_first(col->distinct, code);
	uint32		start = rose_item_start(col, i);
	uint32		size = col->ends[i] - start;

	if (col->desc.kind == ROSE_COLUMN_VARLEN)
	{
		const char *item = col->items + start;
		uint32		padding = rose_item_padding(&col->desc, item);

		size -= padding;
		if (!VARATT_IS_1B(item + padding))
			size += ALIGNOF_INT - 1;
	}
	return size;
}

static bool
item_dict_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseItemDictPlan *own = &plan->own.item_dict;
	int			count;

	/* reach() may have looked further */
	if (rose_distinct_seen(col->distinct) > n)
		rose_distinct_truncate(col->distinct, col, n);
	if (!rose_distinct_extend(col->distinct, col, n))
		return false;
	count = rose_distinct_count(col->distinct);
	if (count > (1 << own->width))
		return false;
	for (; own->nentries < count; own->nentries++)
		own->entry_bytes += entry_bytes(col, own->nentries);
	if (own->entry_bytes > rose_width_mask(own->index_width))
		return false;
	plan->n = n;
	plan->size = own->header + (int) rose_bitpack_size(n, own->width) +
		(int) rose_bitpack_size(count, own->index_width) + (int) own->entry_bytes;
	plan->spare = plan->headroom == 0 ? 0 :
		Min((1 << own->width) - count, rose_distinct_room(col->distinct));
	return true;
}

/* An index width without headroom may be outgrown by the next entry. */
static int
item_dict_reach(RoseColumnBuffer *col, const RosePlan *plan, RoseAnchorsAhead *ahead,
				int n, int *bits)
{
	*bits = 0;
	return rose_distinct_reach(col->distinct, col, n,
							   plan->headroom == 0 ? plan->own.item_dict.nentries : 1 << plan->own.item_dict.width);
}

static bool
item_dict_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RoseItemDictPlan *own = &plan->own.item_dict;
	int			count;
	int			code;
	uint32		bytes = 0;

	if (!rose_distinct_extend(col->distinct, col, col->nvalues))
		return false;
	count = rose_distinct_count(col->distinct);
	for (code = 0; code < count; code++)
		bytes += entry_bytes(col, code);
	if (bytes > BLCKSZ)
		return false;

	/* unless the page is nearly full leave room for some new values */
	if (!request->tight)
	{
		count = Min(count + count / 8 + 1, ROSE_DISTINCT_MAX);
		/* each value may be a new entry, with padding; no page holds more than a page */
		bytes = Min(bytes + 4 * (uint32) request->headroom, BLCKSZ);
	}
	plan->headroom = request->tight ? 0 : request->headroom;
	own->width = rose_bits_needed(count - 1);
	own->index_width = rose_bits_needed(bytes);
	own->nentries = 0;
	own->entry_bytes = 0;
	own->header = ITEM_DICT_HEADER + ROSE_ITEM_INDEX_HEADER +
		(int) rose_item_alignment(&col->desc) - 1;
	plan->value_bits = own->width + own->index_width + 2 * 8 + (ALIGNOF_INT - 1) * 8;
	return item_dict_extend(col, plan, col->nvalues);
}

/* Lay the entries out at 'raw' (may be NULL, to learn their ends). */
static void
place_entries(const RoseColumnBuffer *col, int count, char *raw, uint32 *ends)
{
	uint32		at = 0;
	int			code;

	for (code = 0; code < count; code++)
	{
		int			i = rose_distinct_first(col->distinct, code);
		uint32		start = rose_item_start(col, i);
		uint32		padding = rose_item_padding(&col->desc, col->items + start);
		const char *value = col->items + start + padding;
		uint32		size = col->ends[i] - start - padding;
		uint32		place = at;

		if (col->desc.kind == ROSE_COLUMN_VARLEN && !VARATT_IS_1B(value))
			place = TYPEALIGN(ALIGNOF_INT, at);
		if (raw != NULL)
		{
			memset(raw + at, 0, place - at);
			memcpy(raw + place, value, size);
		}
		at = place + size;
		ends[code] = at;
	}
}

static char *
item_dict_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	uint32		ends[ROSE_DISTINCT_MAX];
	const uint16 *codes;
	int			count;
	int			width;
	char	   *raw;
	int			i;

	rose_distinct_truncate(col->distinct, col, plan->n);
	codes = rose_distinct_codes(col->distinct);
	count = rose_distinct_count(col->distinct);
	width = rose_bits_needed(count - 1);

	*out++ = (char) width;
	out = rose_varint_write(out, count);
	place_entries(col, count, NULL, ends);
	out = rose_item_index_write(out, col->scratch, ends, count);
	for (i = 0; i < plan->n; i++)
		col->scratch->packed[i] = codes[i];
	rose_bitpack_write(out, width, col->scratch->packed, plan->n);
	out += rose_bitpack_size(plan->n, width);

	raw = page + TYPEALIGN(rose_item_alignment(&col->desc), out - page);
	memset(out, 0, raw - out);
	place_entries(col, count, raw, ends);
	return raw + ends[count - 1];
}

static const char *
item_dict_open(RoseSegment *seg)
{
	const char *p;
	const char *problem = rose_codec_open_dictionary(seg, &p);

	if (problem != NULL)
		return problem;
	problem = rose_item_index_open(&seg->index, seg->nunits, BLCKSZ, p, seg->end, &p);
	if (problem != NULL)
		return problem;
	if ((Size) (seg->end - p) < rose_bitpack_size(seg->n, seg->code_width))
		return "segment is cut off";
	seg->codes = p;
	p += rose_bitpack_size(seg->n, seg->code_width);
	seg->raw = seg->image + TYPEALIGN(rose_item_alignment(seg->desc), p - seg->image);
	seg->entries = NULL;
	if (seg->end - seg->raw < (ptrdiff_t) seg->index.raw_size)
		return "items are cut off";
	return NULL;
}

static const char *
item_dict_get(RoseSegment *seg, int i, uint32 *size)
{
	uint64		code = rose_bitpack_get(seg->codes, seg->code_width, i);
	uint32		start;
	uint32		end;

	if (code >= (uint64) seg->nunits)
		rose_codec_corrupt(seg, "dictionary code is out of range");
	rose_item_index_get(seg, &seg->index, (uint32) code, &start, &end);
	*size = end - start;
	return seg->raw + start;
}

/* Of few values entries are looked up for each. */
static void
decode_few(RoseSegment *seg, int from, int n, Datum *values)
{
	for (int i = 0; i < n; i++)
	{
		uint32		size;
		const char *item = item_dict_get(seg, from + i, &size);
		const char *value = rose_item_value(seg->desc, item, size);

		if (value == NULL)
			rose_codec_corrupt(seg, "item is not a value of its type");
		values[i] = PointerGetDatum(value);
	}
}

/* All entries, which are looked up once a page. */
static const Datum *
entries_of(RoseSegment *seg)
{
	if (seg->entries == NULL)
	{
		Datum	   *entries = MemoryContextAlloc(seg->context, seg->nunits * sizeof(Datum));

		rose_item_index_decode(seg, &seg->index, 0, seg->nunits, entries);
		seg->entries = entries;
	}
	return seg->entries;
}

static void
item_dict_decode(RoseSegment *seg, int from, int n, Datum *values)
{
	uint64		codes[DECODE_CHUNK];
	const uint64 nentries = (uint64) seg->nunits;
	const Datum *entries;

	if (seg->entries == NULL && n < seg->nunits / FEW_PART)
	{
		decode_few(seg, from, n, values);
		return;
	}
	entries = entries_of(seg);
	for (int done = 0; done < n; done += DECODE_CHUNK)
	{
		int			m = Min(n - done, DECODE_CHUNK);
		Datum	   *out = values + done;

		rose_bitpack_read(seg->codes, seg->code_width, from + done, m, codes);
		for (int i = 0; i < m; i++)
		{
			if (unlikely(codes[i] >= nentries))
				rose_codec_corrupt(seg, "dictionary code is out of range");
			out[i] = entries[codes[i]];
		}
	}
}

StaticAssertDecl(ROSE_DISTINCT_MAX <= PG_UINT16_MAX, "a code takes two bytes");

static const Datum *
item_dict_codes(RoseSegment *seg, int from, int n, uint16 *out, int *nentries)
{
	uint64		codes[DECODE_CHUNK];
	const Datum *entries;

	if (n < seg->nunits)
		return NULL;
	entries = entries_of(seg);
	for (int done = 0; done < n; done += DECODE_CHUNK)
	{
		int			m = Min(n - done, DECODE_CHUNK);

		rose_bitpack_read(seg->codes, seg->code_width, from + done, m, codes);
		if (unlikely(!rose_kernel_narrow_codes(codes, m, seg->nunits, out + done)))
			rose_codec_corrupt(seg, "dictionary code is out of range");
	}
	*nentries = seg->nunits;
	return entries;
}

static const char *
item_dict_check(RoseSegment *seg)
{
	int			i;

	for (i = 0; i < seg->n; i++)
	{
		if (rose_bitpack_get(seg->codes, seg->code_width, i) >= (uint64) seg->nunits)
			return "dictionary code is out of range";
	}
	return rose_item_index_check(&seg->index);
}

const RoseCodec rose_codec_item_dict = {
	.id = ROSE_CODEC_ITEM_DICT,
	.name = "item_dict",
	.suits = ROSE_SUITS_ITEMS,
	.plan = item_dict_plan,
	.extend = item_dict_extend,
	.reach = item_dict_reach,
	.pack = item_dict_pack,
	.open = item_dict_open,
	.get_item = item_dict_get,
	.decode_items = item_dict_decode,
	.codes = item_dict_codes,
	.check = item_dict_check,
};
