/*-------------------------------------------------------------------------
 *
 * rose_gather.h
 *	  Rows picked from several places, in the order of a scan, as one batch.
 *
 * Rows in place are held, single tuples are copied.  A part of rose_batch.h.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_GATHER_H
#define ROSE_GATHER_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "lsm/component/rose_row.h"
#include "lsm/tree/rose_tree.h"

/* Pieces of more rows are not for here. */
#define ROSE_GATHER_LONG	128

typedef struct RoseGather RoseGather;

/* named: single rows have names. */
extern RoseGather *rose_gather_create(const RoseSchema *schema, bool named, MemoryContext context);

/* Let go of all rows. */
extern void rose_gather_reset(RoseGather *gather);

extern int	rose_gather_count(const RoseGather *gather);

/* It takes no more, before it is reset. */
extern bool rose_gather_is_full(const RoseGather *gather);

/* Rows [first, first + n) of a stretch, fewer than ROSE_GATHER_LONG; first_tid is the stretch's.  REQUIRES that it is not full. */
extern void rose_gather_add_rows(RoseGather *gather, RoseRows *rows, int first, int n,
								 uint64 first_tid);

/* A row by itself; tid is not looked at if rows have no names. */
extern void rose_gather_add_row(RoseGather *gather, const RoseRow *row, const ItemPointerData *tid);

/* As rose_batch.h says. */
extern void rose_gather_decode(RoseGather *gather, AttrNumber attno, int first, int n,
							   const Bitmapset *also, Datum *values, bool *nulls);
extern Datum rose_gather_value(RoseGather *gather, AttrNumber attno, int row, bool *isnull);
extern void rose_gather_tid(const RoseGather *gather, int row, ItemPointer tid);
extern void rose_gather_version(const RoseGather *gather, int row, RoseVersion *version);
extern void rose_gather_key(const RoseGather *gather, int row, Datum *key);

#endif							/* ROSE_GATHER_H */
