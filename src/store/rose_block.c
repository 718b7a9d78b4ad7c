/*-------------------------------------------------------------------------
 *
 * rose_block.c
 *	  Writing and reading the pages of components.
 *
 * Pages go through shared buffers, zeroed and locked and not read first: a reused block
 * may still be in a buffer, dirty or not, so that writing around the buffers would lose
 * the new page.  A bulk-write ring keeps the cache for others.  The writer collects a
 * batch of pages in its own memory and holds buffer locks only while it puts the batch
 * into buffers; a batch is one WAL record of full-page images.
 *
 * Pages that are not logged get the LSN of the WAL record that allocated their
 * region.  The buffer manager then flushes WAL up to there before it writes the page,
 * and with it the manifest switch that made the region free: otherwise a
 * crash could bring back the old manifest over regions already overwritten.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "catalog/storage_xlog.h"
#include "miscadmin.h"

#include "page/rose_page.h"
#include "store/rose_block.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

/* A writer asks for this part of what it has, up to so many blocks at a time: the file grows by what it does not need in the end. */
#define EXTENT_PART				16
#define MAX_EXTENT_BLOCKS		(32 * ROSE_REGION_BLOCKS)

struct RoseBlockWriter
{
	Relation	rel;			/* borrowed */
	RoseStoreShared *store;
	uint32		owner;
	BufferAccessStrategy strategy;
	bool		skip_wal;		/* rose.wal_components = off holds for it */
	bool		forced;			/* has written pages without WAL */
	uint64		nblocks;		/* reserved so far */

	/* The extent that blocks are taken from. */
	uint32		extent_first;	/* region */
	int			extent_regions; /* all of one size; 0: none yet */
	uint32		extent_used;	/* blocks */
	XLogRecPtr	extent_lsn;		/* WAL record of the newest allocation */

	int			npending;
	BlockNumber pending[ROSE_BLOCK_BATCH];
	PGAlignedBlock *pages;		/* ROSE_BLOCK_BATCH */
};

/* ---- Putting pages into buffers ---- */

static XLogRecPtr
log_buffers(int n, const Buffer *buffers)
{
	XLogRecPtr	lsn;

	XLogBeginInsert();
	for (int i = 0; i < n; i++)
		XLogRegisterBuffer(i, buffers[i], REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
	lsn = XLogInsert(RM_XLOG_ID, XLOG_FPI);
	for (int i = 0; i < n; i++)
		PageSetLSN(BufferGetPage(buffers[i]), lsn);
	return lsn;
}

XLogRecPtr
rose_block_write_batch(Relation rel, int n, const BlockNumber *blocks,
					   const PGAlignedBlock *pages, RoseBlockMode mode,
					   XLogRecPtr lsn, BufferAccessStrategy strategy)
{
	Buffer		buffers[ROSE_BLOCK_BATCH];
	XLogRecPtr	end_lsn = InvalidXLogRecPtr;

	Assert(n <= ROSE_BLOCK_BATCH);
	if (mode == ROSE_BLOCK_LOGGED)
		XLogEnsureRecordSpace(ROSE_BLOCK_BATCH - 1, 0);
	for (int i = 0; i < n; i++)
		buffers[i] = ReadBufferExtended(rel, MAIN_FORKNUM, blocks[i],
										RBM_ZERO_AND_LOCK, strategy);

	START_CRIT_SECTION();
	for (int i = 0; i < n; i++)
	{
		Page		page = BufferGetPage(buffers[i]);

		memcpy(page, pages[i].data, BLCKSZ);
		PageSetLSN(page, lsn);
		MarkBufferDirty(buffers[i]);
	}
	if (mode == ROSE_BLOCK_LOGGED)
		end_lsn = log_buffers(n, buffers);
	END_CRIT_SECTION();

	for (int i = 0; i < n; i++)
	{
		if (mode == ROSE_BLOCK_FORCED)
			FlushOneBuffer(buffers[i]);
		UnlockReleaseBuffer(buffers[i]);
	}
	return end_lsn;
}

/* ---- The writer ---- */

RoseBlockWriter *
rose_blockwriter_create(Relation rel, RoseStoreShared *store, uint32 owner,
						MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseBlockWriter *writer = palloc0(sizeof(RoseBlockWriter));

	writer->rel = rel;
	writer->store = store;
	writer->owner = owner;
	writer->strategy = rose_bulk_write_strategy();
	writer->skip_wal = rose_store_may_skip_wal(rel, store);
	writer->pages = palloc(ROSE_BLOCK_BATCH * sizeof(PGAlignedBlock));
	MemoryContextSwitchTo(old);
	rose_region_search_from_start(store);
	return writer;
}

void
rose_blockwriter_rebind(RoseBlockWriter *writer, Relation rel)
{
	writer->rel = rel;
}

uint64
rose_blockwriter_nblocks(const RoseBlockWriter *writer)
{
	return writer->nblocks;
}

static void
flush_pending(RoseBlockWriter *writer)
{
	RoseBlockMode mode;
	XLogRecPtr	lsn;

	if (writer->npending == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	if (!RelationNeedsWAL(writer->rel))
		mode = ROSE_BLOCK_BUFFERED;
	else
		mode = writer->skip_wal ? ROSE_BLOCK_FORCED : ROSE_BLOCK_LOGGED;

	/* Core logs or syncs at commit what skips WAL for the file being new. */
	if (mode == ROSE_BLOCK_BUFFERED && RelationIsPermanent(writer->rel))
		writer->store->skipped_wal = true;
	if (mode == ROSE_BLOCK_FORCED)
		writer->forced = true;

	lsn = rose_block_write_batch(writer->rel, writer->npending, writer->pending,
								 writer->pages, mode,
								 mode == ROSE_BLOCK_FORCED ? writer->extent_lsn : InvalidXLogRecPtr,
								 writer->strategy);
	if (mode == ROSE_BLOCK_LOGGED)
		rose_store_note_logged(writer->store, lsn);
	writer->npending = 0;
}

/*
 * Get another extent, not large against what the writer has so far: others could use
 * what he does not need in the end.
 *
 * A writer that began without WAL may have to go on with it (a truncation of
 * the file came in between), but never the other way: its blocks could be
 * ones that replay still writes to.
 */
static void
new_extent(RoseBlockWriter *writer)
{
	uint64		want = 1 + writer->nblocks / EXTENT_PART;

	if (writer->skip_wal && !rose_store_may_skip_wal(writer->rel, writer->store))
	{
		flush_pending(writer);
		writer->skip_wal = false;
	}
	writer->extent_first =
		rose_region_alloc(writer->rel, writer->store, writer->owner,
						  writer->skip_wal ? ROSE_REGION_UNLOGGED : ROSE_REGION_LOGGED,
						  (int) Min(want, MAX_EXTENT_BLOCKS), false,
						  &writer->extent_regions, &writer->extent_lsn);
	writer->extent_used = 0;
}

BlockNumber
rose_blockwriter_reserve(RoseBlockWriter *writer)
{
	if (writer->extent_used == rose_regions_blocks(writer->extent_first, writer->extent_regions))
		new_extent(writer);
	writer->nblocks++;
	return rose_region_block(rose_file_base(writer->rel), writer->extent_first) +
		writer->extent_used++;
}

int
rose_blockwriter_page_end(const RoseBlockWriter *writer)
{
	return rose_file_page_end(writer->rel);
}

/* In the file of an index: the special space, if what is behind the rows has not left it already. */
static void
leave_special_space(const RoseBlockWriter *writer, char *page)
{
	PageHeader	standard = (PageHeader) page;

	if (rose_file_special(writer->rel) == 0 || standard->pd_special != BLCKSZ)
		return;
	standard->pd_upper = standard->pd_special = (LocationIndex) rose_file_page_end(writer->rel);
}

static void
check_page_to_write(const RoseBlockWriter *writer, BlockNumber block, const char *page)
{
	const RosePageHeaderDisk *header = rose_page_header_const(page);
	LocationIndex lower = ((const PageHeaderData *) page)->pd_lower;

	if (PageIsNew((Page) page) || lower < ROSE_PAGE_CONTENT ||
		lower > rose_file_page_end(writer->rel) ||
		header->magic != ROSE_PAGE_MAGIC || header->component_id != writer->owner)
		elog(ERROR, "page for block %u of \"%s\" is not one of component %u",
			 block, RelationGetRelationName(writer->rel), writer->owner);
	if (rose_block_is_fixed(rose_file_base(writer->rel), block))
		elog(ERROR, "block %u of \"%s\" was not reserved",
			 block, RelationGetRelationName(writer->rel));
}

void
rose_blockwriter_write(RoseBlockWriter *writer, BlockNumber block, const char *page)
{
	int			i = 0;

	check_page_to_write(writer, block, page);

	/* A page that is still in the batch is replaced there. */
	while (i < writer->npending && writer->pending[i] != block)
		i++;
	if (i == ROSE_BLOCK_BATCH)
	{
		flush_pending(writer);
		i = 0;
	}
	writer->pending[i] = block;
	memcpy(writer->pages[i].data, page, BLCKSZ);
	leave_special_space(writer, writer->pages[i].data);
	writer->npending = Max(writer->npending, i + 1);
}

/*
 * WAL names none of the blocks that were written without it, so incremental backups (17
 * and later), which go by summaries of WAL, would leave them out.  A record that the file
 * was made has them take all of it; replay does nothing where it exists.  It comes behind
 * the last write: a backup that starts later has all pages.
 */
static void
log_unseen_pages(Relation rel)
{
	RelFileLocator locator = rose_rel_locator(rel);

	log_smgrcreate(&locator, MAIN_FORKNUM);
}

void
rose_blockwriter_finish(RoseBlockWriter *writer)
{
	int			used = rose_blocks_regions(rose_region_group(writer->extent_first),
										   writer->extent_used);

	flush_pending(writer);
	rose_region_release(writer->rel, writer->store, writer->owner,
						writer->extent_first + used, writer->extent_regions - used);
	writer->extent_regions = 0;
	writer->extent_used = 0;
	if (!writer->forced)
		return;
	smgrimmedsync(RelationGetSmgr(writer->rel), MAIN_FORKNUM);
	log_unseen_pages(writer->rel);
}

/* ---- Reading ---- */

/*
 * On a standby a page can be missing, or belong to another component by now,
 * without anything being wrong with the primary.
 */
static void
report_bad_page(Relation rel, BlockNumber block, uint32 owner, const char *page)
{
	const RosePageHeaderDisk *header = rose_page_header_const(page);

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("block %u of relation \"%s\" is not available on this standby",
						block, RelationGetRelationName(rel)),
				 errdetail("The component was replaced while it was being read, or it was written with rose.wal_components = off on the primary."),
				 errhint("Retry the query. If the error stays, set rose.wal_components = on and merge the table on the primary.")));
	if (PageIsNew((Page) page) || header->magic != ROSE_PAGE_MAGIC)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of relation \"%s\" is not a rose component page",
						block, RelationGetRelationName(rel)),
				 errhint("A backup or a standby taken with rose.wal_components = off lacks such pages.")));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block %u of relation \"%s\" belongs to component %u, expected was component %u",
					block, RelationGetRelationName(rel), header->component_id, owner),
			 errhint("A backup or a standby taken with rose.wal_components = off lacks pages.")));
}

/* owner 0: any. */
static void
check_page_read(Relation rel, BlockNumber block, uint32 owner, const char *page)
{
	const RosePageHeaderDisk *header = rose_page_header_const(page);

	if (PageIsNew((Page) page) || header->magic != ROSE_PAGE_MAGIC ||
		(owner != 0 && header->component_id != owner))
		report_bad_page(rel, block, owner, page);
}

static Buffer
lock_block(Relation rel, BlockNumber block, uint32 owner, BufferAccessStrategy strategy)
{
	Buffer		buffer;

	if (RecoveryInProgress() && block >= rose_file_nblocks(rel))
	{
		PGAlignedBlock nothing;

		memset(nothing.data, 0, BLCKSZ);
		report_bad_page(rel, block, owner, nothing.data);
	}
	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	return buffer;
}

static void
read_block(Relation rel, BlockNumber block, uint32 owner, char *dst,
		   BufferAccessStrategy strategy)
{
	Buffer		buffer = lock_block(rel, block, owner, strategy);

	memcpy(dst, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	check_page_read(rel, block, owner, dst);
}

void
rose_block_read(Relation rel, BlockNumber block, char *dst,
				BufferAccessStrategy strategy)
{
	read_block(rel, block, 0, dst, strategy);
}

void
rose_block_read_owned(Relation rel, BlockNumber block, uint32 owner, char *dst,
					  BufferAccessStrategy strategy)
{
	Assert(owner != 0);
	read_block(rel, block, owner, dst, strategy);
}

Buffer
rose_block_lock_owned(Relation rel, BlockNumber block, uint32 owner)
{
	Buffer		buffer = lock_block(rel, block, owner, NULL);

	Assert(owner != 0);
	check_page_read(rel, block, owner, BufferGetPage(buffer));
	return buffer;
}

/*
 * Who has the component from a manifest comes behind the last change of its pages, so there is nothing to wait for at
 * the page's lock.  Not so on a standby, where replay may be writing another component's page into the block.
 */
Buffer
rose_block_pin_owned(Relation rel, BlockNumber block, uint32 owner)
{
	Buffer		buffer;

	if (unlikely(RecoveryInProgress()))
	{
		buffer = rose_block_lock_owned(rel, block, owner);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		return buffer;
	}
	Assert(owner != 0);
	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, NULL);
	check_page_read(rel, block, owner, BufferGetPage(buffer));
	return buffer;
}
