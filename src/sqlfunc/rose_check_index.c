/*-------------------------------------------------------------------------
 *
 * rose_check_index.c
 *	  Does a secondary index have the entries of its table's rows?  See rose_check_index.h.
 *
 * The entries that there should be are made of the rows that a scan of the table finds,
 * and are sorted; those that there are come from a scan of the index, under the same
 * snapshot.  Both go by in step: the first difference is reported, and what kind it is.
 * An index whose entries are believed only if their row agrees may have more of them.
 * Of a unique index neighbours with one value are looked for, too.
 *
 * The caller has locks of both relations; nothing is repaired.  The index as a tree of
 * its own is checked by rose_sql_check.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "store/rose_metapage.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/merge/rose_version_sort.h"
#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_unique_pair.h"
#include "sqlfunc/rose_check_index.h"

/* Sort the entries of all rows. */
static RoseVersionSort *
sort_expected(RoseTree *table, RoseTree *index, const RoseEntryShape *shape)
{
	MemoryContext computed = AllocSetContextCreate(CurrentMemoryContext, "rose check index row",
												   ALLOCSET_SMALL_SIZES);
	RoseVersionSort *sort = rose_version_sort_begin(index->schema, false, maintenance_work_mem);
	RoseScan   *scan = rose_scan_begin(table, GetActiveSnapshot(), NULL, true);
	int			natts = table->schema->natts;
	Datum	   *values = palloc(natts * sizeof(Datum));
	bool	   *nulls = palloc(natts * sizeof(bool));
	RoseVersion version = {.op = ROSE_OP_PUT};
	const RoseRow *row;

	while ((row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		RoseEntry	entry;
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(computed);
		old = MemoryContextSwitchTo(computed);
		rose_row_deform(row, table->schema, 1, natts, values, nulls);
		rose_entry_of_row(shape, index->rel, ROSE_ENTRY_OF_OWNER, values, nulls,
						  table->schema->nkeys == 0 ? DatumGetInt64(row->key[0]) : 0, &entry);
		MemoryContextSwitchTo(old);
		if (!entry.exists)
			continue;
		version.seq = row->version.seq;
		version.xid = row->version.xid;
		rose_version_sort_put(sort, &version, entry.values, entry.nulls, 0);
	}
	rose_scan_end(scan);
	rose_version_sort_perform(sort);
	return sort;
}

static bool
is_same_entry(const RoseEntryShape *shape, const RoseSchema *schema, TupleTableSlot *expected,
			  const RoseRow *found)
{
	for (int i = 0; i < shape->ncolumns; i++)
	{
		bool		isnull;
		Datum		value = rose_row_getattr(found, schema, i + 1, &isnull);

		if (isnull != expected->tts_isnull[i] ||
			(!isnull && !datum_image_eq(value, expected->tts_values[i], shape->columns[i].byval,
										shape->columns[i].len)))
			return false;
	}
	return true;
}

/* Of the next ones, either of which may be NULL: which comes first in the index's order. */
static int
compare_next(const RoseSchema *schema, TupleTableSlot *expected, const RoseRow *found)
{
	Datum		key[INDEX_MAX_KEYS];

	if (expected == NULL || found == NULL)
		return found == NULL ? -1 : 1;
	rose_key_from_values(schema, expected->tts_values, 0, key);
	return rose_key_compare(schema, key, found->key, schema->nkeys);
}

/*
 * Take the next entry that there should be, and the next one that there is; what is wrong, or
 * NULL.  *end: there are no more.  Of one that is believed only if its row agrees, nothing
 * but the key matters; those of no row are passed over.
 */
static const char *
next_difference(RoseVersionSort *sort, RoseScan *scan, const RoseEntryShape *shape,
				const RoseSchema *schema, bool validated, bool *end)
{
	RoseVersion version;
	TupleTableSlot *expected = rose_version_sort_next(sort, &version);
	const RoseRow *found = rose_scan_next(scan, ForwardScanDirection);
	int			cmp;

	while (validated && found != NULL && compare_next(schema, expected, found) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		found = rose_scan_next(scan, ForwardScanDirection);
	}
	*end = expected == NULL && found == NULL;
	if (*end)
		return NULL;
	cmp = compare_next(schema, expected, found);
	if (cmp != 0)
		return cmp < 0 ? "a row has no entry" : "an entry is of no row";
	if (!validated && !is_same_entry(shape, schema, expected, found))
		return "an entry has other values than its row";
	return NULL;
}

/*
 * Have two rows one value?  While a transaction may violate a deferrable constraint, it sees
 * rows that do.
 */
static const char *
check_values(RoseTree *index, const RoseIndexTree *described)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	char	   *description;

	if (!described->unique ||
		(described->deferrable && TransactionIdIsValid(GetTopTransactionIdIfAny())) ||
		!rose_unique_pair_find(index, described, GetActiveSnapshot(), values, nulls))
		return NULL;
	description = BuildIndexValueDescription(index->rel, values, nulls);
	return description == NULL ? "two rows have one value" :
		psprintf("two rows have the value %s", description);
}

void
rose_check_index(RoseTree *table, RoseTree *index, RoseProblemCallback report, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose check index",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseMetaInfo info;
	RoseIndexTree described;
	const RoseEntryShape *shape = &described.shape;
	RoseVersionSort *sort;
	RoseScan   *scan;
	const char *problem = NULL;
	const char *duplicate;
	bool		end = false;
	uint64		nentries = 0;

	rose_meta_read(index->rel, &info);
	rose_index_set_shape(index->rel, &info.index, index->schema, table->schema->natts,
						 &described.shape);
	rose_index_set_uniqueness(index->rel, &info.index, &described);
	sort = sort_expected(table, index, shape);
	scan = rose_scan_begin(index, GetActiveSnapshot(), NULL, true);
	while (problem == NULL && !end)
	{
		problem = next_difference(sort, scan, shape, index->schema,
								  (info.index.flags & ROSE_INDEX_VALIDATED) != 0, &end);
		nentries++;
	}
	rose_scan_end(scan);
	rose_version_sort_end(sort);
	duplicate = check_values(index, &described);
	MemoryContextSwitchTo(old);
	if (problem != NULL)
		report(arg, InvalidBlockNumber,
			   psprintf("index \"%s\": %s, at entry " UINT64_FORMAT,
						RelationGetRelationName(index->rel), problem, nentries));
	if (duplicate != NULL)
		report(arg, InvalidBlockNumber,
			   psprintf("index \"%s\": %s", RelationGetRelationName(index->rel), duplicate));
	MemoryContextDelete(context);
}
