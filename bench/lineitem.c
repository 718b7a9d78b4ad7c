/*-------------------------------------------------------------------------
 *
 * lineitem.c
 *	  Makes the line items that bench/tpch loads.
 *
 *		lineitem ROWS SEED
 *
 * Writes tab-separated text to standard output: 16 columns, with the distributions that the public specification of TPC-H gives them, in
 * the order of orders.  Comments are words of ours.
 *
 *-------------------------------------------------------------------------
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "random.h"

/* Days from 1992-01-01 on which orders come, to 1998-08-02; and the day that parts the past from what is to come. */
#define ORDER_DAYS		2405
#define CURRENT_DAY		1263	/* 1995-06-17 */

static int
between(int low, int high)
{
	return low + below(high - low + 1);
}

/* A day from 1992-01-01 on. */
static void
put_day(int day)
{
	static const int months[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int			year = 1992;
	int			month = 0;

	for (; day >= (year % 4 == 0 ? 366 : 365); year++)
		day -= year % 4 == 0 ? 366 : 365;
	for (; day >= months[month] + (month == 1 && year % 4 == 0); month++)
		day -= months[month] + (month == 1 && year % 4 == 0);
	printf("\t%d-%02d-%02d", year, month + 1, day + 1);
}

static void
put_money(int64_t cents)
{
	printf("\t%lld.%02lld", (long long) cents / 100, (long long) cents % 100);
}

static void
put_words(void)
{
	static const char *const words[] = {"quick", "deposits", "sleep", "slyly", "final", "requests", "carefully", "bold", "packages", "above", "the", "ideas"};

	putchar_unlocked('\t');
	for (int n = between(2, 4); n > 0; n--)
		printf("%s%s", words[between(0, 11)], n > 1 ? " " : "");
}

static void
put_item(uint64_t order, int line, int order_day, int nparts)
{
	static const char *const instructions[] = {"DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"};
	static const char *const modes[] = {"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"};
	int			part = between(1, nparts);
	int			quantity = between(1, 50);
	int			ship = order_day + between(1, 121);
	int			commit = order_day + between(30, 90);
	int			receipt = ship + between(1, 30);

	printf("%llu\t%d\t%d\t%d\t%d", (unsigned long long) order, part, between(1, nparts / 20 + 1), line, quantity);
	/* the part's retail price, in cents */
	put_money((int64_t) quantity * (90000 + (part / 10) % 20001 + 100 * (part % 1000)));
	printf("\t0.%02d", between(0, 10));
	printf("\t0.%02d", between(0, 8));
	printf("\t%s", receipt <= CURRENT_DAY ? (between(0, 1) ? "R" : "A") : "N");
	printf("\t%s", ship > CURRENT_DAY ? "O" : "F");
	put_day(ship);
	put_day(commit);
	put_day(receipt);
	printf("\t%s", instructions[between(0, 3)]);
	printf("\t%s", modes[between(0, 6)]);
	put_words();
	putchar_unlocked('\n');
}

int
main(int argc, char **argv)
{
	uint64_t	nrows;
	uint64_t	order = 0;

	if (argc != 3 || (nrows = strtoull(argv[1], NULL, 10)) == 0)
	{
		fprintf(stderr, "usage: lineitem ROWS SEED\n");
		return 2;
	}
	random_state = strtoull(argv[2], NULL, 10);
	for (uint64_t row = 0; row < nrows;)
	{
		int			day = between(0, ORDER_DAYS);
		int			lines = between(1, 7);

		/* eight orders' keys of each thirty-two are used */
		order += order % 8 == 7 ? 25 : 1;
		for (int line = 1; line <= lines && row < nrows; line++, row++)
			put_item(order, line, day, nrows / 30 < 200 ? 200 : (int) (nrows / 30));
	}
	if (fflush(stdout) != 0)
	{
		perror("lineitem");
		return 1;
	}
	return 0;
}
