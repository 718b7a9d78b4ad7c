/*-------------------------------------------------------------------------
 *
 * rose_place.c
 *	  Places for the shared entries of tables: memory that comes and goes.
 *
 * An entry takes about 8 kB.  Places come in chunks of 64.  The first chunk (in a
 * single-user server, where there is no dynamic shared memory: as many as
 * rose.max_tables) is in main shared memory, the others are pieces of a dynamic area.
 * The lowest free place is taken, so that chunks at the end run empty.  The memory of one
 * that was empty for the time between two calls of rose_place_give_back goes back to the
 * operating system.  Its addresses stay, so nobody has to be told, and memory is put
 * there again when the chunk is needed.  (The area itself cannot give back large pieces,
 * and a segment of it would stay as long as an idle session has it mapped.)
 *
 * Processes keep pointers to entries longer than they protect them, and look whether they
 * are still good.  What they look at must not go: each place has a word in main shared
 * memory, its life.  It is 0 or the incarnation of the place's entry, and incarnations
 * are never used twice.  So only after a pin and a look at the life may an entry be
 * touched.
 *
 * There are words for a million places, 8 MB of address space, of which is memory what
 * was ever used.  That is how many tables can be in use at the same time; tables that
 * nobody uses have no place.
 *
 * Locking: all is protected by the registry's lock; rose_place.h says what is read
 * without.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "utils/dsa.h"
#include "utils/memutils.h"

#include "util/rose_pages.h"
#include "util/rose_stop_point.h"
#include "lsm/tree/rose_place.h"

#define CHUNK_PLACES	64		/* bits of RoseChunkShared.used */
#define MAX_CHUNKS		16384

#define CHUNK_BYTES		(CHUNK_PLACES * sizeof(RoseTreeShared))

typedef struct RoseChunkOfPlacesShared
{
	dsa_pointer memory;			/* invalid: never had any, or in main shared memory */
	bool		given_back;		/* it has addresses, but no memory */
	uint64		used;			/* a bit for each place */
	bool		was_empty;		/* and nothing was taken since rose_place_give_back saw that */
} RoseChunkOfPlacesShared;

typedef struct RosePlacesShared
{
	int			memory_tranche; /* constant */
	int			nbase;			/* constant: chunks in main shared memory */
	int			nchunks;		/* that have, or had, memory */
	int			first_free;		/* no chunk before this one has a free place */
	RoseChunkOfPlacesShared chunks[MAX_CHUNKS];
} RosePlacesShared;

static RosePlacesShared *places = NULL;
static pg_atomic_uint64 *lives = NULL;
static RoseTreeShared *base_entries = NULL;
static void *area_memory = NULL;

static dsa_area *area = NULL;	/* this process's view of it */
static void *mapped[MAX_CHUNKS];	/* where it has chunks; NULL: not met yet */

/* ---- start ---- */

static int
base_chunks(int base)
{
	return Max(1, (base + CHUNK_PLACES - 1) / CHUNK_PLACES);
}

static Size
lives_size(void)
{
	return mul_size((Size) MAX_CHUNKS * CHUNK_PLACES, sizeof(pg_atomic_uint64));
}

Size
rose_place_shmem_size(int base)
{
	Size		size = MAXALIGN(sizeof(RosePlacesShared));

	size = add_size(size, MAXALIGN(lives_size()));
	size = add_size(size, mul_size(base_chunks(base), MAXALIGN(CHUNK_BYTES)));
	return add_size(size, MAXALIGN(dsa_minimum_size()));
}

static void
init_lives(int chunk)
{
	for (int i = 0; i < CHUNK_PLACES; i++)
		pg_atomic_init_u64(&lives[chunk * CHUNK_PLACES + i], 0);
}

static void
init_area(void)
{
	dsa_area   *made = dsa_create_in_place(area_memory, dsa_minimum_size(),
										   places->memory_tranche, NULL);

	dsa_pin(made);				/* it stays when nobody is attached */
	dsa_detach(made);
}

void
rose_place_shmem_init(int base)
{
	int			nbase = base_chunks(base);
	bool		exists;

	places = ShmemInitStruct("rose table places", sizeof(RosePlacesShared), &exists);
	lives = ShmemInitStruct("rose table lives", lives_size(), &exists);
	base_entries = ShmemInitStruct("rose table entries", mul_size(nbase, CHUNK_BYTES), &exists);
	area_memory = ShmemInitStruct("rose table memory", dsa_minimum_size(), &exists);
	if (!exists)
	{
		memset(places, 0, sizeof(RosePlacesShared));
		places->memory_tranche = LWLockNewTrancheId();
		places->nbase = places->nchunks = nbase;
		for (int i = 0; i < nbase; i++)
			init_lives(i);
		init_area();
	}
	LWLockRegisterTranche(places->memory_tranche, "RoseRegistryMemory");
}

/* For the life of the process. */
static dsa_area *
get_area(void)
{
	if (area == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		area = dsa_attach_in_place(area_memory, NULL);
		dsa_pin_mapping(area);
		MemoryContextSwitchTo(old);
	}
	return area;
}

/* ---- places ---- */

static inline bool
has_addresses(int chunk)
{
	return chunk < places->nbase || DsaPointerIsValid(places->chunks[chunk].memory);
}

static inline bool
has_memory(int chunk)
{
	return has_addresses(chunk) && !places->chunks[chunk].given_back;
}

/* May have to map it, which may fail. */
static void *
chunk_memory(int chunk)
{
	if (mapped[chunk] == NULL)
	{
		ROSE_STOP_POINT("place-mapping");	/* under the registry's lock */
		mapped[chunk] = dsa_get_address(get_area(), places->chunks[chunk].memory);
	}
	return mapped[chunk];
}

/* One more chunk behind those that there are; false: no memory for it. */
static bool
add_chunk(void)
{
	dsa_pointer memory;

	if (places->nchunks == MAX_CHUNKS)
		return false;
	memory = dsa_allocate_extended(get_area(), CHUNK_BYTES, DSA_ALLOC_NO_OOM | DSA_ALLOC_ZERO);
	if (!DsaPointerIsValid(memory))
		return false;
	places->chunks[places->nchunks].memory = memory;
	init_lives(places->nchunks);
	places->nchunks++;
	return true;
}

/*
 * The area takes segments of growing size.  What has come beside the chunk that was asked
 * for becomes chunks, too, so that it is counted, and given back.  An error, of mapping
 * another segment, leaves the limit where it is.
 */
static void
add_rest_of_segment(void)
{
	dsa_set_size_limit(get_area(), 0);
	ROSE_STOP_POINT("place-adding");	/* under the registry's lock */
	while (add_chunk())
		;
	dsa_set_size_limit(get_area(), SIZE_MAX);
}

/* Processes of a server only: others have no dynamic shared memory. */
static bool
give_memory(int chunk)
{
	if (!IsUnderPostmaster)
		return false;
	if (has_addresses(chunk))
	{
		if (!rose_pages_take(chunk_memory(chunk), CHUNK_BYTES))
			return false;
		places->chunks[chunk].given_back = false;
		return true;
	}
	Assert(chunk == places->nchunks);
	dsa_set_size_limit(get_area(), SIZE_MAX);	/* an error may have left another one */
	if (!add_chunk())
		return false;
	add_rest_of_segment();
	return true;
}

int
rose_place_take(void)
{
	for (int i = places->first_free; i < MAX_CHUNKS; i++)
	{
		RoseChunkOfPlacesShared *chunk = &places->chunks[i];
		int			bit;

		if (chunk->used == PG_UINT64_MAX)
			continue;
		if (!has_memory(i) && !give_memory(i))
			return ROSE_NO_PLACE;
		if (i >= places->nbase)
			(void) chunk_memory(i); /* which may fail */
		bit = pg_rightmost_one_pos64(~chunk->used);
		chunk->used |= UINT64CONST(1) << bit;
		chunk->was_empty = false;
		places->first_free = i;
		return i * CHUNK_PLACES + bit;
	}
	return ROSE_NO_PLACE;
}

void
rose_place_release(int place)
{
	int			chunk = place / CHUNK_PLACES;

	places->chunks[chunk].used &= ~(UINT64CONST(1) << (place % CHUNK_PLACES));
	places->first_free = Min(places->first_free, chunk);
}

int
rose_place_end(void)
{
	return places->nchunks * CHUNK_PLACES;
}

RoseTreeShared *
rose_place_entry(int place)
{
	int			chunk = place / CHUNK_PLACES;

	if (chunk < places->nbase)
		return &base_entries[place];
	return (RoseTreeShared *) chunk_memory(chunk) + place % CHUNK_PLACES;
}

pg_atomic_uint64 *
rose_place_life(int place)
{
	return &lives[place];
}

void
rose_place_reach_all(void)
{
	for (int i = places->nbase; i < places->nchunks; i++)
		(void) chunk_memory(i);
}

void
rose_place_give_back(void)
{
	for (int i = places->nbase; i < places->nchunks; i++)
	{
		RoseChunkOfPlacesShared *chunk = &places->chunks[i];

		if (!has_memory(i))
			continue;
		if (chunk->was_empty)
			chunk->given_back = rose_pages_give_back(chunk_memory(i), CHUNK_BYTES);
		chunk->was_empty = !chunk->given_back && chunk->used == 0;
	}
}

Size
rose_place_bytes(void)
{
	Size		bytes = 0;

	for (int i = 0; i < places->nchunks; i++)
		bytes += has_memory(i) ? CHUNK_BYTES : 0;
	return bytes;
}
