/*-------------------------------------------------------------------------
 *
 * rose_tail_replay.c
 *	  The tail log: reading it back after a restart.
 *
 * A segment's stream ends where its chain does, or at a page that is not the
 * one that the chain promises (it was never written).  A record that the stream does
 * not hold entirely was cut off by a crash or an error and is ignored.
 *
 * Records that were packed are unpacked together and read one after the other from
 * memory.
 *
 * Records of the columns' layout come between those of versions and say how the rows
 * behind them are to be taken apart; segments of version 2 have none.
 *
 * A reader can be told to go on where another one was (RoseTailPosition): recovery is
 * done in parts, perhaps by several processes one after the other.  What a record leaves
 * to the one before it, and the layout, are found again from the position.
 *
 * Nothing is appended while a table is replayed (ROSE_LOCK_RECOVER).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "store/rose_metapage.h"
#include "store/rose_store_internal.h"
#include "store/rose_tail.h"
#include "store/rose_tail_replay.h"

/* Where a record begins. */
typedef struct TailPlace
{
	BlockNumber block;			/* InvalidBlockNumber: at the segment's first */
	uint32		page_number;
	Size		offset;
	Size		inside;			/* of the records that are packed there */
} TailPlace;

/* A segment's stream of bytes. */
typedef struct TailStream
{
	Relation	rel;
	uint32		segment;
	BufferAccessStrategy strategy;
	BlockNumber block;			/* of page */
	BlockNumber next_block;
	uint32		next_number;
	Size		offset;			/* on page */
	Size		end;
	PGAlignedBlock *page;
	char	   *unpacked;		/* records, which come before what is next on the page; NULL: none yet */
	Size		unpacked_at;	/* the next one */
	Size		unpacked_end;
	TailPlace	packed_at;		/* where they are in the log */
	RoseTailRecordDisk before;	/* header of the last record; op 0: none yet */
	bool		told;			/* the segment has a layout so far ... */
	TailPlace	layout_at;		/* ... the last one here */
	int			natts;			/* of the rows at hand */
	MemoryContext context;		/* layouts are here */
	RoseTailLayoutCallback layout;
	void	   *arg;
} TailStream;

/* Memory for the record at hand; grows. */
typedef struct TailBuffer
{
	char	   *data;
	Size		size;
} TailBuffer;

struct RoseTailReader
{
	TailStream	stream;
	TailBuffer	present;
	TailBuffer	row;
	RoseMetaInfo meta;
	int			at;				/* segment of the tail list */
	MemoryContext context;
};

bool
rose_tail_read_page(Relation rel, uint32 segment, uint32 page_number,
					BlockNumber block, BufferAccessStrategy strategy,
					PGAlignedBlock *page)
{
	const RoseTailPageDisk *header = rose_tail_page_of(page->data);
	LocationIndex lower;
	Buffer		buffer;

	if (rose_block_is_fixed(rose_file_base(rel), block) || block >= rose_file_nblocks(rel))
		return false;
	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(page->data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);

	if (PageIsNew(page->data) || header->magic != ROSE_TAIL_MAGIC ||
		header->segment != segment || header->page_number != page_number)
		return false;
	if (header->version < ROSE_TAIL_OLDEST_VERSION || header->version > ROSE_TAIL_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("tail log of relation \"%s\" has format version %u, but this server's rose library supports versions %u to %u",
						RelationGetRelationName(rel), header->version,
						ROSE_TAIL_OLDEST_VERSION, ROSE_TAIL_VERSION),
				 errhint("Start the server with the rose release that wrote the table and spill its memtables.")));
	lower = ((PageHeader) page->data)->pd_lower;
	if (lower < ROSE_TAIL_CONTENT || lower > BLCKSZ)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("tail log page in block %u of relation \"%s\" is corrupted",
						block, RelationGetRelationName(rel)),
				 errdetail("Its data ends at offset %u.", lower)));
	return true;
}

static bool
next_page(TailStream *stream)
{
	if (stream->next_block == InvalidBlockNumber ||
		!rose_tail_read_page(stream->rel, stream->segment, stream->next_number,
							 stream->next_block, stream->strategy, stream->page))
		return false;
	stream->block = stream->next_block;
	stream->next_block = rose_tail_page_of(stream->page->data)->next;
	stream->next_number++;
	stream->offset = ROSE_TAIL_CONTENT;
	stream->end = ((PageHeader) stream->page->data)->pd_lower;
	return true;
}

/* Does the next record come from what is unpacked? */
static inline bool
is_inside(const TailStream *stream)
{
	return stream->unpacked_at < stream->unpacked_end;
}

/* The next bytes that were packed. */
static void
get_unpacked(TailStream *stream, void *dst, Size length)
{
	if (length > stream->unpacked_end - stream->unpacked_at)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("tail log segment %u of relation \"%s\" has a corrupted record",
						stream->segment, RelationGetRelationName(stream->rel)),
				 errdetail("It is packed together with others, and goes on behind their end.")));
	memcpy(dst, stream->unpacked + stream->unpacked_at, length);
	stream->unpacked_at += length;
}

/* The next bytes of the stream; false if it has less than that. */
static bool
get(TailStream *stream, void *dst, Size length)
{
	char	   *to = dst;

	if (is_inside(stream))
	{
		get_unpacked(stream, dst, length);
		return true;
	}
	while (length > 0)
	{
		Size		part = Min(length, stream->end - stream->offset);

		if (part == 0)
		{
			if (!next_page(stream))
				return false;
			continue;
		}
		memcpy(to, stream->page->data + stream->offset, part);
		stream->offset += part;
		to += part;
		length -= part;
	}
	return true;
}

/* At 'skip' in the buffer; what is before it is zeroed. */
static bool
get_into(TailStream *stream, TailBuffer *buffer, Size skip, Size length)
{
	if (skip + length > buffer->size)
	{
		buffer->size = Max(skip + length, 2 * buffer->size);
		buffer->data = repalloc_huge(buffer->data, buffer->size);
	}
	memset(buffer->data, 0, skip);
	return get(stream, buffer->data + skip, length);
}

/* A bitmap of as many columns as rows have now. */
static bool
get_present(TailStream *stream, TailBuffer *buffer, Size length)
{
	Size		need = Max(length, (Size) ROSE_PRESENT_BYTES(stream->natts));

	if (need > buffer->size)
	{
		buffer->data = repalloc(buffer->data, need);
		buffer->size = need;
	}
	memset(buffer->data, 0, need);
	return get(stream, buffer->data, length);
}

/* A record's header, all of it; false at the end. */
static bool
get_header(TailStream *stream, RoseTailRecordDisk *disk)
{
	if (!get(stream, disk, ROSE_TAIL_SHORT_HEADER))
		return false;
	if (disk->op == ROSE_TAIL_OP_PACKED)
		return true;
	if ((disk->flags & ROSE_TAIL_FOLLOWS) == 0)
		return get(stream, (char *) disk + ROSE_TAIL_SHORT_HEADER,
				   sizeof(*disk) - ROSE_TAIL_SHORT_HEADER);
	disk->cid = stream->before.cid;
	disk->subxid = stream->before.subxid;
	disk->seq = stream->before.seq + 1;
	disk->xid = stream->before.xid;
	return true;
}

static void
report_bad_record(const TailStream *stream, const RoseTailRecordDisk *disk)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("tail log segment %u of relation \"%s\" has a corrupted record",
					stream->segment, RelationGetRelationName(stream->rel)),
			 errdetail("The record is on page %u of the segment; its operation is %u, its flags are %02X and its length is %u.",
					   stream->next_number - 1, disk->op, disk->flags, disk->length)));
}

/* Length of what there is of the row of a record, after checking that the parts add up. */
static Size
check_record(const TailStream *stream, const RoseTailRecordDisk *disk, bool inside)
{
	Size		rest = rose_tail_header_size(disk->flags) + disk->present_bytes;
	bool		has_row = (disk->flags & ROSE_TAIL_HAS_ROW) != 0;
	bool		has_present = (disk->flags & ROSE_TAIL_HAS_PRESENT) != 0;

	if (disk->flags & ROSE_TAIL_HAS_ROWID)
		rest += sizeof(int64);
	if (disk->flags & ROSE_TAIL_HAS_MOVED)
		rest += sizeof(uint64);
	if (disk->op < ROSE_OP_PUT || disk->op > ROSE_OP_LOCK ||
		has_present != (disk->present_bytes > 0) || disk->length < rest ||
		(has_row ? disk->length - rest < SizeofMinimalTupleHeader - ROSE_TAIL_ROW_SKIP :
		 disk->length != rest) ||
		((disk->flags & ROSE_TAIL_FOLLOWS) != 0 && stream->before.op == 0) ||
		(inside && disk->length - rose_tail_header_size(disk->flags) > stream->unpacked_end - stream->unpacked_at) ||
		disk->length - rest > MaxAllocSize)
		report_bad_record(stream, disk);
	return disk->length - rest;
}

/*
 * Read a layout whose header was read; false if the stream ends within it.
 */
static bool
read_layout(TailStream *stream, const RoseTailRecordDisk *disk, RoseLayout **layout)
{
	RoseTailLayoutDisk head;
	RoseLayoutColumnDisk columns[MaxTupleAttributeNumber];
	Size		rest = disk->length - Min(disk->length, (uint32) sizeof(*disk));

	if (!get(stream, &head, sizeof(head)))
		return false;
	if (disk->flags != 0 || head.natts > MaxTupleAttributeNumber ||
		rest != sizeof(head) + head.natts * sizeof(RoseLayoutColumnDisk))
		report_bad_record(stream, disk);
	if (!get(stream, columns, head.natts * sizeof(RoseLayoutColumnDisk)))
		return false;
	if (!rose_layout_is_sane(columns, head.natts))
		report_bad_record(stream, disk);
	*layout = rose_layout_from_columns(columns, head.natts);
	if ((*layout)->physical != head.physical)
		report_bad_record(stream, disk);
	return true;
}

static TailPlace
place_of(const TailStream *stream)
{
	TailPlace	place = {stream->block, stream->next_number - 1, stream->offset, 0};

	if (is_inside(stream))
	{
		place = stream->packed_at;
		place.inside = stream->unpacked_at;
	}
	return place;
}

/* Unpack the records of a record whose header was read; false if the stream ends within it. */
static bool
take_packed(TailStream *stream, const RoseTailRecordDisk *disk, TailPlace place)
{
	RoseTailPackedDisk head;
	char	   *packed;
	char	   *scratch;
	Size		size;

	if (stream->unpacked == NULL)
		stream->unpacked = MemoryContextAlloc(stream->context, 3 * ROSE_TAIL_PACK_MAX);
	packed = stream->unpacked + ROSE_TAIL_PACK_MAX;
	scratch = packed + ROSE_TAIL_PACK_MAX;
	if (disk->flags != 0 || disk->present_bytes != 0 ||
		disk->length <= ROSE_TAIL_SHORT_HEADER + sizeof(head) ||
		disk->length > ROSE_TAIL_PACK_MAX)
		report_bad_record(stream, disk);
	size = disk->length - ROSE_TAIL_SHORT_HEADER - sizeof(head);
	if (!get(stream, &head, sizeof(head)) || !get(stream, packed, size))
		return false;
	if (!rose_tail_unpack(&head, packed, size, scratch, stream->unpacked))
		report_bad_record(stream, disk);
	stream->unpacked_at = 0;
	stream->unpacked_end = head.raw_bytes;
	stream->packed_at = place;
	return true;
}

/* Read a layout whose header was read, and pass it on. */
static bool
take_layout(TailStream *stream, const RoseTailRecordDisk *disk, TailPlace place)
{
	MemoryContext old = MemoryContextSwitchTo(stream->context);
	RoseLayout *layout;
	bool		found = read_layout(stream, disk, &layout);

	MemoryContextSwitchTo(old);
	if (!found)
		return false;
	stream->told = true;
	stream->layout_at = place;
	stream->natts = layout->natts;
	stream->layout(stream->arg, layout);
	return true;
}

/*
 * The header of the next record of a version; layouts before it are passed on, and packed
 * records unpacked.  False at the end.
 */
static bool
get_version_header(TailStream *stream, RoseTailRecordDisk *disk, bool *inside)
{
	for (;;)
	{
		TailPlace	place = place_of(stream);
		bool		taken;

		*inside = is_inside(stream);
		if (!get_header(stream, disk))
			return false;
		if (disk->op != ROSE_TAIL_OP_LAYOUT && disk->op != ROSE_TAIL_OP_PACKED)
			return true;
		if (*inside)
			report_bad_record(stream, disk);
		taken = disk->op == ROSE_TAIL_OP_LAYOUT ? take_layout(stream, disk, place) :
			take_packed(stream, disk, place);
		if (!taken)
			return false;
	}
}

/*
 * Read one record; false at the end.  A present bitmap of fewer columns is
 * filled up with zeros.
 */
static bool
read_record(TailStream *stream, TailBuffer *present, TailBuffer *row, RoseTailRecord *record)
{
	RoseTailRecordDisk disk;
	bool		inside;
	Size		row_length;

	if (!get_version_header(stream, &disk, &inside))
		return false;
	row_length = check_record(stream, &disk, inside);
	stream->before = disk;

	memset(record, 0, sizeof(RoseTailRecord));
	record->version.op = disk.op;
	record->version.lockmode = disk.flags & ROSE_TAIL_LOCKMODE;
	record->version.cid = disk.cid;
	record->version.subxid = disk.subxid;
	record->version.seq = disk.seq;
	record->version.xid = FullTransactionIdFromU64(disk.xid);

	if ((disk.flags & ROSE_TAIL_HAS_ROWID) &&
		!get(stream, &record->version.rowid, sizeof(int64)))
		return false;
	if ((disk.flags & ROSE_TAIL_HAS_MOVED) &&
		!get(stream, &record->version.moved_to, sizeof(uint64)))
		return false;
	if (disk.flags & ROSE_TAIL_HAS_PRESENT)
	{
		if (!get_present(stream, present, disk.present_bytes))
			return false;
		record->version.present = (bits8 *) present->data;
	}
	if (disk.flags & ROSE_TAIL_HAS_ROW)
	{
		if (!get_into(stream, row, ROSE_TAIL_ROW_SKIP, row_length))
			return false;
		record->row = (MinimalTuple) row->data;
		record->row->t_len = row_length + ROSE_TAIL_ROW_SKIP;
	}
	return true;
}

static void
init_buffer(TailBuffer *buffer, Size size, MemoryContext context)
{
	buffer->data = MemoryContextAllocZero(context, size);
	buffer->size = size;
}

static void
begin_segment(TailStream *stream, const RoseTailSegmentDisk *segment)
{
	stream->segment = segment->id;
	stream->block = InvalidBlockNumber;
	stream->next_block = segment->first_block;
	stream->next_number = 0;
	stream->offset = stream->end = 0;
	stream->unpacked_at = stream->unpacked_end = 0;
	stream->told = false;
	memset(&stream->before, 0, sizeof(stream->before));
}

RoseTailReader *
rose_tail_reader_create(Relation rel, int natts, RoseTailLayoutCallback layout, void *arg,
						MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "rose tail replay",
												  ALLOCSET_DEFAULT_SIZES);
	RoseTailReader *reader = MemoryContextAllocZero(context, sizeof(RoseTailReader));
	TailStream *stream = &reader->stream;

	reader->context = context;
	rose_meta_read(rel, &reader->meta);
	init_buffer(&reader->present, Max(64, ROSE_PRESENT_BYTES(natts)), context);
	init_buffer(&reader->row, BLCKSZ, context);
	stream->rel = rel;
	stream->natts = natts;
	stream->context = context;
	stream->layout = layout;
	stream->arg = arg;
	stream->strategy = GetAccessStrategy(BAS_BULKREAD);
	stream->page = MemoryContextAlloc(context, sizeof(PGAlignedBlock));
	if (reader->meta.ntails > 0)
		begin_segment(stream, &reader->meta.tails[0]);
	return reader;
}

void
rose_tail_reader_free(RoseTailReader *reader)
{
	FreeAccessStrategy(reader->stream.strategy);
	MemoryContextDelete(reader->context);
}

bool
rose_tail_reader_next(RoseTailReader *reader, RoseTailRecord *record)
{
	while (reader->at < reader->meta.ntails)
	{
		if (read_record(&reader->stream, &reader->present, &reader->row, record))
			return true;
		if (++reader->at < reader->meta.ntails)
			begin_segment(&reader->stream, &reader->meta.tails[reader->at]);
	}
	return false;
}

void
rose_tail_reader_tell(const RoseTailReader *reader, RoseTailPosition *position)
{
	const TailStream *stream = &reader->stream;
	TailPlace	place = place_of(stream);

	memset(position, 0, sizeof(*position));
	position->segment = stream->segment;
	position->block = place.block;
	position->page_number = place.page_number;
	position->offset = place.offset;
	position->inside = place.inside;
	position->before.op = stream->before.op;
	position->before.cid = stream->before.cid;
	position->before.subxid = stream->before.subxid;
	position->before.seq = stream->before.seq;
	position->before.xid = FullTransactionIdFromU64(stream->before.xid);
	position->told = stream->told;
	if (!stream->told)
		return;
	position->layout_block = stream->layout_at.block;
	position->layout_page_number = stream->layout_at.page_number;
	position->layout_offset = stream->layout_at.offset;
}

/* Stand at a place of the segment. */
static void
go_to_place(TailStream *stream, BlockNumber block, uint32 page_number, Size offset)
{
	if (block == InvalidBlockNumber)
		return;					/* at its beginning, where it stands */
	stream->next_block = block;
	stream->next_number = page_number;
	if (!next_page(stream))
		elog(ERROR, "page %u of tail log segment %u of \"%s\" has gone", page_number,
			 stream->segment, RelationGetRelationName(stream->rel));
	stream->offset = offset;
}

/* Stand at one of the records that are packed at the place where it stands. */
static void
go_inside(TailStream *stream, Size inside)
{
	TailPlace	place = place_of(stream);
	RoseTailRecordDisk disk;

	if (!get_header(stream, &disk) || disk.op != ROSE_TAIL_OP_PACKED ||
		!take_packed(stream, &disk, place) || inside >= stream->unpacked_end)
		elog(ERROR, "packed records in tail log segment %u of \"%s\" have gone", stream->segment,
			 RelationGetRelationName(stream->rel));
	stream->unpacked_at = inside;
}

/* The layout of the records at a position. */
static void
go_to_layout(RoseTailReader *reader, const RoseTailPosition *position)
{
	TailStream *stream = &reader->stream;
	RoseTailRecordDisk disk;

	go_to_place(stream, position->layout_block, position->layout_page_number,
				position->layout_offset);
	if (!get_header(stream, &disk) || disk.op != ROSE_TAIL_OP_LAYOUT ||
		!take_layout(stream, &disk, stream->layout_at))
		elog(ERROR, "layout in tail log segment %u of \"%s\" has gone", stream->segment,
			 RelationGetRelationName(stream->rel));
	stream->layout_at.block = position->layout_block;
	stream->layout_at.page_number = position->layout_page_number;
	stream->layout_at.offset = position->layout_offset;
}

void
rose_tail_reader_go(RoseTailReader *reader, const RoseTailPosition *position)
{
	TailStream *stream = &reader->stream;

	reader->at = 0;
	while (reader->at < reader->meta.ntails &&
		   reader->meta.tails[reader->at].id != position->segment)
		reader->at++;
	if (reader->at == reader->meta.ntails)
		elog(ERROR, "tail log segment %u of \"%s\" has gone", position->segment,
			 RelationGetRelationName(stream->rel));
	begin_segment(stream, &reader->meta.tails[reader->at]);
	if (position->told)
		go_to_layout(reader, position);
	go_to_place(stream, position->block, position->page_number, position->offset);
	if (position->inside > 0)
		go_inside(stream, position->inside);
	stream->before.op = position->before.op;
	stream->before.cid = position->before.cid;
	stream->before.subxid = position->before.subxid;
	stream->before.seq = position->before.seq;
	stream->before.xid = U64FromFullTransactionId(position->before.xid);
}

/*
 * A segment's first append may not have come through, so look into each until one says
 * something.
 */
RoseLayout *
rose_tail_first_layout(Relation rel, bool *told)
{
	TailStream	stream = {0};
	RoseLayout *layout = NULL;
	RoseMetaInfo info;

	*told = true;
	rose_meta_read(rel, &info);
	stream.rel = rel;
	stream.page = palloc(sizeof(PGAlignedBlock));
	for (int i = 0; i < info.ntails && layout == NULL && *told; i++)
	{
		RoseTailRecordDisk disk;

		begin_segment(&stream, &info.tails[i]);
		if (!get_header(&stream, &disk))
			continue;
		if (disk.op != ROSE_TAIL_OP_LAYOUT)
			*told = false;
		else if (!read_layout(&stream, &disk, &layout))
			layout = NULL;
	}
	pfree(stream.page);
	return layout;
}
