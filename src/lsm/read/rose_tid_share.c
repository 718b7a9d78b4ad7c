/*-------------------------------------------------------------------------
 *
 * rose_tid_share.c
 *	  Names that transactions have in common because they share a snapshot.
 *
 * A transaction exports its snapshot, others import it, and each of them reads a part of
 * a table, the rows with ctids between two bounds.  So they must all give a version the
 * same name.  The exporter is the namer of all of them: the names depend on its virtual
 * transaction id, and on the base (rose_tid_base.c) that the first of them has taken,
 * whoever that is.
 *
 * That one writes it to a file beside the exported snapshot,
 * pg_snapshots/rose.NAMER.FILE.  The others read it, and let their own pins be as old as
 * its pin was.  The base must be protected even when none of them is there at the moment,
 * for as long as somebody can import the snapshot: an importer lends its pin to the
 * exporter (rose_pin.c).  When that has ended, nobody can join any more; those that have
 * the base keep it.
 *
 * A REPEATABLE READ transaction may still export its snapshot, so it publishes each base
 * it takes.  READ COMMITTED transactions hardly ever do that, and only publish what they
 * take after their first export; who imports a snapshot from one that has names of its
 * own gets an error.
 *
 * Files: made by link(), which fails if somebody else was first, and removed by the namer
 * at the end of its transaction.  Core removes all that is in that folder at the start of
 * the server.
 *
 * Locking: a slot's spinlock.  It is written by its backend only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "util/rose_stop_point.h"
#include "store/rose_pin.h"
#include "lsm/read/rose_tid_internal.h"

#define SNAPSHOT_FOLDER		"pg_snapshots"
#define BASE_MAGIC			0x524F5442	/* ROTB; it outlives no server */

/* A transaction, as long as the server runs. */
typedef struct TidNamer
{
	int			slot;			/* -1: none */
	LocalTransactionId lxid;
} TidNamer;

typedef struct TidSlotShared
{
	slock_t		mutex;
	LocalTransactionId lxid;	/* mutex: the rest is about this transaction of the slot */
	TidNamer	namer;			/* mutex: whose snapshot it has imported */
	bool		private_names;	/* mutex: it has a base that was not published */
} TidSlotShared;

typedef struct TidShareShared
{
	int			nslots;			/* constant */
	TidSlotShared slots[FLEXIBLE_ARRAY_MEMBER];
} TidShareShared;

/* The file. */
typedef struct BaseFile
{
	uint32		magic;
	pg_crc32c	crc;			/* of the base */
	RoseTidBase base;
} BaseFile;

static TidShareShared *share = NULL;
static TidNamer imported = {-1, 0}; /* of this transaction */
static bool published = false;	/* in this transaction, for itself */

Size
rose_tid_shmem_size(void)
{
	return add_size(offsetof(TidShareShared, slots),
					mul_size(MaxBackends, sizeof(TidSlotShared)));
}

void
rose_tid_shmem_init(bool found)
{
	bool		mine;

	share = ShmemInitStruct("rose shared names", rose_tid_shmem_size(), &mine);
	if (mine)
		return;
	memset(share, 0, rose_tid_shmem_size());
	share->nslots = MaxBackends;
	for (int i = 0; i < share->nslots; i++)
		SpinLockInit(&share->slots[i].mutex);
}

/* ---- namers ---- */

static TidNamer
own_namer(void)
{
	TidNamer	own = {rose_my_backend_slot(), rose_my_lxid()};

	return own;
}

static TidNamer
my_namer(void)
{
	return imported.slot >= 0 ? imported : own_namer();
}

static bool
is_alive(TidNamer namer)
{
	pg_memory_barrier();
	return rose_slot_lxid(namer.slot) == namer.lxid;
}

/* What another transaction says of itself; if it says nothing, it is its own namer. */
static void
ask_slot(TidNamer other, TidNamer *namer, bool *private_names)
{
	TidSlotShared *slot;

	*namer = other;
	*private_names = false;
	if (other.slot < 0 || other.slot >= share->nslots)
		return;
	slot = &share->slots[other.slot];
	SpinLockAcquire(&slot->mutex);
	if (slot->lxid == other.lxid)
	{
		if (slot->namer.slot >= 0)
			*namer = slot->namer;
		*private_names = slot->private_names;
	}
	SpinLockRelease(&slot->mutex);
}

static void
tell(bool private_names)
{
	TidNamer	own = own_namer();
	TidSlotShared *slot = &share->slots[own.slot];

	SpinLockAcquire(&slot->mutex);
	slot->lxid = own.lxid;
	slot->namer = imported;
	slot->private_names = private_names;
	SpinLockRelease(&slot->mutex);
}

/*
 * Core has just looked at the file of that name, which begins with the exporter's virtual
 * transaction id.  If that has imported the snapshot itself, they have the same namer.
 */
void
rose_tid_note_import(const char *name)
{
	unsigned int backend;
	unsigned int lxid;
	TidNamer	exporter;
	bool		private_names;

	if (sscanf(name, "%8X-%8X-", &backend, &lxid) != 2)
		return;
	exporter.slot = rose_slot_of_exporter(backend);
	exporter.lxid = lxid;
	ask_slot(exporter, &imported, &private_names);
	tell(false);
}

uint64
rose_tid_salt(void)
{
	TidNamer	namer = my_namer();

	/* there are no holes in it; and after a restart there are other numbers */
	return hash_bytes_extended((const unsigned char *) &namer, sizeof(namer),
							   (uint64) PgStartTime);
}

/* ---- files ---- */

static void
base_path(char *path, TidNamer namer, RelFileLocator locator)
{
	snprintf(path, MAXPGPATH, SNAPSHOT_FOLDER "/rose.%08X-%08X.%u.%u.%u",
			 (unsigned int) namer.slot, (unsigned int) namer.lxid, rose_locator_spc(locator),
			 rose_locator_db(locator), rose_locator_rel(locator));
}

static pg_crc32c
base_crc(const RoseTidBase *base)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, base, sizeof(*base));
	FIN_CRC32C(crc);
	return crc;
}

/* False: there is none. */
static bool
read_base(const char *path, RoseTidBase *base)
{
	int			fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	BaseFile   *file;
	ssize_t		nread;

	if (fd < 0)
	{
		if (errno == ENOENT)
			return false;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	}
	file = palloc(sizeof(BaseFile));
	nread = read(fd, file, sizeof(BaseFile));
	CloseTransientFile(fd);
	if (nread != sizeof(BaseFile) || file->magic != BASE_MAGIC ||
		file->crc != base_crc(&file->base))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\"", path)));
	*base = file->base;
	pfree(file);
	return true;
}

static void
write_file(const char *path, const BaseFile *file)
{
	int			fd = OpenTransientFile(path, O_CREAT | O_WRONLY | O_TRUNC | PG_BINARY);

	errno = 0;
	if (fd < 0 || write(fd, file, sizeof(BaseFile)) != sizeof(BaseFile))
	{
		if (errno == 0)
			errno = ENOSPC;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", path)));
	}
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
}

/* False: somebody else was first. */
static bool
write_base(const char *path, const RoseTidBase *base)
{
	BaseFile   *file = palloc0(sizeof(BaseFile));
	char		temporary[MAXPGPATH];
	bool		first;
	int			save_errno;

	file->magic = BASE_MAGIC;
	file->base = *base;
	file->crc = base_crc(&file->base);
	snprintf(temporary, sizeof(temporary), SNAPSHOT_FOLDER "/rose.tmp.%d", MyProcPid);
	write_file(temporary, file);
	pfree(file);
	first = link(temporary, path) == 0;
	save_errno = errno;
	(void) unlink(temporary);
	errno = save_errno;
	if (!first && errno != EEXIST)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not link file \"%s\" to \"%s\": %m", temporary, path)));
	return first;
}

/*
 * Remove what is there in our name; at the end of a transaction, so nothing is raised.
 * It has no virtual transaction id any more; what else is there of this slot is older.
 */
static void
remove_files(void)
{
	char		prefix[64];
	char		path[MAXPGPATH];
	DIR		   *dir = AllocateDir(SNAPSHOT_FOLDER);
	struct dirent *entry;

	snprintf(prefix, sizeof(prefix), "rose.%08X-", (unsigned int) rose_my_backend_slot());
	while ((entry = ReadDirExtended(dir, SNAPSHOT_FOLDER, LOG)) != NULL)
	{
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(path, sizeof(path), SNAPSHOT_FOLDER "/%s", entry->d_name);
		if (unlink(path) != 0)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", path)));
	}
	FreeDir(dir);
}

void
rose_tid_share_end(void)
{
	if (published || XactHasExportedSnapshots())
		remove_files();
	published = false;
	imported.slot = -1;
}

/* ---- agreeing ---- */

pg_noreturn static void
raise_too_late(RoseTree *tree, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot use ctids of rose table \"%s\" with this snapshot",
					RelationGetRelationName(tree->rel)),
			 errdetail_internal("%s", detail),
			 errhint("Export the snapshot from a REPEATABLE READ transaction, and keep that open until those that have imported it have looked at ctids of the table.")));
}

/*
 * Take part in the base: first our pin protects it, and then it turns out whether that
 * was in time.
 */
static void
join_base(RoseTree *tree, TidNamer namer, const RoseTidBase *base)
{
	rose_pin_backdate(tree->locator, base->generation, base->newest_owner);
	if (!is_alive(namer))
		raise_too_late(tree, _("The transaction that exported it has ended."));
}

/* We are the first, and not the namer. */
static void
publish_for(RoseTree *tree, TidNamer namer, const char *path, RoseTidBase *base)
{
	TidNamer	other;
	bool		private_names;

	ask_slot(namer, &other, &private_names);
	if (private_names)
		raise_too_late(tree, _("The transaction that exported it has used ctids before."));
	rose_pin_lend(namer.slot, namer.lxid, base->generation);
	if (!is_alive(namer))
		raise_too_late(tree, _("The transaction that exported it has ended."));
	ROSE_STOP_POINT("tid-publish");
	if (!write_base(path, base))
	{
		if (!read_base(path, base))
			raise_too_late(tree, _("The transaction that exported it has ended."));
		join_base(tree, namer, base);
	}
	else if (!is_alive(namer))
	{
		(void) unlink(path);
		raise_too_late(tree, _("The transaction that exported it has ended."));
	}
}

bool
rose_tid_share_base(RoseTree *tree, RoseTidBase *base)
{
	TidNamer	namer = my_namer();
	char		path[MAXPGPATH];

	if (tree->local)
		return false;			/* nobody else can read it */
	if (imported.slot < 0 && !IsolationUsesXactSnapshot() && !XactHasExportedSnapshots())
	{
		tell(true);
		return false;
	}
	base_path(path, namer, tree->locator);
	if (read_base(path, base))
		join_base(tree, namer, base);
	else if (imported.slot >= 0)
		publish_for(tree, namer, path, base);
	else
	{
		published = true;
		if (!write_base(path, base) && read_base(path, base))
			join_base(tree, namer, base);
	}
	return true;
}
