/*-------------------------------------------------------------------------
 *
 * rose_patch.c
 *	  Patch lists.  The layout is in rose_patch.h.
 *
 * Pure functions on the segment; no locks.  What a patch stands for is the codec's to
 * say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_codec.h"

static inline int
position_at(const RosePatches *patches, int k)
{
	uint16		position;

	memcpy(&position, patches->positions + 2 * k, 2);
	return position;
}

static inline int64
value_at(const RosePatches *patches, int k)
{
	return rose_word_load(patches->values + (Size) k * patches->word_size,
						  patches->word_size);
}

char *
rose_patches_write(char *out, const RosePatch *patches, int n, int word_size)
{
	uint16		count = (uint16) n;
	int			k;

	if (n == 0)
		return out;

	memcpy(out, &count, 2);
	out += 2;
	for (k = 0; k < n; k++)
	{
		uint16		position = (uint16) patches[k].position;

		memcpy(out, &position, 2);
		out += 2;
	}
	for (k = 0; k < n; k++)
		out = rose_word_store(out, patches[k].value, word_size);
	return out;
}

const char *
rose_patches_open(RosePatches *patches, const char *p, const char *end,
				  int nvalues, int word_size)
{
	uint16		count;

	if (end - p < 2)
		return "patch list is cut off";
	memcpy(&count, p, 2);
	if (count > nvalues)
		return "more patches than values";
	if (end - p < rose_patches_size(count, word_size))
		return "patch list is cut off";

	patches->n = count;
	patches->word_size = word_size;
	patches->positions = p + 2;
	patches->values = p + 2 + 2 * (Size) count;
	return NULL;
}

/* Index of the first patch at or after position i. */
static int
first_patch(const RosePatches *patches, int i)
{
	int			lo = 0;
	int			hi = patches->n;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (position_at(patches, mid) < i)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool
rose_patches_find(const RosePatches *patches, int i, int64 *value)
{
	int			k = first_patch(patches, i);

	if (k == patches->n || position_at(patches, k) != i)
		return false;
	*value = value_at(patches, k);
	return true;
}

void
rose_patches_apply(const RosePatches *patches, int from, int n, int64 *values)
{
	int			k;

	for (k = first_patch(patches, from); k < patches->n; k++)
	{
		int			position = position_at(patches, k);

		/* positions of a bad page need not ascend */
		if (position < from || position - from >= n)
			break;
		values[position - from] = value_at(patches, k);
	}
}

int64
rose_patches_sum(const RosePatches *patches, int from, int to, int64 base)
{
	int64		sum = 0;
	int			k;

	for (k = first_patch(patches, from); k < patches->n; k++)
	{
		int			position = position_at(patches, k);

		if (position < from || position >= to)
			break;
		sum = rose_wrap_add(sum, rose_wrap_sub(value_at(patches, k), base));
	}
	return sum;
}

void
rose_patches_bounds(const RosePatches *patches, int64 *min, int64 *max)
{
	int			k;

	for (k = 0; k < patches->n; k++)
	{
		int64		value = value_at(patches, k);

		*min = Min(*min, value);
		*max = Max(*max, value);
	}
}

int
rose_patches_extremes(const RosePatches *patches, int from, int n, int64 *min, int64 *max)
{
	int			first = first_patch(patches, from);
	int			k;

	for (k = first; k < patches->n; k++)
	{
		int			position = position_at(patches, k);
		int64		value = value_at(patches, k);

		if (position < from || position - from >= n)
			break;
		*min = Min(*min, value);
		*max = Max(*max, value);
	}
	return k - first;
}

int
rose_patches_among(const RosePatches *patches, int from, int n, int *positions, int most)
{
	int			first = first_patch(patches, from);
	int			k;

	for (k = first; k < patches->n; k++)
	{
		int			position = position_at(patches, k);

		if (position < from || position - from >= n)
			break;
		if (k - first >= most)
			return most + 1;
		positions[k - first] = position;
	}
	return k - first;
}

const char *
rose_patches_check(const RosePatches *patches, int nvalues)
{
	int			k;

	for (k = 0; k < patches->n; k++)
	{
		if (position_at(patches, k) >= nvalues)
			return "patch position is out of range";
		if (k > 0 && position_at(patches, k) <= position_at(patches, k - 1))
			return "patch positions do not ascend";
	}
	return NULL;
}
