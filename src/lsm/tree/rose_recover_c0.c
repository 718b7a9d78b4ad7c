/*-------------------------------------------------------------------------
 *
 * rose_recover_c0.c
 *	  The tail log into C0, at the first touch of a table after a start.
 *
 * It is done in parts of some thousand records.  Between two parts nothing but
 * ROSE_LOCK_RECOVER is held, and a cancel is heard.  What has come to C0 stays there
 * then, and shared->replay tells the next one who touches the table where to go on:
 * sessions with a timeout get there together, too.  An error within a part leaves no such
 * place, and the next try starts from nothing.
 *
 * What has aborted, and row locks of what has committed, are left out.  A tail log of
 * which nothing is left is dropped.
 *
 * Locking: a writing section of C0 for each part, because prepare and link ask for it.
 * Nobody competes for it: who wants to read or to write waits for the table to be
 * recovered.
 *
 * What this does not do: make room.  See rose_recover_runs.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_metapage.h"
#include "store/rose_tail.h"
#include "store/rose_tail_replay.h"
#include "lsm/tree/rose_recover_internal.h"

/* A part has so many records or bytes at most. */
#define PART_RECORDS	4096
#define PART_BYTES		((Size) 1024 * 1024)

typedef enum PartEnd
{
	PART_MORE,					/* another part follows */
	PART_LAST,
	PART_FULL					/* the arena has no room */
} PartEnd;

typedef struct Replay
{
	RoseTree   *tree;
	const RoseMetaInfo *meta;
	RoseSchema	schema;			/* its descriptor is that of the rows at hand */
	RoseTailReader *reader;
	RoseTailFates fates;
} Replay;

/*
 * RoseTailLayoutCallback.  A column of the key keeps its storage as long as the file, so
 * the comparators stay.  A column that was added later may have been taken back, and
 * another be in its place: rows with the first one are aborted.
 */
static void
take_layout(void *arg, const RoseLayout *layout)
{
	Replay	   *replay = arg;

	rose_recover_record_check_layout(replay->tree->rel, replay->meta, layout);
	replay->schema.tupdesc = rose_layout_tupdesc(layout);
	replay->schema.natts = layout->natts;
}

/* One record; false if there is no room.  REQUIRES: a writing section. */
static bool
replay_record(Replay *replay, const RoseTailRecord *record)
{
	RoseTreeShared *shared = replay->tree->shared;
	RoseTailFate fate = rose_recover_record_fate(&replay->fates, &record->version);
	RoseMemPending pending;
	Datum		key[INDEX_MAX_KEYS];

	shared->replay.max_seq = Max(shared->replay.max_seq, record->version.seq);
	if (!rose_recover_record_is_needed(fate, &record->version))
		return true;
	rose_recover_record_check_key(replay->tree->rel, replay->meta, record);
	rose_key_from_tuple(&replay->schema, record->row, record->version.rowid, key);
	if (!rose_c0_prepare(&shared->c0, &replay->schema, &record->version, key, record->row,
						 &pending))
		return false;
	if (fate == ROSE_TAIL_COMMITTED)
		rose_memtable_set_hint(pending.entry, ROSE_MEM_HINT_COMMITTED);
	rose_c0_link(&shared->c0, &pending);
	return true;
}

/* REQUIRES: a writing section. */
static PartEnd
replay_part(Replay *replay)
{
	RoseTailRecord record;
	Size		nbytes = 0;

	for (int n = 0; n < PART_RECORDS && nbytes < PART_BYTES; n++)
	{
		if (!rose_tail_reader_next(replay->reader, &record))
			return PART_LAST;
		if (!replay_record(replay, &record))
			return PART_FULL;
		nbytes += record.row ? record.row->t_len : 0;
	}
	return PART_MORE;
}

static PartEnd
replay_part_with(Replay *replay, bool use_reserve)
{
	PartEnd		end;

	if (!use_reserve)
		return replay_part(replay);
	rose_arena_use_reserve = true;
	PG_TRY();
	{
		end = replay_part(replay);
	}
	PG_FINALLY();
	{
		rose_arena_use_reserve = false;
	}
	PG_END_TRY();
	return end;
}

/* C0 has what the tail log has.  REQUIRES: a writing section. */
static void
finish(RoseTree *tree, const RoseMetaInfo *meta, uint64 next_seq)
{
	RoseC0Shared *c0 = &tree->shared->c0;

	next_seq = Max(next_seq, tree->shared->replay.max_seq + 1);
	if (meta->ntails > 0)
		rose_c0_set_tail_segment(c0, meta->tails[meta->ntails - 1].id);
	rose_c0_set_next_sequence(c0, next_seq);
	if (meta->ntails > 0 && rose_c0_is_empty(c0))
		rose_tail_drop_all(tree->rel, &tree->shared->store, next_seq);
}

/* Begin, or go on where somebody else was interrupted.  REQUIRES: a writing section. */
static void
begin(Replay *replay, MemoryContext context)
{
	RoseTreeShared *shared = replay->tree->shared;

	replay->reader = rose_tail_reader_create(replay->tree->rel, replay->schema.natts,
											 take_layout, replay, context);
	if (shared->replay.begun)
		rose_tail_reader_go(replay->reader, &shared->replay.position);
	else
	{
		rose_c0_clear(&shared->c0); /* what a failed try left */
		rose_recover_feeding(shared, replay->meta);
		shared->replay.max_seq = 0;
	}
}

bool
rose_recover_c0(RoseTree *tree, const RoseSchema *schema, const RoseMetaInfo *meta,
				uint64 next_seq, bool use_reserve, bool at_once)
{
	RoseTreeShared *shared = tree->shared;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose recovery of C0",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Replay		replay = {.tree = tree, .meta = meta};
	PartEnd		end;

	rose_schema_assign(&replay.schema, schema);
	do
	{
		rose_c0_write_begin(&shared->c0);
		if (replay.reader == NULL)
			begin(&replay, context);
		shared->replay.begun = false;	/* an error in a part leaves it so */
		end = replay_part_with(&replay, use_reserve);
		if (end == PART_FULL)
			rose_c0_clear(&shared->c0);
		else if (end == PART_LAST)
			finish(tree, meta, next_seq);
		else
		{
			rose_tail_reader_tell(replay.reader, &shared->replay.position);
			shared->replay.begun = true;
		}
		rose_c0_write_end(&shared->c0);
		if (end == PART_MORE && !at_once)
		{
			ROSE_STOP_POINT("recover-part");	/* no LWLock */
			CHECK_FOR_INTERRUPTS();
		}
	} while (end == PART_MORE);
	rose_tail_reader_free(replay.reader);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return end == PART_LAST;
}
