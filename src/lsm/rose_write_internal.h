/*-------------------------------------------------------------------------
 *
 * rose_write_internal.h
 *	  What the files of the write path share; not for other folders.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_INTERNAL_H
#define ROSE_WRITE_INTERNAL_H

#include "lsm/rose_key_reader.h"
#include "lsm/rose_visibility.h"
#include "lsm/rose_write.h"

/* A version to be written; seq and the xids are filled by rose_write_versions. */
typedef struct RoseNewVersion
{
	RoseVersion version;
	Datum		key[INDEX_MAX_KEYS];
	MinimalTuple row;
} RoseNewVersion;

/* ---- rose_write.c ---- */

/* One of the key-partition locks; partitions are locked in ascending order. */
extern int	rose_write_partition(RoseTable *table, const Datum *key);
extern void rose_write_lock_partition(int partition);
extern void rose_write_unlock_partition(int partition);

/* Readers of the current transaction, made once. */
extern RoseKeyReader *rose_write_reader(RoseTable *table);
extern RoseLookup *rose_write_lookup(RoseTable *table);

/* Header of a new version of the current (sub)transaction. */
extern void rose_write_stamp(RoseVersion *version, RoseOp op, CommandId cid);

/*
 * Link versions into C0 and log them.  False, and nothing written, if C0 has no room: let go of
 * all locks, call rose_write_make_room and start over.  log: to the tail.
 */
extern bool rose_write_versions(RoseTable *table, RoseNewVersion *versions, int n,
								bool log);
extern void rose_write_make_room(RoseTable *table);
extern bool rose_write_needs_log(RoseTable *table);

/* A row ready to be stored: external and compressed values detoasted, size
 * checked; allocated in the current context. */
extern MinimalTuple rose_write_form_row(RoseTable *table, const Datum *values,
										const bool *nulls, Datum *key);
/* A row with the key columns only, for tombstones and locks. */
extern MinimalTuple rose_write_form_key_row(RoseTable *table, const Datum *key);

typedef enum RoseKeyState
{
	ROSE_KEY_FREE,				/* no row has the key */
	ROSE_KEY_LIVE,				/* a committed or own row has it */
	ROSE_KEY_BUSY				/* depends on a transaction in progress */
} RoseKeyState;

/* REQUIRES the key's partition lock. */
extern RoseKeyState rose_write_key_state(RoseTable *table, const Datum *key,
										 TransactionId *xwait);

/* ---- rose_conflict.c ---- */

/* What stands between a version that was read and changing or locking it. */
typedef struct RoseConflict
{
	TM_Result	result;
	TransactionId xwait;		/* TM_BeingModified: whom to wait for */
	TransactionId xmax;			/* who superseded it first */
	CommandId	cmax;			/* own supersession only */
	uint64		moved_to;		/* TM_Deleted: sequence of the row under its new key */
	bool		locked;			/* own lock of at least this mode is there */
	RoseVersion newest;			/* TM_Updated: header of the newest version ... */
	bool		newest_in_component;	/* ... and where it is */
	RoseComponentEntryDisk newest_entry;
	uint64		newest_ordinal;
} RoseConflict;

/* REQUIRES the key's partition lock. */
extern void rose_conflict_check(RoseTable *table, const Datum *key, uint64 seq,
								LockTupleMode mode, CommandId cid,
								RoseConflict *conflict);
/* What callers of the table access method are told. */
extern TM_Result rose_conflict_result(const RoseConflict *conflict);
extern void rose_conflict_report(RoseTable *table, const RoseConflict *conflict,
								 const ItemPointerData *tid, TM_FailureData *tmfd);

#endif							/* ROSE_WRITE_INTERNAL_H */
