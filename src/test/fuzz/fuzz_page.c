/*-------------------------------------------------------------------------
 *
 * fuzz_page.c
 *	  Multicolumn pages of any content: the reader and rose_page_check.
 *
 * Input: number of columns, a byte for each of them that picks its type, number of
 * rows (2 bytes), flags, then what follows the page's headers.  The headers themselves
 * are made here: a magic number costs a fuzzer much time and finds nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "catalog/pg_type.h"
#include "page/rose_page_format.h"
#include "unit/page/unit_read.h"

#define MAX_COLUMNS 6

static const struct
{
	int16		attlen;
	bool		attbyval;
	char		attalign;
	bool		is_float;
}			types[] = {
	{8, true, TYPALIGN_DOUBLE, false},
	{4, true, TYPALIGN_INT, false},
	{2, true, TYPALIGN_SHORT, false},
	{1, true, TYPALIGN_CHAR, false},
	{8, true, TYPALIGN_DOUBLE, true},
	{4, true, TYPALIGN_INT, true},
	{16, false, TYPALIGN_CHAR, false},
	{6, false, TYPALIGN_SHORT, false},
	{-1, false, TYPALIGN_INT, false},
	{-1, false, TYPALIGN_DOUBLE, false},
	{-2, false, TYPALIGN_CHAR, false},
};

static void
ignore_problem(void *arg, int col, const char *message)
{
}

/* Takes the first bytes of the input; returns how many, 0 if it is too short. */
static Size
make_descs(const uint8 *data, Size size, int *ncols, RoseColumnDesc *descs)
{
	if (size < 1)
		return 0;
	*ncols = 1 + data[0] % MAX_COLUMNS;
	if (size < 1 + *ncols + 3)
		return 0;
	for (int i = 0; i < *ncols; i++)
	{
		uint8		pick = data[1 + i];
		int			type = pick % lengthof(types);

		descs[i] = rose_column_desc(types[type].attlen, types[type].attbyval,
									types[type].attalign, types[type].is_float);
		descs[i].long_headers = types[type].attlen == -1 && (pick & 0x80) != 0;
	}
	return 1 + *ncols;
}

static void
make_image(char *image, int ncols, const uint8 *data, Size size)
{
	RosePageHeaderDisk *header;
	Size		room = BLCKSZ - ROSE_PAGE_DIRECTORY_OFFSET;
	Size		body = Min(size - 3, room);

	PageInit((Page) image, BLCKSZ, 0);
	header = rose_page_header(image);
	header->magic = ROSE_PAGE_MAGIC;
	header->version = ROSE_PAGE_VERSION;
	header->kind = ROSE_PAGE_LEAF;
	header->nrows = (uint16) (data[0] | data[1] << 8);
	header->flags = data[2];
	header->ncols = (uint16) ncols;
	memcpy(image + ROSE_PAGE_DIRECTORY_OFFSET, data + 3, body);
	((PageHeader) image)->pd_lower = (LocationIndex) (ROSE_PAGE_DIRECTORY_OFFSET + body);
}

int
LLVMFuzzerTestOneInput(const uint8 *data, Size size)
{
	RoseColumnDesc descs[MAX_COLUMNS];
	RosePageReader *reader;
	volatile bool failed;
	int			ncols;
	char	   *image;
	Size		taken = make_descs(data, size, &ncols, descs);

	if (taken == 0)
		return 0;
	fuzz_begin(data, size);
	/* of its own, so that what lies behind it is not mapped for address sanitizer */
	image = palloc0(BLCKSZ);
	make_image(image, ncols, data + taken, size - taken);
	reader = rose_page_reader_create(ncols, descs, fuzz_context());
	UNIT_CATCH(failed, unit_read_page(reader, descs, image));
	if (failed)
		fuzz_check_error();
	rose_page_check(image, ncols, descs, ignore_problem, NULL);
	fuzz_end();
	return 0;
}
