/*-------------------------------------------------------------------------
 *
 * rose_page_check.c
 *	  Checking multicolumn pages.
 *
 * Goes beyond what a reader checks: that lists ascend, counts agree, codes have
 * entries, and every value can be read.
 *
 * Works on an image that nobody changes; no locks.  What rows mean to each other is
 * checked by lsm/component.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "codec/rose_items.h"
#include "page/rose_page_read.h"

/* Can every item be read, once the codec's own check has passed? */
static const char *
check_items(RoseSegment *segment)
{
	int			i;

	for (i = 0; i < segment->n; i++)
	{
		uint32		size;
		const char *item = segment->codec->get_item(segment, i, &size);

		if (rose_item_value(segment->desc, item, size) == NULL)
			return "item is not a value of its type";
	}
	return NULL;
}

/* Does every word fit the column's width? */
static const char *
check_words(RoseSegment *segment)
{
	int			bits = 8 * segment->desc->attlen - 1;
	int			i;

	for (i = 0; i < segment->n; i++)
	{
		int64		sign = segment->codec->get(segment, i) >> bits;

		if (sign != 0 && sign != -1)
			return "value is wider than its type";
	}
	return NULL;
}

static const char *
check_column(RosePageReader *reader, int col)
{
	RoseColumnReader *column = &reader->columns[col];
	RoseSegment *segment = &column->segment;
	const char *problem = rose_page_reader_open_column(reader, col);

	if (problem == NULL)
		problem = rose_nullmap_check(&column->nulls);
	if (problem != NULL || segment->codec == NULL)
		return problem;
	problem = segment->codec->check(segment);
	if (problem != NULL)
		return problem;
	return segment->desc->attbyval ? check_words(segment) : check_items(segment);
}

/* Compared with itself, a byte further on: no loop of ours over most of the page. */
static bool
tail_is_zero(const char *image)
{
	int			end = ((const PageHeaderData *) image)->pd_lower;
	int			upper = rose_page_zero_end((const PageHeaderData *) image);

	return image[end] == 0 && memcmp(image + end, image + end + 1, upper - end - 1) == 0;
}

int
rose_page_check(const char *image, int ncols, const RoseColumnDesc *descs,
				RosePageProblem emit, void *arg)
{
	RosePageReader *reader = rose_page_reader_create(ncols, descs, CurrentMemoryContext);
	char	   *detail;
	const char *problem = rose_page_reader_attach(reader, image, &detail);
	int			nproblems = 0;
	int			col;

	if (problem != NULL)
	{
		emit(arg, -1, detail != NULL ? psprintf("%s: %s", problem, detail) : problem);
		nproblems++;
	}
	else if (!tail_is_zero(image))
	{
		emit(arg, -1, "bytes after the end of the data are not zero");
		nproblems++;
	}
	for (col = 0; col < reader->page_ncols; col++)
	{
		problem = check_column(reader, col);
		if (problem == NULL)
			continue;
		emit(arg, col, problem);
		nproblems++;
	}
	rose_page_reader_free(reader);
	return nproblems;
}
