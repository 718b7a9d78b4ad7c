/*-------------------------------------------------------------------------
 *
 * rose_anchors.c
 *	  Anchors among packed differences.  See rose_anchors.h.
 *
 * Pure functions on arrays of words; no locks.  What the values between two anchors are
 * is rose_codec_delta.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_bitpack.h"
#include "util/rose_varint.h"
#include "codec/rose_anchors.h"
#include "codec/rose_divisor.h"

void
rose_anchors_restart(RoseAnchors *anchors)
{
	anchors->low = PG_INT64_MAX;
	anchors->high = PG_INT64_MIN;
	anchors->step = 0;
}

static int
count(const RoseAnchors *anchors, int n)
{
	return (n + anchors->interval - 1) / anchors->interval;
}

/* The step as it is written, a signed number. */
static int64
written_step(const RoseAnchors *anchors)
{
	return anchors->step == 0 || anchors->step > (uint64) PG_INT64_MAX ? 1 :
		(int64) anchors->step;
}

static int
find_width(const RoseAnchors *anchors)
{
	uint64		span = (uint64) anchors->high - (uint64) anchors->low;
	int64		step = written_step(anchors);

	if (anchors->low > anchors->high)
		return 0;
	/* a division takes long */
	return rose_bits_needed(step == 1 ? span : span / (uint64) step);
}

void
rose_anchors_follow(RoseAnchors *anchors, const int64 *words, int from, int n)
{
	int			i = from + rose_anchors_before_next(anchors, from);

	for (; i < n; i += anchors->interval)
	{
		int64		first = words[0];
		int64		word = words[i];

		if (word != first && anchors->step != 1)
			anchors->step = rose_greatest_common_divisor(word < first ?
														 (uint64) first - (uint64) word :
														 (uint64) word - (uint64) first,
														 anchors->step);
		anchors->low = Min(anchors->low, word);
		anchors->high = Max(anchors->high, word);
	}
}

int
rose_anchors_size(const RoseAnchors *anchors, int n)
{
	return 1 + rose_varint_size(rose_zigzag_encode(anchors->low)) +
		rose_varint_size((uint64) written_step(anchors)) +
		(int) rose_bitpack_size(count(anchors, n), find_width(anchors));
}

int
rose_anchors_look_ahead(const RoseAnchors *anchors, RoseAnchorsAhead *ahead, const int64 *words,
						int from, int n)
{
	int			before = rose_anchors_size(anchors, from);
	int			i;

	/* begin anew if values were followed or taken back since */
	if (ahead->values <= from || ahead->values > n)
	{
		ahead->anchors = *anchors;
		ahead->values = from;
		ahead->growth = 0;
	}
	i = ahead->values + rose_anchors_before_next(anchors, ahead->values);
	for (; i < n; i += anchors->interval)
	{
		rose_anchors_follow(&ahead->anchors, words, i, i + 1);
		ahead->growth = Max(ahead->growth, rose_anchors_size(&ahead->anchors, i + 1) - before);
	}
	ahead->values = n;
	return ahead->growth;
}

char *
rose_anchors_write(const RoseAnchors *anchors, const int64 *words, int n, char *out)
{
	uint64		block[64];
	RoseDivisor divisor;
	int			width = find_width(anchors);
	int			nanchors = count(anchors, n);
	int			from;
	int			k;

	rose_divisor_init(&divisor, written_step(anchors));
	*out++ = (char) width;
	out = rose_varint_write(out, rose_zigzag_encode(anchors->low));
	out = rose_varint_write(out, (uint64) written_step(anchors));
	/* a full block makes whole bytes in any width */
	for (from = 0; from < nanchors; from += lengthof(block))
	{
		int			size = Min(lengthof(block), nanchors - from);

		for (k = 0; k < size; k++)
			block[k] = rose_divide(&divisor, (uint64) words[(from + k) * anchors->interval] -
								   (uint64) anchors->low);
		rose_bitpack_write(out, width, block, size);
		out += rose_bitpack_size(size, width);
	}
	return out;
}
