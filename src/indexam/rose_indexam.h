/*-------------------------------------------------------------------------
 *
 * rose_indexam.h
 *	  The face of the primary key's index: scans, and what the planner is told.
 *
 * For the table access method and the hooks.  What the two sides of an index scan share
 * is in rose_index_fetch.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEXAM_H
#define ROSE_INDEXAM_H

#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"

#include "lsm/tree/rose_entry.h"
#include "indexam/rose_index_fetch.h"

/* --- wiring --- */
extern void rose_primary_key_define_callbacks(void);
extern void rose_index_eval_define_callbacks(void); /* expressions and predicates */

/*
 * Tell the planner about this index of a rose table what cannot be read off a btree;
 * primary: it is that of the primary key.
 */
struct IndexOptInfo;
extern void rose_primary_key_plan(Relation heap, struct IndexOptInfo *info, bool primary);

/* Was it told?  Only indexes of rose tables are. */
extern bool rose_primary_key_is_planned(const struct IndexOptInfo *info);

/* ... as that of the primary key? */
extern bool rose_primary_key_is_planned_as_key(const struct IndexOptInfo *info);

/* --- scans (rose_index_scan.c); contracts as in access/amapi.h --- */
extern void rose_index_rescan(IndexScanDesc iscan, ScanKey keys, int nkeys,
							  ScanKey orderbys, int norderbys);
extern bool rose_index_gettuple(IndexScanDesc iscan, ScanDirection direction);
extern void rose_index_markpos(IndexScanDesc iscan);
extern void rose_index_restrpos(IndexScanDesc iscan);

/* --- entries that are believed only if their row agrees (rose_index_validate.c) --- */
typedef struct RoseIndexValidator RoseIndexValidator;

/* Lives in the current context.  index: open as long as it is used; table: the schema of its table. */
extern RoseIndexValidator *rose_index_validator_create(Relation index, const RoseSchema *table);

/*
 * Is the entry with this key that of the row?  Then that, as it is made of the row, and good as
 * long as that is, and until the next call; else NULL.
 */
extern const RoseEntry *rose_index_validator_agrees(RoseIndexValidator *validator,
													const RoseRow *row, const Datum *key);

/* Does that call functions?  Then the row may be gone afterwards, if it is a cached lookup's. */
extern bool rose_index_validator_calls(const RoseIndexValidator *validator);

#endif							/* ROSE_INDEXAM_H */
