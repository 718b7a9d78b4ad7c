/*-------------------------------------------------------------------------
 *
 * rose_page.h
 *	  Multicolumn pages: whole rows, stored column by column on one page.
 *
 * This is all that upper layers may know about a multicolumn page.  The page
 * module works on a MAXALIGNed BLCKSZ image in memory.  It knows nothing of
 * buffers, locks, relations, the catalog or types beyond RoseColumnDesc, so it
 * needs no lock; the caller keeps the image unchanged while a reader is on it.
 *
 * Row slots are numbered from 0.  Column numbers are 0-based.  Ranges of slots
 * are half open: [first, last).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PAGE_H
#define ROSE_PAGE_H

#include "storage/block.h"
#include "storage/bufpage.h"

#include "util/rose_options.h"
#include "codec/rose_column.h"

/* What a page is.  Embedded on disk: never renumber. */
typedef enum RosePageKind
{
	ROSE_PAGE_LEAF = 1,
	ROSE_PAGE_INNER = 2,
	/* 3 .. 31: pages that are not multicolumn; assigned by upper layers */
} RosePageKind;

#define ROSE_PAGE_MAGIC		0x45534f52	/* "ROSE" on a little-endian machine */
#define ROSE_PAGE_VERSION	3	/* 2: other positions of runs and wide values, plain anchors */

/*
 * Most rows a page holds.  The columns of a page may all be constant, so that
 * nothing but this bounds it; a builder of many columns takes fewer, to bound
 * its memory.
 */
#define ROSE_PAGE_MAX_ROWS	65535

/* Most columns a page holds: PostgreSQL's 1600, system columns and a few more. */
#define ROSE_PAGE_MAX_COLUMNS	1664

/*
 * The rose header of a page; it directly follows PageHeaderData.  The builder
 * fills magic, version, kind, nrows, ncols and directory; the rest is the
 * component layer's, which sets it between pack and write.
 */
typedef struct RosePageHeaderDisk
{
	uint32		magic;			/* 0: ROSE_PAGE_MAGIC */
	uint16		version;		/* 4: ROSE_PAGE_VERSION */
	uint8		kind;			/* 6: RosePageKind */
	uint8		flags;			/* 7: for the component layer */
	uint16		nrows;			/* 8 */
	uint16		ncols;			/* 10 */
	uint32		component_id;	/* 12: component the page belongs to */
	BlockNumber prev;			/* 16: left neighbour, or InvalidBlockNumber */
	BlockNumber next;			/* 20: right neighbour, or InvalidBlockNumber */
	uint64		first_ordinal;	/* 24: ordinal of slot 0 in its component */
	uint16		level;			/* 32: for the component layer: 0 = leaf */
	uint16		column_group;	/* 34: 0 until components have several */
	uint32		reserved;		/* 36: zero */
	/* 40: column directory, ncols entries (rose_page_format.h) */
} RosePageHeaderDisk;

StaticAssertDecl(sizeof(RosePageHeaderDisk) == 40, "on-disk size");
StaticAssertDecl(offsetof(RosePageHeaderDisk, first_ordinal) == 24, "on-disk offset");
StaticAssertDecl(offsetof(RosePageHeaderDisk, reserved) == 36, "on-disk offset");

static inline RosePageHeaderDisk *
rose_page_header(char *page)
{
	return (RosePageHeaderDisk *) (page + MAXALIGN(SizeOfPageHeaderData));
}

static inline const RosePageHeaderDisk *
rose_page_header_const(const char *page)
{
	return (const RosePageHeaderDisk *) (page + MAXALIGN(SizeOfPageHeaderData));
}


/*
 * Pages of an index's file end with so many bytes of zero, in which btree has its special
 * space (store/README.md).  Those of a table's file have none.
 */
#define ROSE_FOREIGN_SPECIAL	16

/* Where what is ours on the page ends, as its header says. */
static inline int
rose_page_end(const char *page)
{
	return ((const PageHeaderData *) page)->pd_special == BLCKSZ - ROSE_FOREIGN_SPECIAL ?
		BLCKSZ - ROSE_FOREIGN_SPECIAL : BLCKSZ;
}

/*
 * What rose_page_add_extra has put there, as far as the page says, and as many bytes,
 * rounded up; NULL: there is nothing.  The page is not looked at otherwise.
 */
static inline const char *
rose_page_extra(const char *page, int *size)
{
	const PageHeaderData *standard = (const PageHeaderData *) page;
	int			end = rose_page_end(page);
	int			start = end < BLCKSZ ? standard->pd_upper : standard->pd_special;

	if (start >= end || start < MAXALIGN(SizeOfPageHeaderData) + sizeof(RosePageHeaderDisk) ||
		start != MAXALIGN(start))
		return NULL;
	*size = end - start;
	return page + start;
}

/* ---- Building ---- */

typedef struct RosePageBuilder RosePageBuilder;

typedef enum RoseAppendResult
{
	ROSE_APPEND_OK,				/* the row was added */
	ROSE_APPEND_FULL,			/* not added; pack the page and append again */
	ROSE_APPEND_TOO_LARGE		/* not added; would not fit an empty page */
} RoseAppendResult;

/*
 * A builder for pages of these columns, in a new child of 'parent'.  One
 * builder serves any number of pages, one after the other; each page chooses its
 * codecs by itself.
 */
extern RosePageBuilder *rose_page_builder_create(int ncols, const RoseColumnDesc *descs,
												 MemoryContext parent);
extern void rose_page_builder_free(RosePageBuilder *builder);

/* How hard codecs are looked for; ROSE_EFFORT_NORMAL if nobody says. */
extern void rose_page_builder_set_effort(RosePageBuilder *builder, RoseEffort effort);

/*
 * Add a row.  By-reference values are copied.  A variable-length value must be
 * plain (detoasted, not compressed; either header form) and at most
 * ROSE_ITEM_MAX_SIZE bytes; anything else is an error, because the component
 * layer should have moved it to an overflow page.  What was accepted is
 * certain to fit when packed.  ROSE_APPEND_FULL leaves the builder as it was:
 * a smaller row may still be accepted, though it seldom pays to try.
 */
extern RoseAppendResult rose_page_builder_append(RosePageBuilder *builder,
												 const Datum *values, const bool *nulls);

/* Values of a column: values[i] of row i, unless nulls[i] is set. */
typedef struct RoseColumnValues
{
	const Datum *values;		/* NULL: all are NULL */
	const bool *nulls;			/* NULL: none is, or values is NULL */
} RoseColumnValues;

/*
 * Add rows [from, from + n) given in columns, columns[0 .. ncols), in this order.  Makes
 * the pages that rose_page_builder_append makes from one row after the other, and is much
 * cheaper where a column has a value in all rows of the page or in none.  Some ten rows a
 * call make up for the call's own cost.
 *
 * Returns the number of rows added.  If that is less than n, *result tells why the next
 * row was not: pack the page and go on with it (ROSE_APPEND_FULL), or see to a row that
 * no page holds (ROSE_APPEND_TOO_LARGE); else it is ROSE_APPEND_OK.
 */
extern int	rose_page_builder_append_columns(RosePageBuilder *builder,
											 const RoseColumnValues *columns, int from, int n,
											 RoseAppendResult *result);

/* Rows accepted since the last pack or reset. */
extern int	rose_page_builder_nrows(const RosePageBuilder *builder);

/*
 * Upper bound of the bytes (headers included) that the accepted rows take when
 * packed.  Cheap; for progress and for callers that want a fill factor.
 */
extern int	rose_page_builder_size(RosePageBuilder *builder);

/*
 * Write the accepted rows to 'page' (BLCKSZ bytes, MAXALIGNed) as a ROSE_PAGE_LEAF and
 * forget them.  Returns the number of rows written, 0 for an empty page, which is valid
 * too.  pd_lower is the end of the data, pd_upper and pd_special are BLCKSZ, and what
 * lies between is zero.  component_id, first_ordinal, flags, level are zero, prev and
 * next are InvalidBlockNumber; the caller sets them (and kind, for an inner page) through
 * rose_page_header().
 */
extern int	rose_page_builder_pack(RosePageBuilder *builder, char *page);

/*
 * Put something of the caller's behind the rows of a page that was packed: up to end, from
 * a multiple of MAXALIGN on.  end: BLCKSZ, and it is the page's special space, of more than
 * ROSE_FOREIGN_SPECIAL bytes; or that many before, and it stands before the special space.
 * False: there is no room, and nothing was changed.
 */
extern bool rose_page_add_extra(char *page, const char *data, int size, int end);

/* Forget the accepted rows. */
extern void rose_page_builder_reset(RosePageBuilder *builder);


/* ---- Reading ---- */

typedef struct RosePageReader RosePageReader;

extern RosePageReader *rose_page_reader_create(int ncols, const RoseColumnDesc *descs,
											   MemoryContext parent);

/* For one that is kept with its page, and there may be many: less memory, which grows when it is needed. */
extern RosePageReader *rose_page_reader_create_small(int ncols, const RoseColumnDesc *descs,
													 MemoryContext parent);
extern void rose_page_reader_free(RosePageReader *reader);

/*
 * Put the reader on an image, which the caller keeps in place and unchanged (a
 * pinned buffer: component pages never change) until the reader is put on
 * another one or closed.  The header is checked here, each column
 * when it is first used; a bad page is an ERRCODE_DATA_CORRUPTED error.
 *
 * Older pages may have fewer columns than the reader (ALTER TABLE ADD COLUMN):
 * ask rose_page_reader_ncols().  More columns than the reader are an error.
 *
 * Pages of kind LEAF and INNER are accepted; the caller checks which it has.
 */
extern void rose_page_reader_init(RosePageReader *reader, const char *image);

/* Take the reader off its image; it gives no more rows until the next init. */
extern void rose_page_reader_close(RosePageReader *reader);

extern int	rose_page_reader_nrows(const RosePageReader *reader);
extern int	rose_page_reader_ncols(const RosePageReader *reader);
extern const RosePageHeaderDisk *rose_page_reader_header(const RosePageReader *reader);

/*
 * One value.  O(1), or O(log n) in the runs or exceptions of the column.
 *
 * By-reference results (here and in decode) point into the image or into memory of the
 * reader.  They stay valid until the reader is put on another image, closed or freed; no
 * call in between moves them.  Variable-length results may have a 1-byte header (use
 * VARDATA_ANY), unless RoseColumnDesc says otherwise.
 */
extern Datum rose_page_get(RosePageReader *reader, int col, int slot, bool *isnull);

/* The values of slots [from, from + n) of a column.  nulls may not be NULL. */
extern void rose_page_decode(RosePageReader *reader, int col, int from, int n,
							 Datum *values, bool *nulls);

/*
 * The values of slots [from, from + n), n > 0, of a column by value, as runs, if the page has them so and none is NULL: values[k] is that of
 * slot from + starts[k] and of those before from + starts[k + 1]; neighbours may have the same.  starts[0] is 0.  Returns how many there
 * are; 0: it has not, or there are more than max_runs, which both arrays have room for.
 */
extern int	rose_page_runs(RosePageReader *reader, int col, int from, int n, int max_runs,
						   int64 *values, uint16 *starts);

/*
 * Least and greatest of slots [from, from + n), n > 0, of a column of kind INT, in signed order, if none is NULL.  False: there may be one.
 */
extern bool rose_page_extremes(RosePageReader *reader, int col, int from, int n, int64 *min, int64 *max);

/*
 * The values of slots [from, from + n), n > 0, of a column by reference, as entries of a dictionary, if the page has them so, none is NULL, and
 * the entries, of which there are *nentries, are no more than the values: codes[i] is the number of from + i's.  NULL: it has not.
 */
extern const Datum *rose_page_codes(RosePageReader *reader, int col, int from, int n,
									uint16 *codes, int *nentries);

/*
 * The values of n slots, in ascending order: values[i] and nulls[i] are those of slots[i].  A slot may
 * come more than once.  Cheaper than one by one, and much so where slots lie close together.
 */
extern void rose_page_gather(RosePageReader *reader, int col, const int *slots, int n,
							 Datum *values, bool *nulls);

/*
 * Narrow [lo, hi), within which the column is ascending and has no NULL, to the slots
 * whose value equals 'value'.  If there are none, *first == *last is where the value
 * would be inserted.  Call it column by column over a key to find a row without
 * materialising any.
 *
 * compare gives <0, 0, >0 as memcmp does and is called as compare(stored, value, arg).
 * NULL means plain signed integer order (kind INT only, and not for oid, whose order is
 * unsigned); the search then runs on the encoded form.  For a descending column pass a
 * compare that negates.
 */
typedef int (*RoseDatumCompare) (Datum stored, Datum value, void *arg);

extern void rose_page_search(RosePageReader *reader, int col, int lo, int hi, Datum value,
							 RoseDatumCompare compare, void *arg, int *first, int *last);

/*
 * Smallest and largest non-NULL value of an INT column in signed order, when the column
 * has a value and they are known without decoding it.  They may be wider than the truth,
 * never narrower.
 */
extern bool rose_page_minmax(RosePageReader *reader, int col, int64 *min, int64 *max);


/* ---- Checking ---- */

/* col is -1 for a problem of the page as a whole. */
typedef void (*RosePageProblem) (void *arg, int col, const char *message);

/*
 * Check everything about an image that can be checked without knowing the key
 * order; call 'emit' for each problem and return their number.  Raises no
 * error for any content of the image.
 */
extern int	rose_page_check(const char *image, int ncols, const RoseColumnDesc *descs,
							RosePageProblem emit, void *arg);

#endif							/* ROSE_PAGE_H */
