/*-------------------------------------------------------------------------
 *
 * rose_check_index.c
 *	  Does a secondary index have the entries of its table's rows?  See rose_check_index.h.
 *
 * The entries that there should be are made of the rows that a scan of the table finds,
 * and are sorted; those that there are come from a scan of the index, under the same
 * snapshot.  Both go by in step: the first difference is reported, and what kind it is.
 *
 * The caller has locks of both relations; nothing is repaired.  The index as a tree of
 * its own is checked by rose_sql_check.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "store/rose_metapage.h"
#include "lsm/tree/rose_index_set.h"
#include "lsm/merge/rose_version_sort.h"
#include "lsm/read/rose_scan.h"
#include "sqlfunc/rose_check_index.h"

/* Sort the entries of all rows. */
static RoseVersionSort *
sort_expected(RoseTree *table, RoseTree *index, const RoseEntryShape *shape)
{
	RoseVersionSort *sort = rose_version_sort_begin(index->schema, false);
	RoseScan   *scan = rose_scan_begin(table, GetActiveSnapshot(), NULL, true);
	int			natts = table->schema->natts;
	Datum	   *values = palloc(natts * sizeof(Datum));
	bool	   *nulls = palloc(natts * sizeof(bool));
	RoseVersion version = {.op = ROSE_OP_PUT};
	const RoseRow *row;

	while ((row = rose_scan_next(scan, ForwardScanDirection)) != NULL)
	{
		RoseEntry	entry;

		CHECK_FOR_INTERRUPTS();
		rose_row_deform(row, table->schema, 1, natts, values, nulls);
		rose_entry_of_row(shape, values, nulls,
						  table->schema->nkeys == 0 ? DatumGetInt64(row->key[0]) : 0, &entry);
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

/* What is wrong: these two are the next ones, one of which may be NULL. */
static const char *
describe_difference(const RoseSchema *schema, TupleTableSlot *expected, const RoseRow *found)
{
	Datum		key[INDEX_MAX_KEYS];
	int			cmp;

	if (expected == NULL || found == NULL)
		return found == NULL ? "a row has no entry" : "an entry is of no row";
	rose_key_from_values(schema, expected->tts_values, 0, key);
	cmp = rose_key_compare(schema, key, found->key, schema->nkeys);
	return cmp < 0 ? "a row has no entry" : cmp > 0 ? "an entry is of no row" :
		"an entry has other values than its row";
}

void
rose_check_index(RoseTree *table, RoseTree *index, RoseProblemCallback report, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose check index",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseMetaInfo info;
	RoseEntryShape shape;
	RoseVersionSort *sort;
	RoseScan   *scan;
	const char *problem = NULL;
	uint64		nentries = 0;

	rose_meta_read(index->rel, &info);
	rose_index_set_shape(&info.index, index->schema, &shape);
	sort = sort_expected(table, index, &shape);
	scan = rose_scan_begin(index, GetActiveSnapshot(), NULL, true);
	while (problem == NULL)
	{
		RoseVersion version;
		TupleTableSlot *expected = rose_version_sort_next(sort, &version);
		const RoseRow *found = rose_scan_next(scan, ForwardScanDirection);

		if (expected == NULL && found == NULL)
			break;
		nentries++;
		if (expected == NULL || found == NULL ||
			!is_same_entry(&shape, index->schema, expected, found))
			problem = describe_difference(index->schema, expected, found);
	}
	rose_scan_end(scan);
	rose_version_sort_end(sort);
	MemoryContextSwitchTo(old);
	if (problem != NULL)
		report(arg, InvalidBlockNumber,
			   psprintf("index \"%s\": %s, at entry " UINT64_FORMAT,
						RelationGetRelationName(index->rel), problem, nentries));
	MemoryContextDelete(context);
}
