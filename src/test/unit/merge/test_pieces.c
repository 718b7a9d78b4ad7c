/*-------------------------------------------------------------------------
 *
 * test_pieces.c
 *	  Unit test of src/lsm/merge/rose_pieces.c: single decisions, and simulated passes over
 *	  tables of all sizes, whose pieces must stay few, and none too large.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/merge/rose_pieces.h"
#include "unit_check.h"

/* As of rose_merge_pass.c. */
#define PIECES_OF_ALL	20
#define MOST_COMPONENTS	48

#define MAX_PIECES		200

static uint64 random_state;

static uint64
random_below(uint64 limit)
{
	random_state = random_state * UINT64CONST(6364136223846793005) + 1442695040888963407;
	return (random_state >> 33) % limit;
}

static void
test_small(void)
{
	for (uint64 aim = 1; aim < 6; aim++)
	{
		CHECK(rose_pieces_is_small(aim, 1));
		CHECK(!rose_pieces_is_small(aim, 2));
	}
	CHECK(rose_pieces_is_small(128, 63));
	CHECK(!rose_pieces_is_small(128, 64));
}

static void
test_joined(void)
{
	CHECK(rose_pieces_should_join(1, 2, 1, 1));
	CHECK(!rose_pieces_should_join(1, 2, 1, 2));
	CHECK(rose_pieces_should_join(1, ROSE_PIECES_MANY + 1, 1, 2));
	CHECK(!rose_pieces_should_join(1, ROSE_PIECES_MANY + 1, 2, 1));
	CHECK(rose_pieces_should_join(128, 2, 63, 193));
	CHECK(!rose_pieces_should_join(128, 2, 63, 194));
	CHECK(!rose_pieces_should_join(128, ROSE_PIECES_MANY + 1, 64, 1));
}

static void
test_made(void)
{
	CHECK(rose_pieces_to_make(128, 256, 0, 48) == 1);
	CHECK(rose_pieces_to_make(128, 257, 0, 48) == 2);
	CHECK(rose_pieces_to_make(128, 1280, 0, 48) == 10);
	CHECK(rose_pieces_to_make(128, 1280, 0, 3) == 3);
	CHECK(rose_pieces_to_make(128, 1280, 0, -5) == 1);
	/* many others: so few that none is more than twice as large as it should be */
	CHECK(rose_pieces_to_make(128, 1280, ROSE_PIECES_MANY - 8, 48) == 8);
	CHECK(rose_pieces_to_make(128, 1280, ROSE_PIECES_MANY, 48) == 5);
	CHECK(rose_pieces_to_make(128, 1280, ROSE_PIECES_MANY + 9, 3) == 3);
	/* none of a single block */
	CHECK(rose_pieces_to_make(1, 4, 0, 48) == 1);
	CHECK(rose_pieces_to_make(1, 10, 0, 48) == 5);
	CHECK(rose_pieces_to_make(1, 10, ROSE_PIECES_MANY, 48) == 2);
}

/* ---- passes ---- */

typedef struct Table
{
	int			n;
	uint64		pieces[MAX_PIECES];
	uint64		inputs[MAX_PIECES + 1]; /* blocks that come to each, and behind the last one */
} Table;

static uint64
sum(const uint64 *values, int n)
{
	uint64		all = 0;

	for (int i = 0; i < n; i++)
		all += values[i];
	return all;
}

/* Blocks for random pieces, or for the end. */
static void
write_to(Table *table, uint64 nblocks, bool at_end)
{
	memset(table->inputs, 0, sizeof(table->inputs));
	if (at_end)
		table->inputs[table->n] = nblocks;
	else
		for (uint64 i = 0; i < nblocks; i++)
			table->inputs[random_below(table->n + 1)]++;
}

/* Begin a stride at this piece?  As must_take in rose_merge_pass.c. */
static bool
must_take(const Table *table, uint64 aim, int i)
{
	bool		small = rose_pieces_is_small(aim, table->pieces[i]);

	if (table->inputs[i] > 0)
		return true;
	return small && (i == table->n - 1 ? table->inputs[table->n] > 0 : table->n > ROSE_PIECES_MANY);
}

/* From piece i on; how many were taken. */
static int
do_stride(const Table *table, uint64 aim, int i, Table *result)
{
	uint64		nblocks = 0;
	int			taken = 0;
	int			others = table->n - i + result->n;
	uint64		n;

	for (; i + taken < table->n; taken++)
	{
		if (taken > 0 && !rose_pieces_should_join(aim, table->n, nblocks, table->pieces[i + taken]))
			break;
		nblocks += table->pieces[i + taken] + table->inputs[i + taken];
	}
	if (i + taken == table->n)
		nblocks += table->inputs[table->n];
	others -= taken;
	n = rose_pieces_to_make(aim, nblocks, others, MOST_COMPONENTS - others - taken);
	for (uint64 k = 0; k < n; k++)
	{
		CHECK(result->n < MAX_PIECES);
		result->pieces[result->n++] = nblocks / n + (k < nblocks % n);
	}
	return taken;
}

static void
do_pass(Table *table, uint64 aim)
{
	Table		result = {0};
	int			i = 0;

	while (i < table->n || (i == table->n && table->inputs[i] > 0))
	{
		if (i == table->n || must_take(table, aim, i))
		{
			int			taken = do_stride(table, aim, i, &result);

			i += taken;
			if (i == table->n)
				break;
		}
		else
			result.pieces[result.n++] = table->pieces[i++];
	}
	*table = result;
}

static void
run_table(uint64 least, bool at_end)
{
	Table		table = {0};

	for (int pass = 0; pass < 500; pass++)
	{
		uint64		all = sum(table.pieces, table.n);
		uint64		more = 1 + random_below(1 + all / (1 + random_below(30)));
		uint64		aim = Max((all + more) / PIECES_OF_ALL, least);
		uint64		nsmall = 0;
		int			before = table.n;

		/* a table that does not grow: what comes is as much as what goes */
		if (all > 200 * least && random_below(10) < 9)
			for (int i = 0; i < table.n; i++)
				table.pieces[i] = Max(table.pieces[i] * 9 / 10, 1);
		write_to(&table, more, at_end);
		do_pass(&table, aim);
		CHECK(table.n <= MOST_COMPONENTS);
		for (int i = 0; i < table.n; i++)
			nsmall += rose_pieces_is_small(aim, table.pieces[i]);
		/* where there were many, all small ones are joined but for the last one */
		CHECK(before <= ROSE_PIECES_MANY || nsmall <= 1);
	}
}

int
main(void)
{
	test_small();
	test_joined();
	test_made();
	for (int i = 0; i < 200; i++)
	{
		random_state = i;
		run_table(1, i % 2 == 0);
		run_table(8, i % 2 == 0);
		run_table(128, i % 2 == 0);
	}
	printf("ok 1 - pieces of C2\n1..1\n");
	return 0;
}
