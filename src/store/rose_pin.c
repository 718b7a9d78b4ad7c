/*-------------------------------------------------------------------------
 *
 * rose_pin.c
 *	  Pins: which backend may still read what was replaced, and when.
 *
 * A cluster-wide counter, the generation, moves on whenever components are
 * retired.  A transaction that reads a table publishes the generation of its
 * first look at it in its backend's slot.  A retired component is kept as long
 * as somebody has pinned its file at its generation or an older one.
 *
 * A pin also says which components its transaction can have met: none whose owner id was
 * given later than its last look at the manifest.  Ids grow, so one number says it.
 * Without it, one long transaction would keep all that merges make and replace.  It is
 * ROSE_PIN_ALL from before a look until after it, and until the first one.
 *
 * A transaction that needs nothing any more of what it has met so far says so
 * (rose_pin_let_go): then its pin keeps what is retired later.  Merges still forget nothing
 * that they could not before: names by sequence number stay good.
 *
 * And a pin keeps the transaction's xmin of that moment: together with the generation it
 * says what the transaction can have seen of the file at all (rose_settled.c).
 *
 * A slot has room for ROSE_PINS files.  More files than that are covered by one
 * more generation that counts for every file: they may keep more than they
 * need, but nothing is lost.
 *
 * A pin can be lent: an importer of a snapshot leaves one in the exporter's slot, for
 * others that import the snapshot later.  It counts for all files while the exporter's
 * transaction lasts.  Such pins, and those that are backdated, come with generations of
 * the past, while slots are read one after the other; so whoever reads them reads them
 * again if a pin was handed on meanwhile: either it finds it where it came from, or where
 * it went.
 *
 * Pins on files of temporary relations, which nobody else reads, are in no slot
 * (rose_local_pin.c).
 *
 * Slots also tell whether a process still lives: an incarnation number
 * changes when the slot's user ends.  Owners that are being built are listed
 * with slot and incarnation, so that the end of the process is enough to give
 * them up and nobody has to visit tables that may be gone by then.
 *
 * Locking.  A slot's spinlock covers all of it; it is written by its backend
 * only.  A backend keeps a copy of its own pins.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "util/rose_foreign.h"
#include "store/rose_file_name.h"
#include "store/rose_local_pin.h"
#include "store/rose_pin.h"
#include "store/rose_settled.h"
#include "store/rose_store.h"
#include "store/rose_store_internal.h"

#define ROSE_PINS	16

typedef struct RosePin
{
	RelFileLocator locator;
	uint64		generation;		/* of the first look */
	uint64		needs_from;		/* ... or later: nothing that was retired before is needed */
	uint32		seen_upto;		/* newest owner id that may be in use */
	TransactionId xmin;			/* of the snapshots at hand; invalid = none */
} RosePin;

/*
 * Written by its backend for each table and transaction: so no other one's slot may be in
 * the same cache line.
 */
typedef struct RosePinSlotShared
{
	slock_t		mutex pg_attribute_aligned(PG_CACHE_LINE_SIZE);
	uint32		incarnation;	/* mutex */
	int			npins;			/* mutex */
	uint64		any_generation; /* mutex: counts for all files; 0 = none */
	TransactionId any_xmin;		/* mutex */
	uint64		lent_generation;	/* mutex: by others, for all files; 0 = none ... */
	LocalTransactionId lent_lxid;	/* mutex: ... and for this transaction only */
	RosePin		pins[ROSE_PINS];	/* mutex */
} RosePinSlotShared;

typedef struct RosePinShared
{
	pg_atomic_uint64 generation;	/* from 1; no lock */
	pg_atomic_uint64 handed_on; /* counts pins that are lent or backdated; no lock */
	int			lock_tranche;	/* constant */
	int			nslots;			/* constant */
	RosePinSlotShared slots[FLEXIBLE_ARRAY_MEMBER];
} RosePinShared;

static RosePinShared *pin_shared = NULL;

/* This backend's slot, NULL until it is needed, and a copy of what is in it. */
static RosePinSlotShared *my_slot = NULL;
static uint32 my_incarnation;
static int	my_npins;
static bool my_any;
static RelFileLocator my_pins[ROSE_PINS];
static bool my_looked[ROSE_PINS];	/* has read that manifest */
static bool keeps_nothing = false;	/* see rose_pin_move_on */

Size
rose_pin_shmem_size(void)
{
	return add_size(offsetof(RosePinShared, slots),
					mul_size(MaxBackends, sizeof(RosePinSlotShared)));
}

void
rose_pin_shmem_init(bool found)
{
	bool		mine;

	pin_shared = ShmemInitStruct("rose pins", rose_pin_shmem_size(), &mine);
	if (!mine)
	{
		pg_atomic_init_u64(&pin_shared->generation, ROSE_SETTLED_BEFORE_ALL + 1);
		pg_atomic_init_u64(&pin_shared->handed_on, 0);
		pin_shared->lock_tranche = LWLockNewTrancheId();
		pin_shared->nslots = MaxBackends;
		memset(pin_shared->slots, 0, mul_size(MaxBackends, sizeof(RosePinSlotShared)));
		for (int i = 0; i < MaxBackends; i++)
			SpinLockInit(&pin_shared->slots[i].mutex);
	}
	LWLockRegisterTranche(pin_shared->lock_tranche, "RoseStoreAlloc");
}

int
rose_pin_lock_tranche(void)
{
	return pin_shared->lock_tranche;
}

static void
clear_slot(RosePinSlotShared *slot)
{
	SpinLockAcquire(&slot->mutex);
	slot->incarnation++;
	slot->npins = 0;
	slot->any_generation = 0;
	slot->lent_generation = 0;
	SpinLockRelease(&slot->mutex);
}

/*
 * on_shmem_exit and not before_shmem_exit: the abort of the last transaction
 * comes first, and gives its owners up under the old incarnation.
 */
static void
end_of_process(int code, Datum arg)
{
	if (my_slot)
		clear_slot(my_slot);
	my_slot = NULL;
}

static RosePinSlotShared *
get_slot(void)
{
	int			index = rose_my_backend_slot();

	if (my_slot)
		return my_slot;
	if (pin_shared == NULL)
		elog(ERROR, "rose shared memory is not initialized");
	if (index < 0 || index >= pin_shared->nslots)
		elog(ERROR, "process has no backend slot");

	on_shmem_exit(end_of_process, (Datum) 0);
	my_slot = &pin_shared->slots[index];
	clear_slot(my_slot);
	my_incarnation = my_slot->incarnation;
	my_npins = 0;
	my_any = false;
	return my_slot;
}

void
rose_pin_whoami(int *slot, uint32 *incarnation)
{
	*slot = get_slot() - pin_shared->slots;
	*incarnation = my_incarnation;
}

bool
rose_pin_is_alive(int slot, uint32 incarnation)
{
	bool		alive;

	SpinLockAcquire(&pin_shared->slots[slot].mutex);
	alive = pin_shared->slots[slot].incarnation == incarnation;
	SpinLockRelease(&pin_shared->slots[slot].mutex);
	return alive;
}

void
rose_pin_acquire(RelFileLocator locator)
{
	RosePinSlotShared *slot = get_slot();
	uint64		generation;

	if (rose_file_is_local(locator))
	{
		rose_local_pin_acquire(locator, pg_atomic_read_u64(&pin_shared->generation));
		return;
	}
	if (my_any)
		return;
	for (int i = 0; i < my_npins; i++)
	{
		if (RelFileLocatorEquals(my_pins[i], locator))
			return;
	}

	generation = pg_atomic_read_u64(&pin_shared->generation);
	if (my_npins < ROSE_PINS)
	{
		SpinLockAcquire(&slot->mutex);
		slot->pins[my_npins].locator = locator;
		slot->pins[my_npins].generation = generation;
		slot->pins[my_npins].needs_from = generation;
		slot->pins[my_npins].seen_upto = ROSE_PIN_ALL;
		slot->pins[my_npins].xmin = MyProc->xmin;
		slot->npins = my_npins + 1;
		SpinLockRelease(&slot->mutex);
		my_looked[my_npins] = false;
		my_pins[my_npins++] = locator;
	}
	else
	{
		SpinLockAcquire(&slot->mutex);
		slot->any_generation = generation;
		slot->any_xmin = MyProc->xmin;
		SpinLockRelease(&slot->mutex);
		my_any = true;
	}
	/* Publish before looking at the manifest; see rose_manifest.c. */
	pg_memory_barrier();
}

bool
rose_pin_is_held(RelFileLocator locator)
{
	if (rose_file_is_local(locator))
		return rose_local_pin_is_held(locator);
	for (int i = 0; i < my_npins; i++)
		if (RelFileLocatorEquals(my_pins[i], locator))
			return true;
	return my_any;
}

void
rose_pin_renew(RelFileLocator locator)
{
	if (rose_file_is_local(locator))
	{
		rose_local_pin_renew(locator, pg_atomic_read_u64(&pin_shared->generation));
		return;
	}
	for (int i = 0; i < my_npins; i++)
	{
		if (!RelFileLocatorEquals(my_pins[i], locator))
			continue;
		SpinLockAcquire(&my_slot->mutex);
		my_slot->pins[i].generation = pg_atomic_read_u64(&pin_shared->generation);
		my_slot->pins[i].needs_from = my_slot->pins[i].generation;
		my_slot->pins[i].seen_upto = ROSE_PIN_ALL;
		my_slot->pins[i].xmin = MyProc->xmin;
		SpinLockRelease(&my_slot->mutex);
		my_looked[i] = false;
	}
	pg_memory_barrier();		/* before the next look at the manifest */
}

void
rose_pin_keep_nothing(void)
{
	keeps_nothing = true;
}

/* A function of users may have left a cursor open, on the very file. */
void
rose_pin_move_on(RelFileLocator locator)
{
	if (keeps_nothing && likely(!rose_foreign_used))
		rose_pin_renew(locator);
}

uint64
rose_pin_generation(RelFileLocator locator)
{
	uint64		generation = 0;
	TransactionId xmin;

	if (rose_file_is_local(locator) && rose_local_pin_is_held(locator))
		return rose_local_pin_generation(locator, &xmin);
	SpinLockAcquire(&my_slot->mutex);
	for (int i = 0; i < my_npins; i++)
		if (RelFileLocatorEquals(my_pins[i], locator))
			generation = my_slot->pins[i].generation;
	if (generation == 0)
		generation = my_slot->any_generation;
	SpinLockRelease(&my_slot->mutex);
	if (generation == 0)
		elog(ERROR, "the file of the rose table is not pinned");
	return generation;
}

void
rose_pin_backdate(RelFileLocator locator, uint64 generation, uint32 newest)
{
	bool		found = false;

	SpinLockAcquire(&my_slot->mutex);
	for (int i = 0; i < my_npins; i++)
	{
		if (!RelFileLocatorEquals(my_pins[i], locator))
			continue;
		my_slot->pins[i].generation = Min(my_slot->pins[i].generation, generation);
		my_slot->pins[i].needs_from = Min(my_slot->pins[i].needs_from, generation);
		my_slot->pins[i].seen_upto = Max(my_slot->pins[i].seen_upto, newest);
		found = true;
	}
	if (!found)
		my_slot->any_generation = Min(my_slot->any_generation, generation);
	SpinLockRelease(&my_slot->mutex);
	(void) pg_atomic_fetch_add_u64(&pin_shared->handed_on, 1);	/* full barrier */
}

void
rose_pin_lend(int slot, LocalTransactionId lxid, uint64 generation)
{
	RosePinSlotShared *other;

	if (slot < 0 || slot >= pin_shared->nslots)
		elog(ERROR, "there is no backend slot %d", slot);
	other = &pin_shared->slots[slot];
	SpinLockAcquire(&other->mutex);
	if (other->lent_generation == 0 || other->lent_lxid != lxid)
		other->lent_generation = generation;
	other->lent_generation = Min(other->lent_generation, generation);
	other->lent_lxid = lxid;
	SpinLockRelease(&other->mutex);
	(void) pg_atomic_fetch_add_u64(&pin_shared->handed_on, 1);	/* full barrier */
}

static void
set_seen(RelFileLocator locator, uint32 seen_upto, bool looked)
{
	if (rose_file_is_local(locator))
		rose_local_pin_set_seen(locator, seen_upto, looked);
	for (int i = 0; i < my_npins; i++)
	{
		if (!RelFileLocatorEquals(my_pins[i], locator))
			continue;
		if (!looked && my_looked[i])
			return;
		my_looked[i] = looked;
		SpinLockAcquire(&my_slot->mutex);
		my_slot->pins[i].seen_upto = seen_upto;
		SpinLockRelease(&my_slot->mutex);
		return;
	}
}

void
rose_pin_begin_look(RelFileLocator locator)
{
	set_seen(locator, ROSE_PIN_ALL, true);
	pg_memory_barrier();		/* before the look */
}

void
rose_pin_end_look(RelFileLocator locator, uint32 newest)
{
	set_seen(locator, newest, true);
}

void
rose_pin_use_cached(RelFileLocator locator, uint32 newest)
{
	set_seen(locator, newest, false);
}

void
rose_pin_let_go(RelFileLocator locator)
{
	uint64		generation = pg_atomic_read_u64(&pin_shared->generation);

	if (rose_file_is_local(locator))
	{
		rose_local_pin_let_go(locator, generation);
		return;
	}
	for (int i = 0; i < my_npins; i++)
	{
		if (!RelFileLocatorEquals(my_pins[i], locator))
			continue;
		SpinLockAcquire(&my_slot->mutex);
		my_slot->pins[i].needs_from = generation;
		my_slot->pins[i].seen_upto = ROSE_PIN_ALL;
		SpinLockRelease(&my_slot->mutex);
		my_looked[i] = false;
	}
	pg_memory_barrier();		/* before the next look at the manifest */
}

void
rose_pin_release_all(void)
{
	rose_local_pin_release_all();
	if (my_slot == NULL || (my_npins == 0 && !my_any))
		return;
	SpinLockAcquire(&my_slot->mutex);
	my_slot->npins = 0;
	my_slot->any_generation = 0;
	SpinLockRelease(&my_slot->mutex);
	my_npins = 0;
	my_any = false;
}

uint64
rose_pin_retire_generation(void)
{
	return pg_atomic_fetch_add_u64(&pin_shared->generation, 1);
}

static void
note_xmin(TransactionId *oldest, TransactionId xmin)
{
	if (TransactionIdIsValid(xmin) &&
		(!TransactionIdIsValid(*oldest) || TransactionIdPrecedes(xmin, *oldest)))
		*oldest = xmin;
}

/* What was lent to the slot, 0 = nothing, if its transaction is the one it was lent to. */
static uint64
lent_to(RosePinSlotShared *slot)
{
	uint64		generation;
	LocalTransactionId lxid;

	SpinLockAcquire(&slot->mutex);
	generation = slot->lent_generation;
	lxid = slot->lent_lxid;
	SpinLockRelease(&slot->mutex);
	if (likely(generation == 0) || rose_slot_lxid(slot - pin_shared->slots) != lxid)
		return 0;
	return generation;
}

static uint64
find_oldest(RelFileLocator locator, TransactionId *xmin)
{
	uint64		oldest = PG_UINT64_MAX;

	*xmin = InvalidTransactionId;
	for (int i = 0; i < pin_shared->nslots; i++)
	{
		RosePinSlotShared *slot = &pin_shared->slots[i];
		uint64		lent;

		SpinLockAcquire(&slot->mutex);
		if (slot->any_generation != 0)
		{
			oldest = Min(oldest, slot->any_generation);
			note_xmin(xmin, slot->any_xmin);
		}
		for (int j = 0; j < slot->npins; j++)
		{
			if (!RelFileLocatorEquals(slot->pins[j].locator, locator))
				continue;
			oldest = Min(oldest, slot->pins[j].generation);
			note_xmin(xmin, slot->pins[j].xmin);
		}
		SpinLockRelease(&slot->mutex);
		if ((lent = lent_to(slot)) != 0)
			oldest = Min(oldest, lent);
	}
	return oldest;
}

uint64
rose_pin_oldest(RelFileLocator locator, TransactionId *xmin)
{
	uint64		oldest;
	uint64		handed_on;

	if (rose_file_is_local(locator))
		return rose_local_pin_generation(locator, xmin);
	do
	{
		handed_on = pg_atomic_read_u64(&pin_shared->handed_on);
		pg_memory_barrier();
		oldest = find_oldest(locator, xmin);
		pg_memory_barrier();
	} while (handed_on != pg_atomic_read_u64(&pin_shared->handed_on));
	return oldest;
}

static void
find_needed(RelFileLocator locator, const RoseRetiredShared *retired, int n, uint32 *upto)
{
	memset(upto, 0, n * sizeof(uint32));
	for (int i = 0; i < pin_shared->nslots; i++)
	{
		RosePinSlotShared *slot = &pin_shared->slots[i];
		uint64		any;
		uint64		generation = PG_UINT64_MAX;
		uint32		seen_upto = 0;
		uint64		lent;

		SpinLockAcquire(&slot->mutex);
		any = slot->any_generation;
		for (int j = 0; j < slot->npins; j++)
		{
			if (RelFileLocatorEquals(slot->pins[j].locator, locator))
			{
				generation = slot->pins[j].needs_from;
				seen_upto = slot->pins[j].seen_upto;
			}
		}
		SpinLockRelease(&slot->mutex);
		if ((lent = lent_to(slot)) != 0)
			any = any == 0 ? lent : Min(any, lent);
		if (any == 0 && generation == PG_UINT64_MAX)
			continue;
		for (int j = 0; j < n; j++)
		{
			if (any != 0 && any <= retired[j].generation)
				upto[j] = ROSE_PIN_ALL;
			else if (generation <= retired[j].generation)
				upto[j] = Max(upto[j], seen_upto);
		}
	}
}

void
rose_pin_find_needed(RelFileLocator locator, const RoseRetiredShared *retired, int n,
					 uint32 *upto)
{
	uint64		handed_on;

	if (rose_file_is_local(locator))
	{
		rose_local_pin_find_needed(locator, retired, n, upto);
		return;
	}
	do
	{
		handed_on = pg_atomic_read_u64(&pin_shared->handed_on);
		pg_memory_barrier();
		find_needed(locator, retired, n, upto);
		pg_memory_barrier();
	} while (handed_on != pg_atomic_read_u64(&pin_shared->handed_on));
}
