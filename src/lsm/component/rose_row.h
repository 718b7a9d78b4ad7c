/*-------------------------------------------------------------------------
 *
 * rose_row.h
 *	  A row as readers get it, from C0 or from a component.
 *
 * A row is a tuple of its own, or a slot of a leaf that stays in place as long as somebody holds
 * it.  Columns of a leaf are decoded when they are asked for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ROW_H
#define ROSE_ROW_H

#include "postgres.h"

#include "access/htup.h"
#include "util/rose_schema.h"
#include "util/rose_version.h"

typedef struct RoseLeaf RoseLeaf;	/* private copy of a leaf, reference counted */

typedef struct RoseRow
{
	RoseVersion version;
	const Datum *key;			/* key width Datums */
	MinimalTuple tuple;			/* the row, or NULL: it is in leaf */
	RoseLeaf   *leaf;
	int			slot;			/* row of the leaf */
	uint32		component;		/* component id, 0 = C0 */
	uint64		ordinal;		/* in the component */
} RoseRow;

/* Was this column written by the version?  Always true but for a PARTIAL. */
extern bool rose_row_is_present(const RoseRow *row, AttrNumber attno);
/* Values stay valid as long as the row does (leaf referenced, tuple alive). */
extern Datum rose_row_getattr(const RoseRow *row, const RoseSchema *schema,
							  AttrNumber attno, bool *isnull);
/* Columns from..to (1-based, inclusive) into values[attno - 1]. */
extern void rose_row_deform(const RoseRow *row, const RoseSchema *schema,
							AttrNumber from, AttrNumber to,
							Datum *values, bool *nulls);
/* The same for a row of a leaf if the rows behind it are read, too. */
extern void rose_row_deform_ahead(const RoseRow *row, const RoseSchema *schema,
								  AttrNumber from, AttrNumber to,
								  Datum *values, bool *nulls);
/* The first natts columns of a row that is a tuple, or all; returns how many. */
extern int	rose_row_deform_tuple(const RoseRow *row, const RoseSchema *schema, int natts,
								  Datum *values, bool *nulls);
/* Fill row->version of a row of a leaf. */
extern void rose_row_load_version(RoseRow *row);
extern void rose_leaf_hold(RoseLeaf *leaf);
extern void rose_leaf_release(RoseLeaf *leaf);	/* NULL is allowed */

#endif							/* ROSE_ROW_H */
