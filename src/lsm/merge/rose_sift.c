/*-------------------------------------------------------------------------
 *
 * rose_sift.c
 *	  Entries that no row has any more, left out by merges of an index.  See rose_sift.h.
 *
 * Here is when that is worth it, and the keys that are wanted: a Bloom filter of core's, within
 * maintenance_work_mem.  How the table is read is write/rose_sift_rows.c's business; which rows a merge
 * asks for, rose_merge_output.c's.
 *
 * Whether it is worth it is judged by what manifests say: of rows a table has about what its C2 has, or were found when the
 * index was sifted last (of a partial index, what ANALYZE says, too).  Too small a number, for rows that have come since, has an index sifted in vain, once.  After
 * that, and if memory is too short for the table's keys, or an entry cannot be computed, the next one sifts when the index has grown by half, or
 * the table has lost a third of its versions.  One that is given up, because somebody has locked the table or wants to merge
 * the index himself, or that has met an error, is tried again after a pause; and one that has found entries that stay because
 * not everybody sees who has written them, or what came after them, when everybody does.
 *
 * Locking: AccessShareLock of the table, never waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_index.h"
#include "lib/bloomfilter.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "util/rose_index_expr.h"
#include "memtable/rose_c0.h"
#include "store/rose_manifest.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_sift.h"

/* An index has so many times its table's rows before it is sifted: as many entries may be stale as dead rows before autovacuum comes, ... */
#define SIFT_DUE			1.2
/* ... and so many entries more. */
static int	min_entries = 1000; /* rose.debug_sift_entries */

/* A pass that has left out less than this part of what it has asked for has not been worth it. */
#define SIFT_USEFUL			16
/* Then it has to be so many times as large as it was, or its table had so many times the versions. */
#define SIFT_GROWTH			1.5

/* One that was given up, or has met an error, is not tried again before this. */
#define GIVEN_UP_MS			3000
#define ERROR_MS			600000

/* The least filter is larger than what this needs. */
#define SIFT_LEAST_EXPECTED	1000

#define SIFT_SEED			UINT64CONST(0x726f7365)

RoseSiftHook rose_sift_hook = NULL;
int			rose_sift_keys = 0; /* rose.debug_sift_keys */

void
rose_sift_define_settings(void)
{
	DefineCustomIntVariable("rose.debug_sift_entries",
							"Sets how many entries that no row has an index is to have before they are looked for.",
							"For tests of rose.",
							&min_entries,
							1000,
							0,
							INT_MAX,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rose.debug_sift_keys",
							"Sets how many keys of a table are read in a step for entries that an index is to have; 0 means as many as there is time for.",
							"For tests of rose.",
							&rose_sift_keys,
							0,
							0,
							INT_MAX,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
}

RoseSift *
rose_sift_create(MemoryContext context)
{
	RoseSift   *sift = MemoryContextAllocZero(context, sizeof(RoseSift));

	sift->context = context;
	sift->progress = ROSE_SIFT_MORE;
	rose_key_buffer_init(&sift->at, context);
	return sift;
}

/* ---- is it worth it? ---- */

/* Versions in components from this level on. */
static uint64
count_versions(RoseTree *tree, int level)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	uint64		n = 0;

	for (int i = 0; i < manifest->ncomponents; i++)
		if (manifest->components[i].level >= level)
			n += rose_component_rest(&manifest->components[i], manifest->components[i].nrows);
	return n;
}

/* Has a filter more of it than the key of its table?  Types without hashes are not told apart. */
static bool
is_hashed(const RoseSchema *schema, int natts)
{
	for (int i = 0; i < Min(natts, schema->nkeys); i++)
		if (schema->keys[i].hashable)
			return true;
	return false;
}

/* Can it be told by a row whether an entry is its own, today and later on? */
static bool
is_possible(RoseTree *index)
{
	const RoseIndexMetaDisk *meta = rose_tree_index_meta(index);
	RoseIndexExpr expr;

	if (meta == NULL || (meta->flags & ROSE_INDEX_VALIDATED) == 0 || rose_tree_is_incomplete(index) ||
		!index->rel->rd_index->indisvalid || !index->rel->rd_index->indislive ||
		!is_hashed(index->schema, index->rel->rd_index->indnkeyatts))
		return false;
	if (!rose_index_expr_is_any(index->rel))
		return true;
	rose_index_expr_read(index->rel, &expr);
	return rose_index_expr_is_lasting(&expr);
}

RoseTree *
rose_sift_open_table(RoseTree *index, bool *locked)
{
	Oid			relid = index->rel->rd_index->indrelid;
	Relation	rel;
	RoseTree   *table;

	*locked = !ConditionalLockRelationOid(relid, AccessShareLock);
	if (*locked)
		return NULL;
	rel = table_open(relid, NoLock);
	table = rose_tree_open_any_order(rel);
	if (!table->shared->other_order && table->schema->nkeys > 0 &&
		rose_tree_index_meta(index)->base_key_crc == rose_index_def_base_crc(table->schema))
		return table;
	table_close(rel, NoLock);
	return NULL;
}

void
rose_sift_close_table(RoseTree *table)
{
	table_close(table->rel, NoLock);
}

/*
 * How many entries should there be, about?  Not more than versions; more where rows have come since the last look.  Of a partial index
 * it is what there were then, or as of the last ANALYZE.
 */
static uint64
count_rows(RoseTree *index, RoseTree *table)
{
	uint64		nversions = count_versions(table, 0);
	uint64		seen = pg_atomic_read_u64(&index->shared->sift_rows);
	float4		analyzed = index->rel->rd_rel->reltuples;

	if (heap_attisnull(index->rel->rd_indextuple, Anum_pg_index_indpred, NULL))
		return Min(nversions, Max(count_versions(table, 2), seen));
	if (analyzed >= 0)
		nversions = Min(nversions, (uint64) analyzed);
	return seen > 0 ? Min(nversions, seen) : nversions;
}

/* Has the last pass that sifted been worth it, or has either changed much since? */
static bool
may_be_worth_it(RoseTreeShared *index, uint64 nentries, uint64 nversions)
{
	uint64		vain = pg_atomic_read_u64(&index->sift_vain);

	return vain == 0 || nentries > SIFT_GROWTH * vain ||
		SIFT_GROWTH * nversions < pg_atomic_read_u64(&index->sift_versions);
}

/* Has an index of so many entries too many of them? */
static bool
has_too_many(RoseTree *index, RoseTree *table, uint64 nentries, bool thorough)
{
	uint64		nrows = count_rows(index, table);

	if (thorough && !heap_attisnull(index->rel->rd_indextuple, Anum_pg_index_indpred, NULL))
		return nentries > 0;	/* nobody knows of how many rows */
	if (thorough)
		return nentries > nrows;
	return nentries > SIFT_DUE * nrows + min_entries &&
		may_be_worth_it(index->shared, nentries, count_versions(table, 0));
}

static bool
is_time(RoseTree *index)
{
	uint64		horizon = pg_atomic_read_u64(&index->shared->sift_horizon);

	return (TimestampTz) pg_atomic_read_u64(&index->shared->sift_after) <= GetCurrentTimestamp() &&
		(horizon == 0 || horizon < rose_horizon_oldest(index->rel));
}

RoseSiftDue
rose_sift_is_due(RoseTree *index, bool thorough)
{
	uint64		nentries;
	RoseTree   *table;
	bool		locked;
	bool		due;

	if (index->rel->rd_rel->relkind != RELKIND_INDEX || !is_possible(index))
		return ROSE_SIFT_NOT_DUE;
	nentries = count_versions(index, 0);
	if (!thorough && nentries <= (uint64) min_entries)
		return ROSE_SIFT_NOT_DUE;
	table = rose_sift_open_table(index, &locked);
	if (table == NULL)
		return locked ? ROSE_SIFT_DUE_LATER : ROSE_SIFT_NOT_DUE;
	due = has_too_many(index, table, nentries, thorough);
	rose_sift_close_table(table);
	if (!due)
		return ROSE_SIFT_NOT_DUE;
	return thorough || is_time(index) ? ROSE_SIFT_DUE : ROSE_SIFT_DUE_LATER;
}

void
rose_sift_begin(RoseSift *sift, RoseTree *index, RoseTree *table)
{
	sift->began = GetCurrentTimestamp();
	sift->nentries = count_versions(index, 0);
	sift->nversions = count_versions(table, 0);
}

void
rose_sift_in_vain(const RoseSift *sift, RoseTree *index)
{
	pg_atomic_write_u64(&index->shared->sift_versions, sift->nversions);
	pg_atomic_write_u64(&index->shared->sift_vain, sift->nentries);
}

/* Tables that are locked every now and then are not read over and over: at most half of the time. */
void
rose_sift_give_up(const RoseSift *sift, RoseTree *index)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz pause = (sift->in_step ? ERROR_MS : GIVEN_UP_MS) * INT64CONST(1000);

	if (sift->began != 0)
		pg_atomic_write_u64(&index->shared->sift_after, (uint64) (now + Max(pause, now - sift->began)));
}

/* Where somebody always has an old snapshot, at most half of the time is spent in reading the table. */
static void
wait_for_horizon(const RoseSift *sift, RoseTree *index)
{
	TimestampTz now = GetCurrentTimestamp();

	pg_atomic_write_u64(&index->shared->sift_vain, 0);
	pg_atomic_write_u64(&index->shared->sift_after, (uint64) (now + (now - sift->began)));
	pg_atomic_write_u64(&index->shared->sift_horizon, U64FromFullTransactionId(sift->newest));
}

void
rose_sift_end(const RoseSift *sift, RoseTree *index)
{
	pg_atomic_write_u64(&index->shared->sift_rows, sift->nrows);
	pg_atomic_write_u64(&index->shared->sift_after, 0);
	pg_atomic_write_u64(&index->shared->sift_horizon, 0);
	if (sift->nleft_out > sift->nasked / SIFT_USEFUL)
		pg_atomic_write_u64(&index->shared->sift_vain, 0);
	else if (sift->ntoo_new > sift->nasked / SIFT_USEFUL)
		wait_for_horizon(sift, index);
	else
		rose_sift_in_vain(sift, index);
}

/* ---- what is wanted ---- */

/* Filters of indexes are asked for their columns alone; here a key has to be told from others. */
void
rose_sift_expect(RoseSift *sift, RoseTree *index, RoseTree *table)
{
	const RoseSchema *schema = index->schema;
	uint64		nversions = count_versions(table, 0) + rose_c0_versions(&table->shared->c0);
	MemoryContext old = MemoryContextSwitchTo(sift->context);
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];

	for (int i = 0; i < schema->nkeys; i++)
		keys[i] = schema->keys[i].def;
	sift->schema = rose_schema_create(schema->tupdesc, schema->nkeys, keys, ROSE_HASH_WHAT_CAN_BE, sift->context);
	sift->wanted = bloom_create((int64) Max(nversions, SIFT_LEAST_EXPECTED), maintenance_work_mem, SIFT_SEED);
	sift->table = table->locator;
	sift->incarnation = table->incarnation;
	MemoryContextSwitchTo(old);
}

void
rose_sift_want(RoseSift *sift, const Datum *key)
{
	uint64		hash = rose_key_hash(sift->schema, key);

	bloom_add_element(sift->wanted, (unsigned char *) &hash, sizeof(hash));
}

bool
rose_sift_is_wanted(RoseSift *sift, const Datum *key)
{
	uint64		hash = rose_key_hash(sift->schema, key);
	bool		lacks = bloom_lacks_element(sift->wanted, (unsigned char *) &hash, sizeof(hash));

	sift->nasked++;
	sift->nleft_out += lacks;
	return !lacks;
}

void
rose_sift_keep(RoseSift *sift, FullTransactionId xid)
{
	sift->nleft_out--;
	rose_sift_want_for(sift, 1, xid);
}

void
rose_sift_want_for(RoseSift *sift, uint64 n, FullTransactionId xid)
{
	sift->ntoo_new += n;
	if (FullTransactionIdPrecedes(sift->newest, xid))
		sift->newest = xid;
}
