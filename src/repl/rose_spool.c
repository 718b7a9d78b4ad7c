/*-------------------------------------------------------------------------
 *
 * rose_spool.c
 *	  Bytes that are kept for later: in memory if they are few, else in a temporary file.  See
 *	  rose_spool.h.
 *
 * A file costs more than what a small transaction does, so it is made when ROSE_SPOOL_MEMORY bytes are
 * not enough; from then on it has everything.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/buffile.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "repl/rose_spool.h"

#define ROSE_SPOOL_FIRST	1024
#define ROSE_SPOOL_MEMORY	(64 * 1024)

struct RoseSpool
{
	MemoryContext context;
	BufFile    *file;			/* NULL: not yet */
	char	   *data;			/* up to then */
	size_t		size;			/* of data */
	size_t		used;
	size_t		at;
};

RoseSpool *
rose_spool_create(void)
{
	RoseSpool  *spool = palloc0(sizeof(RoseSpool));

	spool->context = CurrentMemoryContext;
	return spool;
}

void
rose_spool_close(RoseSpool *spool)
{
	if (spool->file != NULL)
		BufFileClose(spool->file);
	if (spool->data != NULL)
		pfree(spool->data);
	pfree(spool);
}

bool
rose_spool_seek(RoseSpool *spool, int64 at)
{
	if (spool->file != NULL)
		return BufFileSeek(spool->file, 0, (off_t) at, SEEK_SET) == 0;
	if (at < 0 || at > spool->used)
		return false;
	spool->at = at;
	return true;
}

/* Those before the place where one is. */
static void
move_to_file(RoseSpool *spool)
{
	MemoryContext old = MemoryContextSwitchTo(spool->context);
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = NULL;
	spool->file = BufFileCreateTemp(true);
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(old);
	if (spool->at > 0)
		BufFileWrite(spool->file, spool->data, spool->at);
	if (spool->data != NULL)
		pfree(spool->data);
	spool->data = NULL;
}

static void
make_room(RoseSpool *spool, size_t len)
{
	size_t		size = Max(spool->size, ROSE_SPOOL_FIRST);

	while (size < spool->at + len)
		size *= 2;
	if (size == spool->size)
		return;
	spool->data = spool->data == NULL ? MemoryContextAlloc(spool->context, size) : repalloc(spool->data, size);
	spool->size = size;
}

void
rose_spool_write(RoseSpool *spool, const void *data, size_t len)
{
	if (spool->file == NULL && len > ROSE_SPOOL_MEMORY - spool->at)
		move_to_file(spool);
	if (spool->file != NULL)
	{
		BufFileWrite(spool->file, unconstify(void *, data), len);
		return;
	}
	make_room(spool, len);
	memcpy(spool->data + spool->at, data, len);
	spool->at += len;
	spool->used = spool->at;
}

bool
rose_spool_read(RoseSpool *spool, void *data, size_t len)
{
	if (spool->file != NULL)
		return BufFileRead(spool->file, data, len) == len;
	if (len > spool->used - spool->at)
		return false;
	memcpy(data, spool->data + spool->at, len);
	spool->at += len;
	return true;
}
