/*-------------------------------------------------------------------------
 *
 * memtable_unit.h
 *	  What the files of the memtable's unit test share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MEMTABLE_UNIT_H
#define MEMTABLE_UNIT_H

#include "memtable/rose_c0.h"
#include "unit_check.h"

/* ---- memtable_rows.c ---- */

extern RoseSchema rowid_schema;
extern RoseSchema bytes_schema; /* one bytea key, ordered by its bytes */
extern RoseC0Shared c0;

/* Before anything else of this file. */
extern void make_schemas(void);
extern MinimalTuple make_row(uint64 number, Size padding);
extern Datum key_of(const RoseSchema *schema, MinimalTuple row, uint64 number);

/* One version of a key; false: memory is full.  prepare leaves it unlinked. */
extern bool put(const RoseSchema *schema, uint64 number, uint64 seq, Size padding);
extern uint64 number_of(const RoseSchema *schema, const RoseMemEntryRef *ref);
extern void check_entry(const RoseSchema *schema, const RoseMemEntryRef *ref,
						uint64 number, uint64 seq);
extern bool prepare(const RoseSchema *schema, uint64 number, uint64 seq, Size padding,
					RoseMemPending *pending);

/* ---- memtable_arrivals.c, memtable_keys.c, memtable_stress.c ---- */

extern void test_arrivals(const RoseSchema *schema, uint64 max_number);
extern void test_prefixes(void);
extern void test_stress(RoseSchema *schema, uint64 max_number);
extern void test_append(void);

#endif							/* MEMTABLE_UNIT_H */
