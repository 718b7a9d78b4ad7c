/*-------------------------------------------------------------------------
 *
 * test_groups.c
 *	  Groups of rows, against a list that is searched from its start.
 *
 *-------------------------------------------------------------------------
 */
#include "unit_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "vector/rose_vec_group.h"

#include "vector_unit.h"

#define MAX_ROWS	300
#define MAX_WORDS	6
#define MAX_GROUPS	4096

static uint64 seed = 7;

static uint64
draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* What keys are like. */
typedef struct Shape
{
	int			nwords;
	int			run;			/* rows of one key, about */
	uint64		kinds;			/* different words in a column, about */
	int			far;			/* words are so many times as far from one another */
	bool		flags;
} Shape;

/* Rows, and the groups that a list says they are in. */
static int64 words[MAX_WORDS][MAX_ROWS];
static uint32 flags[MAX_ROWS];
static RoseVecKeys keys;
static int64 model[MAX_GROUPS][MAX_WORDS + 1];
static uint32 nmodel;

static RoseVecGroups groups;
static RoseVecDense dense;

static int64
draw_word(const Shape *shape, int c)
{
	int64		place = (int64) (draw() % shape->kinds) - (int64) (shape->kinds / 2);

	switch (shape->far)
	{
		case 0:
			return draw() % 3 == 0 ? PG_INT64_MAX : draw() % 2 == 0 ? PG_INT64_MIN : place;
		case 1:
			return place + c * 1000;
		default:
			return (int64) ((uint64) place << shape->far);	/* only upper bits differ */
	}
}

static void
draw_rows(const Shape *shape, int n)
{
	keys.nwords = shape->nwords;
	keys.flags = shape->flags ? flags : NULL;
	for (int c = 0; c < shape->nwords; c++)
		keys.words[c] = words[c];
	for (int i = 0; i < n; i++)
	{
		bool		same = i > 0 && draw() % (uint64) shape->run > 0;

		for (int c = 0; c < shape->nwords; c++)
			words[c][i] = same ? words[c][i - 1] : draw_word(shape, c);
		flags[i] = same ? flags[i - 1] : (uint32) (draw() % 3 == 0 ? draw() % 4 : 0);
	}
}

static bool
model_has(uint32 group, int row)
{
	for (int c = 0; c < keys.nwords; c++)
	{
		if (model[group][c] != words[c][row])
			return false;
	}
	return model[group][MAX_WORDS] == (keys.flags != NULL ? flags[row] : 0);
}

/* The row's group; *is_new: it makes it. */
static uint32
model_group(int row, bool *is_new)
{
	uint32		group = 0;

	while (group < nmodel && !model_has(group, row))
		group++;
	*is_new = group == nmodel;
	if (*is_new)
	{
		for (int c = 0; c < keys.nwords; c++)
			model[group][c] = words[c][row];
		model[group][MAX_WORDS] = keys.flags != NULL ? flags[row] : 0;
		nmodel++;
	}
	return group;
}

/* ---- checks ---- */

static void
make_room(int n)
{
	if (groups.ngroups + n <= groups.capacity)
		return;
	groups.capacity = groups.capacity * 2 + n;
	groups.keys = realloc(groups.keys, groups.capacity * (groups.nwords + 1) * sizeof(int64));
	free(groups.slots);
	while (groups.nslots < 2 * groups.capacity)
		groups.nslots *= 2;
	groups.slots = calloc(groups.nslots, sizeof(RoseVecGroupSlot));
	rose_vec_group_rehash(&groups);
}

static void
begin(const Shape *shape)
{
	memset(&groups, 0, sizeof(groups));
	groups.nwords = shape->nwords;
	groups.nslots = 2;
	nmodel = 0;
	make_room(1);
	rose_vec_dense_reset(&dense);
}

static void
end(void)
{
	free(groups.keys);
	free(groups.slots);
}

/* found[k] is what was said of row rows[k] (NULL: of row k). */
static void
check_found(const uint16 *rows, int n, const uint32 *found, const uint16 *added, int nadded)
{
	int			seen = 0;

	for (int k = 0; k < n; k++)
	{
		int			row = rows != NULL ? rows[k] : k;
		bool		is_new;

		CHECK_AT(found[k] == model_group(row, &is_new), " row %d\n", row);
		if (is_new)
			CHECK_AT(seen < nadded && added[seen++] == row, " row %d\n", row);
	}
	CHECK(seen == nadded && groups.ngroups == nmodel);
	for (uint32 group = 0; group < nmodel; group++)
	{
		for (int c = 0; c < groups.nwords; c++)
			CHECK(rose_vec_group_key(&groups, group)[c] == model[group][c]);
		CHECK(rose_vec_group_flags(&groups, group) == model[group][MAX_WORDS]);
	}
}

static int
count_runs(int n, uint16 *starts)
{
	int			nruns = 0;

	for (int i = 0; i < n; i++)
	{
		bool		changes = i == 0 || (keys.flags != NULL && flags[i] != flags[i - 1]);

		for (int c = 0; c < keys.nwords; c++)
			changes |= i > 0 && words[c][i] != words[c][i - 1];
		if (changes)
			starts[nruns++] = (uint16) i;
	}
	return nruns;
}

/* What is known of runs, for each row. */
static void
check_spread_runs(const uint16 *starts, int nruns, int n)
{
	uint32		run_groups[MAX_ROWS];
	uint32		found[MAX_ROWS + ROSE_VEC_GROUP_SPARE];
	int			run = -1;

	for (int k = 0; k < nruns; k++)
		run_groups[k] = (uint32) draw();
	rose_vec_group_spread(starts, nruns, n, run_groups, found);
	for (int i = 0; i < n; i++)
	{
		run += run + 1 < nruns && starts[run + 1] == i;
		CHECK(found[i] == run_groups[run]);
	}
}

static int
check_runs(int n, uint16 *starts)
{
	uint16		model_starts[MAX_ROWS];
	int			there = count_runs(n, model_starts);
	int			nruns = rose_vec_group_runs(&keys, n, MAX_ROWS, starts);

	CHECK(nruns == there && memcmp(starts, model_starts, nruns * sizeof(uint16)) == 0);
	CHECK(rose_vec_group_runs(&keys, n, there, starts) == there);
	CHECK(rose_vec_group_runs(&keys, n, there - 1, starts) == 0);
	memcpy(starts, model_starts, nruns * sizeof(uint16));
	check_spread_runs(starts, nruns, n);
	return nruns;
}

/* One way or another; returns whether it was by codes. */
static bool
check_rows(const Shape *shape, int n)
{
	uint32		hashes[MAX_ROWS];
	uint32		found[MAX_ROWS];
	uint16		added[MAX_ROWS];
	uint16		starts[MAX_ROWS + ROSE_VEC_GROUP_RUN_SPARE];
	int			nruns;
	int			nadded = -1;

	draw_rows(shape, n);
	make_room(n);
	nruns = check_runs(n, starts);
	switch (draw() % 3)
	{
		case 0:
			nadded = rose_vec_group_find_some(&groups, &keys, starts, nruns, found, added);
			check_found(starts, nruns, found, added, nadded);
			return false;
		case 1:
			nadded = rose_vec_group_find_dense(&groups, &dense, &keys, n, hashes, found, added);
			break;
	}
	if (nadded >= 0)
	{
		check_found(NULL, n, found, added, nadded);
		return true;
	}
	nadded = rose_vec_group_find(&groups, &keys, n, hashes, found, added);
	check_found(NULL, n, found, added, nadded);
	return false;
}

/* Rows of groups that are there, and of others, some of which are left out before; nothing is added. */
static void
check_look_up(const Shape *shape, int n)
{
	uint32		hashes[MAX_ROWS];
	uint32		found[MAX_ROWS];
	uint32		kept[MAX_ROWS];
	bool		left_out[MAX_ROWS];
	bool		before[MAX_ROWS];
	uint32		there = nmodel;
	int			nkept;
	int			seen = 0;

	draw_rows(shape, n);
	for (int i = 0; i < n; i++)
		before[i] = left_out[i] = draw() % 5 == 0;
	nkept = rose_vec_group_look_up(&groups, &keys, n, hashes, found, left_out, kept);
	for (int i = 0; i < n; i++)
	{
		bool		is_new;
		uint32		group = model_group(i, &is_new);
		bool		out = before[i] || is_new;

		nmodel = there;
		CHECK_AT(left_out[i] == out && found[i] == (out ? 0 : group), " row %d\n", i);
		if (!out)
			CHECK(seen < nkept && kept[seen++] == group);
	}
	CHECK(seen == nkept && groups.ngroups == there);
}

static void
check_keep(void)
{
	int64		values[MAX_ROWS];
	int64		before[MAX_ROWS];
	uint32		of[MAX_ROWS];
	uint32		kept[MAX_ROWS];
	bool		nulls[MAX_ROWS];
	int			n = 1 + (int) (draw() % MAX_ROWS);
	int			there;
	int			seen = 0;

	for (int i = 0; i < n; i++)
	{
		before[i] = values[i] = (int64) draw();
		of[i] = (uint32) draw();
		nulls[i] = draw() % 3 == 0;
	}
	there = rose_vec_group_keep(values, kept, of, nulls, n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			continue;
		CHECK(values[seen] == before[i] && kept[seen] == of[i]);
		seen++;
	}
	CHECK(seen == there);
}

/* Many keys that differ in few bits must not meet in few slots. */
static void
check_spread(int shift)
{
	Shape		shape = {.nwords = 1, .run = 1, .kinds = 1};
	uint32		hashes[MAX_ROWS];
	uint32		found[MAX_ROWS];
	uint16		added[MAX_ROWS];
	int			far = 0;

	begin(&shape);
	draw_rows(&shape, MAX_ROWS);
	for (int from = 0; from < 2000; from += 200)
	{
		for (int i = 0; i < 200; i++)
			words[0][i] = (int64) ((uint64) (from + i) << shift);
		make_room(200);
		(void) rose_vec_group_find(&groups, &keys, 200, hashes, found, added);
	}
	for (uint32 at = 0; at < groups.nslots; at++)
	{
		uint32		distance = (at - groups.slots[at].hash) & (groups.nslots - 1);

		far += groups.slots[at].group != 0 && distance > 8;
	}
	CHECK_AT(far < 100, " %d of 2000 are far from their places, shift %d\n", far, shift);
	end();
}

void
test_groups(void)
{
	int			by_code = 0;

	for (int round = 0; round < 3000; round++)
	{
		Shape		shape = {.nwords = 1 + (int) (draw() % MAX_WORDS), .flags = draw() % 3 == 0};

		shape.run = 1 + (int) (draw() % 40);
		shape.kinds = 1 + draw() % (draw() % 2 == 0 ? 5 : 400);
		shape.far = (int[])
		{
			0, 1, 1, 1, 20, 40, 50
		}[draw() % 7];
		begin(&shape);
		for (int part = 0; part < 6; part++)
		{
			by_code += check_rows(&shape, 1 + (int) (draw() % MAX_ROWS));
			check_look_up(&shape, 1 + (int) (draw() % MAX_ROWS));
		}
		end();
		check_keep();
	}
	CHECK(by_code > 500);
	for (int shift = 0; shift <= 52; shift++)
		check_spread(shift);
}
