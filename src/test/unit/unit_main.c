/*-------------------------------------------------------------------------
 *
 * unit_main.c
 *	  Runs all unit tests and prints TAP.
 *
 * Usage: unit [seed [fuzz iterations [percent]]]
 *
 * The last is how much of what is repeated is done: under valgrind, a tenth is enough.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "unit.h"

static int	ntests;
static int	nfailed;
static uint64 random_state;
static int	percent = 100;

bool
unit_ok(bool condition, const char *format,...)
{
	va_list		args;
	char		name[512];

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	printf("%sok %d - %s\n", condition ? "" : "not ", ++ntests, name);
	fflush(stdout);
	nfailed += !condition;
	return condition;
}

void
unit_note(const char *format,...)
{
	va_list		args;
	char		line[512];

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	printf("# %s\n", line);
	fflush(stdout);
}

/* splitmix64 */
uint64
unit_random(void)
{
	uint64		z = (random_state += UINT64CONST(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64
unit_random_below(uint64 limit)
{
	return unit_random() % limit;
}

int
unit_rounds(int rounds)
{
	return Max(1, rounds * percent / 100);
}

bool
unit_is_slow(void)
{
	return percent < 100;
}

int
main(int argc, char **argv)
{
	uint64		seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64) time(NULL);
	int			iterations = argc > 2 ? atoi(argv[2]) : 100000;

	if (argc > 3)
		percent = atoi(argv[3]);
	random_state = seed;
	unit_note("seed " UINT64_FORMAT, seed);

	test_varint();
	test_bitpack();
	test_bloom();
	test_losertree();
	test_pages();
	test_columns();
	test_page_fuzz(iterations);
	test_wire(iterations);

	printf("1..%d\n", ntests);
	if (nfailed > 0)
		unit_note("%d of %d tests failed; run again with seed " UINT64_FORMAT,
				  nfailed, ntests, seed);
	return nfailed > 0;
}
