/*-------------------------------------------------------------------------
 *
 * rose_codec_item_prefix.c
 *	  Variable-length items by what they share with their predecessor.
 *
 * For sorted text: keys, paths, names.  Items are in blocks of
 * RESTART_INTERVAL.  The first of a block is stored as it is, so that a search
 * over the blocks reads in place; unpacking a block gives the others.
 *
 *		uint8	shared_width
 *		uint8	rest_width
 *		bits	n numbers of shared_width bits: bytes shared with the item before
 *		bits	n numbers of rest_width bits: bytes that follow; if all bits are set, a
 *				varint in front of the bytes has their number
 *		uint16	start[blocks]	of each block in the bytes
 *		bytes	of the items
 *
 * Bytes are those of the value without its header.  A block begins with a value whose
 * header is of 1 byte, in place, or with a zero byte, a varint for the number of bytes,
 * and the bytes of a longer one.
 *
 * To share less than one could is always possible, so neither width can be outgrown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_varint.h"
#include "codec/rose_items.h"

#define RESTART_INTERVAL	16

/* So many items of a block that are wanted have it unpacked. */
#define ITEMS_TO_UNPACK		4

/* More than this is not tried: to compare neighbours takes time. */
#define MAX_RAW_SIZE		(512 * 1024)

/* Most bytes of a varint for the number of bytes in an item. */
#define MAX_LENGTH_SIZE		2

StaticAssertDecl(ROSE_ITEM_MAX_SIZE < (1 << 14), "a length takes two bytes at most");

#define MAX_SHARED_WIDTH	11
#define MAX_REST_WIDTH		12

/* An unpacked block, in memory of the reader. */
struct RosePrefixBlock
{
	const char *items[RESTART_INTERVAL];
	uint32		sizes[RESTART_INTERVAL];
};

static inline int
block_count(int n)
{
	return (n + RESTART_INTERVAL - 1) / RESTART_INTERVAL;
}


/* ---- Building ---- */

/* Bytes of item i of the buffer, without its header. */
static inline const char *
item_bytes(const RoseColumnBuffer *col, int i, int *length)
{
	const char *item = col->items + rose_item_start(col, i);

	item += rose_item_padding(&col->desc, item);
	*length = (int) VARSIZE_ANY_EXHDR(item);
	return VARDATA_ANY(item);
}

/* Is the item stored with its header of 1 byte where it begins a block? */
static inline bool
is_short(const RoseColumnDesc *desc, int length)
{
	return !desc->long_headers && length + VARHDRSZ_SHORT <= VARATT_SHORT_MAX;
}

static inline int
common_prefix(const char *a, const char *b, int limit)
{
	int			k = 0;

	while (k + 8 <= limit && memcmp(a + k, b + k, 8) == 0)
		k += 8;
	while (k < limit && a[k] == b[k])
		k++;
	return k;
}

/* What item i shares with the one before, and the bytes that it takes. */
static inline int
measure_item(const RoseColumnBuffer *col, const RosePlan *plan, int i, int *shared)
{
	const RoseItemPrefixPlan *own = &plan->own.item_prefix;
	int			length;
	int			before;
	const char *bytes = item_bytes(col, i, &length);
	int			rest;

	*shared = 0;
	if (i % RESTART_INTERVAL == 0)
		return length + (is_short(&col->desc, length) ? VARHDRSZ_SHORT :
						 1 + rose_varint_size(length));
	if (own->shared_width > 0)
	{
		const char *last = item_bytes(col, i - 1, &before);
		int			limit = Min(Min(length, before), (int) rose_width_mask(own->shared_width));

		*shared = common_prefix(last, bytes, limit);
	}
	rest = length - *shared;
	return rest + (rest >= (int) rose_width_mask(own->rest_width) ? rose_varint_size(rest) : 0);
}

static bool
prefix_extend(RoseColumnBuffer *col, RosePlan *plan, int n)
{
	RoseItemPrefixPlan *own = &plan->own.item_prefix;
	int			shared;
	int			i;

	for (i = plan->n; i < n; i++)
		own->item_bytes += measure_item(col, plan, i, &shared);
	plan->n = n;
	plan->size = 2 + (int) rose_bitpack_size(n, own->shared_width) +
		(int) rose_bitpack_size(n, own->rest_width) + 2 * block_count(n) + (int) own->item_bytes;
	return true;
}

/* Follow all values from the first one, under the widths that are set. */
static bool
prefix_start(RoseColumnBuffer *col, RosePlan *plan)
{
	RoseItemPrefixPlan *own = &plan->own.item_prefix;

	plan->n = 0;
	own->item_bytes = 0;
	plan->spare = PG_INT32_MAX;
	plan->headroom = PG_INT32_MAX;
	/* start of a block, zero byte, varint, two streams rounded up */
	plan->value_bits = own->shared_width + own->rest_width + 16 + 8 + MAX_LENGTH_SIZE * 8 + 2 * 8;
	return prefix_extend(col, plan, col->nvalues);
}

/*
 * The width for which the numbers of bytes take least.  count[w]: how many fit w bits,
 * but no fewer, and are not its largest number.
 */
static int
choose_rest_width(const int *count, int n)
{
	int			best = 1;
	int			best_size = PG_INT32_MAX;
	int			nwider = n;
	int			width;

	for (width = 1; width <= MAX_REST_WIDTH; width++)
	{
		int			size;

		nwider -= count[width];
		size = n * width + nwider * MAX_LENGTH_SIZE * 8;
		if (size < best_size)
		{
			best_size = size;
			best = width;
		}
	}
	return best;
}

static bool
prefix_plan(RoseColumnBuffer *col, const RosePlanRequest *request, RosePlan *plan)
{
	RoseItemPrefixPlan *own = &plan->own.item_prefix;
	int			count[MAX_REST_WIDTH + 1] = {0};
	int			most = 0;
	int			i;

	if (col->desc.kind != ROSE_COLUMN_VARLEN || col->nvalues < 4 ||
		col->ends[col->nvalues - 1] > MAX_RAW_SIZE)
		return false;
	own->shared_width = MAX_SHARED_WIDTH;
	for (i = 1; i < col->nvalues; i++)
	{
		int			length;
		int			shared;

		(void) measure_item(col, plan, i, &shared);
		(void) item_bytes(col, i, &length);
		most = Max(most, shared);
		count[Max(1, Min(MAX_REST_WIDTH, rose_bits_needed((uint64) (length - shared) + 1)))]++;
	}
	if (most < 2)
		return false;
	own->shared_width = rose_bits_needed(most);
	own->rest_width = choose_rest_width(count, col->nvalues);
	return prefix_start(col, plan);
}

static bool
prefix_follow(RoseColumnBuffer *col, const RosePlan *learned, RosePlan *plan)
{
	plan->own.item_prefix.shared_width = learned->own.item_prefix.shared_width;
	plan->own.item_prefix.rest_width = learned->own.item_prefix.rest_width;
	return prefix_start(col, plan);
}

static char *
write_restart(const RoseColumnBuffer *col, int i, char *out)
{
	int			length;
	const char *bytes = item_bytes(col, i, &length);

	if (is_short(&col->desc, length))
	{
		SET_VARSIZE_SHORT(out, length + VARHDRSZ_SHORT);
		out += VARHDRSZ_SHORT;
	}
	else
	{
		*out++ = 0;
		out = rose_varint_write(out, length);
	}
	memcpy(out, bytes, length);
	return out + length;
}

static char *
prefix_pack(RoseColumnBuffer *col, const RosePlan *plan, char *page, char *out)
{
	const RoseItemPrefixPlan *own = &plan->own.item_prefix;
	uint64	   *shared_numbers = col->scratch->packed;
	uint64	   *rest_numbers = col->scratch->positions;
	uint64		escape = rose_width_mask(own->rest_width);
	char	   *start;
	char	   *data;
	char	   *p;
	int			i;

	*out++ = (char) own->shared_width;
	*out++ = (char) own->rest_width;
	start = out + rose_bitpack_size(plan->n, own->shared_width) +
		rose_bitpack_size(plan->n, own->rest_width);
	p = data = start + 2 * block_count(plan->n);
	for (i = 0; i < plan->n; i++)
	{
		int			length;
		int			shared;
		const char *bytes = item_bytes(col, i, &length);

		shared_numbers[i] = rest_numbers[i] = 0;
		if (i % RESTART_INTERVAL == 0)
		{
			start = rose_word_store(start, p - data, 2);
			p = write_restart(col, i, p);
			continue;
		}
		(void) measure_item(col, plan, i, &shared);
		length -= shared;
		shared_numbers[i] = (uint64) shared;
		rest_numbers[i] = Min((uint64) length, escape);
		if (rest_numbers[i] == escape)
			p = rose_varint_write(p, length);
		memcpy(p, bytes + shared, length);
		p += length;
	}
	rose_bitpack_write(out, own->shared_width, shared_numbers, plan->n);
	out += rose_bitpack_size(plan->n, own->shared_width);
	rose_bitpack_write(out, own->rest_width, rest_numbers, plan->n);
	return p;
}


/* ---- Reading ---- */

static const char *
prefix_open(RoseSegment *seg)
{
	const char *p = seg->start;

	if (seg->desc->kind != ROSE_COLUMN_VARLEN)
		return "codec does not suit the column";
	if (seg->end - p < 2)
		return "segment is cut off";
	seg->code_width = (uint8) *p++;
	seg->packed.width = (uint8) *p++;
	if (seg->code_width > MAX_SHARED_WIDTH || seg->packed.width < 1 ||
		seg->packed.width > MAX_REST_WIDTH)
		return "bit width is out of range";
	seg->nunits = block_count(seg->n);
	seg->codes = p;
	seg->packed.bits = p + rose_bitpack_size(seg->n, seg->code_width);
	seg->block_table = seg->packed.bits + rose_bitpack_size(seg->n, seg->packed.width);
	seg->raw = seg->block_table + 2 * seg->nunits;
	if (seg->raw > seg->end)
		return "segment is cut off";
	seg->prefix_blocks = NULL;
	seg->near = -1;
	return NULL;
}

/* Where block k begins, or NULL. */
static inline const char *
block_start(const RoseSegment *seg, int k)
{
	uint16		start;

	memcpy(&start, seg->block_table + 2 * k, 2);
	return start < seg->end - seg->raw ? seg->raw + start : NULL;
}

/* The header of an item of so many bytes; returns where these are to be. */
static inline char *
start_item(const RoseSegment *seg, char *at, int length)
{
	if (is_short(seg->desc, length))
	{
		SET_VARSIZE_SHORT(at, length + VARHDRSZ_SHORT);
		return at + VARHDRSZ_SHORT;
	}
	SET_VARSIZE(at, length + VARHDRSZ);
	return at + VARHDRSZ;
}

/* Bytes by the word: there are as many behind both, of which nothing is known. */
static inline void
copy_words(char *to, const char *from, int n)
{
	for (int i = 0; i < n; i += (int) sizeof(uint64))
		memcpy(to + i, from + i, sizeof(uint64));
}

/*
 * Make an item of these bytes, of which 'shared' come from 'last'.  What is behind it, a word at most, is overwritten.  Pages end with as many bytes
 * that may be read.
 */
static char *
make_item(const RoseSegment *seg, char *at, const char *last, int shared, const char *rest,
		  int nrest, uint32 *size)
{
	int			length = shared + nrest;
	char	   *bytes = start_item(seg, at, length);

	copy_words(bytes, last, shared);
	copy_words(bytes + shared, rest, nrest);
	*size = (uint32) (bytes + length - at);
	return at;
}

/* One item of a block that is being unpacked. */
typedef struct PrefixEntry
{
	int			shared;
	int			nrest;
	const char *rest;
} PrefixEntry;

/* Parse the first items of a block, most at most; returns how many there are, or -1 if it is damaged. */
static int
parse_block(const RoseSegment *seg, int k, int most, PrefixEntry *entries, Size *total)
{
	const char *p = block_start(seg, k);
	int			first = k * RESTART_INTERVAL;
	int			nitems = Min(most, seg->n - first);
	uint64		escape = rose_width_mask(seg->packed.width);
	uint64		shares[RESTART_INTERVAL];
	uint64		rests[RESTART_INTERVAL];
	uint64		length = 0;
	int			j;

	*total = 0;
	if (p == NULL)
		return -1;
	rose_bitpack_read(seg->codes, seg->code_width, first, nitems, shares);
	rose_bitpack_read(seg->packed.bits, seg->packed.width, first, nitems, rests);
	for (j = 0; j < nitems; j++)
	{
		uint64		shared = 0;
		uint64		nrest;

		if (j > 0)
		{
			shared = shares[j];
			nrest = rests[j];
			if (nrest == escape && (p = rose_varint_read(p, seg->end, &nrest)) == NULL)
				return -1;
		}
		else if (*p == 0)
		{
			if ((p = rose_varint_read(p + 1, seg->end, &nrest)) == NULL)
				return -1;
		}
		else
		{
			if (!VARATT_IS_1B(p) || VARATT_IS_1B_E(p))
				return -1;
			nrest = VARSIZE_1B(p) - VARHDRSZ_SHORT;
			p += VARHDRSZ_SHORT;
		}
		if (shared > length || nrest > (uint64) (seg->end - p))
			return -1;
		length = shared + nrest;
		if (length > ROSE_ITEM_MAX_SIZE)
			return -1;
		entries[j].shared = (int) shared;
		entries[j].nrest = (int) nrest;
		entries[j].rest = p;
		p += nrest;
		*total += INTALIGN(VARHDRSZ + length);
	}
	return nitems;
}

/* Of a block one item was made alone; for the next one it is unpacked, or they would be many. */
static RosePrefixBlock asked_once;

static inline void
make_block_table(RoseSegment *seg)
{
	if (seg->prefix_blocks == NULL)
		seg->prefix_blocks = MemoryContextAllocZero(seg->context,
													seg->nunits * sizeof(RosePrefixBlock *));
}

/* Unpack block k, once.  NULL if it is damaged. */
static const RosePrefixBlock *
unpack_block(RoseSegment *seg, int k)
{
	PrefixEntry entries[RESTART_INTERVAL];
	RosePrefixBlock *block;
	const char *last = "";
	char	   *memory;
	Size		total;
	int			nitems;
	int			j;

	make_block_table(seg);
	if (seg->prefix_blocks[k] != NULL && seg->prefix_blocks[k] != &asked_once)
		return seg->prefix_blocks[k];
	nitems = parse_block(seg, k, RESTART_INTERVAL, entries, &total);
	if (nitems < 0)
		return NULL;

	memory = MemoryContextAlloc(seg->context, MAXALIGN(sizeof(RosePrefixBlock)) + total + sizeof(uint64));
	block = (RosePrefixBlock *) memory;
	memory += MAXALIGN(sizeof(RosePrefixBlock));
	for (j = 0; j < nitems; j++)
	{
		block->items[j] = make_item(seg, memory, last, entries[j].shared, entries[j].rest,
									entries[j].nrest, &block->sizes[j]);
		last = VARDATA_ANY(memory);
		memory += INTALIGN(block->sizes[j]);
	}
	seg->prefix_blocks[k] = block;
	return block;
}

/*
 * Make item j of block k alone: what it shares comes from the items before, as far as each of them does
 * not share it in turn.  NULL if the block is damaged.
 */
static const char *
unpack_item(RoseSegment *seg, int k, int j, uint32 *size)
{
	PrefixEntry entries[RESTART_INTERVAL];
	Size		total;
	int			shared;
	char	   *item;
	char	   *bytes;

	if (parse_block(seg, k, j + 1, entries, &total) != j + 1)
		return NULL;
	shared = entries[j].shared;
	item = MemoryContextAlloc(seg->context, VARHDRSZ + shared + entries[j].nrest);
	bytes = start_item(seg, item, shared + entries[j].nrest);
	memcpy(bytes + shared, entries[j].rest, entries[j].nrest);
	for (int from = j - 1; shared > 0; from--)
	{
		const PrefixEntry *entry = &entries[from];

		if (entry->shared >= shared)
			continue;
		memcpy(bytes + entry->shared, entry->rest, shared - entry->shared);
		shared = entry->shared;
	}
	*size = (uint32) (bytes + entries[j].shared + entries[j].nrest - item);
	return item;
}

/*
 * Is item i of block k asked for by itself, as far as that is known: neither behind the last one, nor in its
 * block, nor in one of which another was?
 */
static bool
is_single(RoseSegment *seg, int i, int k)
{
	if (seg->near >= 0 && (i == seg->near + 1 || k == seg->near / RESTART_INTERVAL))
		return false;
	make_block_table(seg);
	if (seg->prefix_blocks[k] != NULL)
		return false;
	seg->prefix_blocks[k] = &asked_once;
	return true;
}

static const char *
prefix_get(RoseSegment *seg, int i, uint32 *size)
{
	int			k = i / RESTART_INTERVAL;
	const RosePrefixBlock *block;
	bool		single;

	if (i % RESTART_INTERVAL == 0)
	{
		const char *p = block_start(seg, k);

		/* in place */
		if (p != NULL && *p != 0 && !seg->desc->long_headers)
		{
			seg->near = i;
			*size = (uint32) (seg->end - p);
			return p;
		}
	}
	single = is_single(seg, i, k);
	seg->near = i;
	if (single)
	{
		const char *item = unpack_item(seg, k, i % RESTART_INTERVAL, size);

		if (item == NULL)
			rose_codec_corrupt(seg, "block of items is damaged");
		return item;
	}
	block = unpack_block(seg, k);
	if (block == NULL)
		rose_codec_corrupt(seg, "block of items is damaged");
	*size = block->sizes[i % RESTART_INTERVAL];
	return block->items[i % RESTART_INTERVAL];
}

/* Of a block of which few items are wanted they are asked for one by one. */
static void
decode_few(RoseSegment *seg, int from, int n, Datum *values)
{
	for (int i = 0; i < n; i++)
	{
		uint32		size;
		const char *item = prefix_get(seg, from + i, &size);
		const char *value = rose_item_value(seg->desc, item, size);

		if (value == NULL)
			rose_codec_corrupt(seg, "item is not a value of its type");
		values[i] = PointerGetDatum(value);
	}
}

static void
prefix_decode(RoseSegment *seg, int from, int n, Datum *values)
{
	for (int i = from; i < from + n;)
	{
		int			k = i / RESTART_INTERVAL;
		int			here = Min((k + 1) * RESTART_INTERVAL, from + n) - i;

		if (here < ITEMS_TO_UNPACK)
			decode_few(seg, i, here, values + (i - from));
		else
		{
			const RosePrefixBlock *block = unpack_block(seg, k);

			if (block == NULL)
				rose_codec_corrupt(seg, "block of items is damaged");
			for (int j = 0; j < here; j++)
				values[i - from + j] = PointerGetDatum(block->items[i % RESTART_INTERVAL + j]);
			seg->near = i + here - 1;
		}
		i += here;
	}
}

static const char *
prefix_check(RoseSegment *seg)
{
	int			k;

	for (k = 0; k < seg->nunits; k++)
	{
		if (unpack_block(seg, k) == NULL)
			return "block of items is damaged";
	}
	return NULL;
}

const RoseCodec rose_codec_item_prefix = {
	.id = ROSE_CODEC_ITEM_PREFIX,
	.name = "item_prefix",
	.suits = ROSE_SUITS_VARLENAS,
	.handicap = 1,
	.restart = RESTART_INTERVAL,
	.plan = prefix_plan,
	.extend = prefix_extend,
	.follow = prefix_follow,
	.pack = prefix_pack,
	.open = prefix_open,
	.get_item = prefix_get,
	.decode_items = prefix_decode,
	.check = prefix_check,
};
