/*-------------------------------------------------------------------------
 *
 * rose_layout.h
 *	  How the columns of a row lie in its bytes, as files say it.
 *
 * The catalog tells the layout of today; bytes have that of the day when they were
 * written.  ALTER TABLE changes the catalog first and rewrites or keeps the bytes
 * afterwards, may be the first to touch a table after a restart, and may be rolled back.
 * So what reads back bytes (tail log, components) has their layout beside them, and what
 * writes them writes it.
 *
 * In one file a column never changes its place: columns are added behind the others,
 * dropped ones keep theirs, and a type gives way to another without new bytes only if
 * both are stored alike.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_LAYOUT_H
#define ROSE_LAYOUT_H

#include "postgres.h"

#include "access/tupdesc.h"

/* A column; embedded on disk. */
typedef struct RoseLayoutColumnDisk
{
	Oid			typid;			/* 0: type, 0 = dropped */
	int16		attlen;			/* 4: as pg_attribute has it */
	uint8		attalign;		/* 6: the same: c, s, i or d */
	uint8		flags;			/* 7: ROSE_LAYOUT_* */
} RoseLayoutColumnDisk;

StaticAssertDecl(sizeof(RoseLayoutColumnDisk) == 8, "on-disk size");

#define ROSE_LAYOUT_BYVAL		0x01
#define ROSE_LAYOUT_DROPPED		0x02
#define ROSE_LAYOUT_FLAGS		(ROSE_LAYOUT_BYVAL | ROSE_LAYOUT_DROPPED)

typedef struct RoseLayout
{
	int			natts;
	uint64		physical;		/* fingerprint of lengths and alignments; on disk */
	uint64		exact;			/* of all that columns[] says */
	RoseLayoutColumnDisk columns[FLEXIBLE_ARRAY_MEMBER];
} RoseLayout;

extern RoseLayout *rose_layout_make(TupleDesc tupdesc);
extern RoseLayout *rose_layout_from_columns(const RoseLayoutColumnDisk *columns, int natts);

/* Fingerprint of the first natts columns; on disk, so it must never change. */
extern uint64 rose_layout_physical(const RoseLayout *layout, int natts);

/* Fingerprint of all that is said about the first natts columns. */
extern uint64 rose_layout_exact(const RoseLayout *layout, int natts);

/* Are the columns that both have stored alike? */
extern bool rose_layout_agrees(const RoseLayout *layout, const RoseLayoutColumnDisk *columns,
							   int natts);

/* Does each column that both have, and that layout has not dropped, have the same type? */
extern bool rose_layout_same_types(const RoseLayout *layout, const RoseLayout *older);

/* Could this be columns of a table? */
extern bool rose_layout_is_sane(const RoseLayoutColumnDisk *columns, int natts);

/* A descriptor for taking rows apart, and for nothing else: no names, no defaults. */
extern TupleDesc rose_layout_tupdesc(const RoseLayout *layout);

#endif							/* ROSE_LAYOUT_H */
