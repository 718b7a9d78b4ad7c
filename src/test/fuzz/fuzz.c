/*-------------------------------------------------------------------------
 *
 * fuzz.c
 *	  What the fuzz targets share: memory, random numbers, errors.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

static MemoryContext context = NULL;
static uint64 state;

uint64
unit_random(void)
{
	state = state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return state ^ (state >> 29);
}

uint64
unit_random_below(uint64 limit)
{
	return limit == 0 ? 0 : unit_random() % limit;
}

void
fuzz_begin(const uint8 *data, Size size)
{
	state = size;
	for (Size i = 0; i < Min(size, 64); i++)
		state = state * 31 + data[i];
	context = AllocSetContextCreate(TopMemoryContext, "fuzz", ALLOCSET_SMALL_SIZES);
	CurrentMemoryContext = context;
}

MemoryContext
fuzz_context(void)
{
	return context;
}

void
fuzz_end(void)
{
	CurrentMemoryContext = TopMemoryContext;
	MemoryContextDelete(context);
	context = NULL;
}

void
fuzz_check_error(void)
{
	if (unit_error_code == ERRCODE_DATA_CORRUPTED ||
		unit_error_code == ERRCODE_FEATURE_NOT_SUPPORTED)
		return;
	fprintf(stderr, "unexpected error: %s\n", unit_error_message());
	abort();
}

/* Never called; not in fuzz_stubs.c, because its declaration differs between releases. */
void		appendBinaryStringInfo(void *str, const void *data, int datalen);

void
appendBinaryStringInfo(void *str, const void *data, int datalen)
{
	abort();
}
