/*-------------------------------------------------------------------------
 *
 * rose_component_internal.h
 *	  What the files of this folder share.
 *
 * Each section names the file that has the functions.  The formats on disk are in
 * rose_component_format.h, the inside of a builder in rose_builder_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPONENT_INTERNAL_H
#define ROSE_COMPONENT_INTERNAL_H

#include "lib/stringinfo.h"

#include "store/rose_block.h"
#include "lsm/component/rose_component.h"
#include "lsm/component/rose_component_format.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/component/rose_leaf.h"

/* ---- the open component (rose_component.c) ---- */

/* A part of the Bloom filter: of the keys behind those of the part before, up to last_key. */
typedef struct RoseFilterPart
{
	RoseBloomShape shape;
	uint32		first_block;	/* of the parts' bit arrays, one after the other */
	int			first_extent;	/* where its pages begin, ... */
	uint32		skip;			/* ... so many blocks behind the extent's first */
	Datum	   *last_key;		/* NULL: the only one */
} RoseFilterPart;

struct RoseComponent
{
	MemoryContext context;
	const RoseSchema *schema;
	RoseComponentInfo info;
	RoseFooterDisk footer;
	RoseColumnGroupDisk group;
	int			ncols;			/* columns of a leaf */
	RoseColumnDesc *descs;
	RoseColumnDesc *inner_descs;
	int			ninnercols;
	bool		has_filter;		/* of use: there is one, and it suits how keys are hashed now */
	int			nparts;			/* of the Bloom filter; 0 = there is none */
	RoseFilterPart *parts;
	int			nextents;
	RoseExtentDisk *extents;	/* of the Bloom pages ... */
	uint32		bloom_per_page; /* ... each of which has so many blocks */
	Datum		min_key[INDEX_MAX_KEYS];
	Datum		max_key[INDEX_MAX_KEYS];

	/* a copy of the Bloom filter, for who asks for many keys; or NULL */
	char	   *filter;
	Size		filter_bytes;	/* counted among those of this backend */
	char	   *filter_chunk;	/* what to free */
	uint64		filter_asked;	/* keys asked for together so far */
	bool		filter_counted; /* the context's end will be noticed */

	/* the root, if it is an inner page; read on first use */
	char	   *root_image;
	RosePageReader *root_reader;
	int			root_searches;	/* for whole keys, to so many as make it worth the next */
	struct RoseInnerArray *root_array;	/* the same decoded; or NULL */
};

/* Read an inner page into image, and check it. */
extern void rose_component_read_inner(const RoseComponent *component, Relation rel, BlockNumber block,
									  char *image, RosePageReader *reader);

/* ---- pages that are not multicolumn (rose_component_page.c) ---- */

/* That a page is of this kind and format. */
extern void rose_component_check_page_kind(Relation rel, BlockNumber block, uint8 kind,
										   const char *page);

/* Read a page and check that it is this component's and of this kind. */
extern void rose_component_read_page(Relation rel, uint32 component_id, BlockNumber block,
									 uint8 kind, char *dst, BufferAccessStrategy strategy);

/* Start an empty page that is not multicolumn. */
extern void rose_component_init_page(char *page, uint32 component_id, uint8 kind);
extern void rose_component_set_page_end(char *page, Size end);

/* ---- the Bloom filter (rose_filter_parts.c, rose_filter_ask.c) ---- */

/*
 * From the footer: section is ROSE_SECTION_FILTER_PARTS, or NULL.  False: it contradicts
 * the rest.  REQUIRES: the extents are set.
 */
extern bool rose_filter_parts_load(RoseComponent *component, char *section, Size length);

/* The part that has the key, if any has. */
extern const RoseFilterPart *rose_filter_part_find(const RoseComponent *component,
												   const Datum *key);

/* The parts that may have keys with these first columns: the first one, and the one behind another, or NULL. */
extern const RoseFilterPart *rose_filter_part_first(const RoseComponent *component,
													const Datum *key, int ncols);
extern const RoseFilterPart *rose_filter_part_next(const RoseComponent *component,
												   const RoseFilterPart *part,
												   const Datum *key, int ncols);

/* The block of a part's page. */
extern BlockNumber rose_filter_part_page(const RoseComponent *component,
										 const RoseFilterPart *part, uint32 page);

/* What a footer says of how the filter's hashes were made. */
extern uint32 rose_filter_ask_hashed_keys(const RoseSchema *schema);
extern uint64 rose_filter_ask_hash_sample(const RoseSchema *schema, const Datum *min_key,
										  const Datum *max_key);

/* Free the copy of the filter, if there is one. */
extern void rose_filter_ask_drop_copy(RoseComponent *component);

/* Was the filter made from the hashes that keys have now?  If not, it is of no use. */
extern bool rose_filter_ask_suits(RoseComponent *component, Relation rel);

/* ---- columns of leaves and inner pages (rose_key_columns.c) ---- */

/*
 * kinds: as stored in the footer, or NULL to derive them from the types.  stored:
 * likewise, for components that may have more columns than the schema; or NULL.
 */
extern RoseColumnDesc *rose_leaf_column_descs(const RoseSchema *schema, int natts,
											  const uint8 *kinds,
											  const RoseLayoutColumnDisk *stored,
											  MemoryContext context);
extern uint8 rose_column_kind_code(uint8 kind);
extern RoseColumnDesc *rose_inner_column_descs(const RoseSchema *schema,
											   const RoseLayoutColumnDisk *stored,
											   int *ncols, MemoryContext context);

/* Leaf column of key column j. */
static inline int
rose_leaf_key_column(const RoseSchema *schema, int j)
{
	return schema->nkeys > 0 ? ROSE_SYSCOLS + schema->keys[j].def.attno - 1 :
		ROSE_SYSCOL_ROWID;
}

/* Keys as bytes, for the footer. */
extern void rose_key_write(const RoseSchema *schema, const Datum *key, StringInfo out);
extern void rose_key_read(const RoseSchema *schema, char *bytes, Size length, Datum *key,
						  uint32 component_id);

/*
 * Narrow [*lo, *hi) of a sorted page to the slots that equal the first ncols
 * columns of key.  False if there are none: then *lo is the insertion point.
 * inner: the page is an inner page, in which a NULL may stand first in a range
 * and sorts first.
 */
extern bool rose_page_narrow(RosePageReader *reader, const RoseSchema *schema,
							 bool inner, const Datum *key, int ncols, int *lo, int *hi);

/* First slot of [lo, hi), descending by sequence, with sequence <= seq. */
extern int	rose_page_search_seq(RosePageReader *reader, int col, int lo, int hi, uint64 seq);

/* ---- inner pages (rose_inner.c) ---- */

/* The lower bound of a child: first ncols columns of key, then seq. */
typedef struct RoseSeparator
{
	int			ncols;			/* 0: minus infinity */
	Datum		key[INDEX_MAX_KEYS];
	int64		seq;			/* ROSE_SEPARATOR_ANY: not compared */
} RoseSeparator;

typedef struct RoseTreeBuilder RoseTreeBuilder;

extern RoseTreeBuilder *rose_tree_builder_create(const RoseSchema *schema, uint32 component_id,
												 RoseBlockWriter *writer, MemoryContext context);
extern void rose_tree_builder_add(RoseTreeBuilder *tree, const RoseSeparator *separator,
								  BlockNumber child, uint64 ordinal);

/* Sets root, height and ninner; with one leaf the root is the leaf. */
extern void rose_tree_builder_finish(RoseTreeBuilder *tree, RoseColumnGroupDisk *group);

/* The shortest separator between the last version of a leaf and the first of the next. */
extern void rose_separator_make(const RoseSchema *schema, const Datum *last, const Datum *first,
								uint64 first_seq, RoseSeparator *separator,
								char *scratch);

/* Child of an inner page to go to: for the first version >= (key, seq) */
extern int	rose_inner_find_lower(RosePageReader *reader, const RoseSchema *schema,
								  const Datum *key, int ncols, uint64 seq);

/* ... for the last version whose prefix is <= key */
extern int	rose_inner_find_upper(RosePageReader *reader, const RoseSchema *schema,
								  const Datum *key, int ncols);
extern int	rose_inner_find_ordinal(RosePageReader *reader, uint64 ordinal);

/*
 * What is searched for whole keys of one integer in an inner page in which no key goes on from leaf to leaf: separators,
 * of which the first one is less than all keys, and children.  Most components have one inner page, and to search it as
 * it is stored, in its codecs, is a good part of a lookup.
 */
typedef struct RoseInnerArray
{
	int			n;
	int64	   *separators;
	BlockNumber *children;
} RoseInnerArray;

/* NULL: it is another page, or has other keys. */
extern RoseInnerArray *rose_inner_array_make(RosePageReader *reader, const RoseSchema *schema,
											 MemoryContext context);

/* As rose_inner_find_lower. */
static inline int
rose_inner_array_find(const RoseInnerArray *array, const RoseSchema *schema, Datum key)
{
	int64		value = schema->nkeys > 0 ? rose_key_int(&schema->keys[0], key) : DatumGetInt64(key);
	int			lo = 0;
	int			hi = array->n;

	/* separators[lo] <= value < separators[hi] */
	while (hi - lo > 1)
	{
		int			middle = (lo + hi) / 2;

		if (array->separators[middle] <= value)
			lo = middle;
		else
			hi = middle;
	}
	return lo;
}
extern BlockNumber rose_inner_child(RosePageReader *reader, int slot);
extern uint64 rose_inner_ordinal(RosePageReader *reader, int slot);

/* A child of an inner page, and its rows [first, end). */
typedef struct RoseInnerPlace
{
	BlockNumber block;			/* the page; 0: none yet */
	int			slot;
	uint64		first;
	uint64		end;
} RoseInnerPlace;

/*
 * To the child that has a row, which is looked for only if it is neither at the place nor the next one.  end: behind the page's last row.
 */
extern void rose_inner_move(RosePageReader *reader, BlockNumber block, uint64 ordinal, uint64 end, RoseInnerPlace *place);

/* ---- overflow (rose_overflow.c) ---- */

typedef struct RoseOverflowWriter RoseOverflowWriter;

extern RoseOverflowWriter *rose_overflow_writer_create(uint32 component_id,
													   RoseBlockWriter *writer,
													   MemoryContext context);

/* Store bytes. */
extern void rose_overflow_write(RoseOverflowWriter *overflow, const char *data, Size length,
								RoseOverflowPointerDisk *pointer);
extern void rose_overflow_finish(RoseOverflowWriter *overflow, uint64 *npages);

/*
 * Fetch them: dst gets them, and must have room for pointer->raw_bytes, which
 * rose_overflow_check has approved.
 */
extern void rose_overflow_check(uint32 component_id, const RoseOverflowPointerDisk *pointer);
extern void rose_overflow_read(Relation rel, uint32 component_id,
							   const RoseOverflowPointerDisk *pointer, char *dst);

/* ---- fitting rows into leaves (rose_fit.c) ---- */

/*
 * The column with the largest variable-length value above min_size that is not
 * part of the key, or -1.  values/nulls: user columns.
 */
extern int	rose_fit_largest(const RoseSchema *schema, const Datum *values,
							 const bool *nulls, Size min_size);

/* Bytes of all values of a row; *oversized: one of them no page takes. */
extern Size rose_fit_row_size(const RoseSchema *schema, const Datum *values,
							  const bool *nulls, bool *oversized);
extern bool rose_fit_is_key(const RoseSchema *schema, AttrNumber attno);

/* Columns of a narrow leaf (rose_component_format.h). */
extern int	rose_fit_narrow_columns(const RoseSchema *schema);

/* ---- what rows of a leaf have in overflow pages (rose_component_fetch.c) ---- */

extern void rose_leaf_bad_overflow(RoseLeaf *leaf);

/* The value of a column; ref stands for it in the leaf. */
extern Datum rose_leaf_fetch_value(RoseLeaf *leaf, int slot, AttrNumber attno, Datum ref);

/* A row that overflowed as a whole: a RoseOverflowPointerDisk, not aligned. */
extern MinimalTuple rose_leaf_fetch_row(RoseLeaf *leaf, int slot, const char *pointer_bytes);

/* A row in a narrow leaf, and, if it is a PARTIAL, its bitmap of columns as a varlena. */
extern MinimalTuple rose_leaf_fetch_narrow_row(RoseLeaf *leaf, int slot);
extern Datum rose_leaf_fetch_narrow_present(RoseLeaf *leaf, int slot);

/* ---- rows (rose_row.c) ---- */

/* What a column added after the row was stored has: its default, or NULL. */
extern Datum rose_row_missing_value(const RoseSchema *schema, AttrNumber attno, bool *isnull);

static inline void
rose_tuple_header(MinimalTuple tuple, HeapTupleData *htup)
{
	memset(htup, 0, sizeof(*htup));
	htup->t_len = tuple->t_len + MINIMAL_TUPLE_OFFSET;
	htup->t_data = (HeapTupleHeader) ((char *) tuple - MINIMAL_TUPLE_OFFSET);
}

#endif							/* ROSE_COMPONENT_INTERNAL_H */
