/*-------------------------------------------------------------------------
 *
 * rose_nullmap.c
 *	  Null maps.  The forms are described in rose_nullmap.h.
 *
 * Pure functions on the segment; no locks.  Checks that slots ascend and lie on the page
 * before anybody relies on them; values themselves are the codec's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "util/rose_bitpack.h"
#include "codec/rose_nullmap.h"

#define ROWS_PER_RANK	512

static inline int
load_uint16(const char *array, int k)
{
	uint16		value;

	memcpy(&value, array + 2 * (Size) k, 2);
	return value;
}

static inline char *
store_uint16(char *out, int value)
{
	uint16		value16 = (uint16) value;

	memcpy(out, &value16, 2);
	return out + 2;
}

static inline bool
bit_is_set(const char *bits, int i)
{
	return (((uint8) bits[i >> 3]) >> (i & 7)) & 1;
}

static inline int
bitmap_size(int nrows)
{
	return 2 + 2 * ((nrows + ROWS_PER_RANK - 1) / ROWS_PER_RANK) + (nrows + 7) / 8;
}

RoseNullForm
rose_nullmap_form(int nrows, int nnulls)
{
	int			nvalues = nrows - nnulls;
	int			list_size = 2 + 2 * Min(nnulls, nvalues);

	if (nnulls == 0)
		return ROSE_NULLS_NONE;
	if (nvalues == 0)
		return ROSE_NULLS_ALL;
	if (bitmap_size(nrows) < list_size)
		return ROSE_NULLS_BITMAP;
	return nnulls <= nvalues ? ROSE_NULLS_NULLS : ROSE_NULLS_VALUES;
}

int
rose_nullmap_size(int nrows, int nnulls)
{
	switch (rose_nullmap_form(nrows, nnulls))
	{
		case ROSE_NULLS_NONE:
		case ROSE_NULLS_ALL:
			return 0;
		case ROSE_NULLS_NULLS:
			return 2 + 2 * nnulls;
		case ROSE_NULLS_VALUES:
			return 2 + 2 * (nrows - nnulls);
		case ROSE_NULLS_BITMAP:
			break;
	}
	return bitmap_size(nrows);
}

static char *
write_list(char *out, const uint8 *isnull, int nrows, int n, bool wanted)
{
	int			slot;

	out = store_uint16(out, n);
	for (slot = 0; slot < nrows; slot++)
	{
		if (bit_is_set((const char *) isnull, slot) == wanted)
			out = store_uint16(out, slot);
	}
	return out;
}

static char *
write_bitmap(char *out, const uint8 *isnull, int nrows, int nnulls)
{
	int			nbytes = (nrows + 7) / 8;
	int			nvalues = 0;
	int			slot;

	out = store_uint16(out, nnulls);
	for (slot = 0; slot < nrows; slot++)
	{
		if (slot % ROWS_PER_RANK == 0)
			out = store_uint16(out, nvalues);
		if (!bit_is_set((const char *) isnull, slot))
			nvalues++;
	}
	memcpy(out, isnull, nbytes);
	if (nrows % 8 != 0)
		out[nbytes - 1] &= (char) ((1 << (nrows % 8)) - 1);
	return out + nbytes;
}

char *
rose_nullmap_write(char *out, const uint8 *isnull, int nrows, int nnulls)
{
	switch (rose_nullmap_form(nrows, nnulls))
	{
		case ROSE_NULLS_NONE:
		case ROSE_NULLS_ALL:
			return out;
		case ROSE_NULLS_NULLS:
			return write_list(out, isnull, nrows, nnulls, true);
		case ROSE_NULLS_VALUES:
			return write_list(out, isnull, nrows, nrows - nnulls, false);
		case ROSE_NULLS_BITMAP:
			break;
	}
	return write_bitmap(out, isnull, nrows, nnulls);
}

const char *
rose_nullmap_open(RoseNullMap *map, RoseNullForm form, int nrows,
				  const char *p, const char *end, const char **next)
{
	int			n;

	map->form = form;
	map->nrows = nrows;
	*next = p;
	if (form == ROSE_NULLS_NONE || form == ROSE_NULLS_ALL)
	{
		map->nvalues = form == ROSE_NULLS_NONE ? nrows : 0;
		return NULL;
	}
	if (form > ROSE_NULLS_BITMAP)
		return "null map has an unknown form";

	if (end - p < 2)
		return "null map is cut off";
	n = load_uint16(p, 0);
	if (n > nrows)
		return "null map has more entries than rows";
	p += 2;
	map->nvalues = form == ROSE_NULLS_VALUES ? n : nrows - n;
	if (form == ROSE_NULLS_BITMAP)
	{
		if (end - p < bitmap_size(nrows) - 2)
			return "null map is cut off";
		map->ranks = p;
		map->bits = p + 2 * ((nrows + ROWS_PER_RANK - 1) / ROWS_PER_RANK);
		*next = map->bits + (nrows + 7) / 8;
	}
	else
	{
		if (end - p < 2 * n)
			return "null map is cut off";
		map->nslots = n;
		map->slots = p;
		*next = p + 2 * n;
	}
	return NULL;
}

/* Index of the first listed slot at or after this one. */
static int
list_position(const RoseNullMap *map, int slot)
{
	int			lo = 0;
	int			hi = map->nslots;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (load_uint16(map->slots, mid) < slot)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int
bitmap_rank(const RoseNullMap *map, int slot)
{
	int			i = slot - slot % ROWS_PER_RANK;
	int			rank = load_uint16(map->ranks, slot / ROWS_PER_RANK);

	for (; i + 64 <= slot; i += 64)
		rank += 64 - pg_popcount64(rose_load_le64(map->bits + i / 8));
	if (i < slot)
	{
		uint64		word = rose_load_le64(map->bits + i / 8);

		rank += (slot - i) - pg_popcount64(word & rose_width_mask(slot - i));
	}
	return rank;
}

int
rose_nullmap_rank(const RoseNullMap *map, int slot)
{
	int			k;
	bool		listed;

	if (map->form == ROSE_NULLS_NONE)
		return slot;
	if (map->form == ROSE_NULLS_ALL)
		return -1;
	if (map->form == ROSE_NULLS_BITMAP)
		return bit_is_set(map->bits, slot) ? -1 : bitmap_rank(map, slot);

	k = list_position(map, slot);
	listed = k < map->nslots && load_uint16(map->slots, k) == slot;
	if (map->form == ROSE_NULLS_VALUES)
		return listed ? k : -1;
	return listed ? -1 : slot - k;
}

int
rose_nullmap_decode(const RoseNullMap *map, int from, int n, bool *nulls)
{
	int			nvalues = 0;
	int			k;

	if (map->form == ROSE_NULLS_NONE || map->form == ROSE_NULLS_ALL)
	{
		memset(nulls, map->form == ROSE_NULLS_ALL, n);
		return map->form == ROSE_NULLS_ALL ? 0 : n;
	}
	if (map->form == ROSE_NULLS_BITMAP)
	{
		for (k = 0; k < n; k++)
		{
			nulls[k] = bit_is_set(map->bits, from + k);
			nvalues += !nulls[k];
		}
		return nvalues;
	}

	memset(nulls, map->form == ROSE_NULLS_VALUES, n);
	for (k = list_position(map, from); k < map->nslots; k++)
	{
		int			slot = load_uint16(map->slots, k);

		/* slots of a bad page need not ascend */
		if (slot < from || slot - from >= n)
			break;
		nulls[slot - from] = map->form == ROSE_NULLS_NULLS;
	}
	for (k = 0; k < n; k++)
		nvalues += !nulls[k];
	return nvalues;
}

static const char *
check_bitmap(const RoseNullMap *map)
{
	int			nvalues = 0;
	int			slot;

	for (slot = 0; slot < map->nrows; slot++)
	{
		if (slot % ROWS_PER_RANK == 0 &&
			load_uint16(map->ranks, slot / ROWS_PER_RANK) != nvalues)
			return "null map has a wrong rank";
		nvalues += !bit_is_set(map->bits, slot);
	}
	if (nvalues != map->nvalues)
		return "null map has a wrong count";
	return NULL;
}

const char *
rose_nullmap_check(const RoseNullMap *map)
{
	int			k;

	if (map->form == ROSE_NULLS_BITMAP)
		return check_bitmap(map);
	if (map->form == ROSE_NULLS_NONE || map->form == ROSE_NULLS_ALL)
		return NULL;
	for (k = 0; k < map->nslots; k++)
	{
		if (load_uint16(map->slots, k) >= map->nrows)
			return "null map has a slot out of range";
		if (k > 0 && load_uint16(map->slots, k) <= load_uint16(map->slots, k - 1))
			return "null map slots do not ascend";
	}
	return NULL;
}
