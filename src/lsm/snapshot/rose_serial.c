/*-------------------------------------------------------------------------
 *
 * rose_serial.c
 *	  Which transactions were SERIALIZABLE.  See rose_serial.h.
 *
 * Two rings of bits in shared memory.  The fine one has a bit for each of the last few
 * million transaction ids.  The coarse one has a bit for each page of ids, back to the
 * oldest that there can be: where it is not set, none of them was SERIALIZABLE, else one
 * may have been.  So beside a report of hours, others' READ COMMITTED transactions are
 * always known.
 *
 * Bits of the fine ring hold for ids from start to end.  Who notes an id behind the end
 * moves both.  Readers take no lock: start moves before pages are cleared, end
 * behind that, so what is read between two looks at them is of the id that was asked for.
 *
 * What was noted before a restart is forgotten, and needed only of prepared transactions,
 * for no snapshot lives that long.  So where there can be those, nothing is known of ids
 * from before the floor.
 *
 * Locking: lock exclusively to move start and end, shared to set bits.
 *
 * What this does not do: know what a transaction has written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "lsm/snapshot/rose_serial.h"
#include "lsm/snapshot/rose_visibility.h"

#define FINE_IDS		(UINT64CONST(1) << 22)
#define PAGE_IDS		UINT64CONST(4096)
#define COARSE_IDS		(UINT64CONST(1) << 32)	/* ids that the coarse ring reaches over */

#define FINE_WORDS		(FINE_IDS / 32)
#define COARSE_WORDS	(COARSE_IDS / PAGE_IDS / 32)

StaticAssertDecl(FINE_IDS % PAGE_IDS == 0, "the fine ring has whole pages");

typedef struct RoseSerialShared
{
	LWLock		lock;
	pg_atomic_uint64 floor;		/* set once; 0 = not yet */
	pg_atomic_uint64 start;		/* lock; fine bits hold from here ... */
	pg_atomic_uint64 end;		/* lock; ... to here: a multiple of PAGE_IDS; nothing behind it was noted */
	pg_atomic_uint32 fine[FINE_WORDS];	/* set: lock shared; cleared: exclusively */
	pg_atomic_uint32 coarse[COARSE_WORDS];	/* likewise */
} RoseSerialShared;

static RoseSerialShared *serial = NULL; /* NULL: not preloaded */

Size
rose_serial_shmem_size(void)
{
	return sizeof(RoseSerialShared);
}

void
rose_serial_shmem_init(bool found)
{
	bool		mine;

	serial = ShmemInitStruct("rose serializable transactions", sizeof(RoseSerialShared), &mine);
	if (!mine)
	{
		LWLockInitialize(&serial->lock, LWLockNewTrancheId());
		pg_atomic_init_u64(&serial->floor, 0);
		pg_atomic_init_u64(&serial->start, 0);
		pg_atomic_init_u64(&serial->end, 0);
		for (uint64 i = 0; i < FINE_WORDS; i++)
			pg_atomic_init_u32(&serial->fine[i], 0);
		for (uint64 i = 0; i < COARSE_WORDS; i++)
			pg_atomic_init_u32(&serial->coarse[i], 0);
	}
	LWLockRegisterTranche(serial->lock.tranche, "RoseSerial");
}

/* ---- bits ---- */

static bool
test_bit(pg_atomic_uint32 *words, uint64 bit)
{
	return (pg_atomic_read_u32(&words[bit / 32]) & ((uint32) 1 << bit % 32)) != 0;
}

static void
set_bit(pg_atomic_uint32 *words, uint64 bit)
{
	pg_atomic_fetch_or_u32(&words[bit / 32], (uint32) 1 << bit % 32);
}

static uint64
fine_bit(uint64 xid)
{
	return xid % FINE_IDS;
}

static uint64
coarse_bit(uint64 xid)
{
	return xid / PAGE_IDS % (COARSE_WORDS * 32);
}

static void
clear_page(uint64 xid, bool fine)
{
	uint64		coarse = coarse_bit(xid);

	for (uint64 i = 0; fine && i < PAGE_IDS / 32; i++)
		pg_atomic_write_u32(&serial->fine[fine_bit(xid) / 32 + i], 0);
	pg_atomic_fetch_and_u32(&serial->coarse[coarse / 32], ~((uint32) 1 << coarse % 32));
}

/* Have room for this id.  REQUIRES: the lock, exclusively. */
static void
move_end(uint64 xid)
{
	uint64		old = pg_atomic_read_u64(&serial->end);
	uint64		new = (xid / PAGE_IDS + 1) * PAGE_IDS;

	if (xid < old)
		return;
	pg_atomic_write_u64(&serial->start, new > FINE_IDS ? new - FINE_IDS : 0);
	pg_write_barrier();
	if (old != 0)				/* else all is clear */
		for (uint64 page = old; page < new; page += PAGE_IDS)
			clear_page(page, page + FINE_IDS >= new);
	pg_write_barrier();
	pg_atomic_write_u64(&serial->end, new);
}

/* ---- noting ---- */

static void
note(uint64 xid)
{
	LWLockAcquire(&serial->lock, LW_SHARED);
	if (xid >= pg_atomic_read_u64(&serial->end))
	{
		LWLockRelease(&serial->lock);
		LWLockAcquire(&serial->lock, LW_EXCLUSIVE);
		move_end(xid);
	}
	if (xid >= pg_atomic_read_u64(&serial->start))
		set_bit(serial->fine, fine_bit(xid));
	set_bit(serial->coarse, coarse_bit(xid));
	LWLockRelease(&serial->lock);
}

/* Before anybody can take it for committed. */
static void
on_transaction_event(XactEvent event, void *arg)
{
	TransactionId xid;

	if (XactIsoLevel != XACT_SERIALIZABLE || serial == NULL ||
		(event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE))
		return;
	xid = GetTopTransactionIdIfAny();
	if (!TransactionIdIsNormal(xid))
		return;
	rose_serial_begin();
	note(U64FromFullTransactionId(rose_full_xid(xid)));
}

void
rose_serial_define_callbacks(void)
{
	RegisterXactCallback(on_transaction_event, NULL);
}

void
rose_serial_begin(void)
{
	uint64		none = 0;

	if (serial == NULL || pg_atomic_read_u64(&serial->floor) != 0 || RecoveryInProgress())
		return;
	(void) pg_atomic_compare_exchange_u64(&serial->floor, &none,
										  U64FromFullTransactionId(ReadNextFullTransactionId()));
}

/* ---- asking ---- */

RoseSerial
rose_serial_ask(uint64 xid)
{
	bool		set;

	if (serial == NULL)
		return ROSE_SERIAL_MAYBE;
	if (max_prepared_xacts > 0 && xid < pg_atomic_read_u64(&serial->floor))
		return ROSE_SERIAL_MAYBE;
	if (xid >= pg_atomic_read_u64(&serial->end))
		return ROSE_SERIAL_NO;
	pg_read_barrier();
	set = test_bit(serial->fine, fine_bit(xid));
	pg_read_barrier();
	if (xid >= pg_atomic_read_u64(&serial->start))
		return set ? ROSE_SERIAL_YES : ROSE_SERIAL_NO;
	return test_bit(serial->coarse, coarse_bit(xid)) ? ROSE_SERIAL_MAYBE : ROSE_SERIAL_NO;
}
