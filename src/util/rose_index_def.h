/*-------------------------------------------------------------------------
 *
 * rose_index_def.h
 *	  What the file of a secondary index says of its entries and their key.
 *
 * An entry stands for one row of the table and is one row of the index's tree.  Its
 * columns, in this order:
 *
 *	KEY		the indexed columns and expressions, in the order of CREATE INDEX
 *	BASEKEY	columns of the table's primary key that are no KEY of the same order; or
 *			the row id (int8) of a table without one
 *	INCLUDE	other columns that the index carries and that are not there already
 *	RANK	one for each KEY that may be NULL: int2, see rose_key_rank
 *
 * The key of the tree is made of these columns in another order: each KEY, its RANK right
 * before it, and then BASEKEY.  So the keys of the tree are unique.  It is kept where a
 * file keeps its key; RoseIndexMetaDisk tells the columns.
 *
 * The first KEY is always stored ascending.  If the index has it descending, everything
 * is stored the other way round (ROSE_INDEX_TURNED), and scans are turned.  Any other
 * column whose direction then differs is stored descending.
 *
 * An index is VALIDATED if its expressions or its predicate may give another result
 * one day for the same row: then an entry may be there of what the row never was.  Which ones
 * may is decided here, when the file is made.  So is one that a subscription writes to, or did:
 * nobody takes out what rows leave behind there.
 *
 * Not here: making entries from rows, and which indexes are possible at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_DEF_H
#define ROSE_INDEX_DEF_H

#include "postgres.h"

#include "utils/rel.h"

#include "util/rose_key_facts.h"
#include "util/rose_schema.h"

#define ROSE_INDEX_MAGIC	0x58534F52	/* "ROSX" */
/* 1: pages without special space */
#define ROSE_INDEX_VERSION	2

/* Most columns of an entry; on disk.  There is room for no more on the metapage. */
#define ROSE_ENTRY_COLUMNS	48

/* Of RoseIndexMetaDisk; on disk. */
#define ROSE_INDEX_TURNED		0x0001	/* stored the other way round than the index says */
#define ROSE_INDEX_VALIDATED	0x0002	/* entries are believed only if their row agrees */
#define ROSE_INDEX_INCOMPLETE	0x0004	/* built beside writers, or it was to be: without the entries of
																			 * rows that were there before */
#define ROSE_INDEX_UNKEPT		0x0008	/* writers do not keep it up yet */
#define ROSE_INDEX_FLAGS		0x000F

/* Of RoseEntryColumnDisk.role; on disk. */
#define ROSE_ENTRY_KEY			1
#define ROSE_ENTRY_BASEKEY		2
#define ROSE_ENTRY_INCLUDE		3
#define ROSE_ENTRY_RANK			4

/* Of RoseEntryColumnDisk.flags; on disk. */
#define ROSE_ENTRY_NULLS_FIRST	0x01	/* of a RANK: how it is made of its column */
#define ROSE_ENTRY_FLAGS		0x01

/* RoseEntryColumnDisk.source of the row id of a table without primary key */
#define ROSE_ENTRY_ROWID		0

/* Which one, from 0, a source that is less than that names. */
static inline int
rose_index_def_expression(int16 source)
{
	return -source - 1;
}

typedef struct RoseEntryColumnDisk
{
	Oid			type;			/* 0 */
	int32		typmod;			/* 4 */
	int16		source;			/* 8: the table's column, -n: the index's n-th expression; of a RANK that
								 * of its KEY */
	uint8		role;			/* 10: ROSE_ENTRY_KEY ... */
	uint8		flags;			/* 11: ROSE_ENTRY_* */
} RoseEntryColumnDisk;

StaticAssertDecl(sizeof(RoseEntryColumnDisk) == 12, "on-disk size");
StaticAssertDecl(offsetof(RoseEntryColumnDisk, source) == 8, "on-disk offset");

typedef struct RoseIndexMetaDisk
{
	uint32		magic;			/* 0: ROSE_INDEX_MAGIC; 0 = the file of a table */
	uint16		version;		/* 4: ROSE_INDEX_VERSION */
	uint16		flags;			/* 6: ROSE_INDEX_* */
	uint8		ncolumns;		/* 8: of an entry */
	uint8		nkeys;			/* 9: of them KEY */
	uint8		ninclude;		/* 10: of them INCLUDE */
	uint8		nhash;			/* 11: so many first columns of the tree's key are hashed: all KEYs and
								 * RANKs */
	uint32		base_key_crc;	/* 12: rose_index_def_base_crc of the table that it was built for */
	uint64		reserved[4];	/* 16: zero */
	RoseEntryColumnDisk columns[ROSE_ENTRY_COLUMNS];	/* 48; behind ncolumns: zero */
} RoseIndexMetaDisk;

StaticAssertDecl(offsetof(RoseIndexMetaDisk, version) == 4, "on-disk offset");
StaticAssertDecl(offsetof(RoseIndexMetaDisk, ncolumns) == 8, "on-disk offset");
StaticAssertDecl(offsetof(RoseIndexMetaDisk, base_key_crc) == 12, "on-disk offset");
StaticAssertDecl(offsetof(RoseIndexMetaDisk, reserved) == 16, "on-disk offset");
StaticAssertDecl(offsetof(RoseIndexMetaDisk, columns) == 48, "on-disk offset");
StaticAssertDecl(sizeof(RoseIndexMetaDisk) == 624, "on-disk size");

/* All that a file says: its entries' columns, and the key of its tree. */
typedef struct RoseIndexDef
{
	RoseIndexMetaDisk meta;
	int			nkeys;			/* of the tree's key */
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS]; /* attno: column of the entry */
} RoseIndexDef;

/*
 * What the file of this index is to say; base: the table's schema.  Raises an error if the
 * index has more columns than there are places for.  Looks at the relcache entry
 * only; whether the rest of the index is possible is for others to say.
 */
extern void rose_index_def_make(Relation index, const RoseSchema *base, RoseIndexDef *def);

/* Could this have been made by rose_index_def_make?  For what is read from a file; no errors. */
extern bool rose_index_def_is_sane(const RoseIndexDef *def);

/*
 * Fingerprint of what entries refer to rows by: columns and types of the table's key.
 * Never changes, and is the same in a cluster that pg_upgrade has made.
 */
extern uint32 rose_index_def_base_crc(const RoseSchema *base);

/* Columns of an entry, made in the current context.  Looks up types. */
extern TupleDesc rose_index_def_tupdesc(const RoseIndexDef *def);

/* What a new file of this index says beside the key (rose_key_facts_make). */
extern void rose_index_def_facts(const RoseIndexDef *def, RoseKeyFacts *facts);

/*
 * The schema of an index's tree; hashed: as the file says.  As rose_schema_create, it looks
 * up catalogs, but needs neither the table nor the index.
 */
extern RoseSchema *rose_schema_of_index(const RoseIndexDef *def, uint32 hashed,
										MemoryContext context);

/*
 * The entry's column (from 0) that carries this column of the table, ROSE_ENTRY_ROWID the row
 * id; -1: none does.
 */
extern int	rose_index_def_carrier(const RoseIndexMetaDisk *meta, int16 source);

/* The RANK column of an entry's KEY column (both from 0); -1: it is never NULL. */
extern int	rose_index_def_rank(const RoseIndexDef *def, int column);

#endif							/* ROSE_INDEX_DEF_H */
