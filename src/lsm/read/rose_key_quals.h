/*-------------------------------------------------------------------------
 *
 * rose_key_quals.h
 *	  Scan keys as key ranges and remaining conditions: for scans of indexes, and for scans
 *	  of tables that have conditions on the key.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_QUALS_H
#define ROSE_KEY_QUALS_H

#include "postgres.h"

#include "access/skey.h"

#include "util/rose_schema.h"
#include "lsm/read/rose_key_range.h"

/*
 * What the scan keys of an index scan mean: key ranges, in key order and
 * without overlap, and conditions that each row in them must still be checked for.
 */
typedef struct RoseKeyQuals RoseKeyQuals;

/*
 * Lives in the current context; refers to keys, and to their arguments.  schema: of the
 * table, for its primary key's index; or of an index's tree.  Column i of the index is
 * the i-th key column that is no rank.  The order of the ranges is that of the tree.
 */
extern RoseKeyQuals *rose_key_quals_create(const RoseSchema *schema, ScanKey keys, int nkeys);

/* Is each range a single whole key (in its lower bound)? */
extern bool rose_key_quals_name_keys(const RoseKeyQuals *quals);

/* Number of ranges; 0: no row can match. */
extern uint64 rose_key_quals_nranges(const RoseKeyQuals *quals);

/* Range number i in key order; its Datums live as long as quals. */
extern void rose_key_quals_range(const RoseKeyQuals *quals, uint64 i, RoseKeyRange *range);

/* Is there anything that the ranges do not say? */
extern bool rose_key_quals_has_checks(const RoseKeyQuals *quals);

/* Does a row with this key satisfy what the ranges do not say? */
extern bool rose_key_quals_match(const RoseKeyQuals *quals, const Datum *key);

#endif							/* ROSE_KEY_QUALS_H */
