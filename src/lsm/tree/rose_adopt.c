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
#include "lsm/tree/rose_file_rows.h"

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

/* How the table's primary key orders this column; false if it has it not, or is changed. */
static bool
take_base_key(Relation primary, int16 source, RoseKeyColumnDisk *key)
{
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	int			nkeys = rose_adopt_index_key(primary, keys);

	for (int i = 0; i < nkeys; i++)
	{
		if (keys[i].attno != source || keys[i].opcintype != key->opcintype)
			continue;
		key->collation = keys[i].collation;
		key->opfamily = keys[i].opfamily;
		return true;
	}
	return false;
}

/*
 * One column of the key of an index's tree; primary: the table's, or NULL.  Ranks and the
 * row id are ordered by what all clusters name alike.
 */
static bool
take_entry_key(Relation index, Relation primary, const RoseMetaInfo *info, RoseKeyColumnDisk *key)
{
	int			place = key->attno - 1;
	const RoseEntryColumnDisk *column = &info->index.columns[place];

	switch (column->role)
	{
		case ROSE_ENTRY_RANK:
			return true;
		case ROSE_ENTRY_BASEKEY:
			return column->source == ROSE_ENTRY_ROWID ||
				(primary != NULL && take_base_key(primary, column->source, key));
		default:
			break;
	}
	if (place >= IndexRelationGetNumberOfKeyAttributes(index) ||
		index->rd_opcintype[place] != key->opcintype)
		return false;
	key->collation = index->rd_indcollation[place];
	key->opfamily = index->rd_opfamily[place];
	return true;
}

static Oid
primary_key_of(Oid relid)
{
	Relation	heap = RelationIdGetRelation(relid);
	Oid			indexid = InvalidOid;

	if (heap == NULL)
		return InvalidOid;
	indexid = rose_primary_key_index(heap);
	RelationClose(heap);
	return indexid;
}

/* The same for the key of an index's tree: its KEYs are the index's, the others the primary key's. */
static bool
take_entry_keys(Relation index, RoseMetaInfo *info)
{
	RoseIndexDef def;
	Oid			primaryid = primary_key_of(index->rd_index->indrelid);
	Relation	primary = OidIsValid(primaryid) ? index_open(primaryid, AccessShareLock) : NULL;
	bool		suits = primary == NULL || !is_made_here(primary);

	rose_file_index_def(index, info, &def);
	for (int i = 0; i < info->nkeys && suits; i++)
		suits = take_entry_key(index, primary, info, &info->keys[i]);
	if (primary != NULL)
		index_close(primary, AccessShareLock);
	return suits;
}

bool
rose_adopt_plan(Relation rel, RoseMetaInfo *info)
{
	if (info->system_identifier == GetSystemIdentifier())
		return false;
	if (info->of_index && !take_entry_keys(rel, info))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" must be rebuilt", RelationGetRelationName(rel)),
				 errdetail("Its file comes from another cluster, and was made for another key of its table."),
				 errhint("Please REINDEX it.")));
	if (!info->of_index && info->nkeys > 0 && !take_catalog_key(rel, info))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot alter table \"%s\" before it has been read",
						RelationGetRelationName(rel)),
				 errdetail("Its file comes from another cluster, and its primary key, which tells what the file's names of collations and operator families mean here, was changed."),
				 errhint("Read a row of the table in a transaction before.")));
	return true;
}
