/*-------------------------------------------------------------------------
 *
 * rose_page_read.c
 *	  Reading multicolumn pages.
 *
 * Putting a reader on an image checks the header only, so that a lookup pays
 * for the columns it uses.  A column is parsed, and its entry in the directory and its bounds are checked, when it is
 * first used.  Past that no content can lead a codec outside the image; see rose_codec.h.
 *
 * Works on an image that the caller keeps unchanged; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "codec/rose_items.h"
#include "codec/rose_kernels.h"
#include "page/rose_page_read.h"

/* Words decoded at a time. */
#define CHUNK_SIZE		256

/* ---- Life of a reader ---- */

/* init_size: of the memory that is kept from page to page. */
static RosePageReader *
create_reader(int ncols, const RoseColumnDesc *descs, Size init_size, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "rose page reader",
												  ALLOCSET_SMALL_SIZES);
	RosePageReader *reader = MemoryContextAllocZero(context, sizeof(RosePageReader));
	RoseColumnDesc *copy = MemoryContextAlloc(context, ncols * sizeof(RoseColumnDesc));

	memcpy(copy, descs, ncols * sizeof(RoseColumnDesc));
	reader->context = context;
	reader->page_context = AllocSetContextCreate(context, "rose page reader: page",
												 0, init_size, ALLOCSET_DEFAULT_MAXSIZE);
	reader->ncols = ncols;
	reader->descs = copy;
	/* some 400 bytes each, which opening a column fills in */
	reader->columns = MemoryContextAlloc(context, ncols * sizeof(RoseColumnReader));
	for (int c = 0; c < ncols; c++)
		reader->columns[c].generation = 0;
	return reader;
}

RosePageReader *
rose_page_reader_create(int ncols, const RoseColumnDesc *descs, MemoryContext parent)
{
	return create_reader(ncols, descs, ALLOCSET_DEFAULT_INITSIZE, parent);
}

RosePageReader *
rose_page_reader_create_small(int ncols, const RoseColumnDesc *descs, MemoryContext parent)
{
	return create_reader(ncols, descs, ALLOCSET_SMALL_INITSIZE, parent);
}

void
rose_page_reader_free(RosePageReader *reader)
{
	MemoryContextDelete(reader->context);
}

void
rose_page_reader_close(RosePageReader *reader)
{
	reader->image = NULL;
	reader->nrows = 0;
	reader->page_ncols = 0;
	reader->generation++;
	if (reader->page_context_used)
		MemoryContextReset(reader->page_context);
	reader->page_context_used = false;
}

/* ---- Header and directory ---- */

static const char *
check_header(const char *image, int max_ncols, char **detail)
{
	const PageHeaderData *standard = (const PageHeaderData *) image;
	const RosePageHeaderDisk *header = rose_page_header_const(image);

	*detail = NULL;
	if (standard->pd_pagesize_version != (BLCKSZ | PG_PAGE_LAYOUT_VERSION) ||
		standard->pd_special > BLCKSZ || standard->pd_special != MAXALIGN(standard->pd_special) ||
		standard->pd_upper > standard->pd_special || standard->pd_upper != MAXALIGN(standard->pd_upper) ||
		(standard->pd_upper != standard->pd_special && rose_page_end(image) == BLCKSZ))
		return "page header is not that of a rose page";
	if (header->magic != ROSE_PAGE_MAGIC)
	{
		*detail = psprintf("Magic number is %08X, expected %08X.",
						   header->magic, ROSE_PAGE_MAGIC);
		return "wrong magic number";
	}
	if (header->version != ROSE_PAGE_VERSION)
	{
		*detail = psprintf("The page has format version %u, this version of rose reads version %u.",
						   header->version, ROSE_PAGE_VERSION);
		return "unknown format version";
	}
	if (header->kind != ROSE_PAGE_LEAF && header->kind != ROSE_PAGE_INNER)
		return "not a multicolumn page";
	if (header->ncols < 1 || header->ncols > max_ncols)
	{
		*detail = psprintf("The page has %u columns, expected 1 to %d.",
						   header->ncols, max_ncols);
		return "number of columns is out of range";
	}
	if (standard->pd_lower < ROSE_PAGE_DATA_OFFSET(header->ncols) ||
		standard->pd_lower + ROSE_PAGE_SLOP > rose_page_zero_end(standard))
		return "end of data is out of range";
	return NULL;
}

static inline bool
has_segment(const RoseDirectoryEntryDisk *entry)
{
	return entry->codec != ROSE_CODEC_NONE && (entry->flags & ROSE_DIR_INLINE) == 0;
}

/* Where a column's segment ends: where the next one begins.  Returns what is wrong, or NULL. */
static const char *
find_end(const RosePageReader *reader, int col, const char **end)
{
	const RoseDirectoryEntryDisk *entry = &reader->directory[col];
	uint16		last = ((const PageHeaderData *) reader->image)->pd_lower;
	uint16		offset = last;

	for (int c = col + 1; c < reader->page_ncols; c++)
		if (has_segment(&reader->directory[c]))
		{
			offset = reader->directory[c].offset;
			break;
		}
	if (offset > last || entry->offset > offset || entry->offset < ROSE_PAGE_DATA_OFFSET(reader->page_ncols))
		return "segment is out of range";
	*end = reader->image + offset;
	return NULL;
}

const char *
rose_page_reader_attach(RosePageReader *reader, const char *image, char **detail)
{
	const char *problem;

	Assert((uintptr_t) image % MAXIMUM_ALIGNOF == 0);
	rose_page_reader_close(reader);
	problem = check_header(image, reader->ncols, detail);
	if (problem != NULL)
		return problem;
	reader->directory = (const RoseDirectoryEntryDisk *) (image + ROSE_PAGE_DIRECTORY_OFFSET);
	reader->image = image;
	reader->nrows = rose_page_header_const(image)->nrows;
	reader->page_ncols = rose_page_header_const(image)->ncols;
	return NULL;
}

void
rose_page_reader_init(RosePageReader *reader, const char *image)
{
	char	   *detail;
	const char *problem = rose_page_reader_attach(reader, image, &detail);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("corrupt rose page: %s", problem),
				 detail != NULL ? errdetail_internal("%s", detail) : 0,
				 errhint("Run rose.check on the table, and restore or resynchronize it if the damage is confirmed.")));
}

int
rose_page_reader_nrows(const RosePageReader *reader)
{
	return reader->nrows;
}

int
rose_page_reader_ncols(const RosePageReader *reader)
{
	return reader->page_ncols;
}

const RosePageHeaderDisk *
rose_page_reader_header(const RosePageReader *reader)
{
	return rose_page_header_const(reader->image);
}

/* ---- Columns ---- */

const char *
rose_page_reader_open_column(RosePageReader *reader, int col)
{
	const RoseDirectoryEntryDisk *entry = &reader->directory[col];
	RoseColumnReader *column = &reader->columns[col];
	RoseSegment *segment = &column->segment;
	RoseNullForm form = entry->flags & ROSE_NULL_FORM_MASK;
	const char *problem;

	if (entry->flags & ~ROSE_DIR_ALL_FLAGS)
		return "directory entry has unknown flags";
	segment->codec = rose_codec_lookup(entry->codec);
	segment->desc = &reader->descs[col];
	segment->image = reader->image;
	segment->context = reader->page_context;
	segment->n = 0;
	segment->start = segment->end = reader->image;
	segment->patches.n = 0;
	if (entry->codec == ROSE_CODEC_NONE)
	{
		if (form != ROSE_NULLS_ALL && reader->nrows > 0)
			return "column has rows but no codec";
		return rose_nullmap_open(&column->nulls, ROSE_NULLS_ALL, reader->nrows,
								 segment->start, segment->end, &segment->start);
	}
	if (segment->codec == NULL)
		return "unknown codec";
	if (!rose_codec_suits(segment->codec, segment->desc))
		return "codec does not suit the column";
	if (!segment->desc->attbyval)
		reader->page_context_used = true;

	if (entry->flags & ROSE_DIR_INLINE)
	{
		if (segment->codec->id != ROSE_CODEC_CONSTANT || form != ROSE_NULLS_NONE)
			return "directory entry has unknown flags";
		segment->n = reader->nrows;
		segment->packed.base = (int16) entry->offset;
		return rose_nullmap_open(&column->nulls, form, reader->nrows,
								 segment->start, segment->end, &segment->start);
	}
	problem = find_end(reader, col, &segment->end);
	if (problem != NULL)
		return problem;
	problem = rose_nullmap_open(&column->nulls, form, reader->nrows,
								reader->image + entry->offset, segment->end,
								&segment->start);
	if (problem != NULL)
		return problem;
	segment->n = column->nulls.nvalues;
	if (segment->n == 0)
		return "segment has no values";
	return segment->codec->open(segment);
}

static RoseColumnReader *
open_column(RosePageReader *reader, int col)
{
	const char *problem;

	if (col < 0 || col >= reader->page_ncols)
		elog(ERROR, "column %d is not on this rose page of %d columns", col, reader->page_ncols);
	problem = rose_page_reader_open_column(reader, col);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("corrupt rose page: %s", problem),
				 errdetail("The problem is in column %d of the page.", col)));
	reader->columns[col].generation = reader->generation;
	return &reader->columns[col];
}

static inline RoseColumnReader *
get_column(RosePageReader *reader, int col)
{
	if (likely(col >= 0 && col < reader->page_ncols &&
			   reader->columns[col].generation == reader->generation))
		return &reader->columns[col];
	return open_column(reader, col);
}

/* The number of a slot's value, checked; -1 for NULL. */
static inline int
value_number(const RoseColumnReader *column, int slot)
{
	int			i = rose_nullmap_rank(&column->nulls, slot);

	if (unlikely(i >= column->segment.n))
		rose_codec_corrupt(&column->segment, "null map leads beyond the values");
	return i;
}

static inline Datum
datum_from_word(int64 word)
{
	/* by-value types are passed sign-extended, as fetch_att() does */
	return (Datum) word;
}

static Datum
item_datum(RoseSegment *segment, int i)
{
	uint32		size;
	const char *item = segment->codec->get_item(segment, i, &size);
	const char *value = rose_item_value(segment->desc, item, size);

	if (value == NULL)
		rose_codec_corrupt(segment, "item is not a value of its type");
	return PointerGetDatum(value);
}

static inline Datum
value_datum(RoseSegment *segment, int i)
{
	if (segment->desc->attbyval)
		return datum_from_word(segment->codec->get(segment, i));
	return item_datum(segment, i);
}

static inline void
check_range(const RosePageReader *reader, int from, int n)
{
	if (unlikely(from < 0 || n < 0 || n > reader->nrows - from))
		elog(ERROR, "slots %d to %d are not on this rose page of %d rows",
			 from, from + n, reader->nrows);
}

Datum
rose_page_get(RosePageReader *reader, int col, int slot, bool *isnull)
{
	RoseColumnReader *column = get_column(reader, col);
	int			i;

	check_range(reader, slot, 1);
	i = value_number(column, slot);
	*isnull = i < 0;
	return i < 0 ? (Datum) 0 : value_datum(&column->segment, i);
}

/* ---- Decoding ---- */

/* Values [first, first + n), without gaps. */
static void
decode_values(RoseSegment *segment, int first, int n, Datum *values)
{
	StaticAssertStmt(sizeof(Datum) == sizeof(int64), "a word is a Datum; see datum_from_word");

	if (segment->desc->attbyval)
		segment->codec->decode(segment, first, n, (int64 *) values);
	else if (segment->codec->decode_items != NULL)
		segment->codec->decode_items(segment, first, n, values);
	else
	{
		for (int i = 0; i < n; i++)
			values[i] = item_datum(segment, first + i);
	}
}

/* Move nvalues values that stand without gaps to the slots that are not NULL. */
static void
spread_values(Datum *values, const bool *nulls, int n, int nvalues)
{
	int			slot;

	for (slot = n - 1; slot >= 0; slot--)
		values[slot] = nulls[slot] ? (Datum) 0 : values[--nvalues];
}

static void
decode_chunk(RoseColumnReader *column, int from, int n, Datum *values, bool *nulls)
{
	RoseSegment *segment = &column->segment;
	int			nvalues = rose_nullmap_decode(&column->nulls, from, n, nulls);
	int			slot = 0;
	int			first;

	if (nvalues == 0)
	{
		memset(values, 0, n * sizeof(Datum));
		return;
	}
	while (nulls[slot])
		slot++;
	first = rose_nullmap_rank(&column->nulls, from + slot);
	if (first < 0 || first + nvalues > segment->n)
		rose_codec_corrupt(segment, "null map leads beyond the values");
	decode_values(segment, first, nvalues, values);
	if (nvalues < n)
		spread_values(values, nulls, n, nvalues);
}

void
rose_page_decode(RosePageReader *reader, int col, int from, int n, Datum *values, bool *nulls)
{
	RoseColumnReader *column = get_column(reader, col);
	int			done;

	check_range(reader, from, n);
	for (done = 0; done < n; done += CHUNK_SIZE)
		decode_chunk(column, from + done, Min(CHUNK_SIZE, n - done),
					 values + done, nulls + done);
}

int
rose_page_runs(RosePageReader *reader, int col, int from, int n, int max_runs, int64 *values,
			   uint16 *starts)
{
	RoseColumnReader *column = get_column(reader, col);
	RoseSegment *segment = &column->segment;

	check_range(reader, from, n);
	if (n <= 0 || max_runs <= 0 || column->nulls.form != ROSE_NULLS_NONE || from + n > segment->n ||
		segment->codec == NULL || segment->codec->runs == NULL)
		return 0;
	return segment->codec->runs(segment, from, n, max_runs, values, starts);
}

bool
rose_page_extremes(RosePageReader *reader, int col, int from, int n, int64 *min, int64 *max)
{
	RoseColumnReader *column = get_column(reader, col);
	RoseSegment *segment = &column->segment;
	int64		chunk[CHUNK_SIZE];

	check_range(reader, from, n);
	if (n <= 0 || column->nulls.form != ROSE_NULLS_NONE || from + n > segment->n ||
		segment->codec == NULL || segment->desc->kind != ROSE_COLUMN_INT)
		return false;
	if (segment->codec->extremes != NULL && segment->codec->extremes(segment, from, n, min, max))
		return true;
	*min = PG_INT64_MAX;
	*max = PG_INT64_MIN;
	for (int done = 0; done < n; done += CHUNK_SIZE)
	{
		int			m = Min(CHUNK_SIZE, n - done);

		segment->codec->decode(segment, from + done, m, chunk);
		rose_kernel_bounds(chunk, m, min, max);
	}
	return true;
}

const Datum *
rose_page_codes(RosePageReader *reader, int col, int from, int n, uint16 *codes, int *nentries)
{
	RoseColumnReader *column = get_column(reader, col);
	RoseSegment *segment = &column->segment;

	check_range(reader, from, n);
	if (n <= 0 || column->nulls.form != ROSE_NULLS_NONE || from + n > segment->n ||
		segment->codec == NULL || segment->codec->codes == NULL)
		return NULL;
	return segment->codec->codes(segment, from, n, codes, nentries);
}

/* One slot of so many pays for decoding all of them; and of slots so few do not. */
#define SLOTS_TO_DECODE			4
#define ITEM_SLOTS_TO_DECODE	2
#define GATHERED_TO_DECODE		4

static void
gather_decoded(RoseColumnReader *column, const int *slots, int n, Datum *values, bool *nulls)
{
	Datum		chunk[CHUNK_SIZE];
	bool		chunk_nulls[CHUNK_SIZE];
	int			done = 0;

	while (done < n)
	{
		int			first = slots[done];
		int			end = done + 1;

		while (end < n && slots[end] - first < CHUNK_SIZE)
			end++;
		decode_chunk(column, first, slots[end - 1] - first + 1, chunk, chunk_nulls);
		for (; done < end; done++)
		{
			Assert(slots[done] >= first);
			values[done] = chunk[slots[done] - first];
			nulls[done] = chunk_nulls[slots[done] - first];
		}
	}
}

static void
gather_scattered(RoseColumnReader *column, const int *slots, int n, Datum *values, bool *nulls)
{
	RoseSegment *segment = &column->segment;
	bool		all = column->nulls.form == ROSE_NULLS_NONE;

	for (int j = 0; j < n; j++)
	{
		int			i = likely(all && slots[j] < segment->n) ? slots[j] : value_number(column, slots[j]);

		nulls[j] = i < 0;
		values[j] = i < 0 ? (Datum) 0 : value_datum(segment, i);
	}
}

void
rose_page_gather(RosePageReader *reader, int col, const int *slots, int n, Datum *values, bool *nulls)
{
	RoseColumnReader *column = get_column(reader, col);
	int			factor = column->segment.desc->attbyval ? SLOTS_TO_DECODE : ITEM_SLOTS_TO_DECODE;
	int			span;

	if (n == 0)
		return;
	span = slots[n - 1] - slots[0] + 1;
	check_range(reader, slots[0], span);
	if (n >= GATHERED_TO_DECODE && span <= n * factor)
		gather_decoded(column, slots, n, values, nulls);
	else
		gather_scattered(column, slots, n, values, nulls);
}

/* ---- Searching ---- */

static void
search_words(const RoseSegment *segment, int lo, int hi, int64 value, int *first, int *last)
{
	const RoseCodec *codec = segment->codec;

	*first = *last = codec->lower_bound(segment, lo, hi, value);
	if (*first == hi || codec->get(segment, *first) != value)
		return;
	if (value == PG_INT64_MAX)
		*last = hi;
	else if (*first + 1 < hi && codec->get(segment, *first + 1) == value)
		*last = codec->lower_bound(segment, *first + 1, hi, value + 1);
	else
		*last = *first + 1;
}

/* First value in [lo, hi) that is not before 'value' or, for after, that is after it. */
static int
search_bound(RoseSegment *segment, int lo, int hi, Datum value, RoseDatumCompare compare,
			 void *arg, bool after)
{
	int			restart = segment->codec->restart;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;
		int			order;

		/* as long as there is a cheap one within, and not the first */
		if (restart > 0 && (hi - 1) / restart * restart > lo)
			mid = Max(mid / restart, lo / restart + 1) * restart;
		segment->near = mid;	/* others around it will follow */
		order = compare(value_datum(segment, mid), value, arg);
		if (order < 0 || (after && order == 0))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void
search_values(RoseSegment *segment, int lo, int hi, Datum value, RoseDatumCompare compare,
			  void *arg, int *first, int *last)
{
	*first = *last = search_bound(segment, lo, hi, value, compare, arg, false);
	if (*first == hi || compare(value_datum(segment, *first), value, arg) != 0)
		return;
	/* mostly there is only one */
	*last = *first + 1;
	if (*last < hi && compare(value_datum(segment, *last), value, arg) == 0)
		*last = search_bound(segment, *last + 1, hi, value, compare, arg, true);
}

void
rose_page_search(RosePageReader *reader, int col, int lo, int hi, Datum value,
				 RoseDatumCompare compare, void *arg, int *first, int *last)
{
	RoseColumnReader *column = get_column(reader, col);
	RoseSegment *segment = &column->segment;
	int			shift;
	int			end;

	check_range(reader, lo, hi - lo);
	*first = *last = lo;
	if (lo == hi)
		return;

	/* no NULL in the range, so slots and value numbers differ by a constant */
	shift = rose_nullmap_rank(&column->nulls, lo);
	if (shift < 0)
		rose_codec_corrupt(segment, "NULL among sorted values");
	shift -= lo;
	lo += shift;
	end = hi + shift;
	if (end > segment->n)
		rose_codec_corrupt(segment, "null map leads beyond the values");

	if (compare == NULL)
	{
		if (segment->desc->kind != ROSE_COLUMN_INT)
			elog(ERROR, "column %d has no integer order", col);
		search_words(segment, lo, end, (int64) value, first, last);
	}
	else
		search_values(segment, lo, end, value, compare, arg, first, last);
	*first -= shift;
	*last -= shift;
}

bool
rose_page_minmax(RosePageReader *reader, int col, int64 *min, int64 *max)
{
	RoseSegment *segment = &get_column(reader, col)->segment;

	if (segment->desc->kind != ROSE_COLUMN_INT || segment->n == 0 ||
		segment->codec == NULL || segment->codec->bounds == NULL)
		return false;
	return segment->codec->bounds(segment, min, max);
}
