/*-------------------------------------------------------------------------
 *
 * rose_private_judge.c
 *	  What becomes of the rows of private runs in a merge.
 *
 * They were written by transactions some of which may have aborted, committed or be in
 * progress.  What a transaction, or a subtransaction, is when its first row is met is
 * what it is for the whole merge.  This keeps the order of versions, for all of them were
 * written before the merge began: if one is newer than another of its key and not
 * aborted, the older one's transaction had ended by then.
 *
 * No locks; backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/hsearch.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/merge/rose_merge_internal.h"

/* Of a transaction or a subtransaction. */
typedef struct WriterFate
{
	uint64		xid;			/* hash key: a full xid, or a subtransaction's with no epoch */
	RoseMergeFate fate;
} WriterFate;

struct RosePrivateJudge
{
	HTAB	   *tops;
	HTAB	   *subs;
	uint64		last_top;
	TransactionId last_sub;
	RoseMergeFate last_fate;	/* of both together */
	int			nprivate;
	uint32		private_ids[ROSE_MAX_COMPONENTS];	/* inputs whose rows are judged */
};

static HTAB *
make_table(const char *name, MemoryContext context)
{
	HASHCTL		info = {0};

	info.keysize = sizeof(uint64);
	info.entrysize = sizeof(WriterFate);
	info.hcxt = context;
	return hash_create(name, 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* NULL: no input is a private run. */
RosePrivateJudge *
rose_private_judge_create(const RoseMerge *merge)
{
	RosePrivateJudge *judge = NULL;

	for (int i = 0; i < merge->ninputs; i++)
	{
		if ((merge->inputs[i].entry.flags & ROSE_COMPONENT_PRIVATE) == 0)
			continue;
		if (judge == NULL)
		{
			judge = MemoryContextAllocZero(merge->context, sizeof(RosePrivateJudge));
			judge->tops = make_table("rose merge transactions", merge->context);
			judge->subs = make_table("rose merge subtransactions", merge->context);
		}
		judge->private_ids[judge->nprivate++] = merge->inputs[i].entry.id;
	}
	return judge;
}

static bool
is_private(const RosePrivateJudge *judge, uint32 component)
{
	for (int i = 0; i < judge->nprivate; i++)
		if (judge->private_ids[i] == component)
			return true;
	return false;
}

static RoseMergeFate
fate_of_top(RosePrivateJudge *judge, uint64 xid)
{
	bool		found;
	WriterFate *writer = hash_search(judge->tops, &xid, HASH_ENTER, &found);

	if (found)
		return writer->fate;
	switch (rose_private_owner_status(xid))
	{
		case ROSE_XID_OWN:
		case ROSE_XID_IN_PROGRESS:
			writer->fate = ROSE_FATE_OPEN;
			break;
		case ROSE_XID_COMMITTED:
			writer->fate = ROSE_FATE_COMMITTED;
			break;
		case ROSE_XID_ABORTED:
			writer->fate = ROSE_FATE_ABORTED;
			break;
	}
	return writer->fate;
}

/* top: its transaction, which has not aborted. */
static RoseMergeFate
fate_of_sub(RosePrivateJudge *judge, TransactionId subxid, RoseMergeFate top)
{
	uint64		xid = subxid;
	bool		found;
	WriterFate *writer = hash_search(judge->subs, &xid, HASH_ENTER, &found);

	if (found)
		return writer->fate;
	if (top == ROSE_FATE_COMMITTED)
		writer->fate = TransactionIdDidCommit(subxid) ? top : ROSE_FATE_ABORTED;
	else
		writer->fate = TransactionIdDidAbort(subxid) ? ROSE_FATE_ABORTED : top;
	return writer->fate;
}

RoseMergeFate
rose_private_judge_row(RosePrivateJudge *judge, const RoseRow *row)
{
	uint64		top = U64FromFullTransactionId(row->version.xid);
	TransactionId sub = row->version.subxid;
	RoseMergeFate fate;

	if (judge == NULL || !is_private(judge, row->component))
		return ROSE_FATE_COMMITTED;
	if (top == judge->last_top && sub == judge->last_sub)
		return judge->last_fate;
	fate = fate_of_top(judge, top);
	if (fate != ROSE_FATE_ABORTED && TransactionIdIsValid(sub))
		fate = fate_of_sub(judge, sub, fate);
	judge->last_top = top;
	judge->last_sub = sub;
	judge->last_fate = fate;
	return fate;
}
