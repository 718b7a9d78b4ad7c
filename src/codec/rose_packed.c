/*-------------------------------------------------------------------------
 *
 * rose_packed.c
 *	  The segment that several codecs share.  The layout is in rose_packed.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_packed.h"
#include "util/rose_varint.h"

uint64
rose_packed_gcd(uint64 a, uint64 b)
{
	while (b != 0)
	{
		uint64		rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

void
rose_divisor_init(RoseDivisor *divisor, int64 step)
{
	uint64		odd = (uint64) step;
	uint64		inverse;
	int			k;

	Assert(step >= 1);
	divisor->shift = pg_rightmost_one_pos64(odd);
	divisor->limit = PG_UINT64_MAX / odd;
	odd >>= divisor->shift;
	/* right in the low 3 bits; each round of Newton's method doubles that */
	inverse = odd;
	for (k = 0; k < 5; k++)
		inverse *= 2 - odd * inverse;
	divisor->inverse = inverse;
}

void
rose_packed_choose_width(RosePlan *plan, const RoseWidthHistogram *histogram,
						 int nbad, int word_size)
{
	int			nwider = 0;
	int			best_size = PG_INT32_MAX;
	int			width;

	for (width = 64; width >= 0; width--)
	{
		int			npatches = nbad + nwider;
		int			size = (int) rose_bitpack_size(plan->n, width) +
			rose_patches_size(npatches, word_size);

		/* on a tie take the wider: fewer patches read faster */
		if (size < best_size)
		{
			best_size = size;
			plan->width = width;
			plan->npatches = npatches;
		}
		nwider += histogram->count[width];
	}
}

static int
header_size(const RosePlan *plan, int flags)
{
	int			size = 2 + rose_varint_size(rose_zigzag_encode(plan->base));

	if (flags & ROSE_PACKED_STEP)
		size += rose_varint_size(rose_zigzag_encode(plan->step));
	if (flags & ROSE_PACKED_EXPONENT)
		size++;
	return size;
}

void
rose_packed_finish_plan(RosePlan *plan, int flags, int word_size)
{
	plan->header = header_size(plan, flags);
	/* a byte more, because the packed values are rounded up to whole bytes */
	plan->value_bits = plan->width + rose_patch_bits(word_size) + 8;
	plan->spare = PG_INT32_MAX;
	rose_packed_resize(plan, 0, word_size);
}

void
rose_packed_restart_plan(RosePlan *plan, const RosePlan *learned)
{
	plan->base = learned->base;
	plan->step = learned->step;
	plan->width = learned->width;
	plan->exponent = learned->exponent;
	plan->n = 0;
	plan->npatches = 0;
	plan->last = 0;
	plan->low = PG_INT64_MAX;
	plan->high = PG_INT64_MIN;
	plan->nodd = 0;
}

void
rose_packed_widen(RosePlan *plan, int flags, uint64 unit, int nanchors, int word_size)
{
	RosePlan	wide = *plan;

	if (plan->npatches == plan->nodd || plan->low > plan->high)
		return;
	wide.base = plan->low;
	wide.npatches = plan->nodd;
	wide.width = rose_bits_needed((uint64) rose_wrap_sub(plan->high, plan->low) / unit);
	rose_packed_finish_plan(&wide, flags, word_size);
	rose_packed_resize(&wide, nanchors, word_size);
	if (wide.size <= plan->size)
		*plan = wide;
}

int
rose_packed_take_patches(RoseColumnBuffer *col, const RosePlan *plan, uint64 top)
{
	RosePackScratch *scratch = col->scratch;
	int			npatches = 0;
	int			i;

	for (i = 0; i < plan->n && plan->npatches > 0; i++)
	{
		if (scratch->packed[i] > top)
		{
			scratch->packed[i] = 0;
			scratch->patches[npatches].position = i;
			scratch->patches[npatches++].value = col->words[i];
		}
	}
	return npatches;
}

char *
rose_packed_write(const RoseColumnBuffer *col, const RosePlan *plan, int flags,
				  const int64 *anchors, int nanchors, int npatches, char *out)
{
	int			word_size = col->desc.attlen;
	int			k;

	if (npatches > 0)
		flags |= ROSE_PACKED_PATCHED;
	*out++ = (char) plan->width;
	*out++ = (char) flags;
	out = rose_varint_write(out, rose_zigzag_encode(plan->base));
	if (flags & ROSE_PACKED_STEP)
		out = rose_varint_write(out, rose_zigzag_encode(plan->step));
	if (flags & ROSE_PACKED_EXPONENT)
		*out++ = (char) plan->exponent;
	for (k = 0; k < nanchors; k++)
		out = rose_word_store(out, anchors[k], word_size);

	rose_bitpack_write(out, plan->width, col->scratch->packed, plan->n);
	out += rose_bitpack_size(plan->n, plan->width);
	return rose_patches_write(out, col->scratch->patches, npatches, word_size);
}

const char *
rose_packed_open(RoseSegment *seg, int nanchors)
{
	RosePackedWords *packed = &seg->packed;
	const char *p = seg->start;
	uint64		number;
	int			flags;
	Size		body;

	if (seg->end - p < 2)
		return "segment is cut off";
	packed->width = (uint8) *p++;
	flags = (uint8) *p++;
	if (packed->width > 64)
		return "bit width is out of range";
	if (flags & ~ROSE_PACKED_ALL_FLAGS)
		return "segment has unknown flags";
	packed->whole_step = (flags & ROSE_PACKED_WHOLE_STEP) != 0;

	if ((p = rose_varint_read(p, seg->end, &number)) == NULL)
		return "segment is cut off";
	packed->base = rose_zigzag_decode(number);
	packed->step = 1;
	if (flags & ROSE_PACKED_STEP)
	{
		if ((p = rose_varint_read(p, seg->end, &number)) == NULL)
			return "segment is cut off";
		packed->step = rose_zigzag_decode(number);
	}
	packed->exponent = 0;
	if (flags & ROSE_PACKED_EXPONENT)
	{
		if (p >= seg->end)
			return "segment is cut off";
		packed->exponent = (uint8) *p++;
	}

	packed->anchors = p;
	body = (Size) nanchors * seg->desc->attlen + rose_bitpack_size(seg->n, packed->width);
	if ((Size) (seg->end - p) < body)
		return "segment is cut off";
	packed->bits = p + (Size) nanchors * seg->desc->attlen;
	p += body;

	seg->patches.n = 0;
	if (flags & ROSE_PACKED_PATCHED)
		return rose_patches_open(&seg->patches, p, seg->end, seg->n, seg->desc->attlen);
	return NULL;
}

const char *
rose_packed_check(RoseSegment *seg)
{
	return rose_patches_check(&seg->patches, seg->n);
}
