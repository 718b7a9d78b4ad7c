/*-------------------------------------------------------------------------
 *
 * rose_duplicate_key.c
 *	  The errors of a key that two rows would have.
 *
 * heap leaves them to its unique index, which meets the second row when it is given its
 * entry.  Rose tables write entries, or have none, by themselves, so whoever finds the
 * second row comes here: an insert or update, the index's aminsert on behalf of a COPY, the build of
 * the index, a rewrite in another order, a bulk load, a deferred check, a commit.
 *
 * Locking: an index is opened with AccessShareLock, which the transaction keeps.  Who
 * finds duplicates, and which serialization failures come before them, is not decided
 * here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "utils/lsyscache.h"

#include "compat/rose_compat.h"
#include "lsm/tree/rose_duplicate_key.h"

static Relation
open_primary_key(Relation rel)
{
	Oid			indexid = rose_primary_key_index(rel);

	if (!OidIsValid(indexid))
		elog(ERROR, "duplicate key in table \"%s\", which has no primary key",
			 RelationGetRelationName(rel));
	return index_open(indexid, AccessShareLock);
}

/* The index's columns of a row, for people; NULL: the user may not see them. */
static char *
describe(Relation index, const Datum *values, const bool *nulls)
{
	Datum		keys[INDEX_MAX_KEYS];
	bool		keys_null[INDEX_MAX_KEYS];

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		AttrNumber	attno = index->rd_index->indkey.values[i];

		keys[i] = values[attno - 1];
		keys_null[i] = nulls[attno - 1];
	}
	return BuildIndexValueDescription(index, keys, keys_null);
}

static void
report_violation(Relation rel, Relation index, const char *description)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"",
					RelationGetRelationName(index)),
			 description ? errdetail("Key %s already exists.", description) : 0,
			 errtableconstraint(rel, RelationGetRelationName(index))));
}

void
rose_duplicate_key_report_row(Relation rel, const Datum *values, const bool *nulls)
{
	Relation	index = open_primary_key(rel);

	report_violation(rel, index, describe(index, values, nulls));
}

void
rose_duplicate_key_report_entry(Relation rel, Relation index, Datum *keys, bool *nulls)
{
	report_violation(rel, index, BuildIndexValueDescription(index, keys, nulls));
}

void
rose_duplicate_key_report_index(Relation rel, Oid indexid, const char *description)
{
	report_violation(rel, index_open(indexid, AccessShareLock), description);
}

static void
report_no_index_for(Relation rel, Relation index, const char *description, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"", RelationGetRelationName(index)),
			 description ? errdetail("Key %s is duplicated.", description) :
			 errdetail("Duplicate keys exist."),
			 hint ? errhint("%s", hint) : 0,
			 errtableconstraint(rel, RelationGetRelationName(index))));
}

static void
report_no_index(Relation rel, Relation index, TupleTableSlot *slot, const char *hint)
{
	slot_getallattrs(slot);
	report_no_index_for(rel, index, describe(index, slot->tts_values, slot->tts_isnull), hint);
}

void
rose_duplicate_key_report_value(Relation rel, Relation index, Datum *values, bool *nulls)
{
	report_no_index_for(rel, index, BuildIndexValueDescription(index, values, nulls), NULL);
}

void
rose_duplicate_key_report_build(Relation rel, Relation index, TupleTableSlot *slot)
{
	report_no_index(rel, index, slot, NULL);
}

void
rose_duplicate_key_report_equal(void *arg, TupleTableSlot *slot)
{
	Relation	rel = arg;

	report_no_index(rel, open_primary_key(rel), slot,
					"By the present version of the collation it is equal to a key that is written in another way. Drop the primary key, which keeps all rows, change or delete one of them, and add the key again.");
}

void
rose_duplicate_key_report_load(Relation rel)
{
	Oid			index;

	/* one that is to take the place of another table has a name that nobody knows, and no index */
	if (OidIsValid(rel->rd_rel->relrewrite))
		rel = relation_open(rel->rd_rel->relrewrite, NoLock);
	index = rose_primary_key_index(rel);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not load rows into \"%s\" because a key is duplicated",
					RelationGetRelationName(rel)),
			 OidIsValid(index) ?
			 errdetail("The key is that of index \"%s\".", get_rel_name(index)) : 0,
			 errtable(rel)));
}

void
rose_duplicate_key_report_late(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates the primary key of table \"%s\"",
					get_rel_name(relid))));
}
