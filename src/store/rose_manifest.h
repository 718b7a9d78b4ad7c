/*-------------------------------------------------------------------------
 *
 * rose_manifest.h
 *	  The manifest: a table's components, newest first, and changes of that list.
 *
 * It is on the metapage, and protected by that page's buffer lock; readers have copies.
 * It changes as a whole, in one generic WAL record, by an edit that says what comes and
 * what goes.  What components mean to readers and merges is told in lsm.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MANIFEST_H
#define ROSE_MANIFEST_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

#include "store/rose_store.h"

/* Of a manifest entry, which is one component. Embedded on disk. */
typedef enum RoseComponentState
{
	ROSE_COMPONENT_LIVE = 1,

	/*
	 * A subscription's run whose epoch has no committed position yet: readers
	 * use the frozen memtable instead; after a crash promoted or discarded.
	 */
	ROSE_COMPONENT_PENDING = 2
} RoseComponentState;

/* Private: rows of transactions that may be in progress or aborted. */
#define ROSE_COMPONENT_PRIVATE		0x0001
/* PENDING but readable now, because no memtable holds its rows */
#define ROSE_COMPONENT_READ_PENDING 0x0002
/* no two versions of one key in it */
#define ROSE_COMPONENT_UNIQUE_KEYS	0x0004
/* no tombstone and no PARTIAL in it */
#define ROSE_COMPONENT_ONLY_PUTS	0x0008
/* private: rows of several transactions, which its footer lists; owner_xid is the oldest one */
#define ROSE_COMPONENT_OWNERS		0x0020
/* no row lock in it */
#define ROSE_COMPONENT_NO_LOCKS		0x0040
/* the id behind its own is an owner, too: of the regions that only trimmed versions had */
#define ROSE_COMPONENT_SHRINKS		0x0080

typedef struct RoseComponentEntryDisk
{
	uint32		id;				/* 0: owner id of its regions, never reused */
	uint8		level;			/* 4: 0 run, 1 C1, 2 C2 */
	uint8		state;			/* 5: RoseComponentState */
	uint16		flags;			/* 6: ROSE_COMPONENT_* */
	uint32		footer_block;	/* 8: everything else is found from there */
	Oid			subid;			/* 12: subscription of a PENDING entry, else 0 */
	uint64		epoch;			/* 16: its epoch, else 0 */
	uint64		owner_xid;		/* 24: full xid of a private run, else 0 */
	uint64		nrows;			/* 32: versions */
	uint64		min_seq;		/* 40 */
	uint64		max_seq;		/* 48 */
	uint64		nblocks;		/* 56: blocks in use, for the picker and views */
	uint64		ntombstones;	/* 64 */
	uint64		raw_bytes;		/* 72: uncompressed row bytes */
	uint64		max_xid;		/* 80: no greater full xid is in it, nor (but for
								 * components of version 1) was it the token of
								 * an older version that was left out */
	uint64		first_ordinal;	/* 88: versions before this one have moved to
								 * components of level 2; 0 = none */
} RoseComponentEntryDisk;

StaticAssertDecl(sizeof(RoseComponentEntryDisk) == 96, "on-disk size");

/* Of a quantity that is spread evenly over the versions, what has not moved. */
static inline uint64
rose_component_rest(const RoseComponentEntryDisk *entry, uint64 whole)
{
	if (entry->first_ordinal == 0)
		return whole;
	return (uint64) ((double) whole * (entry->nrows - entry->first_ordinal) / entry->nrows);
}

/* Who has the regions that a component which SHRINKS has given up. */
static inline uint32
rose_component_shed_owner(uint32 id)
{
	return id + 1;
}

/* Backend copy of the manifest, newest component first. */
typedef struct RoseManifest
{
	uint64		version;		/* counts switches of this file */
	uint32		newest_owner;	/* no component has a greater id yet */
	int			ncomponents;
	RoseComponentEntryDisk components[ROSE_MAX_COMPONENTS];
} RoseManifest;

extern void rose_manifest_read(Relation rel, RoseManifest *manifest);

/*
 * One atomic change of the manifest.
 *
 * Added entries, whose owners must be listed as being built, keep their order.
 * They go behind the component that add_behind names.  If it names none, they
 * go where the removed and trimmed ones stand (the place of the oldest of them); if
 * there is none, by level: in front of the newest component of the same or a higher
 * one, that is in front of all for a run.  Removed components are retired:
 * their regions become reusable when no pin is left.
 *
 * An update leaves first_ordinal as it is; that is changed by a trim, which
 * says that the component's versions before first_ordinal are found elsewhere
 * from now on.  A component that SHRINKS retires the owner of what it sheds with each
 * trim; its regions go to that one later (rose_shed.h).
 *
 * A failed check (an id to remove is not there, too many components) raises an error
 * and changes nothing.  Clear the struct before filling it.
 */
#define ROSE_ADD_BY_LEVEL	PG_UINT32_MAX	/* add_behind: by level, whatever is removed */
#define ROSE_ADD_AT_NEWEST	(PG_UINT32_MAX - 1) /* where the newest of those removed stands */

typedef struct RoseManifestTrim
{
	uint32		id;
	uint64		first_ordinal;	/* not less than before, less than nrows */
} RoseManifestTrim;

typedef struct RoseManifestEdit
{
	int			nremove;
	uint32		remove[ROSE_MAX_COMPONENTS];
	int			nadd;
	RoseComponentEntryDisk add[ROSE_MAX_COMPONENTS];
	uint32		add_behind;		/* id, ROSE_ADD_BY_LEVEL, ROSE_ADD_AT_NEWEST, or 0 */
	uint64		settled;		/* what is added is settled since; 0 = not yet */
	int			ntrim;
	RoseManifestTrim trim[ROSE_MAX_COMPONENTS];
	int			nupdate;		/* entries replaced in place, by id */
	RoseComponentEntryDisk update[ROSE_MAX_COMPONENTS];
	int			ndrop_tails;	/* segments that leave the tail list, by id ... */
	uint32		drop_tails[ROSE_MAX_TAILS];
	uint32		drop_tails_upto;	/* ... and all up to this id; 0 = none */
	uint64		next_seq;		/* raise the floor to this; 0 = leave */
} RoseManifestEdit;

/*
 * Fill in an edit.  Entries are copied; what is returned is the copy, to be changed
 * further.  Those that are added stand in the order in which they come.
 */
extern void rose_edit_remove(RoseManifestEdit *edit, uint32 id);
extern RoseComponentEntryDisk *rose_edit_add(RoseManifestEdit *edit, const RoseComponentEntryDisk *entry);
extern void rose_edit_trim(RoseManifestEdit *edit, uint32 id, uint64 first_ordinal);
extern RoseComponentEntryDisk *rose_edit_update(RoseManifestEdit *edit, const RoseComponentEntryDisk *entry);

/* The epoch of this pending component is committed. */
extern void rose_edit_make_live(RoseManifestEdit *edit, const RoseComponentEntryDisk *pending);

/* Does it change components? */
extern bool rose_edit_has_components(const RoseManifestEdit *edit);

extern void rose_manifest_apply(Relation rel, RoseStoreShared *store,
								const RoseManifestEdit *edit);

#endif							/* ROSE_MANIFEST_H */
