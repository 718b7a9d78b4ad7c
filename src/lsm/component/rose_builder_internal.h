/*-------------------------------------------------------------------------
 *
 * rose_builder_internal.h
 *	  The inside of a component builder, shared by rose_builder.c, which
 *	  takes rows one by one, and rose_builder_batch.c, which takes many.
 *
 * Backend-local.  Others see rose_component.h only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BUILDER_INTERNAL_H
#define ROSE_BUILDER_INTERNAL_H

#include "store/rose_block.h"
#include "store/rose_store.h"
#include "lsm/component/rose_component_internal.h"

/* Rows above this size may have values that overflow. */
#define ROSE_OVERFLOW_ROW_SIZE	(BLCKSZ / 4)

/* A component's Bloom filter on its way (rose_filter_build.c). */
typedef struct RoseFilterBuilder
{
	MemoryContext context;
	const RoseSchema *schema;
	uint32		owner;
	RoseBlockWriter *writer;
	double		bits_per_key;
	int			part_keys;		/* a part with so many keys is complete */

	/* the part at hand */
	uint64	   *hashes;
	int			n;
	int			size;			/* room for so many */

	/* those that are written */
	int			nparts;
	int			max_parts;
	RoseFilterPartDisk *parts;
	StringInfo	keys;			/* the greatest of each */
	StringInfo	extents;
	uint32		nblocks;		/* of the bit array, not of the file */
	uint32		nprobes;
	uint64		npages;
} RoseFilterBuilder;

extern RoseFilterBuilder *rose_filter_builder_create(const RoseSchema *schema, uint32 owner,
													 RoseBlockWriter *writer,
													 uint64 expected_keys, int options,
													 int bits, MemoryContext context);
extern void rose_filter_builder_grow(RoseFilterBuilder *filter);

/* Keys of an index may have their hash from few columns: those of equal ones follow each other. */
static inline void
rose_filter_builder_add(RoseFilterBuilder *filter, uint64 hash)
{
	if (filter->n > 0 && filter->hashes[filter->n - 1] == hash)
		return;
	if (filter->n == filter->size)
		rose_filter_builder_grow(filter);
	filter->hashes[filter->n++] = hash;
}

/*
 * Write the part at hand; last_key: of its last key.  To be called when it has part_keys
 * or more, before the next key, and at the end.
 */
extern void rose_filter_builder_end_part(RoseFilterBuilder *filter, const Datum *last_key);

struct RoseComponentBuilder
{
	MemoryContext context;
	MemoryContext row_context;	/* reset for each row */
	RoseStoreShared *store;
	const RoseSchema *schema;
	bool		private_run;
	bool		key_exact;		/* rose_key_prefix_exact */
	uint32		owner;
	RoseBlockWriter *writer;
	RoseTreeBuilder *tree;
	RoseOverflowWriter *overflow;	/* made when first needed */

	/* the leaf being filled */
	RosePageBuilder *pages;
	RosePageBuilder *narrow;	/* has its only row, if that needs a narrow leaf */
	bool		has_narrow;		/* there are such leaves */
	bool		footer_in_leaf; /* it is in the page of the only leaf */
	int			ncols;
	Datum	   *values;			/* of the row, in leaf columns */
	bool	   *nulls;
	char	   *page;
	BlockNumber leaf_block;		/* reserved for it */
	BlockNumber previous_leaf;
	uint64		leaf_first_ordinal;
	Size		leaf_overflow;	/* raw bytes its rows have in overflow pages */
	Size		row_overflow;	/* the same of the row at hand */
	uint8		leaf_flags;
	RoseSeparator leaf_separator;
	RoseKeyBuffer separator_key;	/* memory of its key */
	char	   *separator_scratch;

	/* the row before */
	RoseKeyBuffer last_key;
	uint64		last_seq;
	RoseKeyBuffer min_key;

	bool		has_locks;
	bool		unique_keys;
	RoseFilterBuilder *filter;	/* or NULL */
	RoseFooterDisk footer;		/* counts so far */
	RoseColumnGroupDisk group;

	/* of a private run: whose rows it has; full xids, ascending */
	uint64	   *owners;
	int			nowners;
	int			max_owners;
	uint64		last_owner;		/* of the row before */

	/* for rows given in their stored form */
	Datum	   *row_values;
	bool	   *row_nulls;
};

/*
 * A row of this key begins a new leaf: finish the one before, whose last key is
 * builder->last_key, and make its separator.
 */
extern void rose_component_next_leaf(RoseComponentBuilder *builder, const Datum *key, uint64 seq);

/*
 * Check the order of the next version; note a new key.  False: the version was given
 * already.
 */
extern bool rose_component_check_order(RoseComponentBuilder *builder, const RoseVersion *version,
									   const Datum *key);

/* A private run has rows of this transaction. */
extern void rose_component_note_owner(RoseComponentBuilder *builder, uint64 xid);

#endif							/* ROSE_BUILDER_INTERNAL_H */
