/*-------------------------------------------------------------------------
 *
 * server_unit_spool.c
 *	  Spools (repl/rose_spool.h), held against plain arrays of bytes.
 *
 *	test_spool(seed, nspools, nsteps)
 *		Spools that live at once are written, read and cut at random places, around the size
 *		at which they get files; subtransactions begin and end in between.  Returns how many of them
 *		had more than fits into memory; raises an error with what is wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "repl/rose_spool.h"

#define MOST	(200 * 1024)
#define LARGE	(64 * 1024)

PG_FUNCTION_INFO_V1(test_spool);

typedef struct Twin
{
	RoseSpool  *spool;
	char	   *bytes;
	int			size;
	int			at;
	bool		was_large;
} Twin;

static pg_prng_state prng;

static int
pick(int most)
{
	return (int) pg_prng_uint64_range(&prng, 0, most);
}

/* Mostly some bytes, as messages are; at times as many as make a file at once. */
static int
pick_length(int most)
{
	int			len = pick(9) == 0 ? pick(70000) : pick(9) < 5 ? pick(20) : pick(4000);

	return Min(len, most);
}

static void
check(bool ok, const char *what, int no)
{
	if (!ok)
		elog(ERROR, "spool %d: %s", no, what);
}

static void
write_some(Twin *twin)
{
	int			len = pick_length(MOST - twin->at);

	for (int i = 0; i < len; i++)
		twin->bytes[twin->at + i] = (char) pick(255);
	rose_spool_write(twin->spool, twin->bytes + twin->at, len);
	twin->at += len;
	twin->size = twin->at;
	twin->was_large |= twin->size > LARGE;
}

static void
read_some(Twin *twin, int no)
{
	int			len = pick_length(twin->size - twin->at);
	char	   *data = palloc(len + 1);

	check(rose_spool_read(twin->spool, data, len), "too short", no);
	check(memcmp(data, twin->bytes + twin->at, len) == 0, "other bytes", no);
	twin->at += len;
	/* of a file nobody asks for more: what counts of it is known */
	if (twin->at == twin->size && !twin->was_large)
		check(!rose_spool_read(twin->spool, data, 1), "more than was written", no);
	pfree(data);
}

static void
seek_somewhere(Twin *twin, int no)
{
	twin->at = pick(3) == 0 ? twin->size : pick(3) == 0 ? 0 : pick(twin->size);
	check(rose_spool_seek(twin->spool, twin->at), "cannot seek", no);
	if (!twin->was_large)
	{
		check(!rose_spool_seek(twin->spool, (int64) twin->size + 1), "behind its end", no);
		check(!rose_spool_seek(twin->spool, -1), "before its beginning", no);
	}
}

static void
open_twin(Twin *twin)
{
	twin->spool = rose_spool_create();
	twin->bytes = palloc(MOST);
	twin->size = twin->at = 0;
	twin->was_large = false;
}

static void
step(Twin *twin, int no)
{
	int			what = pick(99);

	if (what < 40)
		write_some(twin);
	else if (what < 70)
		read_some(twin, no);
	else if (what < 97)
		seek_somewhere(twin, no);
	else
	{
		rose_spool_close(twin->spool);
		pfree(twin->bytes);
		open_twin(twin);
	}
}

Datum
test_spool(PG_FUNCTION_ARGS)
{
	int			nspools = PG_GETARG_INT32(1);
	int			nsteps = PG_GETARG_INT32(2);
	Twin	   *twins = palloc(nspools * sizeof(Twin));
	int			nlarge = 0;

	pg_prng_seed(&prng, (uint64) PG_GETARG_INT32(0));
	for (int i = 0; i < nspools; i++)
		open_twin(&twins[i]);
	for (int i = 0; i < nsteps; i++)
	{
		int			no = pick(nspools - 1);
		bool		was_large = twins[no].was_large;
		MemoryContext context = CurrentMemoryContext;
		ResourceOwner owner = CurrentResourceOwner;

		CHECK_FOR_INTERRUPTS();
		BeginInternalSubTransaction(NULL);
		MemoryContextSwitchTo(context);
		step(&twins[no], no);
		/* it may end as it likes */
		if (pick(1) == 0)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		nlarge += !was_large && twins[no].was_large;
	}
	for (int i = 0; i < nspools; i++)
		rose_spool_close(twins[i].spool);
	PG_RETURN_INT32(nlarge);
}
