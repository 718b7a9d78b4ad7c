/*-------------------------------------------------------------------------
 *
 * rose_found_rows.h
 *	  Rows that were looked up together, as rows in place (lsm/component/rose_rows.h).
 *
 * Slots are in the order of who asked for the rows.  A slot may be without a row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_FOUND_ROWS_H
#define ROSE_FOUND_ROWS_H

#include "postgres.h"

#include "lsm/component/rose_leaf.h"
#include "lsm/component/rose_row.h"
#include "lsm/tree/rose_tree.h"
#include "lsm/read/rose_wanted.h"

typedef struct RoseFoundRows RoseFoundRows; /* its first member is a RoseRows */

/*
 * For nslots rows, of which so many first columns are likely to be asked for; wanted (or NULL): nobody asks for others
 * than these, and if no column was asked for yet, for all of these.
 */
extern RoseFoundRows *rose_found_rows_create(RoseTree *tree, int nslots, AttrNumber asked,
											 const RoseWanted *wanted, MemoryContext context);

/* See rose_rows_abandon. */
extern void rose_found_rows_abandon(RoseFoundRows *found);

/* How many first columns were asked for; what is known of earlier ones included. */
extern AttrNumber rose_found_rows_asked(const RoseFoundRows *found);

/* The next slot is to have the row of this key, which is copied. */
extern void rose_found_rows_add_key(RoseFoundRows *found, const Datum *key);
extern int	rose_found_rows_count(const RoseFoundRows *found);
extern const Datum *rose_found_rows_key(const RoseFoundRows *found, int slot);

/*
 * A slot has this whole row: a version of its key, at a place in a component.  False: there is no room for more
 * rows.  Before they are given out, and while their leaf is there, take has their columns copied: those of n
 * rows of a leaf, leaf_slots, which ascend, for the same number of slots.  seqs: and the versions' sequence numbers.
 */
extern bool rose_found_rows_set(RoseFoundRows *found, int slot, const RoseVersion *version,
								RoseComponent *component, uint64 ordinal);
extern void rose_found_rows_take(RoseFoundRows *found, RoseLeaf *leaf, const int *leaf_slots,
								 const int *slots, int n, bool seqs);

/* Most rows that may be taken in one go. */
#define ROSE_FOUND_ROWS_TAKE	256

/* Make row that of a slot, which has one. */
extern void rose_found_rows_get(RoseFoundRows *found, int slot, RoseRow *row);

#endif							/* ROSE_FOUND_ROWS_H */
