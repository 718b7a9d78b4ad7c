/*-------------------------------------------------------------------------
 *
 * rose_codec.c
 *	  The table of codecs by id, the buffer of a column that is built, and what
 *	  several codecs need.
 *
 * Which codec a column gets is decided in rose_codec_choose.c; what a codec does, in the
 * file named after it.
 *
 * No locks; everything is private to a backend.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_varint.h"
#include "codec/rose_blocks.h"
#include "codec/rose_distinct.h"
#include "codec/rose_kernels.h"

/* By id.  Frozen: an id is never given to another codec. */
static const RoseCodec *const codecs[ROSE_NUM_CODECS] = {
	[ROSE_CODEC_CONSTANT] = &rose_codec_constant,
	[ROSE_CODEC_PLAIN] = &rose_codec_plain,
	[ROSE_CODEC_FRAME] = &rose_codec_frame,
	[ROSE_CODEC_LINEAR] = &rose_codec_linear,
	[ROSE_CODEC_DELTA] = &rose_codec_delta,
	[ROSE_CODEC_RLE] = &rose_codec_rle,
	[ROSE_CODEC_DICT] = &rose_codec_dict,
	[ROSE_CODEC_DECIMAL] = &rose_codec_decimal,
	[ROSE_CODEC_ITEM_PLAIN] = &rose_codec_item_plain,
	[ROSE_CODEC_ITEM_DICT] = &rose_codec_item_dict,
	[ROSE_CODEC_ITEM_LZ4] = &rose_codec_item_lz4,
	[ROSE_CODEC_ITEM_PREFIX] = &rose_codec_item_prefix,
	[ROSE_CODEC_ITEM_CHARS] = &rose_codec_item_chars,
};

RoseColumnDesc
rose_column_desc(int16 attlen, bool attbyval, char attalign, bool is_float)
{
	RoseColumnDesc desc;

	desc.attlen = attlen;
	desc.attbyval = attbyval;
	desc.attalign = attalign;
	desc.long_headers = false;
	if (attbyval)
		desc.kind = is_float ? ROSE_COLUMN_FLOAT : ROSE_COLUMN_INT;
	else if (attlen == -1)
		desc.kind = ROSE_COLUMN_VARLEN;
	else if (attlen == -2)
		desc.kind = ROSE_COLUMN_CSTRING;
	else
		desc.kind = ROSE_COLUMN_FIXED;
	return desc;
}

const RoseCodec *
rose_codec_lookup(int id)
{
	return id > 0 && id < ROSE_NUM_CODECS ? codecs[id] : NULL;
}

bool
rose_codec_suits(const RoseCodec *codec, const RoseColumnDesc *desc)
{
	return (codec->suits & (1 << desc->kind)) != 0;
}

void
rose_column_buffer_restore(RoseColumnBuffer *col, int nvalues, const RosePlan *plan)
{
	uint32		raw_size;

	Assert(plan->n <= nvalues && nvalues <= col->nvalues);
	col->nvalues = nvalues;
	col->plan = *plan;
	rose_distinct_truncate(col->distinct, col, nvalues);
	if (col->is_words)
		return;
	raw_size = nvalues == 0 ? 0 : col->ends[nvalues - 1];
	rose_blocks_truncate(col->blocks, raw_size, plan->codec->closed_blocks != NULL ?
						 plan->codec->closed_blocks(plan) : PG_INT32_MAX);
}

void
rose_column_buffer_reset(RoseColumnBuffer *col)
{
	col->nvalues = 0;
	rose_distinct_reset(col->distinct);
	if (!col->is_words)
		rose_blocks_reset(col->blocks);
	rose_codec_plan_empty(col, &col->plan);
}

void
rose_column_buffer_init(RoseColumnBuffer *col, const RoseColumnDesc *desc,
						RosePackScratch *scratch, MemoryContext context)
{
	memset(col, 0, sizeof(*col));
	col->desc = *desc;
	col->is_words = desc->attbyval;
	col->scratch = scratch;
	col->context = context;
	col->distinct = rose_distinct_create(context);
	if (!col->is_words)
		col->blocks = rose_blocks_create(context);
	rose_column_buffer_reset(col);
}

char *
rose_words_store(char *out, const int64 *words, int n, int size)
{
	int			i;

	switch (size)
	{
		case 1:
			for (i = 0; i < n; i++)
				rose_word_store(out + i, words[i], 1);
			break;
		case 2:
			for (i = 0; i < n; i++)
				rose_word_store(out + 2 * i, words[i], 2);
			break;
		case 4:
			for (i = 0; i < n; i++)
				rose_word_store(out + 4 * i, words[i], 4);
			break;
		default:
			memcpy(out, words, n * sizeof(int64));
			break;
	}
	return out + (Size) n * size;
}

void
rose_words_load(int64 *words, const char *p, int n, int size)
{
	int			i;

	switch (size)
	{
		case 1:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + i, 1);
			break;
		case 2:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + 2 * i, 2);
			break;
		case 4:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + 4 * i, 4);
			break;
		default:
			memcpy(words, p, n * sizeof(int64));
			break;
	}
}

int
rose_codec_lower_bound(const RoseSegment *seg, int lo, int hi, int64 value)
{
	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (seg->codec->get(seg, mid) < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

void
rose_codec_corrupt(const RoseSegment *seg, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("corrupt rose page: %s", problem),
			 errdetail("A column encoded with codec \"%s\" cannot be read.",
					   seg->codec != NULL ? seg->codec->name : "none")));
}

const char *
rose_codec_open_dictionary(RoseSegment *seg, const char **after)
{
	const char *p = seg->start;
	uint64		count;

	if (seg->end - p < 2)
		return "segment is cut off";
	seg->code_width = (uint8) *p++;
	if (seg->code_width > 16)
		return "bit width is out of range";
	if ((p = rose_varint_read(p, seg->end, &count)) == NULL)
		return "segment is cut off";
	if (count < 1 || count > ROSE_DISTINCT_MAX)
		return "number of dictionary entries is out of range";
	seg->nunits = (int) count;
	*after = p;
	return NULL;
}
