/*-------------------------------------------------------------------------
 *
 * rose_metapage.h
 *	  The metapage: key, layout, subscription and numbers of a table's file.
 *
 * Protected by its buffer lock.  The manifest and the list of tail segments are on the
 * same page; they are changed by rose_manifest.h and rose_tail.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_METAPAGE_H
#define ROSE_METAPAGE_H

#include "postgres.h"

#include "storage/smgr.h"
#include "utils/rel.h"

#include "util/rose_index_def.h"
#include "util/rose_key_facts.h"
#include "util/rose_schema.h"
#include "store/rose_store.h"

typedef struct RoseTailSegmentDisk
{
	uint32		id;				/* 0: owner id */
	uint32		first_block;	/* 4 */
} RoseTailSegmentDisk;

/* The rest of the metapage that callers may know. */
typedef struct RoseMetaInfo
{
	uint64		system_identifier;	/* cluster whose OIDs keys has */
	int			nkeys;
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	RoseKeyFacts facts;
	int			layout_natts;	/* columns when the file was made; 0 = not known */
	uint64		layout_physical;	/* and their fingerprint */
	bool		of_index;		/* it is the file of an index: index tells what its entries are */
	RoseIndexMetaDisk index;
	Oid			fed_by;			/* subscription that feeds it by epochs, or 0 */
	Oid			logged_by;		/* ... or through the tail log */
	uint64		copied_by;		/* transaction that has put a new copy of all rows into it, with its epoch; or 0 */
	uint64		next_seq;		/* floor for the sequence after a restart */
	int			ntails;
	RoseTailSegmentDisk tails[ROSE_MAX_TAILS];
} RoseMetaInfo;

/*
 * Make the metapage of a new, empty fork; of an index, and btree's before it, poisoned.
 * Unlogged tables need it in their main and in their init fork (create that with
 * smgrcreate and log_smgrcreate first).  WAL-logged and synced as the persistence asks.
 * Also for a file that was truncated to nothing; its registry entry must have been
 * dropped.
 */
extern void rose_meta_create(SMgrRelation smgr, ForkNumber fork, char persistence,
							 const RoseMetaInfo *info);
extern void rose_meta_read(Relation rel, RoseMetaInfo *info);

/* Only on a file without components and tail segments; both forks if unlogged. */
extern void rose_meta_set_key(Relation rel, int nkeys, const RoseKeyColumnDisk *keys,
							  const RoseKeyFacts *facts);

/* The file is one of this cluster, and of this release, from now on: what info says of key and layout. */
extern void rose_meta_adopt(Relation rel, const RoseMetaInfo *info);

/* Entries of an index that a subscription feeds are believed only if their row agrees, from then on. */
extern void rose_meta_set_fed_by(Relation rel, Oid fed_by, Oid logged_by);

/* Who does not see this transaction sees nothing in the file, though there were rows (lsm/tree/rose_copied.h). */
extern void rose_meta_set_copied_by(Relation rel, uint64 copied_by);

/* What the main fork says of key, columns and entries, to an init fork that is there already. */
extern void rose_meta_update_init_fork(Relation rel);

/* Is the file of this index one of ours? */
extern bool rose_meta_is_of_index(Relation index);

/* The same of a file that has its block, with the flags (ROSE_INDEX_*) of one of ours. */
extern bool rose_meta_index_flags(Relation index, uint16 *flags);

/* Take this flag (ROSE_INDEX_*) back.  An init fork never has those of a build. */
extern void rose_meta_clear_index_flag(Relation index, uint16 flag);

/*
 * Whoever searches an index by btree's own means, past our routine, must meet an error:
 * an empty btree would find nothing.  Block 0 is made so by rose_meta_create; core's
 * build writes it anew.
 */
extern void rose_meta_poison(Relation index);

#endif							/* ROSE_METAPAGE_H */
