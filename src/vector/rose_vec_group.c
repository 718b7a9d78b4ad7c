/*-------------------------------------------------------------------------
 *
 * rose_vec_group.c
 *	  Which group each of many rows is in.
 *
 * Groups are found in a table with open addressing, that has their hashes beside their numbers, so that mostly one key is
 * compared.  Two ways are cheaper: of a run of rows with the same key the first one is looked up, and where words are close
 * to one another the group is looked up by their distance from the least one.
 *
 * The Makefile compiles this file with -O3, and some loops twice; see rose_vectorized.h.
 *
 * Pure functions; no locks and no allocation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_vectorized.h"
#include "vector/rose_vec_agg.h"
#include "vector/rose_vec_group.h"

#define MULTIPLIER	UINT64CONST(0x9E3779B97F4A7C15)

/* Rows among which changes are looked for together. */
#define RUN_BLOCK	ROSE_VEC_GROUP_RUN_SPARE

/* Tables of more slots are not in the nearest cache: slots are fetched so many rows before they are looked at. */
#define FAR_SLOTS	4096
#define FETCH_AHEAD	12

/* ---- hashes ---- */

/* Words that differ in few bits, wherever these are, differ in low bits of the result. */
static inline uint64
mix(uint64 hash, int64 word)
{
	hash ^= (uint64) word;
	hash ^= hash >> 32;
	hash *= MULTIPLIER;
	return hash ^ (hash >> 29);
}

static inline uint32
finish(uint64 hash, uint32 flags)
{
	return (uint32) (hash ^ (hash >> 32)) ^ (flags * (uint32) MULTIPLIER);
}

static inline uint32
flags_at(const RoseVecKeys *keys, int row)
{
	return keys->flags != NULL ? keys->flags[row] : 0;
}

static uint32
hash_of_row(const RoseVecKeys *keys, int row)
{
	uint64		hash = 0;

	for (int c = 0; c < keys->nwords; c++)
		hash = mix(hash, keys->words[c][row]);
	return finish(hash, flags_at(keys, row));
}

static uint32
hash_of_group(const RoseVecGroups *groups, uint32 group)
{
	const int64 *key = rose_vec_group_key(groups, group);
	uint64		hash = 0;

	for (int c = 0; c < groups->nwords; c++)
		hash = mix(hash, key[c]);
	return finish(hash, rose_vec_group_flags(groups, group));
}

static void
hash_rows(const RoseVecKeys *keys, int n, uint32 *hashes)
{
	if (keys->nwords == 1 && keys->flags == NULL)
	{
		const int64 *words = keys->words[0];

		for (int i = 0; i < n; i++)
			hashes[i] = finish(mix(0, words[i]), 0);
		return;
	}
	for (int i = 0; i < n; i++)
		hashes[i] = hash_of_row(keys, i);
}

/* ---- the table ---- */

void
rose_vec_group_reset(RoseVecGroups *groups)
{
	groups->ngroups = 0;
	memset(groups->slots, 0, groups->nslots * sizeof(RoseVecGroupSlot));
}

void
rose_vec_group_rehash(RoseVecGroups *groups)
{
	uint32		mask = groups->nslots - 1;

	for (uint32 group = 0; group < groups->ngroups; group++)
	{
		uint32		hash = hash_of_group(groups, group);
		uint32		at = hash & mask;

		while (groups->slots[at].group != 0)
			at = (at + 1) & mask;
		groups->slots[at].hash = hash;
		groups->slots[at].group = group + 1;
	}
}

static inline bool
has_key(const RoseVecGroups *groups, uint32 group, const RoseVecKeys *keys, int row)
{
	const int64 *key = rose_vec_group_key(groups, group);

	for (int c = 0; c < groups->nwords; c++)
	{
		if (key[c] != keys->words[c][row])
			return false;
	}
	return (uint32) key[groups->nwords] == flags_at(keys, row);
}

static uint32
add_group(RoseVecGroups *groups, const RoseVecKeys *keys, int row)
{
	uint32		group = groups->ngroups++;
	int64	   *key = groups->keys + (Size) group * (groups->nwords + 1);

	Assert(group < groups->capacity);
	for (int c = 0; c < groups->nwords; c++)
		key[c] = keys->words[c][row];
	key[groups->nwords] = flags_at(keys, row);
	return group;
}

/* The row's group; *nadded counts those that it made. */
static inline uint32
find_row(RoseVecGroups *groups, const RoseVecKeys *keys, int row, uint32 hash, uint16 *added,
		 int *nadded)
{
	uint32		mask = groups->nslots - 1;
	uint32		at = hash & mask;

	for (;;)
	{
		RoseVecGroupSlot *slot = &groups->slots[at];

		if (slot->group == 0)
		{
			slot->hash = hash;
			slot->group = add_group(groups, keys, row) + 1;
			added[(*nadded)++] = (uint16) row;
			return slot->group - 1;
		}
		if (slot->hash == hash && has_key(groups, slot->group - 1, keys, row))
			return slot->group - 1;
		at = (at + 1) & mask;
	}
}

int
rose_vec_group_find(RoseVecGroups *groups, const RoseVecKeys *keys, int n, uint32 *hashes,
					uint32 *found, uint16 *added)
{
	bool		far = groups->nslots > FAR_SLOTS;
	int			nadded = 0;

	hash_rows(keys, n, hashes);
	for (int i = 0; i < n; i++)
	{
		if (far && i + FETCH_AHEAD < n)
			__builtin_prefetch(&groups->slots[hashes[i + FETCH_AHEAD] & (groups->nslots - 1)]);
		found[i] = find_row(groups, keys, i, hashes[i], added, &nadded);
	}
	return nadded;
}

int
rose_vec_group_find_some(RoseVecGroups *groups, const RoseVecKeys *keys, const uint16 *rows, int n,
						 uint32 *found, uint16 *added)
{
	int			nadded = 0;

	for (int k = 0; k < n; k++)
		found[k] = find_row(groups, keys, rows[k], hash_of_row(keys, rows[k]), added, &nadded);
	return nadded;
}

/* The row's group, and one; 0: it is not there. */
static inline uint32
look_up_row(const RoseVecGroups *groups, const RoseVecKeys *keys, int row, uint32 hash)
{
	uint32		mask = groups->nslots - 1;
	uint32		at = hash & mask;

	for (;;)
	{
		const RoseVecGroupSlot *slot = &groups->slots[at];

		if (slot->group == 0 || (slot->hash == hash && has_key(groups, slot->group - 1, keys, row)))
			return slot->group;
		at = (at + 1) & mask;
	}
}

int
rose_vec_group_look_up(const RoseVecGroups *groups, const RoseVecKeys *keys, int n, uint32 *hashes,
					   uint32 *found, bool *left_out, uint32 *kept)
{
	bool		far = groups->nslots > FAR_SLOTS;
	int			nkept = 0;

	hash_rows(keys, n, hashes);
	for (int i = 0; i < n; i++)
	{
		uint32		group = 0;

		if (far && i + FETCH_AHEAD < n)
			__builtin_prefetch(&groups->slots[hashes[i + FETCH_AHEAD] & (groups->nslots - 1)]);
		if (!left_out[i])
			group = look_up_row(groups, keys, i, hashes[i]);
		left_out[i] = group == 0;
		found[i] = group == 0 ? 0 : group - 1;
		if (group != 0)
			kept[nkept++] = group - 1;
	}
	return nkept;
}

/* ---- runs ---- */

/* Is there a change of words between rows [first - 1, first + n)? */
ROSE_VECTORIZED static bool
has_change(const int64 *x, int first, int n)
{
	uint64		differences = 0;

	for (int i = first; i < first + n; i++)
		differences |= (uint64) (x[i] ^ x[i - 1]);
	return differences != 0;
}

/* changes[i]: does row first + i have another word than the one before? */
ROSE_VECTORIZED static void
add_changes(const int64 *x, int first, int n, uint8 *changes)
{
	for (int i = 0; i < n; i++)
		changes[i] |= x[first + i] != x[first + i - 1];
}

/* Among rows of a block; false: there is none. */
static bool
block_changes(const RoseVecKeys *keys, int first, int n, uint8 *changes)
{
	bool		any = keys->flags != NULL;

	for (int c = 0; c < keys->nwords && !any; c++)
		any = has_change(keys->words[c], first, n);
	if (!any)
		return false;
	memset(changes, 0, RUN_BLOCK);
	for (int c = 0; c < keys->nwords; c++)
		add_changes(keys->words[c], first, n, changes);
	for (int i = 0; i < n && keys->flags != NULL; i++)
		changes[i] |= keys->flags[first + i] != keys->flags[first + i - 1];
	return true;
}

int
rose_vec_group_runs(const RoseVecKeys *keys, int n, int max_runs, uint16 *starts)
{
	int			nruns = 1;

	if (max_runs < 1)
		return 0;
	starts[0] = 0;
	for (int first = 1; first < n; first += RUN_BLOCK)
	{
		int			rows = Min(RUN_BLOCK, n - first);
		uint8		changes[RUN_BLOCK];

		if (!block_changes(keys, first, rows, changes))
			continue;
		for (int i = 0; i < rows; i++)
		{
			starts[nruns] = (uint16) (first + i);
			nruns += changes[i];
		}
		if (nruns > max_runs)
			return 0;
	}
	return nruns;
}

/* Each run's first rows are written at once, whether they are its own or of the next ones, which write them again. */
void
rose_vec_group_spread(const uint16 *starts, int nruns, int n, const uint32 *run_groups, uint32 *found)
{
	for (int run = 0; run < nruns; run++)
	{
		int			end = run + 1 < nruns ? starts[run + 1] : n;
		uint32	   *to = found + starts[run];
		uint32		group = run_groups[run];

		for (int i = 0; i < ROSE_VEC_GROUP_SPARE; i++)
			to[i] = group;
		for (uint32 *at = to + ROSE_VEC_GROUP_SPARE; at < found + end; at++)
			*at = group;
	}
}

/* ---- by code ---- */

void
rose_vec_dense_reset(RoseVecDense *dense)
{
	dense->off = false;
	dense->ncolumns = 0;
}

/* Have the range of a column reach from low to high as well; false: it would be too wide. */
static bool
widen(RoseVecDense *dense, int c, int64 low, int64 high)
{
	uint64		range;

	if (dense->range[c] > 0)
	{
		low = Min(low, dense->base[c]);
		high = Max(high, dense->base[c] + (int64) (dense->range[c] - 1));
	}
	range = (uint64) high - (uint64) low;
	if (range >= ROSE_VEC_DENSE_CODES)
		return false;
	dense->base[c] = low;
	dense->range[c] = (uint32) range + 1;
	return true;
}

static uint64
count_codes(const RoseVecDense *dense)
{
	uint64		codes = 1;

	for (int c = 0; c < dense->ncolumns; c++)
		codes *= dense->range[c];
	return codes;
}

/* Where there is room have the last range reach further, for what will come. */
static void
leave_room(RoseVecDense *dense)
{
	for (int c = 0; c < dense->ncolumns; c++)
	{
		if (count_codes(dense) * 2 <= ROSE_VEC_DENSE_CODES &&
			dense->base[c] < PG_INT64_MAX - ROSE_VEC_DENSE_CODES)
			dense->range[c] *= 2;
	}
}

/* Have all words codes; false: they are too far from one another. */
static bool
fit(RoseVecDense *dense, const RoseVecKeys *keys, int n)
{
	bool		changed = dense->ncolumns == 0;

	if (changed)
	{
		memset(dense->range, 0, sizeof(dense->range));
		dense->ncolumns = keys->nwords;
	}
	for (int c = 0; c < keys->nwords; c++)
	{
		int64		low = rose_vec_min(keys->words[c], n);
		int64		high = rose_vec_max(keys->words[c], n);

		if (dense->range[c] > 0 && low >= dense->base[c] &&
			(uint64) high - (uint64) dense->base[c] < dense->range[c])
			continue;
		if (!widen(dense, c, low, high))
			return false;
		changed = true;
	}
	if (!changed)
		return true;
	if (count_codes(dense) > ROSE_VEC_DENSE_CODES)
		return false;
	leave_room(dense);
	memset(dense->map, 0, count_codes(dense) * sizeof(uint32));
	return true;
}

ROSE_VECTORIZED static void
first_codes(const int64 *x, int n, int64 base, uint32 *codes)
{
	for (int i = 0; i < n; i++)
		codes[i] = (uint32) ((uint64) x[i] - (uint64) base);
}

ROSE_VECTORIZED static void
further_codes(const int64 *x, int n, int64 base, uint32 range, uint32 *codes)
{
	for (int i = 0; i < n; i++)
		codes[i] = codes[i] * range + (uint32) ((uint64) x[i] - (uint64) base);
}

int
rose_vec_group_find_dense(RoseVecGroups *groups, RoseVecDense *dense, const RoseVecKeys *keys, int n,
						  uint32 *codes, uint32 *found, uint16 *added)
{
	int			nadded = 0;

	if (dense->off || keys->flags != NULL || keys->nwords > ROSE_VEC_DENSE_COLUMNS)
		return -1;
	if (!fit(dense, keys, n))
	{
		dense->off = true;
		return -1;
	}
	first_codes(keys->words[0], n, dense->base[0], codes);
	for (int c = 1; c < keys->nwords; c++)
		further_codes(keys->words[c], n, dense->base[c], dense->range[c], codes);
	for (int i = 0; i < n; i++)
	{
		uint32	   *known = &dense->map[codes[i]];

		if (unlikely(*known == 0))
			*known = find_row(groups, keys, i, hash_of_row(keys, i), added, &nadded) + 1;
		found[i] = *known - 1;
	}
	return nadded;
}

/* ---- values ---- */

int
rose_vec_group_keep(int64 *values, uint32 *kept, const uint32 *groups, const bool *nulls, int n)
{
	int			there = 0;

	for (int i = 0; i < n; i++)
	{
		values[there] = values[i];
		kept[there] = groups[i];
		there += !nulls[i];
	}
	return there;
}
