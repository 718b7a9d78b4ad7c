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
 * In the file of an index, block 0 is btree's.  We write it when we make the file, and
 * poison it when core has built it anew; nobody else reads or changes it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
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

	PageInit(page, BLCKSZ, info->of_index ? ROSE_FOREIGN_SPECIAL : 0);
	meta->magic = ROSE_META_MAGIC;
	meta->manifest_version = 1;
	meta->next_seq = ROSE_SEQ_FIRST;
	meta->next_owner = 1;
	meta->region_blocks = ROSE_REGION_BLOCKS;
	meta->map_regions = ROSE_MAP_REGIONS;
	meta->small_regions = ROSE_SMALL_REGIONS;
	set_description(meta, info);
	((PageHeader) page)->pd_lower = ROSE_PAGE_CONTENT + sizeof(RoseMetaDisk);
	if (!info->of_index)
		return;
	*rose_index_meta_of(page) = info->index;
	((PageHeader) page)->pd_lower = ROSE_META_INDEX + sizeof(RoseIndexMetaDisk);
}

/* An empty index has all entries, and is kept up as soon as it is there. */
static RoseIndexMetaDisk
index_of_init_fork(const RoseMetaInfo *info)
{
	RoseIndexMetaDisk index = info->index;

	index.flags &= ~(ROSE_INDEX_INCOMPLETE | ROSE_INDEX_UNKEPT);
	return index;
}

/*
 * The root is our metapage, which looks to btree like a page of level 0.  (Level 0 was of
 * no use here: btree takes a root that it remembers without looking at the page.)
 */
static void
init_poisoned_page(Page page)
{
	_bt_initmetapage(page, rose_meta_block(ROSE_INDEX_BASE), 1, false);
}

static void
write_new_page(SMgrRelation smgr, ForkNumber fork, BlockNumber block, Page page, bool log)
{
	RelFileLocator locator = rose_smgr_locator(smgr);

	if (log)
		log_newpage(&locator, fork, block, page, true);
	PageSetChecksumInplace(page, block);
	smgrextend(smgr, fork, block, page, false);
}

/*
 * Pages go around shared buffers, because the relcache may not know the
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
	PGIOAlignedBlock page;
	bool		durable;
	bool		log;

	check_key(info->nkeys);
	if (smgrnblocks(smgr, fork) != 0)
		elog(ERROR, "cannot make a metapage in a file that is not empty");

	durable = persistence == RELPERSISTENCE_PERMANENT || fork == INIT_FORKNUM;
	log = fork == INIT_FORKNUM ||
		(durable && !RelFileLocatorSkippingWAL(rose_smgr_locator(smgr)));
	if (info->of_index)
	{
		init_poisoned_page(page.data);
		write_new_page(smgr, fork, BTREE_METAPAGE, page.data, log);
	}
	init_page(page.data, info);
	if (info->of_index && fork == INIT_FORKNUM)
		*rose_index_meta_of(page.data) = index_of_init_fork(info);
	write_new_page(smgr, fork,
				   rose_meta_block(info->of_index ? ROSE_INDEX_BASE : ROSE_TABLE_BASE),
				   page.data, log);
	if (durable)
		smgrimmedsync(smgr, fork);
}

/* What the metapage of an index has in addition. */
static void
check_index(Relation rel, Page page)
{
	const RoseIndexMetaDisk *index = rose_index_meta_of(page);

	if (index->magic != ROSE_INDEX_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("metapage of index \"%s\" does not say what its entries are",
						RelationGetRelationName(rel)),
				 errdetail("Magic number is %08X, expected %08X.", index->magic, ROSE_INDEX_MAGIC),
				 errhint("Please REINDEX it.")));
	if (index->version != ROSE_INDEX_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" has rose index format version %u, but this server's rose library supports version %u",
						RelationGetRelationName(rel), index->version, ROSE_INDEX_VERSION),
				 errhint("Please REINDEX it.")));
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
	if (rose_file_base(rel) == ROSE_INDEX_BASE)
		check_index(rel, page);
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
	info->of_index = rose_file_base(rel) == ROSE_INDEX_BASE;
	if (info->of_index)
		info->index = *rose_index_meta_of(BufferGetPage(buffer));
	info->fed_by = meta->fed_by;
	info->logged_by = meta->logged_by;
	info->copied_by = meta->copied_by;
	info->next_seq = meta->next_seq;
	info->ntails = meta->ntails;
	memcpy(info->tails, meta->tails, sizeof(info->tails));
	UnlockReleaseBuffer(buffer);
}

/*
 * Carry description and feeding subscription over to the init fork, if there is one.
 * Generic WAL would not log it: to GenericXLogStart the table is unlogged.
 */
void
rose_meta_update_init_fork(Relation rel)
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
	if (info.of_index)
		*rose_index_meta_of(BufferGetPage(buffer)) = index_of_init_fork(&info);
	meta->fed_by = info.fed_by;
	meta->logged_by = info.logged_by;
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
	rose_meta_update_init_fork(rel);
}

void
rose_meta_adopt(Relation rel, const RoseMetaInfo *info)
{
	RoseMetaEdit edit;

	check_key(info->nkeys);
	set_description(rose_meta_edit_begin(rel, &edit), info);
	rose_meta_edit_finish(&edit);
	rose_meta_update_init_fork(rel);
}

/* Blind writes leave entries in an index that no row has any more. */
void
rose_meta_set_fed_by(Relation rel, Oid fed_by, Oid logged_by)
{
	RoseMetaEdit edit;
	RoseMetaDisk *meta = rose_meta_edit_begin(rel, &edit);

	meta->fed_by = fed_by;
	meta->logged_by = logged_by;
	if ((OidIsValid(fed_by) || OidIsValid(logged_by)) && rose_file_base(rel) == ROSE_INDEX_BASE)
		rose_index_meta_of((Page) ((char *) meta - ROSE_PAGE_CONTENT))->flags |= ROSE_INDEX_VALIDATED;
	rose_meta_edit_finish(&edit);
	rose_meta_update_init_fork(rel);
}

/* A snapshot of before is none of after a crash: an init fork need not know. */
void
rose_meta_set_copied_by(Relation rel, uint64 copied_by)
{
	RoseMetaEdit edit;

	rose_meta_edit_begin(rel, &edit)->copied_by = copied_by;
	(void) rose_meta_edit_finish(&edit);
}

/* ---- files of indexes ---- */

bool
rose_meta_is_of_index(Relation index)
{
	uint16		flags;

	return rose_file_nblocks(index) > rose_meta_block(ROSE_INDEX_BASE) &&
		rose_meta_index_flags(index, &flags);
}

bool
rose_meta_index_flags(Relation index, uint16 *flags)
{
	Buffer		buffer = ReadBuffer(index, rose_meta_block(ROSE_INDEX_BASE));
	Page		page = BufferGetPage(buffer);
	bool		ours;

	Assert(rose_file_base(index) == ROSE_INDEX_BASE);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	ours = !PageIsNew(page) && rose_meta_of(page)->magic == ROSE_META_MAGIC;
	*flags = ours ? rose_index_meta_of(page)->flags : 0;
	UnlockReleaseBuffer(buffer);
	return ours;
}

void
rose_meta_clear_index_flag(Relation index, uint16 flag)
{
	RoseMetaEdit edit;
	RoseMetaDisk *meta = rose_meta_edit_begin(index, &edit);

	rose_index_meta_of((Page) ((char *) meta - ROSE_PAGE_CONTENT))->flags &= ~flag;
	(void) rose_meta_edit_finish(&edit);
}

/* An init fork is WAL-logged always. */
static void
poison_fork(Relation index, ForkNumber fork)
{
	Buffer		buffer = ReadBufferExtended(index, fork, BTREE_METAPAGE, RBM_NORMAL, NULL);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	if (BTPageGetMeta(page)->btm_root == rose_meta_block(ROSE_INDEX_BASE))
	{
		UnlockReleaseBuffer(buffer);	/* done already */
		return;
	}
	START_CRIT_SECTION();
	init_poisoned_page(page);
	MarkBufferDirty(buffer);
	if (fork == INIT_FORKNUM || RelationNeedsWAL(index))
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

void
rose_meta_poison(Relation index)
{
	poison_fork(index, MAIN_FORKNUM);
	if (index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
		smgrexists(RelationGetSmgr(index), INIT_FORKNUM))
		poison_fork(index, INIT_FORKNUM);
}
