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

/* ---- memtable_server.c ---- */

/* What memory has that was given back: 0x7f, so that who still reads it notices, until a test wants something else. */
extern int	left_behind;

/* Readers have a section each; the last one's lock is nobody's. */
#define FAKE_READERS			5
#define FAKE_TRANCHE_READERS	102
extern void make_readers(void);
extern void reader_enter(int reader);
extern void reader_leave(int reader);

/* ---- memtable_arrivals.c, memtable_keys.c, memtable_stress.c, memtable_recycle.c, memtable_interrupted.c, memtable_between.c, memtable_partial.c ---- */

extern void test_arrivals(const RoseSchema *schema, uint64 max_number);
extern void test_prefixes(void);
extern void test_stress(RoseSchema *schema, uint64 max_number);
extern void test_append(void);
extern void test_recycling(RoseSchema *schema);
extern void test_recycling_full_leaves(RoseSchema *schema);
extern void test_recycling_held(RoseSchema *schema, int first);
extern void test_recycling_readers(RoseSchema *schema, uint64 max_number);
extern void test_interrupted(RoseSchema *schema);
extern void test_walk_beside_split(bool forward);
extern void test_slot_between_looks(void);
extern void test_partials(RoseSchema *schema);

#endif							/* MEMTABLE_UNIT_H */
