/*-------------------------------------------------------------------------
 *
 * rose_streamed.c
 *	  Upstream transactions that are sent before they commit: kept until they do.
 *
 * An upstream whose logical_decoding_work_mem is full sends the changes of its largest
 * transaction in progress, a block of messages at a time, and goes on with others.  Here
 * each such transaction has a file (rose_spool.h: small ones are in memory), to which its messages are appended as they
 * come.  When the upstream says that it has committed, the file is read as if the upstream
 * sent the transaction then (rose_apply.c), in the same order among all commits.  When it
 * says that a subtransaction was rolled back, what was kept since that one's first message
 * goes: whatever came after that is of it, or of subtransactions that end before it and
 * with it.
 *
 * With two_phase, transactions come when they are prepared: in blocks as above, or whole, as
 * ordinary ones.  The latter have a file, too, until PREPARE; then what is in the file is
 * kept in the catalog (rose_prepared.c), and COMMIT PREPARED makes a file of it again.  A whole
 * one takes what the stream has described before for known, so those descriptions are added
 * to its file.
 *
 * Files hold, for each message, its length (4) and the message without the transaction id
 * that messages of streamed transactions have; behind a description of a table (8) its place in the order in
 * which descriptions have come.
 *
 * Descriptions of tables are part of the transaction, and are heard of when it is applied:
 * the upstream sends them once in each, and again after something of it was rolled back.
 * When it commits, the upstream takes them for known outside as well.
 *
 * Files are nothing that has to survive: the slot is never moved past a transaction in
 * progress, so a connection that follows gets all of it again.  They have no owner but the process, and go
 * with it; bytes that a rolled back subtransaction leaves at the end of a file are used by
 * what follows.
 *
 * State of the apply worker; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "port/pg_bswap.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "memtable/rose_pressure.h"
#include "repl/rose_prepared.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_spool.h"

/* A subtransaction, and how much its transaction's file had before its first message. */
typedef struct Subxact
{
	TransactionId xid;
	int64		start;
} Subxact;

typedef struct SubxactPlace
{
	TransactionId xid;			/* hash key */
	int			no;				/* in the list of those */
} SubxactPlace;

typedef struct Streamed
{
	TransactionId xid;			/* hash key */
	MemoryContext context;		/* owns what follows */
	RoseSpool  *file;
	int64		nbytes;			/* of the file that count */
	Subxact    *subxacts;		/* in the order of their first messages */
	int			nsubxacts;
	int			maxsubxacts;
	HTAB	   *places;			/* of SubxactPlace; NULL: there are none */
	TransactionId last;			/* whose message was kept last */
	bool		truncates;		/* or did, before something was rolled back */
	bool		whole;			/* it comes in one piece, as it is being prepared; and then ... */
	HTAB	   *described;		/* ... tables that are described in the file: of LogicalRepRelId */
} Streamed;

/* A transaction that has been prepared, and came on this connection. */
typedef struct Come
{
	TransactionId xid;			/* hash key */
	XLogRecPtr	lsn;			/* of PREPARE */
} Come;

static MemoryContext streamed_context = NULL;
static HTAB *streams = NULL;
static HTAB *come = NULL;
static Streamed *receiving = NULL;	/* a block of it has begun */

/* The transaction that has committed, and is read from its file. */
static struct
{
	Streamed   *stream;			/* NULL: none */
	int64		left;
	XLogRecPtr	end_lsn;		/* of its commit record */
	bool		prepared;		/* it was, and is kept in the catalog */
}			replay;

/* ---------------------------------------------------------------------
 * Streams
 */

static HTAB *
create_hash(const char *name, MemoryContext context, Size keysize, Size entrysize)
{
	HASHCTL		ctl = {0};

	ctl.keysize = keysize;
	ctl.entrysize = entrysize;
	ctl.hcxt = context;
	return hash_create(name, 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
close_stream(Streamed *stream)
{
	rose_apply.progress.streams--;
	rose_apply.progress.stream_bytes -= stream->nbytes;
	rose_spool_close(stream->file);
	MemoryContextDelete(stream->context);
	(void) hash_search(streams, &stream->xid, HASH_REMOVE, NULL);
}

void
rose_streamed_forget(void)
{
	HASH_SEQ_STATUS status;
	Streamed   *stream;

	if (streamed_context != NULL)
	{
		hash_seq_init(&status, streams);
		while ((stream = hash_seq_search(&status)) != NULL)
			close_stream(stream);
		MemoryContextDelete(streamed_context);
	}
	streamed_context = AllocSetContextCreate(TopMemoryContext, "rose streamed transactions",
											 ALLOCSET_DEFAULT_SIZES);
	streams = create_hash("rose streamed transactions", streamed_context,
						  sizeof(TransactionId), sizeof(Streamed));
	come = create_hash("rose prepared transactions", streamed_context, sizeof(TransactionId), sizeof(Come));
	receiving = NULL;
	memset(&replay, 0, sizeof(replay));
	rose_apply.progress.streams = 0;
	rose_apply.progress.stream_bytes = 0;
}

/* One of that xid which there is goes. */
static Streamed *
open_stream(TransactionId xid)
{
	Streamed   *stream = hash_search(streams, &xid, HASH_FIND, NULL);
	MemoryContext context = AllocSetContextCreate(streamed_context, "rose streamed transaction",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseSpool  *file = rose_spool_create();

	MemoryContextSwitchTo(old);
	if (stream != NULL)
		close_stream(stream);
	stream = hash_search(streams, &xid, HASH_ENTER, NULL);
	memset(((char *) stream) + sizeof(xid), 0, sizeof(Streamed) - sizeof(xid));
	stream->context = context;
	stream->file = file;
	rose_apply.progress.streams++;
	return stream;
}

static void
seek(Streamed *stream, int64 at)
{
	if (!rose_spool_seek(stream->file, at))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in the temporary file of upstream transaction %u", stream->xid)));
}

static void
append(Streamed *stream, const void *data, int len)
{
	rose_spool_write(stream->file, data, len);
	stream->nbytes += len;
	rose_apply.progress.stream_bytes += len;
}

static void
cut_to(Streamed *stream, int64 nbytes)
{
	seek(stream, nbytes);
	rose_apply.progress.stream_bytes -= stream->nbytes - nbytes;
	stream->nbytes = nbytes;
}

/* ---------------------------------------------------------------------
 * Subtransactions
 */

static void
note_subxact(Streamed *stream, TransactionId xid)
{
	SubxactPlace *place;
	bool		found;

	if (xid == stream->last)
		return;
	stream->last = xid;
	if (xid == stream->xid)
		return;
	if (stream->places == NULL)
	{
		stream->places = create_hash("rose streamed subtransactions", stream->context,
									 sizeof(TransactionId), sizeof(SubxactPlace));
		stream->maxsubxacts = 16;
		stream->subxacts = MemoryContextAlloc(stream->context, sizeof(Subxact) * stream->maxsubxacts);
	}
	place = hash_search(stream->places, &xid, HASH_ENTER, &found);
	if (found)
		return;
	place->no = stream->nsubxacts;
	if (stream->nsubxacts == stream->maxsubxacts)
	{
		stream->maxsubxacts *= 2;
		stream->subxacts = repalloc_huge(stream->subxacts, sizeof(Subxact) * stream->maxsubxacts);
	}
	stream->subxacts[stream->nsubxacts].xid = xid;
	stream->subxacts[stream->nsubxacts++].start = stream->nbytes;
}

/* One that has no messages is not known, and nothing goes with it. */
static void
roll_back(Streamed *stream, TransactionId xid)
{
	SubxactPlace *place = stream->places == NULL ? NULL :
		hash_search(stream->places, &xid, HASH_FIND, NULL);
	int			no;

	if (place == NULL)
		return;
	no = place->no;
	cut_to(stream, stream->subxacts[no].start);
	while (stream->nsubxacts > no)
	{
		stream->nsubxacts--;
		(void) hash_search(stream->places, &stream->subxacts[stream->nsubxacts].xid, HASH_REMOVE, NULL);
	}
	stream->last = InvalidTransactionId;
}

/* ---------------------------------------------------------------------
 * Messages of a connection
 */

static void
start_block(StringInfo s)
{
	bool		is_first;
	TransactionId xid = logicalrep_read_stream_start(s, &is_first);

	receiving = is_first ? open_stream(xid) : hash_search(streams, &xid, HASH_FIND, NULL);
	if (receiving == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the upstream goes on with transaction %u, whose beginning it did not send", xid)));
}

static void
stop_block(void)
{
	receiving = NULL;
	rose_repl_publish(rose_apply.shared, rose_apply.status, &rose_apply.progress);
	ROSE_STOP_POINT("stream-kept");
}

/* Of one that is not known there is nothing to discard. */
static void
abort_stream(StringInfo s)
{
	TransactionId xid = pq_getmsgint(s, 4);
	TransactionId subxid = pq_getmsgint(s, 4);
	Streamed   *stream = hash_search(streams, &xid, HASH_FIND, NULL);

	if (stream == NULL)
		return;
	if (xid == subxid)
		close_stream(stream);
	else
		roll_back(stream, subxid);
	rose_repl_publish(rose_apply.shared, rose_apply.status, &rose_apply.progress);
}

/* s is behind the type, and the transaction id, if it has one; heard: a description's place, or 0. */
static void
append_message(char type, const StringInfoData *s, uint64 heard)
{
	bool		describes = type == LOGICAL_REP_MSG_RELATION;
	int32		len = 1 + (s->len - s->cursor) + (describes ? sizeof(uint64) : 0);

	if (type == LOGICAL_REP_MSG_TRUNCATE)
		receiving->truncates = true;
	append(receiving, &len, sizeof(len));
	append(receiving, &type, 1);
	append(receiving, s->data + s->cursor, s->len - s->cursor);
	if (describes)
	{
		heard = pg_hton64(heard);
		append(receiving, &heard, sizeof(heard));
	}
}

static void
keep_message(char type, StringInfo s, StringInfo description)
{
	TransactionId xid = pq_getmsgint(s, 4);
	bool		describes = type == LOGICAL_REP_MSG_RELATION;

	note_subxact(receiving, xid);
	append_message(type, s, describes ? ++rose_apply.descriptions : 0);
	if (describes)
		*description = *s;
}

/* ---------------------------------------------------------------------
 * Transactions that come whole, as they are being prepared
 */

static void
begin_whole(StringInfo s)
{
	LogicalRepPreparedTxnData prepare;

	logicalrep_read_begin_prepare(s, &prepare);
	receiving = open_stream(prepare.xid);
	receiving->whole = true;
	receiving->described = create_hash("rose described tables", receiving->context, sizeof(LogicalRepRelId), sizeof(LogicalRepRelId));
}

/* The file is to have a description before the first change: the one that the stream sent last. */
static void
describe(LogicalRepRelId relid, RoseStreamedDescribed described)
{
	const LogicalRepRelation *remote;
	StringInfoData s;
	bool		found;

	(void) hash_search(receiving->described, &relid, HASH_ENTER, &found);
	if (found)
		return;
	remote = described(relid);
	if (remote == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the upstream sent a change of relation %u, which it has not described", relid)));
	initStringInfo(&s);
	rose_description_write(remote, &s);
	append_message(LOGICAL_REP_MSG_RELATION, &s, 0);
	pfree(s.data);
}

/* The tables of a change, or of a TRUNCATE. */
static void
describe_tables_of(char type, StringInfoData s, RoseStreamedDescribed described)
{
	int			n = 1;

	if (type == LOGICAL_REP_MSG_TRUNCATE)
	{
		n = pq_getmsgint(&s, 4);
		(void) pq_getmsgbyte(&s);
	}
	while (n-- > 0)
		describe(pq_getmsgint(&s, 4), described);
}

/* Its descriptions are part of the stream as well, as those of any transaction.  s is behind the type. */
static void
keep_whole_message(char type, StringInfo s, RoseStreamedDescribed described)
{
	if (type == LOGICAL_REP_MSG_RELATION)
	{
		StringInfoData copy = *s;
		LogicalRepRelId relid = pq_getmsgint(&copy, 4);

		(void) hash_search(receiving->described, &relid, HASH_ENTER, NULL);
	}
	else
		describe_tables_of(type, *s, described);
	append_message(type, s, 0);
}

/* The upstream hears from us while a large one is read or written. */
static void
breathe(void)
{
	if (rose_apply.keep_alive != NULL)
		rose_apply.keep_alive();
}

/*
 * One that was prepared before the position at which the upstream was first asked, but behind the one at which this
 * connection began, is sent twice: at PREPARE, and once more, without its changes, when it is committed.
 */
static bool
has_come(const LogicalRepPreparedTxnData *prepare)
{
	const Come *found = hash_search(come, &prepare->xid, HASH_FIND, NULL);

	return found != NULL && found->lsn == prepare->prepare_lsn;
}

static void
note_come(const LogicalRepPreparedTxnData *prepare)
{
	Come	   *entry = hash_search(come, &prepare->xid, HASH_ENTER, NULL);

	entry->lsn = prepare->prepare_lsn;
}

static void
read_kept(void *data, int len, void *arg)
{
	Streamed   *stream = arg;

	if (!rose_spool_read(stream->file, data, len))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the temporary file of upstream transaction %u is too short", stream->xid)));
	breathe();
}

/*
 * The upstream takes what a transaction in blocks has described for known in the stream as soon as that is prepared, as
 * PostgreSQL's own subscriptions prepare it then.
 */
static void
hear_descriptions(Streamed *stream, RoseStreamedHear hear)
{
	int64		at = 0;

	while (at < stream->nbytes)
	{
		int32		len;
		char		type;

		seek(stream, at);
		read_kept(&len, sizeof(len), stream);
		read_kept(&type, 1, stream);
		if (type == LOGICAL_REP_MSG_RELATION)
		{
			StringInfoData s = {palloc(len), len - 1, -1, 0};

			read_kept(s.data, len - 1, stream);
			hear(&s);
		}
		at += sizeof(len) + len;
	}
}

void
rose_streamed_keep_prepared(const LogicalRepPreparedTxnData *prepare, bool may_be_empty, RoseStreamedHear hear)
{
	Streamed   *stream = hash_search(streams, &prepare->xid, HASH_FIND, NULL);
	RosePrepared kept = {.xid = prepare->xid,.gid = prepare->gid,.lsn = prepare->prepare_lsn,.time = prepare->prepare_time};
	bool		again = has_come(prepare);

	if ((stream == NULL && !again && !may_be_empty) || (receiving != NULL && receiving != stream))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the upstream prepared transaction %u without having sent it", prepare->xid)));
	if (stream != NULL && !stream->whole)
		hear_descriptions(stream, hear);
	if (stream != NULL)
	{
		seek(stream, 0);
		kept.nbytes = stream->nbytes;
	}
	if (!again)
		rose_prepared_keep(rose_apply.sub->subid, &kept, read_kept, stream);
	receiving = NULL;
	if (stream != NULL)
		close_stream(stream);
	note_come(prepare);
}

void
rose_streamed_end_prepared(TransactionId xid)
{
	Streamed   *stream = hash_search(streams, &xid, HASH_FIND, NULL);

	(void) hash_search(come, &xid, HASH_REMOVE, NULL);
	if (stream != NULL && stream != receiving)
		close_stream(stream);
}

static void
write_kept(const void *data, int len, void *arg)
{
	append(arg, data, len);
	breathe();
}

RosePreparedFound
rose_streamed_begin_prepared(const LogicalRepCommitPreparedTxnData *commit)
{
	Streamed   *stream = open_stream(commit->xid);
	LogicalRepCommitData as_commit = {.commit_lsn = commit->commit_lsn,.end_lsn = commit->end_lsn,.committime = commit->commit_time};

	RosePreparedFound found = rose_prepared_fetch(rose_apply.sub->subid, commit->xid, commit->gid, write_kept, stream);

	(void) hash_search(come, &commit->xid, HASH_REMOVE, NULL);
	if (found != ROSE_PREPARED_KEPT)
	{
		close_stream(stream);
		return found;
	}
	rose_streamed_begin_replay(commit->xid, &as_commit);
	replay.prepared = true;
	return found;
}

/* What is part of a block, but of no use here, or anywhere. */
static void
pass_message(char type)
{
	switch (type)
	{
		case LOGICAL_REP_MSG_TYPE:
		case LOGICAL_REP_MSG_ORIGIN:
		case LOGICAL_REP_MSG_MESSAGE:
			return;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("unexpected logical replication message type \"%c\" within a part of transaction %u",
							type, receiving->xid)));
	}
}

/* Only a part that has begun ends, and nothing else happens meanwhile. */
static void
require_order(char type)
{
	if ((receiving != NULL) != (type == LOGICAL_REP_MSG_STREAM_STOP) || rose_apply.remote.open)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("logical replication message type \"%c\" is out of order", type)));
}

static inline bool
is_kept(char type)
{
	return type == LOGICAL_REP_MSG_INSERT || type == LOGICAL_REP_MSG_UPDATE || type == LOGICAL_REP_MSG_DELETE ||
		type == LOGICAL_REP_MSG_TRUNCATE || type == LOGICAL_REP_MSG_RELATION;
}

/* Of one that comes whole; s is behind the type.  False: it is something for the stream, too. */
static bool
take_whole(char type, StringInfo s, RoseStreamedDescribed described)
{
	if (!is_kept(type))
	{
		pass_message(type);
		return true;
	}
	keep_whole_message(type, s, described);
	if (type != LOGICAL_REP_MSG_RELATION)
		return true;
	s->cursor--;
	return false;
}

bool
rose_streamed_take(StringInfo s, StringInfo description, RoseStreamedDescribed described)
{
	char		type = s->data[s->cursor];

	description->data = NULL;
	if (type == LOGICAL_REP_MSG_STREAM_START || type == LOGICAL_REP_MSG_STREAM_STOP ||
		type == LOGICAL_REP_MSG_STREAM_ABORT)
	{
		require_order(type);
		s->cursor++;
		if (type == LOGICAL_REP_MSG_STREAM_START)
			start_block(s);
		else if (type == LOGICAL_REP_MSG_STREAM_STOP)
			stop_block();
		else
			abort_stream(s);
		return true;
	}
	if (type == LOGICAL_REP_MSG_BEGIN_PREPARE)
	{
		require_order(type);
		s->cursor++;
		begin_whole(s);
		return true;
	}
	if (receiving == NULL || type == LOGICAL_REP_MSG_PREPARE)
		return false;
	s->cursor++;
	if (receiving->whole)
		return take_whole(type, s, described);
	if (is_kept(type))
		keep_message(type, s, description);
	else
		pass_message(type);
	return true;
}

void
rose_streamed_error_context(void)
{
	if (receiving != NULL)
		errcontext("keeping what the upstream has sent of transaction %u, which is in progress there", receiving->xid);
}

/* ---------------------------------------------------------------------
 * Replay
 */

bool
rose_streamed_is_replayed(void)
{
	return replay.stream != NULL;
}

XLogRecPtr
rose_streamed_end_lsn(void)
{
	return replay.end_lsn;
}

bool
rose_streamed_is_prepared(void)
{
	return replay.stream != NULL && replay.prepared;
}

/*
 * The memory that it takes may be what is not there, so that it would be found only in the
 * midst of it that others must make room before; and a table is never truncated with others'
 * changes at hand (rose_apply.c).  Either would have the upstream send all of it again.
 */
bool
rose_streamed_should_be_alone(void)
{
	Size		limit = rose_pressure_part(rose_arena_total_bytes(), ROSE_MARK_APPLY_CUT);

	return replay.stream->truncates || rose_arena_used_bytes() + 2 * replay.stream->nbytes >= limit;
}

void
rose_streamed_begin_replay(TransactionId xid, const LogicalRepCommitData *commit)
{
	Streamed   *stream = hash_search(streams, &xid, HASH_FIND, NULL);

	if (stream == NULL || receiving != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the upstream committed transaction %u at %X/%X without having sent it",
						xid, LSN_FORMAT_ARGS(commit->commit_lsn))));
	seek(stream, 0);
	replay.stream = stream;
	replay.left = stream->nbytes;
	replay.end_lsn = commit->end_lsn;
	ROSE_STOP_POINT("stream-committed");
}

static void
read_file(void *data, int64 len)
{
	if (len > replay.left || !rose_spool_read(replay.stream->file, data, len))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the temporary file of upstream transaction %u is too short", replay.stream->xid)));
	replay.left -= len;
}

/* As libpq has them, there is a byte behind it (rose_wire.h). */
bool
rose_streamed_next(StringInfo out)
{
	int32		len;

	if (replay.left == 0)
		return false;
	read_file(&len, sizeof(len));
	if (len <= 0 || len > replay.left)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the temporary file of upstream transaction %u has a message of length %d", replay.stream->xid, len)));
	out->data = MemoryContextAllocHuge(rose_apply.message_context, (Size) len + 1);
	read_file(out->data, len);
	out->data[len] = '\0';
	out->len = len;
	out->maxlen = -1;
	out->cursor = 0;
	return true;
}

XLogRecPtr
rose_streamed_end_replay(void)
{
	XLogRecPtr	end_lsn = replay.end_lsn;

	ROSE_STOP_POINT("stream-replayed");
	if (!replay.prepared)
		rose_apply.progress.streamed++;
	close_stream(replay.stream);
	memset(&replay, 0, sizeof(replay));
	return end_lsn;
}
