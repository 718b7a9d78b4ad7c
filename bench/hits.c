/*-------------------------------------------------------------------------
 *
 * hits.c
 *	  Makes the page views that bench/clickbench loads; its head describes them.
 *
 *		hits ROWS SEED
 *
 * Writes rows of 105 columns to standard output, as tab-separated text, in the order of their time.  A row
 * is made of its number and the seed alone, so that nothing is kept in memory.
 *
 * Ids and texts are drawn by rank, with a chance of 1 / (rank + q): the smaller q, the more have the first few.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a row begins at the number that its own says */
#define RANDOM_STRIDE	1
#include "random.h"

/* The counter that some queries are about, and its rank. */
#define COUNTER			62
#define COUNTER_RANK	4
#define COUNTERS		6500

#define REGIONS			5000
#define WORDS			20000
#define PHONES			160

/* Seconds of 30 days, the first of which is 2013-07-02. */
#define SECONDS			(30 * 86400)
#define FIRST_DAY		2

static uint64_t nrows;

/* What a row is made of. */
typedef struct Hit
{
	uint64_t	number;
	uint64_t	user;			/* rank */
	uint64_t	user_hash;
	uint64_t	page;			/* of the counter's; tells URL and title */
	int			counter;		/* rank */
	int			second;			/* since the first day */
	int			refresh;
} Hit;

static int
per_mille(int chance)
{
	return below(1000) < chance;
}

/* From 0 to n - 1. */
static uint64_t
rank_of(double n, double q)
{
	double		u = (double) (next_random() >> 11) / 9007199254740992.0;
	uint64_t	rank = (uint64_t) (q * pow((n + q) / q, u) - q);

	return rank < (uint64_t) n ? rank : (uint64_t) n - 1;
}

/* ---- columns ---- */

static int	ncolumns;

static void
separate(void)
{
	if (ncolumns++ > 0)
		putchar_unlocked('\t');
}

static void
put_number(int64_t value)
{
	separate();
	printf("%lld", (long long) value);
}

static void
put_numbers(int n, int value)
{
	for (int i = 0; i < n; i++)
		put_number(value);
}

/* Mostly 0. */
static void
put_seldom(int chance, int limit)
{
	put_number(per_mille(chance) ? 1 + below(limit) : 0);
}

static void
put_text(const char *text)
{
	separate();
	fputs(text, stdout);
}

static void
put_empty(int n)
{
	for (int i = 0; i < n; i++)
		put_text("");
}

static void
put_time(int second)
{
	separate();
	printf("2013-07-%02d %02d:%02d:%02d", FIRST_DAY + second / 86400, second / 3600 % 24, second / 60 % 60, second % 60);
}

static void
put_date(int second)
{
	separate();
	printf("2013-07-%02d", FIRST_DAY + second / 86400);
}

/* ---- texts ---- */

static void
write_word(uint64_t rank, int cyrillic)
{
	static const char *const latin[] = {"ba", "ke", "mi", "to", "ru", "sla", "ne", "vi", "go", "pu", "da", "re", "sti", "lo", "chu", "za"};
	static const char *const letters[] = {"ба", "ке", "ми", "то", "ру", "сла", "не", "ви", "го", "пу", "да", "ре", "сти", "ло", "чу", "за"};
	uint64_t	left = rank + 16;

	for (; left > 0; left /= 16)
		fputs((cyrillic ? letters : latin)[left % 16], stdout);
}

/* Words that what alone tells. */
static void
write_words(uint64_t what, int n, char separator)
{
	for (int i = 0; i < n; i++)
	{
		uint64_t	h = random_hash(what + (uint64_t) i * 7919);

		if (i > 0)
			putchar_unlocked(separator);
		/* the smaller of two is oftener small */
		write_word(h % WORDS < (h >> 32) % WORDS ? h % WORDS : (h >> 32) % WORDS, separator == ' ');
	}
}

static void
write_host(uint64_t site)
{
	if (site % 3 == 0)
		fputs("www.", stdout);
	write_word(site % 997, 0);
	write_word(site, 0);
	fputs(site % 5 == 0 ? ".com" : ".ru", stdout);
}

static void
write_url(uint64_t site, uint64_t page)
{
	fputs(random_hash(page) % 8 == 0 ? "https://" : "http://", stdout);
	if (random_hash(page) % 2000 == 7)
	{
		fputs(random_hash(page) % 3 == 0 ? "www.google.ru/search?q=" : "google-analytics.ru/?q=", stdout);
		write_words(page, 2, '+');
		return;
	}
	write_host(site);
	putchar_unlocked('/');
	write_words(page, 1 + (int) (random_hash(page) % 3), '/');
	if (page % 3 > 0)
		printf(".html?id=%llu", (unsigned long long) page);
	if (page % 7 == 0)
	{
		fputs("&from=", stdout);
		write_words(page * 3, 3, '-');
	}
}

static void
put_url(uint64_t site, uint64_t page)
{
	separate();
	write_url(site, page);
}

static void
put_title(const Hit *hit)
{
	separate();
	if (hit->page % 20 == 0)
		return;
	write_words(hit->page, 3 + (int) (random_hash(hit->page) % 6), ' ');
	fputs(" - ", stdout);
	if (random_hash(hit->page) % 300 == 7)
		fputs("Google ", stdout);
	write_words((uint64_t) hit->counter, 2, ' ');
}

/* A seventh of the rows come from a search. */
static void
put_phrase(int is_search)
{
	uint64_t	phrase = rank_of((double) nrows / 12 + 100, 30);

	separate();
	if (is_search)
		write_words(phrase * 31 + 5, 1 + (int) (random_hash(phrase) % 5), ' ');
}

static void
put_phone(const Hit *hit, int is_mobile)
{
	char		model[32];
	uint64_t	phone = hit->user_hash >> 20;

	snprintf(model, sizeof(model), "%s%d", phone % 4 == 0 ? "iPad" : phone % 4 == 1 ? "iPhone" : "GT-I",
			 (int) ((phone >> 8) % PHONES * ((phone >> 16) % PHONES) / PHONES));
	put_number(is_mobile ? (int) (1 + phone % 60) : 0);
	put_text(is_mobile && (phone >> 30) % 4 > 0 ? model : "");
}

/* ---- rows ---- */

/* To EventDate, ..., URLRegionID. */
static void
put_visit(const Hit *hit)
{
	put_number((int64_t) random_hash(hit->number * 2 + 1));
	put_number(!per_mille(150));
	put_title(hit);
	put_number(1);
	put_time(hit->second);
	put_date(hit->second);
	put_number(hit->counter == COUNTER_RANK ? COUNTER : 100 + hit->counter * 37);
	put_number((int32_t) random_hash(hit->user / 2));
	put_number((int64_t) (229 + (hit->user_hash % REGIONS) * (hit->user_hash >> 32) % REGIONS * (hit->user_hash % 7 > 1)));
	put_number((int64_t) random_hash(hit->user_hash));
	put_number(hit->counter % 3);
	put_number((int64_t) (hit->user_hash >> 8) % 90);
	put_number((int64_t) (hit->user_hash >> 16) % 80);
	put_url((uint64_t) hit->counter, hit->page);
	if (per_mille(190))
		put_empty(1);
	else
		put_url(rank_of(COUNTERS, 2), per_mille(150) ? hit->number : rank_of(40, 2));
	put_number(hit->refresh);
	put_seldom(400, 15000);
	put_seldom(300, 300);
	put_seldom(500, 15000);
	put_number((int64_t) hit->counter * 11 % 300);
}

/* ResolutionWidth, ..., UserAgentMinor. */
static void
put_screen(const Hit *hit)
{
	static const int widths[] = {1024, 1280, 1366, 1366, 1440, 1600, 1680, 1920, 1920, 320, 0};
	uint64_t	screen = hit->user_hash >> 24;
	int			width = widths[screen % 11];
	char		minor[16];

	put_number(width);
	put_number(width * 5 / 8 + (int) (screen % 3) * 60);
	put_number(screen % 9 == 0 ? 24 : 32);
	put_number((int64_t) (screen >> 5) % 12);
	put_number((int64_t) (screen >> 9) % 8);
	snprintf(minor, sizeof(minor), "%d", (int) (screen >> 12) % 700);
	put_text(screen % 4 == 0 ? "" : minor);
	put_number((int64_t) screen % 3);
	put_number((int64_t) screen % 5);
	put_number((int64_t) (screen >> 16) % 50);
	snprintf(minor, sizeof(minor), "%c%d", (int) ('A' + screen % 20), (int) (screen >> 18) % 10);
	put_text(screen % 6 == 0 ? "" : minor);
}

/* CookieEnable, ..., OriginalURL. */
static void
put_client(const Hit *hit)
{
	int			is_search = per_mille(140);
	int			is_mobile = hit->user_hash % 16 == 3;

	put_numbers(2, !per_mille(20));
	put_number(is_mobile);
	put_phone(hit, is_mobile);
	put_text(per_mille(30) ? "price=1&currency=RUB" : "");
	put_number((int64_t) (hit->user_hash >> 12) % 4000000);
	put_number(is_search ? 2 : below(8) - 1);
	put_number(is_search ? 1 + below(30) * below(30) / 12 : 0);
	put_phrase(is_search);
	put_seldom(6, 25);
	put_number(0);
	put_number((int64_t) (hit->user_hash >> 24) % 1900);
	put_number((int64_t) (hit->user_hash >> 28) % 1000);
	put_number((int64_t) (hit->user_hash % 5) * 60 - 120);
	put_time((int) ((hit->second + hit->user_hash % 300) % SECONDS));
	put_number(hit->user_hash % 3 ? 5 : 0);
	put_number(hit->user_hash % 3 ? 1 : 0);
	put_number(hit->user_hash % 3 ? 20000 + (int64_t) hit->user_hash % 30 : 0);
	put_number(0);
	put_text(per_mille(800) ? "windows-1251;charset" : "utf-8");
	put_number((int64_t) hit->counter % 50 + 300);
	put_seldom(80, 1);
	put_seldom(10, 1);
	put_number(below(2));
	put_number(per_mille(500) ? (int64_t) (random_hash(hit->user * 5) >> 1) : 0);
	if (per_mille(50))
		put_url((uint64_t) hit->counter, hit->page);
	else
		put_empty(1);
}

/* HID, ..., BrowserCountry. */
static void
put_person(const Hit *hit)
{
	static const char *const colours[] = {"5", "6", "E", "F", "D", "g"};
	uint64_t	person = random_hash(hit->user + 77);

	put_number((int32_t) next_random());
	put_seldom(10, 1);
	put_seldom(50, 1);
	put_seldom(20, 1);
	put_seldom(120, 1);
	put_seldom(30, 1);
	put_text(colours[below(6) * below(6) / 6]);
	put_time(hit->second);
	put_number((int64_t) person % 6 * 10);
	put_number((int64_t) (person >> 8) % 3);
	put_number((int64_t) (person >> 16) % 4);
	put_number((int64_t) (person >> 24) % 8000);
	put_seldom(20, 60);
	put_number((int32_t) random_hash(hit->user / 2 + 13));
	put_number(per_mille(600) ? -1 : below(10000));
	put_number(per_mille(900) ? -1 : below(10000));
	put_number(rank_of(200, 2));
	put_text("ru");
	put_text(person % 20 == 0 ? "ua" : "ru");
}

/* SocialNetwork, ..., CLID. */
static void
put_rest(const Hit *hit)
{
	uint64_t	referer = hit->counter == COUNTER_RANK ? rank_of(60, 1) : rank_of((double) nrows / 4, 50);
	int			is_campaign = per_mille(60);

	put_empty(2);
	put_seldom(10, 404);
	put_seldom(900, 5000);
	put_seldom(300, 200);
	put_seldom(300, 900);
	put_seldom(700, 3000);
	put_seldom(600, 6000);
	put_seldom(600, 9000);
	put_seldom(5, 20);
	put_empty(1);
	put_seldom(3, 100000);
	put_empty(1);
	put_text(per_mille(3) ? "RUB" : "NH");
	put_seldom(3, 3);
	put_empty(4);
	put_text(is_campaign ? "yandex" : "");
	put_text(is_campaign ? "cpc" : "");
	separate();
	if (is_campaign)
		write_words(hit->page % 500, 2, '_');
	put_empty(2);
	put_text(per_mille(10) ? "rss" : "");
	put_seldom(30, 1);
	put_number((int64_t) random_hash(referer + 99));
	put_number((int64_t) random_hash(hit->page * COUNTERS + (uint64_t) hit->counter));
	put_seldom(20, 10000);
}

static void
make_hit(Hit *hit, uint64_t number)
{
	double		pages;

	hit->number = number;
	hit->user = rank_of((double) nrows / 4 + 10, 300);
	hit->user_hash = random_hash(hit->user);
	hit->counter = (int) rank_of(COUNTERS, 4);
	hit->second = (int) ((double) number * SECONDS / (double) nrows);
	hit->refresh = per_mille(140);
	/* who has many views has many pages; some are seen once */
	pages = (double) nrows / (hit->counter + 4) / 40 + 3;
	if (per_mille(90))
		hit->page = (uint64_t) pages + number;
	else
		hit->page = rank_of(pages, 10);
}

int
main(int argc, char **argv)
{
	uint64_t	seed;

	if (argc != 3 || (nrows = strtoull(argv[1], NULL, 10)) == 0)
	{
		fprintf(stderr, "usage: hits ROWS SEED\n");
		return 2;
	}
	seed = strtoull(argv[2], NULL, 10);
	for (uint64_t i = 0; i < nrows; i++)
	{
		Hit			hit;

		random_state = random_hash(seed) + i * 1000;
		ncolumns = 0;
		make_hit(&hit, i);
		put_visit(&hit);
		put_screen(&hit);
		put_client(&hit);
		put_person(&hit);
		put_rest(&hit);
		putchar_unlocked('\n');
	}
	if (fflush(stdout) != 0)
	{
		perror("hits");
		return 1;
	}
	return 0;
}
