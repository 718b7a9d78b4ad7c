/*-------------------------------------------------------------------------
 *
 * rose_codec.c
 *	  The table of codecs by id, and what several codecs need for reading.
 *
 * Which codec a column gets is decided in rose_codec_choose.c; what a codec does, in the
 * file named after it; what is built is collected in rose_column_buffer.c.
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
