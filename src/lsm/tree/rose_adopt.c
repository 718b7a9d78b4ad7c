/*-------------------------------------------------------------------------
 *
 * rose_adopt.c
 *	  Files that another cluster has written.
 *
 * Within one cluster an object keeps its OID as long as something depends on it, and the
 * primary key's index depends on collations and operator families.  So the metapage's
 * OIDs are good, and better than the catalog's, which ALTER TABLE may have changed
 * already.  In another cluster (by the system identifier) they mean nothing.  pg_upgrade
 * keeps OIDs of types only.
 *
 * No locks of its own; whoever asks writes the metapage, if it is to be written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "storage/lockdefs.h"

#include "lsm/tree/rose_adopt.h"
#include "lsm/tree/rose_altered.h"

int
rose_adopt_index_key(Relation index, RoseKeyColumnDisk *keys)
{
	int			nkeys = IndexRelationGetNumberOfKeyAttributes(index);

	memset(keys, 0, nkeys * sizeof(RoseKeyColumnDisk));
	for (int i = 0; i < nkeys; i++)
	{
		keys[i].attno = index->rd_index->indkey.values[i];
		keys[i].collation = index->rd_indcollation[i];
		keys[i].opfamily = index->rd_opfamily[i];
		keys[i].opcintype = index->rd_opcintype[i];
	}
	return nkeys;
}

/* Columns and types are what both clusters name alike. */
static bool
is_same_key(const RoseMetaInfo *info, int nkeys, const RoseKeyColumnDisk *keys)
{
	if (nkeys != info->nkeys)
		return false;
	for (int i = 0; i < nkeys; i++)
		if (keys[i].attno != info->keys[i].attno ||
			keys[i].opcintype != info->keys[i].opcintype)
			return false;
	return true;
}

static bool
is_made_here(Relation index)
{
	HeapTupleHeader header = index->rd_indextuple->t_data;

	return !HeapTupleHeaderXminFrozen(header) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(header));
}

/* Take collations and operator families from the primary key; false if it is not that of the file. */
static bool
take_catalog_key(Relation rel, RoseMetaInfo *info)
{
	Oid			indexid = rose_primary_key_index(rel);
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	Relation	index;
	bool		suits;

	if (!OidIsValid(indexid))
		return false;
	index = index_open(indexid, AccessShareLock);
	suits = !is_made_here(index) &&
		is_same_key(info, rose_adopt_index_key(index, keys), keys);
	index_close(index, AccessShareLock);
	if (suits)
		memcpy(info->keys, keys, info->nkeys * sizeof(RoseKeyColumnDisk));
	return suits;
}

bool
rose_adopt_plan(Relation rel, RoseMetaInfo *info)
{
	if (info->system_identifier == GetSystemIdentifier())
		return false;
	if (info->nkeys > 0 && !take_catalog_key(rel, info))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot alter table \"%s\" before it has been read",
						RelationGetRelationName(rel)),
				 errdetail("Its file comes from another cluster, and its primary key, which tells what the file's names of collations and operator families mean here, was changed."),
				 errhint("Read a row of the table in a transaction before.")));
	return true;
}
