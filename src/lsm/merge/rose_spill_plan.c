/*-------------------------------------------------------------------------
 *
 * rose_spill_plan.c
 *	  Which versions of a frozen memtable go where.  See rose_spill_plan.h.
 *
 * No locks: a frozen memtable's entries do not change, and only the holder of
 * ROSE_LOCK_SPILL frees it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "memtable/rose_pressure.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/merge/rose_spill_plan.h"

/* If there is a private run anyway, it takes all that have this part of the limit. */
#define CARRY_LIMIT_PART	8

/* What an entry takes in the arena beside its row, about. */
#define ENTRY_OVERHEAD		112

/* State of a writer, which may be a subtransaction. */
typedef struct WriterStatus
{
	TransactionId writer;		/* hash key */
	RoseXidStatus status;
} WriterStatus;

struct RoseSpillPlan
{
	HTAB	   *writers;
	HTAB	   *owners;
	WriterStatus *last_writer;
	RoseSpillOwner *last_owner;
	uint64		ncommitted;
	Size		carried;		/* bytes */
	uint64		nprivate;		/* versions */
	Size		memtable_bytes;
};

/* A (sub)transaction's entry, with the state that it is first met in. */
static WriterStatus *
find_writer(RoseSpillPlan *plan, TransactionId writer, const RoseVersion *version)
{
	bool		found;
	WriterStatus *entry = hash_search(plan->writers, &writer, HASH_ENTER, &found);

	if (!found)
	{
		entry->status = rose_version_status(version);
		ROSE_STOP_POINT("spill-writer-met");
	}
	return entry;
}

/*
 * A transaction may commit during the survey.  What is left of it must not be
 * split then, or an older version of a key could be carried over while a newer one goes
 * to the run.  So the state of the top-level transaction is fixed when the first of its
 * versions is met, and that of a subtransaction tells only whether it was aborted.
 */
static RoseXidStatus
writer_status(RoseSpillPlan *plan, const RoseVersion *version)
{
	TransactionId writer = rose_version_writer(version);
	RoseVersion top = *version;
	RoseXidStatus top_status;
	WriterStatus *entry;

	if (plan->last_writer != NULL && plan->last_writer->writer == writer)
		return plan->last_writer->status;
	top.subxid = InvalidTransactionId;
	entry = find_writer(plan, rose_version_writer(&top), &top);
	top_status = entry->status;
	if (TransactionIdIsValid(version->subxid))
	{
		entry = find_writer(plan, writer, version);
		if (entry->status != ROSE_XID_ABORTED)
			entry->status = top_status;
	}
	plan->last_writer = entry;
	return entry->status;
}

static RoseSpillOwner *
find_owner(RoseSpillPlan *plan, const RoseVersion *version)
{
	uint64		xid = U64FromFullTransactionId(version->xid);
	bool		found;

	if (plan->last_owner != NULL && plan->last_owner->xid == xid)
		return plan->last_owner;
	plan->last_owner = hash_search(plan->owners, &xid, HASH_ENTER, &found);
	if (!found)
	{
		plan->last_owner->bytes = 0;
		plan->last_owner->nversions = 0;
		plan->last_owner->private = false;
	}
	return plan->last_owner;
}

/*
 * A version that was taken back (ABORTED hint) is forgotten whatever its
 * transaction does.
 */
RoseSpillFate
rose_spill_plan_fate(RoseSpillPlan *plan, const RoseMemEntryRef *entry,
					 RoseSpillOwner **owner)
{
	if (entry->hints & ROSE_MEM_HINT_ABORTED)
		return ROSE_SPILL_FORGET;
	switch (writer_status(plan, &entry->version))
	{
		case ROSE_XID_ABORTED:
			return ROSE_SPILL_FORGET;
		case ROSE_XID_COMMITTED:
			return entry->version.op == ROSE_OP_LOCK ? ROSE_SPILL_FORGET : ROSE_SPILL_RUN;
		case ROSE_XID_OWN:
		case ROSE_XID_IN_PROGRESS:
			break;
	}
	*owner = find_owner(plan, &entry->version);
	return (*owner)->private ? ROSE_SPILL_PRIVATE : ROSE_SPILL_CARRY;
}

void
rose_spill_plan_make_private(RoseSpillPlan *plan, RoseSpillOwner *owner)
{
	Assert(!owner->private);
	owner->private = true;
	plan->nprivate += owner->nversions;
	plan->carried -= owner->bytes;
}

/* The largest owner that is to be carried over. */
static RoseSpillOwner *
largest_carried(RoseSpillPlan *plan)
{
	HASH_SEQ_STATUS scan;
	RoseSpillOwner *owner;
	RoseSpillOwner *largest = NULL;

	hash_seq_init(&scan, plan->owners);
	while ((owner = hash_seq_search(&scan)) != NULL)
		if (!owner->private && (largest == NULL || owner->bytes > largest->bytes))
			largest = owner;
	return largest;
}

/*
 * A transaction with more than this goes to the private run, and so do the largest ones
 * if all in progress have more than twice that: a part of the arena and of what is
 * spilled, and a little always, unless memory is short.
 */
static Size
carry_limit(const RoseSpillPlan *plan)
{
	Size		share = rose_pressure_part(plan->memtable_bytes, ROSE_SHARE_CARRY);
	Size		little = rose_pressure_share(ROSE_SHARE_CARRY_SHORT);

	if (rose_pressure_reached(ROSE_MARK_SHORT))
		return Min(little, share);
	return Max(Min(rose_pressure_share(ROSE_SHARE_CARRY), share), little);
}

static void
choose_private(RoseSpillPlan *plan, Size limit)
{
	for (;;)
	{
		RoseSpillOwner *owner = largest_carried(plan);

		if (owner == NULL)
			return;
		if (owner->bytes <= limit && plan->carried <= 2 * limit &&
			(plan->nprivate == 0 || owner->bytes <= limit / CARRY_LIMIT_PART))
			return;
		rose_spill_plan_make_private(plan, owner);
	}
}

static void
survey(RoseSpillPlan *plan, RoseC0Shared *c0, const RoseSchema *schema, int slot,
	   MemoryContext entry_context)
{
	RoseMemCursor cursor;
	bool		more;

	rose_mem_cursor_open(&cursor, c0, schema, slot);
	for (more = rose_mem_cursor_first(&cursor); more; more = rose_mem_cursor_next(&cursor))
	{
		RoseMemEntryRef entry;
		RoseSpillOwner *owner = NULL;

		MemoryContextReset(entry_context);
		rose_mem_cursor_get(&cursor, &entry);
		switch (rose_spill_plan_fate(plan, &entry, &owner))
		{
			case ROSE_SPILL_RUN:
				plan->ncommitted++;
				break;
			case ROSE_SPILL_CARRY:
				{
					Size		bytes = ENTRY_OVERHEAD + (entry.row ? entry.row->t_len : 0);

					owner->bytes += bytes;
					owner->nversions++;
					plan->carried += bytes;
					break;
				}
			case ROSE_SPILL_FORGET:
			case ROSE_SPILL_PRIVATE:
				break;
		}
	}
}

RoseSpillPlan *
rose_spill_plan_make(RoseC0Shared *c0, const RoseSchema *schema, int slot,
					 uint64 private_xid, MemoryContext context)
{
	bool		whole = private_xid == ROSE_SPILL_WHOLE;
	RoseSpillPlan *plan = MemoryContextAllocZero(context, sizeof(RoseSpillPlan));
	MemoryContext entry_context = AllocSetContextCreate(context, "rose spill entry",
														ALLOCSET_SMALL_SIZES);
	MemoryContext old;
	HASHCTL		info = {0};
	RoseSpillOwner *owner;

	info.hcxt = context;
	info.keysize = sizeof(TransactionId);
	info.entrysize = sizeof(WriterStatus);
	plan->writers = hash_create("rose spill writers", 256, &info,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	info.keysize = sizeof(uint64);
	info.entrysize = sizeof(RoseSpillOwner);
	plan->owners = hash_create("rose spill owners", 64, &info,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	plan->memtable_bytes = rose_c0_frozen_bytes(c0, slot);
	old = MemoryContextSwitchTo(entry_context);
	survey(plan, c0, schema, slot, entry_context);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(entry_context);
	owner = hash_search(plan->owners, &private_xid, HASH_FIND, NULL);
	if (owner != NULL)
		rose_spill_plan_make_private(plan, owner);
	choose_private(plan, whole ? 0 : carry_limit(plan));
	return plan;
}

uint64
rose_spill_plan_committed(const RoseSpillPlan *plan)
{
	return plan->ncommitted;
}

uint64
rose_spill_plan_private(const RoseSpillPlan *plan)
{
	return plan->nprivate;
}

bool
rose_spill_plan_carries(const RoseSpillPlan *plan)
{
	return plan->carried > 0;
}
