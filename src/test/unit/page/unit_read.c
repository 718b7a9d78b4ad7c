/*-------------------------------------------------------------------------
 *
 * unit_read.c
 *	  Reading all of a page in each way there is, for tests of damaged pages.
 *
 * Every byte of a value is looked at, so that address sanitizer sees pointers that
 * lead out of the image.  What comes out is of no interest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "unit.h"
#include "unit_read.h"

/* Volatile, or a compiler may find that nobody reads it, and leave out all that feeds it. */
static volatile uint64 touched;

static void
touch(const RoseColumnDesc *desc, Datum value)
{
	const char *bytes = DatumGetPointer(value);
	Size		size = desc->attlen;
	uint64		sum = 0;
	Size		i;

	if (desc->attbyval)
	{
		touched += value;
		return;
	}
	if (desc->kind == ROSE_COLUMN_VARLEN)
		size = VARSIZE_ANY(bytes);
	else if (desc->kind == ROSE_COLUMN_CSTRING)
		size = strlen(bytes) + 1;
	for (i = 0; i < size; i++)
		sum += (uint8) bytes[i];
	touched += sum;
}

static int
compare_anything(Datum stored, Datum value, void *arg)
{
	touch(arg, stored);
	return (int) unit_random_below(3) - 1;
}

/* Whatever is on the page, runs are within what was asked for, and ascend. */
static void
read_runs(RosePageReader *reader, int c, int from, int n)
{
	int64		values[200];
	uint16		starts[200];
	int			max_runs = 1 + (int) unit_random_below(lengthof(values));
	int			nruns = rose_page_runs(reader, c, from, n, max_runs, values, starts);

	if (nruns < 0 || nruns > max_runs || (nruns > 0 && starts[0] != 0))
		abort();
	for (int k = 0; k < nruns; k++)
	{
		touched += (uint64) values[k];
		if (starts[k] >= n || (k > 0 && starts[k] <= starts[k - 1]))
			abort();
	}
}

/* Whatever is on the page, codes are those of entries, which are values. */
static void
read_codes(RosePageReader *reader, const RoseColumnDesc *desc, int c, int from, int n)
{
	static uint16 codes[1000];
	int			nentries;
	const Datum *entries = rose_page_codes(reader, c, from, n, codes, &nentries);

	for (int i = 0; i < n && entries != NULL; i++)
	{
		if (codes[i] >= nentries)
			abort();
		touch(desc, entries[codes[i]]);
	}
}

void
unit_read_page(RosePageReader *reader, const RoseColumnDesc *descs, const char *image)
{
	static Datum values[1000];
	static bool nulls[1000];
	static int	slots[1000];
	int			c;

	rose_page_reader_init(reader, image);
	for (c = 0; c < rose_page_reader_ncols(reader); c++)
	{
		const RoseColumnDesc *desc = &descs[c];
		int			nrows = rose_page_reader_nrows(reader);
		int			from = (int) unit_random_below(nrows + 1);
		int			wanted = (int) unit_random_below(lengthof(values));
		int			n = Min(nrows - from, wanted);
		bool		any_null = false;
		int			first;
		int			last;
		int64		min;
		int64		max;
		int			i;

		for (i = 0; i < 4 && nrows > 0; i++)
		{
			bool		isnull;
			Datum		value = rose_page_get(reader, c, (int) unit_random_below(nrows), &isnull);

			if (!isnull)
				touch(desc, value);
		}
		rose_page_decode(reader, c, from, n, values, nulls);
		for (i = 0; i < n; i++)
		{
			any_null |= nulls[i];
			if (!nulls[i])
				touch(desc, values[i]);
		}
		for (i = 0; i < n; i++)
		{
			int			step = (int) unit_random_below(5);

			slots[i] = i == 0 ? from : Min(slots[i - 1] + step, from + n - 1);
		}
		rose_page_gather(reader, c, slots, n, values, nulls);
		for (i = 0; i < n; i++)
			if (!nulls[i])
				touch(desc, values[i]);
		if (desc->kind == ROSE_COLUMN_INT || desc->kind == ROSE_COLUMN_FLOAT)
			read_runs(reader, c, from, n);
		else
			read_codes(reader, desc, c, from, n);
		rose_page_minmax(reader, c, &min, &max);
		if (rose_page_extremes(reader, c, from, n, &min, &max))
			touched += (uint64) min + (uint64) max;
		if (any_null)
			continue;
		if (desc->kind == ROSE_COLUMN_INT)
			rose_page_search(reader, c, from, from + n, (Datum) unit_random(), NULL, NULL,
							 &first, &last);
		rose_page_search(reader, c, from, from + n, (Datum) 0, compare_anything,
						 (void *) desc, &first, &last);
	}
}
