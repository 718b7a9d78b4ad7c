/*-------------------------------------------------------------------------
 *
 * rose_builder_internal.h
 *	  The inside of a component builder, shared by rose_builder.c, which
 *	  takes rows one by one, and rose_builder_batch.c, which takes many.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BUILDER_INTERNAL_H
#define ROSE_BUILDER_INTERNAL_H

#include "lsm/component/rose_component_internal.h"

/* Rows above this size may have values that overflow. */
#define ROSE_OVERFLOW_ROW_SIZE	(BLCKSZ / 4)

/* Hashes on their way into the Bloom filter. */
#define ROSE_BLOOM_BATCH		16

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

	bool		unique_keys;
	RoseBloomShape bloom;		/* nblocks 0: none */
	char	   *bloom_bits;
	int			nwaiting;		/* hashes that are not in it yet */
	uint64		waiting[ROSE_BLOOM_BATCH];
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

/* The key's hash is to go into the Bloom filter. */
extern void rose_component_note_hash(RoseComponentBuilder *builder, uint64 hash);

/*
 * Check the order of the next version; note a new key.  False: the version was given
 * already.
 */
extern bool rose_component_check_order(RoseComponentBuilder *builder, const RoseVersion *version,
									   const Datum *key);

#endif							/* ROSE_BUILDER_INTERNAL_H */
