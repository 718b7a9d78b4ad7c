/*-------------------------------------------------------------------------
 *
 * rose_component.h
 *	  A component: an immutable, bulk-loaded, compressed B-tree of versions.
 *
 * Blocks of a component: leaves (multicolumn pages), inner pages, overflow
 * pages, Bloom filter pages, footer page(s) and an extent list.  Leaves are
 * chained both ways; inner pages hold truncated separators and the ordinal of
 * the first row below each child.  Versions are in (key, sequence descending)
 * order.
 *
 * Columns of a leaf: ROSE_SYSCOLS system columns, then the user's columns by
 * attribute number, as many as the table had when the component was built
 * (later ones take their missing value).
 *
 * A handle is backend-local and immutable.  Whoever reads through it holds a
 * pin (rose_pin_acquire) from before the manifest was read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPONENT_H
#define ROSE_COMPONENT_H

#include "postgres.h"

#include "util/rose_schema.h"
#include "util/rose_version.h"
#include "page/rose_page.h"
#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "store/rose_store_check.h"
#include "lsm/component/rose_row.h"

/* System columns of a leaf, by position; embedded on disk. */
typedef enum RoseSysColumn
{
	ROSE_SYSCOL_SEQ = 0,		/* int8 */
	ROSE_SYSCOL_XID = 1,		/* int8, full xid */
	ROSE_SYSCOL_OP = 2,			/* int2 */
	ROSE_SYSCOL_PRESENT = 3,	/* bytea, NULL unless PARTIAL */
	ROSE_SYSCOL_MOVED = 4,		/* int8, NULL unless moved from here, or to here; of a LOCK
								 * (private runs only): its lock mode */
	ROSE_SYSCOL_OVERFLOW = 5,	/* bytea, NULL unless columns overflowed */
	ROSE_SYSCOL_SUBXID = 6,		/* int4, NULL outside private runs */
	ROSE_SYSCOL_CID = 7,		/* int4, NULL outside private runs */
	ROSE_SYSCOL_ROWID = 8,		/* int8, NULL in tables with a key */
	ROSE_SYSCOLS = 9
} RoseSysColumn;

typedef struct RoseComponent RoseComponent;
typedef struct RoseLeaf RoseLeaf;	/* private copy of a leaf; its first member is a RoseRows */

/* Facts of the footer that upper layers may use. */
typedef struct RoseComponentInfo
{
	RoseComponentEntryDisk entry;
	int			natts;			/* user columns when built */
	bool		keys_only;		/* other columns may not be the schema's: left by a rolled back ALTER */
	uint64		leaf_pages;
	uint64		inner_pages;
	uint64		overflow_pages;
	uint64		bloom_pages;
	uint64		nwriters;		/* rows of a subtransaction, and locks: only in
								 * private runs */
	int			nowners;		/* of a private run: its transactions ... */
	const uint64 *owners;		/* ... full xids, ascending */
	FullTransactionId min_xid,
				max_xid;
	const Datum *min_key;		/* key width Datums; NULL if empty */
	const Datum *max_key;
} RoseComponentInfo;

/* The schema must live as long as the component. */
extern RoseComponent *rose_component_open(Relation rel, const RoseSchema *schema,
										  const RoseComponentEntryDisk *entry,
										  MemoryContext context);
extern void rose_component_close(RoseComponent *component);

/* Nobody will begin to use it any more; it is closed together with this context. */
extern void rose_component_retire(RoseComponent *component, MemoryContext context);
extern const RoseComponentInfo *rose_component_info(const RoseComponent *component);

/*
 * Have all of its rows been written with the same operation, number and transaction, as far as is known without reading
 * them?  After a merge that has forgotten numbers they have.  Then what their versions have in common: all but rowid.
 * Leaves with flags have more to say of theirs (rose_leaf.h).
 */
extern bool rose_component_common_version(const RoseComponent *component, RoseVersion *version);

/*
 * False: no version of this key is in it.  By min/max key, which reads nothing, and
 * by the Bloom filter, which reads a page; hash is that of the key.
 */
extern bool rose_component_in_range(const RoseComponent *component, const Datum *key);
extern bool rose_filter_ask(RoseComponent *component, Relation rel, const Datum *key,
							uint64 hash);

/*
 * False: no version of any key with these first columns is in it.  They decide the hash
 * (RoseSchema.hash_columns).
 */
extern bool rose_filter_ask_prefix(RoseComponent *component, Relation rel, const Datum *key,
								   int ncols, uint64 hash);

/*
 * Asks the Bloom filter for many keys: sets maybe[which[i]] for each of n that may be in
 * it, by keys[which[i]] and hashes[which[i]], and leaves the others.  Who asks often has
 * a copy of the filter made, within maintenance_work_mem for all components.
 */
extern void rose_filter_ask_many(RoseComponent *component, Relation rel,
								 const Datum *const *keys, const uint64 *hashes,
								 const int *which, int n, bool *maybe);

/*
 * The regions of a component that SHRINKS which nobody needs any more when its versions
 * from 'from' on, before which all have moved, to before 'to' have moved, too.  In the
 * current memory context.
 */
struct RoseShed;
extern struct RoseShed *rose_component_find_shed(const RoseComponent *component, Relation rel,
												 uint64 from, uint64 to);

/* ---------------------------------------------------------------------
 * Cursor over one component.
 */
typedef struct RoseComponentCursor RoseComponentCursor;

extern RoseComponentCursor *rose_component_cursor_create(RoseComponent *component,
														 Relation rel,
														 const RoseSchema *schema,
														 BufferAccessStrategy strategy,
														 MemoryContext context);
extern void rose_component_cursor_free(RoseComponentCursor *cursor);

/* Nobody holds rows that it has returned, and values of them take so many bytes at most. */
extern bool rose_component_cursor_may_rest(const RoseComponentCursor *cursor, Size bytes);

extern bool rose_component_cursor_is_of(const RoseComponentCursor *cursor,
										const RoseComponent *component);
extern const RoseComponentInfo *rose_component_cursor_info(const RoseComponentCursor *cursor);

/*
 * Leave out the versions before this ordinal (the manifest entry's
 * first_ordinal); only seek_ordinal goes to them still.  Pages that have no others are
 * not read then: they may be somebody else's.
 */
extern void rose_component_cursor_set_first(RoseComponentCursor *cursor, uint64 first_ordinal);

/* Does a whole key come before all versions that are not left out? */
extern bool rose_component_cursor_is_before(RoseComponentCursor *cursor, const Datum *key);

/* After the relation was reopened. */
extern void rose_component_cursor_rebind(RoseComponentCursor *cursor, Relation rel);

/*
 * For who keeps cursors from one use to the next: those that have nothing of a long walk, and of this schema.
 * The cursor's memory, with the pages that it has, goes from one context to another; it is on no row then, and
 * to be rebound.
 */
extern bool rose_component_cursor_may_be_kept(const RoseComponentCursor *cursor,
											  const RoseSchema *schema);
extern void rose_component_cursor_pass_on(RoseComponentCursor *cursor, MemoryContext context);

/* All position and return whether there is a row there.  seek: first version
 * >= (first ncols of key, seq descending from seq; ignored when ncols < key width).
 * seek_last: last version whose first ncols key columns are <= key (< if !inclusive). */
extern bool rose_component_cursor_first(RoseComponentCursor *cursor);
extern bool rose_component_cursor_last(RoseComponentCursor *cursor);
extern bool rose_component_cursor_seek(RoseComponentCursor *cursor, const Datum *key,
									   int ncols, uint64 seq);
extern bool rose_component_cursor_seek_last(RoseComponentCursor *cursor,
											const Datum *key, int ncols, bool inclusive);
extern bool rose_component_cursor_seek_ordinal(RoseComponentCursor *cursor, uint64 ordinal);
extern bool rose_component_cursor_next(RoseComponentCursor *cursor);
extern bool rose_component_cursor_prev(RoseComponentCursor *cursor);

/*
 * For who looks up many keys in ascending order, and keeps no row.  borrow: leaves are looked at where they
 * are, in their buffers.  find_here: does the leaf at hand tell whether there is a version of a whole key?  Then
 * *found, and if so the cursor is on the newest one; REQUIRES that no key before this one was looked for since
 * the cursor had no leaf.  If it does not tell, seek_key does, and takes another leaf.  give_back: the
 * cursor keeps no leaf; before the caller returns.
 */
extern void rose_component_cursor_borrow(RoseComponentCursor *cursor);
extern bool rose_component_cursor_find_here(RoseComponentCursor *cursor, const Datum *key, bool *found);
extern bool rose_component_cursor_seek_key(RoseComponentCursor *cursor, const Datum *key);
extern void rose_component_cursor_give_back(RoseComponentCursor *cursor);

/*
 * Where the leaf that has this row begins, as first columns of a key: no key from there on is smaller, and none before
 * is greater.  Returns their number; 0: nothing is before it.  Reads inner pages alone.  The Datums are good until the
 * cursor is used again.
 */
extern int	rose_component_cursor_bound(RoseComponentCursor *cursor, uint64 ordinal, Datum *key);

/*
 * The current row; valid until the cursor moves.  To keep it longer, hold the
 * leaf and copy the struct and the key array: what the key's Datums point to,
 * and version.present, live as long as the leaf.  A leaf lives at most as long
 * as the context the cursor was created in.
 */
extern const RoseRow *rose_component_cursor_row(RoseComponentCursor *cursor);

/*
 * The same row, but its version may not have been read yet (op is 0 then): calling
 * rose_component_cursor_row completes it in place.
 */
extern const RoseRow *rose_component_cursor_keyed_row(RoseComponentCursor *cursor);

/*
 * For whoever takes rows of a leaf many at a time.  The leaf and slot that the cursor
 * stands on; going on to a slot of this leaf, or, with the number of its rows, to the
 * first row of the next leaf (false: there is none).
 */
extern RoseLeaf *rose_component_cursor_leaf(const RoseComponentCursor *cursor, int *slot);
extern bool rose_component_cursor_goto(RoseComponentCursor *cursor, int slot);

/*
 * The next leaf, and the cursor is on its first row; NULL: there is none, and the cursor
 * stays.  How many rows it has is known from the tree, and it is not read before somebody
 * asks for a value.
 */
extern RoseLeaf *rose_component_cursor_next_leaf(RoseComponentCursor *cursor);

/* The leaf's first slot that is not left out. */
extern int	rose_component_cursor_first_slot(const RoseComponentCursor *cursor);

/*
 * First slot of the leaf, from the present one on, whose first ncols key columns
 * are >= key (after: > key); the number of rows if there is none.
 */
extern int	rose_component_cursor_find(RoseComponentCursor *cursor, const Datum *key,
									   int ncols, bool after);

/* ---------------------------------------------------------------------
 * Building a component, versions given in order.
 */

/* Most bytes of a whole key. */
#define ROSE_KEY_MAX_SIZE	(BLCKSZ / 3 - 32)

/*
 * Raise ERRCODE_PROGRAM_LIMIT_EXCEEDED if a component could not store this
 * row, or as below.  values/nulls of all columns, detoasted and not compressed.  Whoever
 * accepts a row calls it first, so that a spill cannot fail because of a row.
 */
extern void rose_component_check_row_fits(const RoseSchema *schema,
										  const Datum *values, const bool *nulls);

/* Could a component store a version with this key?  Of the columns those of the key are looked at. */
extern bool rose_component_key_fits(const RoseSchema *schema, const Datum *values,
									const bool *nulls);

/*
 * Raise ERRCODE_NOT_NULL_VIOLATION if one of the key's columns is NULL.  The executor has
 * seen to that for rows of commands; rows from elsewhere may be anything.
 */
extern void rose_component_require_key(const RoseSchema *schema, const bool *nulls);

/*
 * Whole rows of ascending, different keys, as columns.  Arrays are by row.  Not for
 * tables of more columns than this, of which even a short row may not fit a page.
 */
#define ROSE_BATCH_MAX_COLUMNS	256

typedef struct RoseRowBatch
{
	int			n;
	const Datum **values;		/* of user columns, by attribute number - 1; NULL: no row has one */
	const bool **nulls;			/* of user columns; NULL: all rows have a value, or none has */
	const Datum *rowid;			/* of a table without key, else NULL */
	const Datum *seq;
	const Datum *xid;			/* full ones */

	/* of a private run */
	const Datum *subxid;		/* NULL: none was written in a subtransaction */
	const Datum *cid;
} RoseRowBatch;

/* The key of row i: key width Datums, which live as long as the batch. */
extern void rose_row_batch_key(const RoseSchema *schema, const RoseRowBatch *batch, int i,
							   Datum *key);

typedef struct RoseComponentBuilder RoseComponentBuilder;

/* Options of a builder. */
/* rows of transactions that may be in progress: subxid and cid are stored, locks are allowed */
#define ROSE_BUILD_PRIVATE	0x01
#define ROSE_BUILD_KEEP		0x02	/* goes on when the transaction ends (merges) */
/* Where in the tree it belongs, for the size of the Bloom filter; neither: at the bottom, or wherever it comes to lie. */
#define ROSE_BUILD_RUN		0x04
#define ROSE_BUILD_C1		0x08

/* rose.debug_filter_part */
extern void rose_component_define_settings(void);

/*
 * expected_rows: how much memory to take for the keys' hashes at first; the Bloom filter
 * is as large as its keys need.  Reserves the owner id.  The schema must live as long as
 * the builder.
 */
extern RoseComponentBuilder *rose_component_builder_create(Relation rel,
														   RoseStoreShared *store,
														   const RoseSchema *schema,
														   uint64 expected_rows,
														   int options,
														   MemoryContext context);

/*
 * row->version, and the row.  Columns that the operation does not have are stored as
 * NULL.  A version that is given twice is stored once; other disorder is an error.
 */
extern void rose_component_builder_add(RoseComponentBuilder *builder, const RoseRow *row);

/*
 * Same from a deformed row: values/nulls of the schema's natts user columns,
 * as they are to be stored; version->present has ROSE_PRESENT_BYTES(natts).
 */
extern void rose_component_builder_add_values(RoseComponentBuilder *builder,
											  const RoseVersion *version,
											  const Datum *values, const bool *nulls);

/* The same for many rows. */
extern void rose_component_builder_add_batch(RoseComponentBuilder *builder,
											 const RoseRowBatch *batch);

/* Writes the rest, makes everything durable or redo-able, fills entry except
 * level, state, subid, epoch.  An empty component is not allowed. The owner stays
 * listed as being built until rose_component_builder_free, to be called after publishing or giving up. */
extern void rose_component_builder_finish(RoseComponentBuilder *builder,
										  RoseComponentEntryDisk *entry);
extern void rose_component_builder_free(RoseComponentBuilder *builder);
extern void rose_component_builder_rebind(RoseComponentBuilder *builder, Relation rel);

/*
 * For rose.check: every page, order, ordinals, Bloom filter, min/max, counts.  If it
 * SHRINKS, only what those need who leave out the versions before first_ordinal.
 */
extern void rose_component_check(RoseComponent *component, Relation rel,
								 const RoseSchema *schema, uint64 first_ordinal,
								 RoseProblemCallback report, void *arg);

#endif							/* ROSE_COMPONENT_H */
