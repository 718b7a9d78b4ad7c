/*-------------------------------------------------------------------------
 *
 * rose_codec_item_chars.c
 *	  Short texts of few different characters (hexadecimal digits, numbers,
 *	  codes), a few bits a character.
 *
 *		uint8	width		bits of a character, 1 to 6
 *		uint8	nchars		different characters, at most 2^width
 *		nchars bytes
 *		item index (rose_items.h) of the area that follows
 *		for each item, one of
 *			its header of one byte; its characters by their number, in width bits
 *				each, from the low bits of a byte upwards, zero bits at the end
 *			a zero byte; the item as it is, without padding
 *
 * The second form is for what has another header or a character that was not there when
 * the plan was made, so a plan takes every item.  An item is unpacked when it is read,
 * once, into memory of the reader: by itself, or many of them into one piece.
 *
 * Backend-local.  Not for items whose header has four bytes: those are kept as they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "codec/rose_items.h"

#define MAX_WIDTH		6
#define MAX_CHARS		(1 << MAX_WIDTH)
#define MAX_PAYLOAD		(VARATT_SHORT_MAX - VARHDRSZ_SHORT)

/* Items that are unpacked together, and what is no pair of characters. */
#define CHUNK			64
#define BAD_PAIR		(1U << 16)

/* What precedes an item that is there as it is. */
#define AS_IT_IS		'\0'

static inline uint32
packed_size(uint32 nchars, int width)
{
	return (nchars * (uint32) width + 7) / 8;
}

/* ---- building ---- */

/* Item i of the buffer, without padding. */
static inline const char *
item_at(const RoseColumnBuffer *col, int i, uint32 *size)
{
	uint32		start = rose_item_start(col, i);
	uint32		padding = rose_item_padding(&col->desc, col->items + start);

	*size = col->ends[i] - start - padding;
	return col->items + start + padding;
}

static inline bool
is_short(const char *item, uint32 size)
{
	return VARATT_IS_1B(item) && !VARATT_IS_1B_E(item) && VARSIZE_1B(item) == size;
}

static inline bool
has_char(const RosePlan *plan, uint8 c)
{
	return (plan->own.item_chars.chars[c / 64] >> (c % 64)) & 1;
}

static bool
is_packable(const RosePlan *plan, const char *item, uint32 size)
{
	bool		all = true;

	if (!is_short(item, size))
		return false;
	for (uint32 j = VARHDRSZ_SHORT; j < size; j++)
		all &= has_char(plan, (uint8) item[j]);
	return all;
}

static inline uint32
stored_size(const RosePlan *plan, uint32 size, bool packed)
{
	return 1 + (packed ? packed_size(size - VARHDRSZ_SHORT, plan->own.item_chars.char_width) : size);
}

/* Can item i of the buffer be packed?  Nothing but its header need be looked at if all could so far. */
static inline bool
will_pack(const RosePlan *plan, const char *item, uint32 size)
{
	return plan->own.item_chars.nunpacked == 0 ? is_short(item, size) : is_packable(plan, item, size);
}

static bool
item_chars_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseItemCharsPlan *own = &plan->own.item_chars;

	for (int i = plan->n; i < n; i++)
	{
		uint32		size;
		const char *item = item_at(col, i, &size);
		bool		packed = is_packable(plan, item, size);
		uint32		stored = stored_size(plan, size, packed);

		if (stored < (uint32) own->stride)
			return false;
		own->nunpacked += !packed && is_short(item, size);
		own->item_bytes += stored;
	}
	plan->n = n;
	if (own->item_bytes - (uint64) n * (uint64) own->stride > rose_width_mask(own->width))
		return false;
	plan->size = own->header + (int) rose_bitpack_size(n, own->width) +
		(int) own->item_bytes;
	return true;
}

/* Which characters there are; false if too many, or none. */
static bool
collect_chars(const RoseColumnBuffer *col, RosePlan *plan)
{
	RoseItemCharsPlan *own = &plan->own.item_chars;
	bool		seen[256] = {false};

	for (int i = 0; i < col->nvalues; i++)
	{
		uint32		size;
		const char *item = item_at(col, i, &size);

		if (!is_short(item, size))
			continue;
		for (uint32 j = VARHDRSZ_SHORT; j < size; j++)
			seen[(uint8) item[j]] = true;
	}
	own->nchars = 0;
	for (int c = 0; c < 256; c++)
	{
		own->nchars += seen[c];
		if (seen[c])
			own->chars[c / 64] |= UINT64CONST(1) << (c % 64);
	}
	own->char_width = Max(rose_bits_needed((uint64) Max(own->nchars - 1, 0)), 1);
	return own->nchars > 0 && own->nchars <= MAX_CHARS;
}

/* What all items take, which have no characters but the plan's; *least is what the smallest one does. */
static uint32
measure_items(const RoseColumnBuffer *col, const RosePlan *plan, uint32 *least)
{
	uint32		total = 0;

	*least = PG_UINT32_MAX;
	for (int i = 0; i < col->nvalues; i++)
	{
		uint32		size;
		const char *item = item_at(col, i, &size);
		uint32		stored = stored_size(plan, size, is_short(item, size));

		total += stored;
		*least = Min(*least, stored);
	}
	return total;
}

static bool
item_chars_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RoseItemCharsPlan *own = &plan->own.item_chars;
	int			n = col->nvalues;
	uint32		raw_size = n == 0 ? 0 : col->ends[n - 1];
	uint32		least;

	if (n == 0 || raw_size > BLCKSZ * 8 || !collect_chars(col, plan))
		return false;
	own->item_bytes = measure_items(col, plan, &least);
	if (own->item_bytes > BLCKSZ)
		return false;

	/* one byte, which all items have, is always safe to count on */
	plan->spare = request->tight ? 0 : PG_INT32_MAX;
	own->stride = request->tight ? least : 1;
	plan->headroom = request->headroom;
	own->header = 2 + own->nchars + ROSE_ITEM_INDEX_HEADER;
	own->width = rose_bits_needed(own->item_bytes - (uint64) n * (uint64) own->stride +
								  (request->tight ? 0 : (uint64) request->headroom));
	/* the byte before an item that is there as it is, and the index rounded up */
	plan->value_bits = own->width + 8 + 8;
	plan->n = n;
	return item_chars_extend(col, plan, n);
}

static char *
write_packed(char *out, const char *chars, uint32 nchars, const uint8 *numbers, int width)
{
	uint32		bits = 0;
	int			nbits = 0;

	for (uint32 j = 0; j < nchars; j++)
	{
		bits |= (uint32) numbers[(uint8) chars[j]] << nbits;
		nbits += width;
		if (nbits >= 8)
		{
			*out++ = (char) bits;
			bits >>= 8;
			nbits -= 8;
		}
	}
	if (nbits > 0)
		*out++ = (char) bits;
	return out;
}

static char *
item_chars_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	const RoseItemCharsPlan *own = &plan->own.item_chars;
	uint8		numbers[256] = {0};
	int			nchars = 0;
	uint32	   *ends = palloc(Max(plan->n, 1) * sizeof(uint32));
	uint32		end = 0;

	*out++ = (char) own->char_width;
	*out++ = (char) own->nchars;
	for (int c = 0; c < 256; c++)
	{
		if (!has_char(plan, (uint8) c))
			continue;
		numbers[c] = (uint8) nchars++;
		*out++ = (char) c;
	}
	for (int i = 0; i < plan->n; i++)
	{
		uint32		size;
		const char *item = item_at(col, i, &size);

		end += stored_size(plan, size, will_pack(plan, item, size));
		ends[i] = end;
	}
	out = rose_item_index_write(out, col->scratch, ends, plan->n);
	pfree(ends);

	for (int i = 0; i < plan->n; i++)
	{
		uint32		size;
		const char *item = item_at(col, i, &size);

		if (will_pack(plan, item, size))
		{
			*out++ = item[0];
			out = write_packed(out, item + VARHDRSZ_SHORT, size - VARHDRSZ_SHORT, numbers,
							   own->char_width);
		}
		else
		{
			*out++ = AS_IT_IS;
			memcpy(out, item, size);
			out += size;
		}
	}
	return out;
}

/* ---- reading ---- */

static const char *
item_chars_open(RoseSegment *seg)
{
	const char *p = seg->start;
	const char *problem;

	if (seg->end - p < 2)
		return "segment is cut off";
	seg->code_width = (uint8) *p++;
	seg->nunits = (uint8) *p++;
	if (seg->code_width < 1 || seg->code_width > MAX_WIDTH ||
		seg->nunits < 1 || seg->nunits > 1 << seg->code_width)
		return "number of characters is out of range";
	if (seg->end - p < seg->nunits)
		return "segment is cut off";
	seg->codes = p;
	problem = rose_item_index_open(&seg->index, seg->n, BLCKSZ, p + seg->nunits, seg->end,
								   &seg->raw);
	if (problem != NULL)
		return problem;
	if (seg->end - seg->raw < (ptrdiff_t) seg->index.raw_size)
		return "items are cut off";
	seg->unpacked_items = NULL;
	seg->pairs = NULL;
	return NULL;
}

/* Does a packed item of this size lie at p? */
static inline bool
is_packed_item(const RoseSegment *seg, const char *p, uint32 size)
{
	return VARATT_IS_1B(p) && !VARATT_IS_1B_E(p) &&
		size == 1 + packed_size(VARSIZE_1B(p) - VARHDRSZ_SHORT, seg->code_width);
}

/* Characters of the packed item at p; false if there is one that is none. */
static bool
read_packed(const RoseSegment *seg, const char *p, char *chars)
{
	const uint8 *in = (const uint8 *) p + VARHDRSZ_SHORT;
	uint32		nchars = VARSIZE_1B(p) - VARHDRSZ_SHORT;
	uint32		mask = (1U << seg->code_width) - 1;
	const char *table = seg->codes;
	uint32		bits = 0;
	int			nbits = 0;
	bool		good = true;

	if (seg->code_width == 4 && seg->nunits == 16)
	{
		for (uint32 j = 0; j + 1 < nchars; j += 2, in++)
		{
			chars[j] = table[*in & 15];
			chars[j + 1] = table[*in >> 4];
		}
		if (nchars % 2 == 1)
			chars[nchars - 1] = table[*in & 15];
		return true;
	}
	for (uint32 j = 0; j < nchars; j++)
	{
		uint32		number;

		if (nbits < seg->code_width)
		{
			bits |= (uint32) *in++ << nbits;
			nbits += 8;
		}
		number = bits & mask;
		bits >>= seg->code_width;
		nbits -= seg->code_width;
		good &= number < (uint32) seg->nunits;
		chars[j] = table[Min(number, (uint32) seg->nunits - 1)];
	}
	return good;
}

/* Which two characters is a byte, of four bits each?  It pays for many items. */
static void
make_pairs(RoseSegment *seg)
{
	const uint8 *table = (const uint8 *) seg->codes;

	seg->pairs = MemoryContextAlloc(seg->context, 256 * sizeof(uint32));
	for (int byte = 0; byte < 256; byte++)
	{
		int			low = byte & 15;
		int			high = byte >> 4;

		seg->pairs[byte] = low < seg->nunits && high < seg->nunits ?
			table[low] | (uint32) table[high] << 8 : BAD_PAIR;
	}
}

/* read_packed, with pairs. */
static bool
read_pairs(const RoseSegment *seg, const char *p, char *chars)
{
	const uint8 *in = (const uint8 *) p + VARHDRSZ_SHORT;
	uint32		nchars = VARSIZE_1B(p) - VARHDRSZ_SHORT;
	uint32		all = 0;

	for (uint32 j = 0; j + 1 < nchars; j += 2)
	{
		uint32		pair = seg->pairs[*in++];

		chars[j] = (char) pair;
		chars[j + 1] = (char) (pair >> 8);
		all |= pair;
	}
	if (nchars % 2 == 1)
	{
		uint32		number = *in & 15;

		if (number >= (uint32) seg->nunits)
			return false;
		chars[nchars - 1] = seg->codes[number];
	}
	return (all & BAD_PAIR) == 0;
}

/* Bytes of the item in these ones, unpacked. */
static uint32
unpacked_size(const RoseSegment *seg, const char *p, uint32 size)
{
	if (*p == AS_IT_IS && size > 1)
		return size - 1;
	if (!is_packed_item(seg, p, size))
		rose_codec_corrupt(seg, "item is not a value of its type");
	return VARSIZE_1B(p);
}

/* into has room for it, aligned as items are. */
static void
unpack_item(const RoseSegment *seg, const char *p, uint32 size, char *into)
{
	bool		good;

	if (*p == AS_IT_IS && size > 1)
	{
		memcpy(into, p + 1, size - 1);
		return;
	}
	into[0] = p[0];
	good = seg->pairs != NULL ? read_pairs(seg, p, into + VARHDRSZ_SHORT) :
		read_packed(seg, p, into + VARHDRSZ_SHORT);
	if (!good)
		rose_codec_corrupt(seg, "character is out of range");
}

static void
make_unpacked_items(RoseSegment *seg)
{
	if (seg->unpacked_items == NULL)
		seg->unpacked_items = MemoryContextAllocZero(seg->context, seg->n * sizeof(char *));
}

static const char *
item_chars_get(RoseSegment *seg, int i, uint32 *size)
{
	uint32		start;
	uint32		end;
	const char *p;

	rose_item_index_get(seg, &seg->index, (uint32) i, &start, &end);
	p = seg->raw + start;
	*size = unpacked_size(seg, p, end - start);
	make_unpacked_items(seg);
	if (seg->unpacked_items[i] == NULL)
	{
		char	   *item = MemoryContextAlloc(seg->context, *size);

		unpack_item(seg, p, end - start, item);
		seg->unpacked_items[i] = item;
	}
	return seg->unpacked_items[i];
}

/* Unpack what is not yet unpacked of a chunk's items. */
static void
unpack_chunk(RoseSegment *seg, char **items, const uint32 *starts, int n)
{
	uint32		sizes[CHUNK];
	Size		total = 0;
	char	   *into;

	for (int i = 0; i < n; i++)
	{
		sizes[i] = items[i] != NULL ? 0 :
			INTALIGN(unpacked_size(seg, seg->raw + starts[i], starts[i + 1] - starts[i]));
		total += sizes[i];
	}
	if (total == 0)
		return;
	into = MemoryContextAlloc(seg->context, total);
	for (int i = 0; i < n; i++)
	{
		if (items[i] != NULL)
			continue;
		unpack_item(seg, seg->raw + starts[i], starts[i + 1] - starts[i], into);
		items[i] = into;
		into += sizes[i];
	}
}

static void
item_chars_decode(RoseSegment *seg, int from, int n, Datum *values)
{
	uint32		starts[CHUNK + 1];

	make_unpacked_items(seg);
	if (seg->code_width == 4 && seg->pairs == NULL && n >= CHUNK)
		make_pairs(seg);
	for (int done = 0; done < n; done += CHUNK)
	{
		int			m = Min(n - done, CHUNK);
		char	  **items = seg->unpacked_items + from + done;

		rose_item_index_get_many(seg, &seg->index, from + done, m, starts);
		unpack_chunk(seg, items, starts, m);
		for (int i = 0; i < m; i++)
		{
			/* what was packed is one for sure */
			if (seg->raw[starts[i]] == AS_IT_IS &&
				rose_item_value(seg->desc, items[i], starts[i + 1] - starts[i] - 1) != items[i])
				rose_codec_corrupt(seg, "item is not a value of its type");
			values[done + i] = PointerGetDatum(items[i]);
		}
	}
}

static const char *
item_chars_check(RoseSegment *seg)
{
	const char *problem = rose_item_index_check(&seg->index);

	for (uint32 i = 0; i < seg->index.nitems && problem == NULL; i++)
	{
		char		chars[MAX_PAYLOAD];
		uint32		start;
		uint32		end;

		rose_item_index_get(seg, &seg->index, i, &start, &end);
		if (seg->raw[start] == AS_IT_IS && end - start > 1)
			continue;
		if (!is_packed_item(seg, seg->raw + start, end - start))
			problem = "item is not a value of its type";
		else if (!read_packed(seg, seg->raw + start, chars))
			problem = "character is out of range";
	}
	return problem;
}

const RoseCodec rose_codec_item_chars = {
	.id = ROSE_CODEC_ITEM_CHARS,
	.name = "item_chars",
	.suits = ROSE_SUITS_VARLENAS,
	.handicap = 4,
	.plan = item_chars_plan,
	.extend = item_chars_extend,
	.pack = item_chars_pack,
	.open = item_chars_open,
	.get_item = item_chars_get,
	.decode_items = item_chars_decode,
	.check = item_chars_check,
};
