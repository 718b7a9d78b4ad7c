/*-------------------------------------------------------------------------
 *
 * rose_metapage.c
 *	  The metapage: made, read, checked and changed.
 *
 * The content of the metapage is protected by its buffer lock alone.  Every
 * change is one generic WAL record (tables that need no WAL: a plain change of
 * the buffer).  The manifest and the tail list live here too; they are changed
 * by rose_manifest.c and rose_tail.c through rose_meta_edit_begin().
 *
 * The init fork of an unlogged table is a second metapage without components,
 * from which core makes the main fork after a crash.  What must survive that,
 * the key and the feeding subscription, is written to both.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "miscadmin.h"

#include "store/rose_metapage.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

static void
check_key(int nkeys)
{
	if (nkeys < 0 || nkeys > INDEX_MAX_KEYS)
		elog(ERROR, "invalid number of key columns: %d", nkeys);
}

static void
set_key(RoseMetaDisk *meta, int nkeys, const RoseKeyColumnDisk *keys, const RoseKeyFacts *facts)
{
	meta->nkeys = nkeys;
	memset(meta->keys, 0, sizeof(meta->keys));
	if (nkeys > 0)
		memcpy(meta->keys, keys, nkeys * sizeof(RoseKeyColumnDisk));
	meta->hashed_keys = facts->hashed;
	meta->key_order = facts->order;
	memset(meta->collation_versions, 0, sizeof(meta->collation_versions));
	strlcpy(meta->collation_versions, facts->versions, sizeof(meta->collation_versions));
}

/* All that a file says of its key and its columns. */
static void
set_description(RoseMetaDisk *meta, const RoseMetaInfo *info)
{
	meta->version = ROSE_META_VERSION;
	meta->system_identifier = GetSystemIdentifier();
	meta->layout_natts = info->layout_natts;
	meta->layout_physical = info->layout_physical;
	set_key(meta, info->nkeys, info->keys, &info->facts);
}

static void
init_page(Page page, const RoseMetaInfo *info)
{
	RoseMetaDisk *meta = rose_meta_of(page);

	PageInit(page, BLCKSZ, 0);
	meta->magic = ROSE_META_MAGIC;
	meta->manifest_version = 1;
	meta->next_seq = ROSE_SEQ_FIRST;
	meta->next_owner = 1;
	meta->region_blocks = ROSE_REGION_BLOCKS;
	meta->map_regions = ROSE_MAP_REGIONS;
	meta->small_regions = ROSE_SMALL_REGIONS;
	set_description(meta, info);
	((PageHeader) page)->pd_lower = ROSE_PAGE_CONTENT + sizeof(RoseMetaDisk);
}

/*
 * The page goes around shared buffers, because the relcache may not know the
 * file yet; no buffer of a new or just truncated file can exist.  For the same
 * reason it must be synced here: a checkpoint that began after our WAL record
 * need not have seen the write.
 *
 * A file made in this transaction may be one that skips WAL (wal_level =
 * minimal).  It must not get a record then, because replay would put this page
 * over what core synced at commit.
 */
void
rose_meta_create(SMgrRelation smgr, ForkNumber fork, char persistence,
				 const RoseMetaInfo *info)
{
	RelFileLocator locator = rose_smgr_locator(smgr);
	BlockNumber block = rose_meta_block(ROSE_TABLE_BASE);
	PGIOAlignedBlock page;
	bool		durable;

	check_key(info->nkeys);
	if (smgrnblocks(smgr, fork) != 0)
		elog(ERROR, "cannot make a metapage in a file that is not empty");

	init_page(page.data, info);
	durable = persistence == RELPERSISTENCE_PERMANENT || fork == INIT_FORKNUM;
	if (fork == INIT_FORKNUM || (durable && !RelFileLocatorSkippingWAL(locator)))
		log_newpage(&locator, fork, block, page.data, true);
	PageSetChecksumInplace(page.data, block);
	smgrextend(smgr, fork, block, page.data, false);
	if (durable)
		smgrimmedsync(smgr, fork);
}

static void
check_metapage(Relation rel, Page page)
{
	const RoseMetaDisk *meta = rose_meta_of(page);

	if (PageIsNew(page) || meta->magic != ROSE_META_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("relation \"%s\" has no valid rose metapage",
						RelationGetRelationName(rel))));
	if (meta->version != ROSE_META_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("relation \"%s\" has rose file format version %u, but this server's rose library supports version %u",
						RelationGetRelationName(rel), meta->version, (uint32) ROSE_META_VERSION),
				 errhint("Install the rose release that wrote the table, dump the table with it and restore it.")));
	if (meta->region_blocks != ROSE_REGION_BLOCKS ||
		meta->map_regions != ROSE_MAP_REGIONS ||
		meta->small_regions != ROSE_SMALL_REGIONS ||
		meta->nkeys > INDEX_MAX_KEYS ||
		meta->ncomponents > ROSE_MAX_COMPONENTS ||
		meta->ntails > ROSE_MAX_TAILS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("metapage of relation \"%s\" is corrupted",
						RelationGetRelationName(rel)),
				 errdetail("It has %u key columns, %u components, %u tail segments, %u regions of one block and regions of %u blocks, %u to a map page.",
						   meta->nkeys, meta->ncomponents, meta->ntails, meta->small_regions,
						   meta->region_blocks, meta->map_regions)));
}

Buffer
rose_meta_lock(Relation rel, int lockmode)
{
	Buffer		buffer = ReadBuffer(rel, rose_meta_block(rose_file_base(rel)));

	LockBuffer(buffer, lockmode);
	check_metapage(rel, BufferGetPage(buffer));
	return buffer;
}

RoseMetaDisk *
rose_meta_edit_begin(Relation rel, RoseMetaEdit *edit)
{
	edit->buffer = rose_meta_lock(rel, BUFFER_LOCK_EXCLUSIVE);
	edit->xlog = GenericXLogStart(rel);
	return rose_meta_of(GenericXLogRegisterBuffer(edit->xlog, edit->buffer, 0));
}

XLogRecPtr
rose_meta_edit_finish(RoseMetaEdit *edit)
{
	XLogRecPtr	lsn = GenericXLogFinish(edit->xlog);

	UnlockReleaseBuffer(edit->buffer);
	return lsn;
}

void
rose_meta_read(Relation rel, RoseMetaInfo *info)
{
	Buffer		buffer = rose_meta_lock(rel, BUFFER_LOCK_SHARE);
	const RoseMetaDisk *meta = rose_meta_of(BufferGetPage(buffer));

	memset(info, 0, sizeof(*info));
	info->system_identifier = meta->system_identifier;
	info->nkeys = meta->nkeys;
	memcpy(info->keys, meta->keys, sizeof(info->keys));
	info->facts.hashed = meta->hashed_keys;
	info->facts.order = meta->key_order;
	strlcpy(info->facts.versions, meta->collation_versions, sizeof(info->facts.versions));
	info->layout_natts = meta->layout_natts;
	info->layout_physical = meta->layout_physical;
	info->fed_by = meta->fed_by;
	info->next_seq = meta->next_seq;
	info->ntails = meta->ntails;
	memcpy(info->tails, meta->tails, sizeof(info->tails));
	UnlockReleaseBuffer(buffer);
}

/*
 * Carry description and feeding subscription over to the init fork, if there is one.
 * Generic WAL would not log it: to GenericXLogStart the table is unlogged.
 */
static void
update_init_fork(Relation rel)
{
	RoseMetaInfo info;
	Buffer		buffer;
	RoseMetaDisk *meta;

	if (rel->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED)
		return;
	rose_meta_read(rel, &info);
	buffer = ReadBufferExtended(rel, INIT_FORKNUM, rose_meta_block(rose_file_base(rel)),
								RBM_NORMAL, NULL);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	check_metapage(rel, BufferGetPage(buffer));

	START_CRIT_SECTION();
	meta = rose_meta_of(BufferGetPage(buffer));
	set_description(meta, &info);
	meta->fed_by = info.fed_by;
	MarkBufferDirty(buffer);
	log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

void
rose_meta_set_key(Relation rel, int nkeys, const RoseKeyColumnDisk *keys,
				  const RoseKeyFacts *facts)
{
	RoseMetaEdit edit;
	RoseMetaDisk *meta;

	check_key(nkeys);
	meta = rose_meta_edit_begin(rel, &edit);
	if (meta->ncomponents > 0 || meta->ntails > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change the key of \"%s\", because it has rows",
						RelationGetRelationName(rel))));
	meta->version = ROSE_META_VERSION;
	meta->system_identifier = GetSystemIdentifier();
	set_key(meta, nkeys, keys, facts);
	rose_meta_edit_finish(&edit);
	update_init_fork(rel);
}

void
rose_meta_adopt(Relation rel, const RoseMetaInfo *info)
{
	RoseMetaEdit edit;

	check_key(info->nkeys);
	set_description(rose_meta_edit_begin(rel, &edit), info);
	rose_meta_edit_finish(&edit);
	update_init_fork(rel);
}

void
rose_meta_set_fed_by(Relation rel, Oid subid)
{
	RoseMetaEdit edit;
	RoseMetaDisk *meta = rose_meta_edit_begin(rel, &edit);

	meta->fed_by = subid;
	rose_meta_edit_finish(&edit);
	update_init_fork(rel);
}
