/*-------------------------------------------------------------------------
 *
 * unit_fuzz.c
 *	  Damaged pages: reading them gives values or an error, never a crash.
 *
 * A crash here is a crash; reads out of bounds show under SANITIZE=1, for
 * which each image is an allocation of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "page/rose_page_format.h"

#include "unit.h"
#include "unit_read.h"
#include "unit_rows.h"

#define FUZZ_PAGES		48
#define FUZZ_COLUMNS	5

typedef struct FuzzPage
{
	RoseColumnDesc descs[FUZZ_COLUMNS];
	char		image[BLCKSZ] __attribute__((aligned(8)));
} FuzzPage;

static void
damage(char *image, const FuzzPage *pages, int used)
{
	int			low = unit_random_below(4) == 0 ? 0 : (int) ROSE_PAGE_DIRECTORY_OFFSET;
	int			high = unit_random_below(4) == 0 ? BLCKSZ : Max(used, low + 8);
	int			n = 1 + (int) unit_random_below(unit_random_below(4) == 0 ? 40 : 3);
	int			k;

	/* mostly early bytes, where directory and segment headers are */
	if (unit_random_below(2) == 0)
		high = Min(high, low + 200);
	for (k = 0; k < n; k++)
	{
		int			at = low + (int) unit_random_below(high - low);

		switch (unit_random_below(5))
		{
			case 0:
				image[at] = (char) unit_random();
				break;
			case 1:
				image[at] = (char) (unit_random_below(2) == 0 ? 0 : 0xff);
				break;
			case 2:
				/* cut off */
				if (unit_random_below(10) == 0)
					memset(image + at, 0, BLCKSZ - at);
				break;
			case 3:
				/* a piece of another page */
				if (unit_random_below(10) == 0)
					memcpy(image + at, pages[unit_random_below(FUZZ_PAGES)].image + at,
						   unit_random_below(BLCKSZ - at));
				break;
			default:
				image[at] ^= (char) (1 << unit_random_below(8));
		}
	}
}

static void
make_fuzz_page(FuzzPage *page)
{
	UnitColumn	columns[FUZZ_COLUMNS];
	RosePageBuilder *builder;
	int			c;

	unit_random_columns(columns, FUZZ_COLUMNS);
	for (c = 0; c < FUZZ_COLUMNS; c++)
		page->descs[c] = columns[c].desc;
	builder = rose_page_builder_create(FUZZ_COLUMNS, page->descs, TopMemoryContext);
	unit_fill_page(builder, columns, FUZZ_COLUMNS, unit_random_below(3) == 0 ? 100 : 2000);
	rose_page_builder_pack(builder, page->image);
	rose_page_builder_free(builder);
	unit_free_columns(columns, FUZZ_COLUMNS);
}

static void
ignore_problem(void *arg, int col, const char *message)
{
	(*(int *) arg)++;
}

void
test_page_fuzz(int iterations)
{
	FuzzPage   *pages = malloc(FUZZ_PAGES * sizeof(FuzzPage));
	RosePageReader *readers[FUZZ_PAGES];
	char	   *image = malloc(BLCKSZ);
	volatile int nerrors = 0;
	volatile int nother = 0;
	int			nproblems = 0;
	volatile int i;

	for (i = 0; i < FUZZ_PAGES; i++)
	{
		make_fuzz_page(&pages[i]);
		readers[i] = rose_page_reader_create(FUZZ_COLUMNS, pages[i].descs, TopMemoryContext);
	}
	for (i = 0; i < iterations; i++)
	{
		int			k = (int) unit_random_below(FUZZ_PAGES);
		volatile bool failed;

		memcpy(image, pages[k].image, BLCKSZ);
		damage(image, pages, ((PageHeader) image)->pd_lower);
		UNIT_CATCH(failed, unit_read_page(readers[k], pages[k].descs, image));
		if (failed)
		{
			nerrors++;
			if (unit_error_code != ERRCODE_DATA_CORRUPTED)
			{
				nother++;
				unit_note("unexpected error: %s", unit_error_message());
			}
		}
		if (i % 16 == 0)
			rose_page_check(image, FUZZ_COLUMNS, pages[k].descs, ignore_problem, &nproblems);
	}
	unit_ok(nother == 0, "fuzz: %d damaged pages, %d found out while reading, none crashed",
			iterations, nerrors);
	unit_ok(iterations < 1000 || (nerrors > iterations / 100 && nproblems > iterations / 100),
			"fuzz: check reported %d problems of every 16th page", nproblems);
	for (i = 0; i < FUZZ_PAGES; i++)
		rose_page_reader_free(readers[i]);
	free(pages);
	free(image);
}
