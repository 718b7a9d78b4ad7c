/*-------------------------------------------------------------------------
 *
 * weather.c
 *	  Makes the readings that bench/weather loads; its head describes them.
 *
 *		weather FOLDER ROWS BATCH SEED binary|text
 *
 * Writes FOLDER/0000, 0001, ... with BATCH rows each, in one random order over
 * all rows, as COPY's binary format or as tab-separated text.  All rows are
 * made first, station by station, and then shuffled: 40 bytes of memory a row.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

#define READINGS_A_STATION	1000

/* Hundredths of a degree of longitude and latitude: so many places. */
#define PLACES			(36000 * UINT64_C(18000))

/* Seconds from 2000-01-01 to 2007-05-01, where the paper's data starts. */
#define FIRST_HOUR		(2677 * 86400)

#define NO_READING		(-999900)

typedef struct Reading
{
	int64_t		conditions;
	int32_t		longitude;
	int32_t		latitude;
	uint32_t	seconds;		/* since 2000-01-01 */
	int32_t		station;
	int16_t		elevation;
	int16_t		temperature;	/* whole degrees; wind in whole knots, tens of degrees */
	int16_t		direction;
	int16_t		speed;
	int16_t		gust;			/* -1: none */
} Reading;

static int
per_cent(int chance)
{
	return below(100) < chance;
}

/* As in the paper: letters, + and -, in 5 bits each. */
static int64_t
pack_conditions(const char *text)
{
	int64_t		packed = 0;

	for (; *text; text++)
		packed = packed << 5 | (*text == '+' ? 27 : *text == '-' ? 28 : *text - 'A' + 1);
	return packed;
}

static int64_t
next_conditions(void)
{
	static const char *const codes[] = {"CLR", "CLR", "FEW", "FEW", "SCT", "SCT", "BKN", "BKN",
	"OVC", "OVC", "RA", "-RA", "+RA", "SN", "-SN", "BR", "FG", "HZ", "TS", "-TSRA"};

	return pack_conditions(codes[below(sizeof(codes) / sizeof(codes[0]))]);
}

static void
make_station(Reading *rows, int n, int station, uint64_t seed)
{
	/* the multiplier is prime to the number of places: no two stations share one */
	uint64_t	place = (station * UINT64_C(2654435761) + seed * 97) % PLACES;
	int			latitude = (int) (place / 36000) - 9000;
	int			elevation = below(4) == 0 ? below(2500) : below(400);
	int			minute = below(12) * 5;
	double		climate = 30 - 45.0 * abs(latitude) / 9000 - elevation / 160.0;
	double		weather = 0;
	double		wind = 8;
	uint32_t	hour = below(24);
	int			direction = below(36);
	int64_t		conditions = next_conditions();

	for (int i = 0; i < n; i++)
	{
		Reading    *row = &rows[i];
		int			calm;

		hour += per_cent(1) ? 2 + below(6) : 1;
		weather = 0.98 * weather + (below(1000) - 499.5) / 500;
		wind = 8 + 0.9 * (wind - 8) + (below(1000) - 499.5) / 150;
		calm = wind < 2;
		if (per_cent(55))
			direction = (direction + 33 + below(7)) % 36;
		if (per_cent(8))
			conditions = next_conditions();
		row->conditions = conditions;
		row->longitude = (int) (place % 36000) - 18000;
		row->latitude = latitude;
		row->seconds = FIRST_HOUR + hour * 3600 + (per_cent(5) ? below(60) : minute) * 60;
		row->station = 100000 + station * 7;
		row->elevation = (int16_t) elevation;
		row->temperature = (int16_t) lround(climate + 5 * sin((hour % 24 - 8) * M_PI / 12) + weather);
		row->direction = (int16_t) (calm ? 0 : direction);
		row->speed = (int16_t) (calm ? 0 : lround(wind));
		row->gust = (int16_t) (!calm && per_cent(wind > 14 ? 40 : 2) ? row->speed + 4 + below(12) : -1);
	}
}

static void
shuffle(Reading *rows, int n)
{
	for (int i = n - 1; i > 0; i--)
	{
		int			k = (int) (next_random() % (uint64_t) (i + 1));
		Reading		row = rows[i];

		rows[i] = rows[k];
		rows[k] = row;
	}
}

/* ---- Output ---- */

static void
put_number(FILE *out, int bytes, int64_t value)
{
	for (int shift = 8 * bytes - 8; shift >= 0; shift -= 8)
		putc_unlocked((int) (value >> shift & 0xff), out);
}

static void
put_field(FILE *out, int bytes, int64_t value)
{
	put_number(out, 4, bytes);
	put_number(out, bytes, value);
}

static void
put_binary(FILE *out, const Reading *row)
{
	put_number(out, 2, 10);
	put_field(out, 4, row->longitude);
	put_field(out, 4, row->latitude);
	put_field(out, 8, row->seconds * INT64_C(1000000));
	put_field(out, 8, row->conditions);
	put_field(out, 4, row->station);
	put_field(out, 4, row->elevation);
	put_field(out, 4, row->temperature * 100);
	put_field(out, 4, row->direction * 1000);
	put_field(out, 4, row->speed * 100);
	put_field(out, 4, row->gust < 0 ? NO_READING : row->gust * 100);
}

/* For programs other than PostgreSQL: the time is in seconds since 2000. */
static void
put_text(FILE *out, const Reading *row)
{
	fprintf(out, "%d\t%d\t%u\t%lld\t%d\t%d\t%d\t%d\t%d\t%d\n", row->longitude, row->latitude,
			row->seconds, (long long) row->conditions, row->station, row->elevation,
			row->temperature * 100, row->direction * 1000, row->speed * 100,
			row->gust < 0 ? NO_READING : row->gust * 100);
}

static void
write_batch(const char *folder, int number, const Reading *rows, int n, int binary)
{
	char		path[4096];
	FILE	   *out;

	snprintf(path, sizeof(path), "%s/%04d", folder, number);
	out = fopen(path, "wb");
	if (out == NULL)
	{
		perror(path);
		exit(1);
	}
	if (binary)
		fwrite("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 1, 19, out);
	for (int i = 0; i < n; i++)
	{
		if (binary)
			put_binary(out, &rows[i]);
		else
			put_text(out, &rows[i]);
	}
	if (binary)
		put_number(out, 2, -1);
	if (fclose(out) != 0)
	{
		perror(path);
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	int			nrows;
	int			batch;
	uint64_t	seed;
	Reading    *rows;

	if (argc != 6)
	{
		fprintf(stderr, "usage: weather FOLDER ROWS BATCH SEED binary|text\n");
		return 2;
	}
	nrows = atoi(argv[2]);
	batch = atoi(argv[3]);
	seed = strtoull(argv[4], NULL, 10);
	random_state = seed;
	rows = malloc(nrows * sizeof(Reading));
	if (rows == NULL)
	{
		fprintf(stderr, "weather: out of memory\n");
		return 1;
	}
	for (int first = 0; first < nrows; first += READINGS_A_STATION)
		make_station(rows + first,
					 nrows - first < READINGS_A_STATION ? nrows - first : READINGS_A_STATION,
					 first / READINGS_A_STATION, seed);
	shuffle(rows, nrows);
	for (int first = 0; first < nrows; first += batch)
		write_batch(argv[1], first / batch, rows + first, nrows - first < batch ? nrows - first : batch,
					strcmp(argv[5], "binary") == 0);
	return 0;
}
