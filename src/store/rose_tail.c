/*-------------------------------------------------------------------------
 *
 * rose_tail.c
 *	  The tail log: appending.
 *
 * The tail log makes local writes durable until C0 is spilled.  It is a list of
 * segments in the metapage, oldest first; the newest may be open.  A segment is
 * a chain of pages that hold one stream of bytes, into which records are put
 * one after the other (rose_store_format.h).
 *
 * An append continues on the last page by generic WAL (the delta is known, so we make the
 * record ourselves: see log_old_page), then fills fresh pages in local memory and writes
 * them in batches of full-page images.  A page's next pointer is set in the same record
 * that fills it up.
 *
 * Nothing is logged that points to a page which was not logged before: a block that was
 * only allocated may have anything, even what cannot be read.  So the fresh pages go
 * before the old one; the last page of a batch, if there is more to come, is empty and is
 * logged again with the next one; and a segment has an empty page before the list names
 * it.  A crash in the middle leaves a stream that ends within a record, which replay
 * ignores: its transaction cannot have committed.  Nothing may be appended behind such a
 * record: an append that failed leaves tail_busy set, and the next one, like the first
 * one after a restart, opens a new segment.
 *
 * Records of one append, but for the first, are packed if that saves something
 * (rose_tail_pack.c).
 *
 * All insertion state is protected by the writing section of C0.  alloc_lock is taken
 * for regions and segments, before any buffer lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/rmgr.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_region_owner.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"
#include "store/rose_tail.h"

/* Blocks taken ahead of their use, at most. */
#define TAIL_MOST_BLOCKS		(32 * ROSE_REGION_BLOCKS)

/* ... and this part of what the segment has: nobody else can use them until its spill. */
#define TAIL_AHEAD_PART			16

/*
 * The last places in the list of extents are for what is taken at the end of the file:
 * regions of one size are contiguous there but for map pages.
 */
#define TAIL_EXTENTS_AT_END		4

/* Fewer records, or bytes of them, are not packed; nor are those of so many appends after a vain attempt. */
#define PACK_LEAST_RECORDS		8
#define PACK_LEAST_BYTES		512
#define PACK_VAIN_APPENDS		15

/* ---- Segments and room ---- */

/* Bytes of the stream that a page holds. */
static inline Size
page_capacity(Relation rel)
{
	return rose_file_page_end(rel) - ROSE_TAIL_CONTENT;
}

static void
forget_segment(RoseStoreShared *store)
{
	store->tail_segment = 0;
	store->tail_busy = false;
	store->tail_layout = 0;
	store->tail_block = InvalidBlockNumber;
	store->tail_pages = 0;
	store->tail_room = 0;
	store->tail_nextents = 0;
}

uint32
rose_tail_close_segment(RoseStoreShared *store)
{
	forget_segment(store);
	return store->tail_last;
}

/* Allocate contiguous blocks for a segment, want of them or fewer, and add them to the extents. */
static void
add_extent(Relation rel, RoseStoreShared *store, uint32 segment, int want, bool at_end)
{
	RoseTailExtentShared *last = NULL;
	BlockNumber block;
	uint32		region;
	int			nregions;
	XLogRecPtr	lsn;

	if (store->tail_nextents == ROSE_TAIL_EXTENTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too much data for one append to the tail log of \"%s\"",
						RelationGetRelationName(rel))));
	region = rose_region_alloc(rel, store, segment, ROSE_REGION_TAIL, want, at_end, &nregions, &lsn);
	block = rose_region_block(rose_file_base(rel), region);
	if (store->tail_nextents > 0)
		last = &store->tail_extents[store->tail_nextents - 1];
	if (last == NULL || last->next + last->nblocks != block)
	{
		last = &store->tail_extents[store->tail_nextents++];
		last->next = block;
		last->nblocks = 0;
	}
	last->nblocks += rose_regions_blocks(region, nregions);
}

static void
register_segment(Relation rel, RoseStoreShared *store, uint32 id, BlockNumber first_block)
{
	RoseMetaEdit edit;
	RoseMetaDisk *meta = rose_meta_edit_begin(rel, &edit);

	if (meta->ntails == ROSE_MAX_TAILS)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("table \"%s\" has too many tail log segments",
						RelationGetRelationName(rel)),
				 errdetail("At most %d can wait for their memtables to be spilled.",
						   ROSE_MAX_TAILS),
				 errhint("Wait until the table's memtables have been spilled, or spill them by hand.")));
	meta->tails[meta->ntails].id = id;
	meta->tails[meta->ntails].first_block = first_block;
	meta->ntails++;
	pg_atomic_write_u32(&store->ntails, meta->ntails);
	rose_meta_edit_finish(&edit);
}

static BlockNumber
take_block(RoseStoreShared *store)
{
	RoseTailExtentShared *extent = &store->tail_extents[0];
	BlockNumber block;

	if (store->tail_nextents == 0)
		elog(ERROR, "tail log was not given enough room");
	block = extent->next++;
	if (--extent->nblocks == 0)
	{
		store->tail_nextents--;
		memmove(extent, extent + 1, store->tail_nextents * sizeof(RoseTailExtentShared));
	}
	return block;
}

/* The segment's next page, empty. */
static void
init_page(Relation rel, RoseStoreShared *store, uint32 segment, Page page)
{
	RoseTailPageDisk *header;

	PageInit(page, BLCKSZ, rose_file_special(rel));
	header = rose_tail_page_of(page);
	header->magic = ROSE_TAIL_MAGIC;
	header->version = ROSE_TAIL_VERSION;
	header->segment = segment;
	header->page_number = store->tail_pages++;
	header->next = InvalidBlockNumber;
	((PageHeader) page)->pd_lower = ROSE_TAIL_CONTENT;
}

static RoseBlockMode
write_mode(Relation rel)
{
	return RelationNeedsWAL(rel) ? ROSE_BLOCK_LOGGED : ROSE_BLOCK_BUFFERED;
}

static void
write_first_page(Relation rel, RoseStoreShared *store, uint32 segment)
{
	BlockNumber block = take_block(store);
	PGAlignedBlock page;

	init_page(rel, store, segment, page.data);
	rose_block_write_batch(rel, 1, &block, &page, write_mode(rel), InvalidXLogRecPtr, NULL);
	store->tail_block = block;
	store->tail_room = page_capacity(rel);
}

/* The list names the segment only when it has a page. */
static void
open_segment(Relation rel, RoseStoreShared *store)
{
	uint32		id;

	forget_segment(store);
	id = rose_region_owner_begin(rel, store, 1, false);
	add_extent(rel, store, id, 1, false);
	write_first_page(rel, store, id);
	ROSE_STOP_POINT("tail-opening");	/* in a writing section */
	register_segment(rel, store, id, store->tail_block);
	store->tail_segment = id;
	store->tail_last = id;
	rose_region_owner_end(store, id);
}

static Size
room_left(Relation rel, const RoseStoreShared *store)
{
	Size		room = store->tail_room;

	for (int i = 0; i < store->tail_nextents; i++)
		room += (Size) store->tail_extents[i].nblocks * page_capacity(rel);
	return room;
}

/* Must the next append open a segment? */
static bool
needs_segment(const RoseStoreShared *store)
{
	return store->tail_segment == 0 || store->tail_busy;
}

static bool
may_open_segment(RoseStoreShared *store, bool for_spill)
{
	return pg_atomic_read_u32(&store->ntails) <
		ROSE_MAX_TAILS - (for_spill ? 0 : ROSE_TAILS_RESERVE);
}

bool
rose_tail_has_segment(RoseStoreShared *store)
{
	return !needs_segment(store) || may_open_segment(store, false);
}

/* Bytes of the record that says it; 0: the open segment has it. */
static Size
layout_record_size(const RoseStoreShared *store, const RoseLayout *layout)
{
	if (!needs_segment(store) && store->tail_layout == layout->exact)
		return 0;
	return sizeof(RoseTailRecordDisk) + sizeof(RoseTailLayoutDisk) +
		layout->natts * sizeof(RoseLayoutColumnDisk);
}

/*
 * A busy segment takes more at a time, so that its pages are contiguous.  What
 * the first free runs do not hold is taken at the end of the file, in few
 * pieces, because the list of extents is short.
 */
bool
rose_tail_reserve(Relation rel, RoseStoreShared *store, const RoseLayout *layout, Size nbytes,
				  bool for_spill)
{
	Size		capacity = page_capacity(rel);

	nbytes += layout_record_size(store, layout);
	if (needs_segment(store))
	{
		if (!may_open_segment(store, for_spill))
			return false;
		open_segment(rel, store);
	}
	while (room_left(rel, store) < nbytes)
	{
		Size		missing = (nbytes - room_left(rel, store) + capacity - 1) / capacity;
		int			want = Min(TAIL_MOST_BLOCKS, 1 + store->tail_pages / TAIL_AHEAD_PART);

		want = Max(want, (int) Min(missing, ROSE_MAP_REGIONS * ROSE_REGION_BLOCKS));
		add_extent(rel, store, store->tail_segment, want,
				   store->tail_nextents >= ROSE_TAIL_EXTENTS - TAIL_EXTENTS_AT_END);
	}
	return true;
}

/* ---- Appending ---- */

/* An append under way. */
typedef struct TailAppend
{
	Relation	rel;
	RoseStoreShared *store;
	BufferAccessStrategy strategy;
	RoseBlockMode mode;

	Page		page;			/* page being filled: old_page or one of pages */
	BlockNumber block;

	/* while it is the page that was there before */
	Buffer		buffer;			/* InvalidBuffer: it is not */
	uint16		old_lower;		/* where its new bytes begin */
	PGAlignedBlock old_page;	/* its headers, and the new bytes in their place */

	/* fresh pages, the last one being filled */
	int			npages;
	int			maxpages;		/* of pages; written when the last one is begun */
	BlockNumber blocks[ROSE_BLOCK_BATCH];
	PGAlignedBlock *pages;		/* allocated when needed */

	/* packing (prepare_packing) */
	char	   *gathered;		/* records that are to be packed together; NULL: none are */
	char	   *packed;
	char	   *scratch;
	Size		room;			/* of each of the three */
	Size		ngathered;		/* bytes */
	bool		gathers;		/* what is put goes there, not to the page */
} TailAppend;

/* A changed part of a page as generic WAL has it: offset, length and the bytes. */
static void
register_fragment(const char *page, uint16 *header, uint16 offset, uint16 length)
{
	header[0] = offset;
	header[1] = length;
	XLogRegisterBufData(0, (char *) header, 2 * sizeof(uint16));
	XLogRegisterBufData(0, (char *) page + offset, length);
}

/*
 * Log and apply what was put on the old page: headers and bytes behind those that it had.
 * GenericXLogFinish would find the same by comparing the whole page, for each row; that
 * took half the time of an INSERT.  What is behind pd_lower is zero, as generic redo makes
 * it, and so is the special space, if the page has one.
 */
static void
log_old_page(TailAppend *append)
{
	const char *new_page = append->old_page.data;
	uint16		new_lower = ((PageHeader) new_page)->pd_lower;
	Page		page = BufferGetPage(append->buffer);
	uint16		lower_at = offsetof(PageHeaderData, pd_lower);
	uint16		next_at = ROSE_PAGE_CONTENT + offsetof(RoseTailPageDisk, next);
	uint16		headers[3][2];
	bool		logged = append->mode == ROSE_BLOCK_LOGGED;
	XLogRecPtr	lsn;

	if (logged)
		XLogBeginInsert();
	START_CRIT_SECTION();
	memcpy((char *) page + append->old_lower, new_page + append->old_lower,
		   new_lower - append->old_lower);
	((PageHeader) page)->pd_lower = new_lower;
	rose_tail_page_of(page)->next = rose_tail_page_of((Page) new_page)->next;
	MarkBufferDirty(append->buffer);
	if (logged)
	{
		XLogRegisterBuffer(0, append->buffer, REGBUF_STANDARD);
		register_fragment(new_page, headers[0], lower_at, sizeof(uint16));
		register_fragment(new_page, headers[1], next_at, sizeof(BlockNumber));
		if (new_lower > append->old_lower)
			register_fragment(new_page, headers[2], append->old_lower,
							  new_lower - append->old_lower);
		lsn = XLogInsert(RM_GENERIC_ID, 0);
		PageSetLSN(page, lsn);
	}
	END_CRIT_SECTION();
}

/* Write what there is; the old page, which points to the first fresh one, last. */
static void
write_pages(TailAppend *append)
{
	if (append->npages > 0)
	{
		ROSE_STOP_POINT("tail-writing");	/* in a writing section and the old page's lock */
		rose_block_write_batch(append->rel, append->npages, append->blocks, append->pages,
							   append->mode, InvalidXLogRecPtr, append->strategy);
		append->npages = 0;
		ROSE_STOP_POINT("tail-written");	/* as above */
	}
	if (BufferIsValid(append->buffer))
	{
		log_old_page(append);
		UnlockReleaseBuffer(append->buffer);
		append->buffer = InvalidBuffer;
	}
}

/* Write a batch, of which the last page is empty yet: the one before it points to it.  Go on with that. */
static void
write_batch(TailAppend *append)
{
	int			last = append->npages - 1;

	write_pages(append);
	memcpy(append->pages[0].data, append->pages[last].data, BLCKSZ);
	append->blocks[0] = append->block;
	append->page = append->pages[0].data;
	append->npages = 1;
}

static void
next_page(TailAppend *append)
{
	RoseStoreShared *store = append->store;
	BlockNumber block = take_block(store);

	rose_tail_page_of(append->page)->next = block;
	if (append->pages == NULL)
		append->pages = palloc(append->maxpages * sizeof(PGAlignedBlock));
	append->blocks[append->npages] = block;
	append->page = append->pages[append->npages++].data;
	append->block = block;
	init_page(append->rel, store, store->tail_segment, append->page);
	if (append->npages == append->maxpages)
		write_batch(append);
}

static void
put(TailAppend *append, const void *data, Size length)
{
	const char *from = data;

	if (append->gathers)
	{
		memcpy(append->gathered + append->ngathered, data, length);
		append->ngathered += length;
		return;
	}
	while (length > 0)
	{
		PageHeader	header = (PageHeader) append->page;
		Size		part;

		if (header->pd_lower == header->pd_special)
		{
			next_page(append);
			continue;
		}
		part = Min(length, (Size) (header->pd_special - header->pd_lower));
		memcpy((char *) append->page + header->pd_lower, from, part);
		header->pd_lower += part;
		from += part;
		length -= part;
	}
}

Size
rose_tail_record_size(int natts, const RoseTailRecord *record)
{
	return sizeof(RoseTailRecordDisk) + sizeof(int64) + sizeof(uint64) +
		(record->version.present ? ROSE_PRESENT_BYTES(natts) : 0) +
		(record->row ? record->row->t_len : 0);
}

/* Is all that the header would say known from the record before it in this append? */
static bool
follows(const RoseVersion *version, const RoseTailRecord *before)
{
	return before != NULL && version->seq == before->version.seq + 1 &&
		FullTransactionIdEquals(version->xid, before->version.xid) &&
		version->subxid == before->version.subxid && version->cid == before->version.cid;
}

/* before: the record before it in this append, or NULL. */
static void
put_record(TailAppend *append, int natts, const RoseTailRecord *record,
		   const RoseTailRecord *before)
{
	const RoseVersion *version = &record->version;
	RoseTailRecordDisk disk = {0};

	disk.op = version->op;
	disk.flags = (version->lockmode & ROSE_TAIL_LOCKMODE) |
		(follows(version, before) ? ROSE_TAIL_FOLLOWS : 0);
	disk.length = rose_tail_header_size(disk.flags);
	disk.cid = version->cid;
	disk.subxid = version->subxid;
	disk.seq = version->seq;
	disk.xid = U64FromFullTransactionId(version->xid);
	if (version->rowid != 0)
	{
		disk.flags |= ROSE_TAIL_HAS_ROWID;
		disk.length += sizeof(int64);
	}
	if (version->moved_to != 0)
	{
		disk.flags |= ROSE_TAIL_HAS_MOVED;
		disk.length += sizeof(uint64);
	}
	if (version->present)
	{
		disk.flags |= ROSE_TAIL_HAS_PRESENT;
		disk.present_bytes = ROSE_PRESENT_BYTES(natts);
		disk.length += disk.present_bytes;
	}
	if (record->row)
	{
		disk.flags |= ROSE_TAIL_HAS_ROW;
		disk.length += record->row->t_len - ROSE_TAIL_ROW_SKIP;
	}

	put(append, &disk, rose_tail_header_size(disk.flags));
	if (disk.flags & ROSE_TAIL_HAS_ROWID)
		put(append, &version->rowid, sizeof(int64));
	if (disk.flags & ROSE_TAIL_HAS_MOVED)
		put(append, &version->moved_to, sizeof(uint64));
	if (disk.flags & ROSE_TAIL_HAS_PRESENT)
		put(append, version->present, disk.present_bytes);
	if (disk.flags & ROSE_TAIL_HAS_ROW)
		put(append, (char *) record->row + ROSE_TAIL_ROW_SKIP,
			record->row->t_len - ROSE_TAIL_ROW_SKIP);
}

/* ---- Packing ---- */

/* Records that could not be made smaller come in numbers: so many appends do not try then. */
static int	vain_appends = 0;

/* Is it worth trying, and is there memory? */
static void
prepare_packing(TailAppend *append, int nrecords, Size nbytes)
{
	append->gathered = NULL;
	append->gathers = false;
	if (nrecords < PACK_LEAST_RECORDS || nbytes < PACK_LEAST_BYTES)
		return;
	if (vain_appends > 0)
	{
		vain_appends--;
		return;
	}
	append->room = Min(nbytes, ROSE_TAIL_PACK_MAX);
	append->gathered = palloc(3 * append->room);
	append->packed = append->gathered + append->room;
	append->scratch = append->packed + append->room;
}

/* Put what was gathered, packed if that helps.  stride: the length of each record; 0: they differ. */
static void
put_gathered(TailAppend *append, Size stride)
{
	RoseTailRecordDisk disk = {.op = ROSE_TAIL_OP_PACKED};
	Size		size = rose_tail_pack(append->gathered, append->ngathered, stride, append->scratch,
									  append->packed);

	if (size == 0)
	{
		vain_appends = PACK_VAIN_APPENDS;
		put(append, append->gathered, append->ngathered);
		return;
	}
	disk.length = ROSE_TAIL_SHORT_HEADER + size;
	put(append, &disk, ROSE_TAIL_SHORT_HEADER);
	put(append, append->packed, size);
}

/*
 * Put records[first] and those behind it that are packed together with it; returns how
 * many, 0 if it is too large.
 */
static int
put_together(TailAppend *append, int natts, const RoseTailRecord *records, int first, int end)
{
	int			i = first;
	Size		stride = 0;

	append->ngathered = 0;
	append->gathers = true;
	for (; i < end; i++)
	{
		Size		start = append->ngathered;

		if (start + rose_tail_record_size(natts, &records[i]) > append->room)
			break;
		put_record(append, natts, &records[i], &records[i - 1]);
		if (i == first)
			stride = append->ngathered;
		else if (append->ngathered - start != stride)
			stride = 0;
	}
	append->gathers = false;
	if (i > first)
		put_gathered(append, stride);
	return i - first;
}

/* The first record stands for itself: those that follow it lack what it says. */
static void
put_records(TailAppend *append, int natts, const RoseTailRecord *records, int n)
{
	int			i = 1;

	put_record(append, natts, &records[0], NULL);
	while (i < n)
	{
		int			npacked = append->gathered == NULL ? 0 :
			put_together(append, natts, records, i, n);

		if (npacked == 0)
			put_record(append, natts, &records[i], &records[i - 1]);
		i += Max(npacked, 1);
	}
}

static void
put_layout(TailAppend *append, const RoseLayout *layout)
{
	RoseTailRecordDisk disk = {0};
	RoseTailLayoutDisk head = {0};
	Size		columns = layout->natts * sizeof(RoseLayoutColumnDisk);

	disk.op = ROSE_TAIL_OP_LAYOUT;
	disk.length = sizeof(disk) + sizeof(head) + columns;
	head.physical = layout->physical;
	head.natts = layout->natts;
	put(append, &disk, sizeof(disk));
	put(append, &head, sizeof(head));
	put(append, layout->columns, columns);
}

/* Most of the time the page is where this process had it for the row before. */
static Buffer
pin_last_page(Relation rel, BlockNumber block, BufferAccessStrategy strategy)
{
	static Buffer recent = InvalidBuffer;

	if (!BufferIsValid(recent) ||
		!ReadRecentBuffer(rose_rel_locator(rel), MAIN_FORKNUM, block, recent))
		recent = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	return recent;
}

/* Append nbytes: go on with the segment's last page. */
static void
begin_append(TailAppend *append, Relation rel, RoseStoreShared *store, Size nbytes)
{
	/* Loading much must not evict what queries use. */
	static BufferAccessStrategy ring = NULL;

	if (ring == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		ring = rose_bulk_write_strategy();
		MemoryContextSwitchTo(old);
	}
	memset(append, 0, offsetof(TailAppend, old_page));
	append->npages = 0;
	/* one more than there can be, if it is few: what fits is written once */
	append->maxpages = Min(nbytes / page_capacity(rel) + 2, ROSE_BLOCK_BATCH);
	append->pages = NULL;
	append->rel = rel;
	append->store = store;
	append->strategy = ring;
	append->mode = write_mode(rel);

	append->buffer = pin_last_page(rel, store->tail_block, ring);
	LockBuffer(append->buffer, BUFFER_LOCK_EXCLUSIVE);
	append->page = append->old_page.data;
	memcpy(append->page, BufferGetPage(append->buffer), ROSE_TAIL_CONTENT);
	append->old_lower = ((PageHeader) append->page)->pd_lower;
	append->block = store->tail_block;
}

static void
end_append(TailAppend *append)
{
	uint32		room = ((PageHeader) append->page)->pd_special - ((PageHeader) append->page)->pd_lower;

	write_pages(append);
	append->store->tail_block = append->block;
	append->store->tail_room = room;
	if (append->pages)
		pfree(append->pages);
	if (append->gathered)
		pfree(append->gathered);
}

void
rose_tail_append(Relation rel, RoseStoreShared *store, const RoseLayout *layout,
				 const RoseTailRecord *records, int nrecords)
{
	TailAppend	append;
	Size		total = 0;

	if (nrecords == 0)
		return;
	for (int i = 0; i < nrecords; i++)
		total += rose_tail_record_size(layout->natts, &records[i]);
	if (!rose_tail_reserve(rel, store, layout, total, true))
		elog(ERROR, "tail log was not given a segment");
	total += layout_record_size(store, layout);

	store->tail_busy = true;
	ROSE_STOP_POINT("tail-appending");	/* in a writing section */
	begin_append(&append, rel, store, total);
	prepare_packing(&append, nrecords, total);
	if (unlikely(store->tail_layout != layout->exact))
		put_layout(&append, layout);
	put_records(&append, layout->natts, records, nrecords);
	end_append(&append);
	store->tail_layout = layout->exact;
	store->tail_busy = false;
}

void
rose_tail_drop_all(Relation rel, RoseStoreShared *store, uint64 next_seq)
{
	RoseManifestEdit *edit = palloc0(sizeof(RoseManifestEdit));

	edit->drop_tails_upto = rose_tail_close_segment(store);
	edit->next_seq = next_seq;
	rose_manifest_apply(rel, store, edit);
	store->tail_last = 0;
	pfree(edit);
}
