/*-------------------------------------------------------------------------
 *
 * rose_local_pin.c
 *	  Pins on files of temporary relations.
 *
 * Only the session itself reads such a file, so its pins stand in its own memory: any
 * number of them, and none of them takes a place in the backend's slot (rose_pin.c),
 * where one more than there are places for would pin all tables of the cluster.  What
 * they mean is the same.
 *
 * Backend-local, no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/proc.h"
#include "utils/memutils.h"

#include "store/rose_local_pin.h"
#include "store/rose_store_internal.h"

typedef struct LocalPin
{
	RelFileLocator file;
	uint64		generation;
	uint64		needs_from;		/* nothing that was retired before: see rose_pin.c */
	uint32		seen_upto;		/* newest owner id that may be in use */
	TransactionId xmin;			/* of the snapshots at hand; invalid = none */
	bool		looked;			/* has read the manifest */
} LocalPin;

static LocalPin *pins = NULL;	/* in TopMemoryContext */
static int	npins = 0;
static int	size = 0;
static int	last = 0;			/* that was asked for */

static LocalPin *
find_pin(RelFileLocator file)
{
	if (last < npins && RelFileLocatorEquals(pins[last].file, file))
		return &pins[last];
	for (last = 0; last < npins; last++)
		if (RelFileLocatorEquals(pins[last].file, file))
			return &pins[last];
	return NULL;
}

static void
begin_pin(LocalPin *pin, uint64 generation)
{
	pin->generation = generation;
	pin->needs_from = generation;
	pin->seen_upto = ROSE_PIN_ALL;
	pin->xmin = MyProc->xmin;
	pin->looked = false;
}

void
rose_local_pin_acquire(RelFileLocator file, uint64 generation)
{
	if (find_pin(file) != NULL)
		return;
	if (pins == NULL)
	{
		pins = MemoryContextAlloc(TopMemoryContext, 16 * sizeof(LocalPin));
		size = 16;
	}
	else if (npins == size)
	{
		pins = repalloc_huge(pins, 2 * size * sizeof(LocalPin));
		size *= 2;
	}
	pins[npins].file = file;
	begin_pin(&pins[npins], generation);
	last = npins++;
}

bool
rose_local_pin_is_held(RelFileLocator file)
{
	return find_pin(file) != NULL;
}

void
rose_local_pin_renew(RelFileLocator file, uint64 generation)
{
	LocalPin   *pin = find_pin(file);

	if (pin != NULL)
		begin_pin(pin, generation);
}

void
rose_local_pin_let_go(RelFileLocator file, uint64 generation)
{
	LocalPin   *pin = find_pin(file);

	if (pin == NULL)
		return;
	pin->needs_from = generation;
	pin->seen_upto = ROSE_PIN_ALL;
	pin->looked = false;
}

void
rose_local_pin_set_seen(RelFileLocator file, uint32 seen_upto, bool looked)
{
	LocalPin   *pin = find_pin(file);

	if (pin == NULL || (!looked && pin->looked))
		return;
	pin->looked = looked;
	pin->seen_upto = seen_upto;
}

void
rose_local_pin_find_needed(RelFileLocator file, const RoseRetiredShared *retired, int n,
						   uint32 *upto)
{
	const LocalPin *pin = find_pin(file);

	for (int i = 0; i < n; i++)
		upto[i] = pin != NULL && pin->needs_from <= retired[i].generation ? pin->seen_upto : 0;
}

void
rose_local_pin_release_all(void)
{
	npins = 0;
}

uint64
rose_local_pin_generation(RelFileLocator file, TransactionId *xmin)
{
	const LocalPin *pin = find_pin(file);

	*xmin = pin != NULL ? pin->xmin : InvalidTransactionId;
	return pin != NULL ? pin->generation : PG_UINT64_MAX;
}
