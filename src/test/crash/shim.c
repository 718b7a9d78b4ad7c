/*-------------------------------------------------------------------------
 *
 * shim.c
 *	  A library to preload into a test server, whose calls of the operating
 *	  system's file functions fail, or whose processes die in them, when told to.
 *
 * Concerns the files of tables and indexes alone (base/, tablespaces); WAL,
 * catalogs of the cluster and temporary files are left alone.  What is to happen is in a
 * small file that all processes map (SHIM_CONTROL names it; Fault below is
 * its layout, CrashFault.pm writes it), so that a test can change it at any time.
 *
 * Locking: none.  The countdown is atomic, the rest is set by one writer that sets
 * "fault" last.
 *
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* What happens; CrashFault.pm has the same numbers. */
enum
{
	FAULT_NONE,
	FAULT_FULL,					/* writes and extensions: ENOSPC, until told otherwise */
	FAULT_WRITE,				/* one write: EIO */
	FAULT_READ,					/* one read: EIO */
	FAULT_SYNC,					/* one fsync: EIO */
	FAULT_KILL,					/* after one write: SIGKILL */
	FAULT_TORN					/* half of one write over another content, then SIGKILL */
};

#define BLOCK 8192				/* PostgreSQL's */

typedef struct Fault
{
	int32_t		fault;			/* 0 */
	int32_t		unused;			/* 4 */
	int64_t		countdown;		/* 8: calls to let pass first */
	int64_t		hits;			/* 16: calls that failed */
} Fault;

static volatile Fault *control = NULL;

__attribute__((constructor))
static void
attach(void)
{
	const char *name = getenv("SHIM_CONTROL");
	int			fd = name ? open(name, O_RDWR) : -1;
	void	   *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(Fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		control = map;
	close(fd);
}

/* Is it a file with blocks of a relation? */
static int
is_relation(int fd)
{
	char		link[64];
	char		path[PATH_MAX];
	ssize_t		n;
	const char *name;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return 0;
	path[n] = '\0';
	if (strstr(path, "pgsql_tmp") != NULL)
		return 0;
	if (strstr(path, "/base/") == NULL && strstr(path, "/PG_") == NULL)
		return 0;
	name = strrchr(path, '/') + 1;
	return name[0] >= '0' && name[0] <= '9';
}

/* Does the fault happen to this call? */
static int
strikes(int fault, int fd)
{
	if (control == NULL || control->fault != fault || !is_relation(fd))
		return 0;
	if (__atomic_sub_fetch(&control->countdown, 1, __ATOMIC_SEQ_CST) >= 0)
		return 0;
	__atomic_add_fetch(&control->hits, 1, __ATOMIC_SEQ_CST);
	if (fault != FAULT_FULL)
		control->fault = FAULT_NONE;
	return 1;
}

static void
die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

#define REAL(name) \
	static __typeof__(name) *real = NULL; \
	if (real == NULL) \
		real = (__typeof__(name) *) dlsym(RTLD_NEXT, #name)

/*
 * Would it be a loss to keep half of what is there?  A page that is new, or the same in
 * one of its halves, is torn without anybody noticing: then nothing would be tested.
 */
static int
tears(int fd, const char *data, size_t bytes, off_t offset)
{
	char		old[BLOCK];
	static const char nothing[BLOCK];

	REAL(pread);
	if (control == NULL || control->fault != FAULT_TORN || bytes != BLOCK || !is_relation(fd) ||
		real(fd, old, BLOCK, offset) != BLOCK || memcmp(old, nothing, BLOCK) == 0)
		return 0;
	return memcmp(old, data, BLOCK / 2) != 0 &&
		memcmp(old + BLOCK / 2, data + BLOCK / 2, BLOCK / 2) != 0;
}

/* Before a write: -1 with errno if it fails; or plans to die after it. */
static int
before_write(int fd, int *dies)
{
	*dies = 0;
	if (strikes(FAULT_FULL, fd))
	{
		errno = ENOSPC;
		return -1;
	}
	if (strikes(FAULT_WRITE, fd))
	{
		errno = EIO;
		return -1;
	}
	if (strikes(FAULT_KILL, fd))
		*dies = 1;
	return 0;
}

ssize_t
pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	int			dies;
	ssize_t		n;

	REAL(pwrite);
	if (before_write(fd, &dies) < 0)
		return -1;
	if (tears(fd, data, bytes, offset) && strikes(FAULT_TORN, fd))
	{
		/* the one half or the other: a disk need not write in order */
		size_t		from = offset / BLOCK % 2 * (BLOCK / 2);

		(void) real(fd, (const char *) data + from, BLOCK / 2, offset + from);
		die();
	}
	n = real(fd, data, bytes, offset);
	if (dies)
		die();
	return n;
}

ssize_t
pwritev(int fd, const struct iovec *parts, int nparts, off_t offset)
{
	int			dies;
	ssize_t		n;

	REAL(pwritev);
	if (before_write(fd, &dies) < 0)
		return -1;
	n = real(fd, parts, nparts, offset);
	if (dies)
		die();
	return n;
}

int
posix_fallocate(int fd, off_t offset, off_t bytes)
{
	REAL(posix_fallocate);
	if (strikes(FAULT_FULL, fd))
		return ENOSPC;
	return real(fd, offset, bytes);
}

ssize_t
pread(int fd, void *data, size_t bytes, off_t offset)
{
	REAL(pread);
	if (strikes(FAULT_READ, fd))
	{
		errno = EIO;
		return -1;
	}
	return real(fd, data, bytes, offset);
}

int
fsync(int fd)
{
	REAL(fsync);
	if (strikes(FAULT_SYNC, fd))
	{
		errno = EIO;
		return -1;
	}
	return real(fd);
}

int
fdatasync(int fd)
{
	REAL(fdatasync);
	if (strikes(FAULT_SYNC, fd))
	{
		errno = EIO;
		return -1;
	}
	return real(fd);
}
