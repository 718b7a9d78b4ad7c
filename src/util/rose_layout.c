/*-------------------------------------------------------------------------
 *
 * rose_layout.c
 *	  How the columns of a row lie in its bytes: made, compared, and back.
 *
 * Looks at no catalog, and may be called under locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"

#include "compat/rose_compat.h"
#include "util/rose_layout.h"

/* Where fingerprints begin; on disk. */
#define ROSE_LAYOUT_SEED	UINT64CONST(0x6c61796f7574524f)

static RoseLayout *
make_empty(int natts)
{
	RoseLayout *layout = palloc0(offsetof(RoseLayout, columns) +
								 natts * sizeof(RoseLayoutColumnDisk));

	layout->natts = natts;
	return layout;
}

static RoseLayout *
finish(RoseLayout *layout)
{
	layout->physical = rose_layout_physical(layout, layout->natts);
	layout->exact = rose_layout_exact(layout, layout->natts);
	return layout;
}

RoseLayout *
rose_layout_make(TupleDesc tupdesc)
{
	RoseLayout *layout = make_empty(tupdesc->natts);

	for (int i = 0; i < layout->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		RoseLayoutColumnDisk *column = &layout->columns[i];

		column->typid = att->attisdropped ? InvalidOid : att->atttypid;
		column->attlen = att->attlen;
		column->attalign = (uint8) att->attalign;
		column->flags = (att->attbyval ? ROSE_LAYOUT_BYVAL : 0) |
			(att->attisdropped ? ROSE_LAYOUT_DROPPED : 0);
	}
	return finish(layout);
}

RoseLayout *
rose_layout_from_columns(const RoseLayoutColumnDisk *columns, int natts)
{
	RoseLayout *layout = make_empty(natts);

	memcpy(layout->columns, columns, natts * sizeof(RoseLayoutColumnDisk));
	return finish(layout);
}

/* ---- fingerprints ---- */

/* Finaliser of splitmix64, over what was there and what comes. */
static uint64
mix(uint64 hash, uint64 more)
{
	uint64		x = hash * 31 + more;

	x ^= x >> 30;
	x *= UINT64CONST(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64CONST(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/*
 * Whether values are passed by value says nothing of where they are, and pg_upgrade does
 * not keep it of dropped columns.
 */
static uint64
physical_word(const RoseLayoutColumnDisk *column)
{
	return (uint64) (uint16) column->attlen << 16 | (uint64) column->attalign << 8;
}

uint64
rose_layout_physical(const RoseLayout *layout, int natts)
{
	uint64		hash = ROSE_LAYOUT_SEED;

	Assert(natts <= layout->natts);
	for (int i = 0; i < natts; i++)
		hash = mix(hash, physical_word(&layout->columns[i]));
	return hash;
}

uint64
rose_layout_exact(const RoseLayout *layout, int natts)
{
	uint64		hash = ROSE_LAYOUT_SEED;

	Assert(natts <= layout->natts);
	for (int i = 0; i < natts; i++)
	{
		const RoseLayoutColumnDisk *column = &layout->columns[i];

		hash = mix(hash, physical_word(column) | (uint64) column->typid << 32);
	}
	return hash;
}

/* ---- comparing ---- */

bool
rose_layout_agrees(const RoseLayout *layout, const RoseLayoutColumnDisk *columns, int natts)
{
	for (int i = 0; i < Min(natts, layout->natts); i++)
		if (physical_word(&layout->columns[i]) != physical_word(&columns[i]))
			return false;
	return true;
}

bool
rose_layout_same_types(const RoseLayout *layout, const RoseLayout *older)
{
	for (int i = 0; i < Min(older->natts, layout->natts); i++)
		if ((layout->columns[i].flags & ROSE_LAYOUT_DROPPED) == 0 &&
			layout->columns[i].typid != older->columns[i].typid)
			return false;
	return true;
}

static bool
column_is_sane(const RoseLayoutColumnDisk *column)
{
	bool		byval = (column->flags & ROSE_LAYOUT_BYVAL) != 0;

	if ((column->flags & ~ROSE_LAYOUT_FLAGS) != 0 || column->attlen == 0 || column->attlen < -2)
		return false;
	if (byval && column->attlen != 1 && column->attlen != 2 && column->attlen != 4 &&
		column->attlen != (int16) sizeof(Datum))
		return false;
	return column->attalign == TYPALIGN_CHAR || column->attalign == TYPALIGN_SHORT ||
		column->attalign == TYPALIGN_INT || column->attalign == TYPALIGN_DOUBLE;
}

bool
rose_layout_is_sane(const RoseLayoutColumnDisk *columns, int natts)
{
	if (natts < 0 || natts > MaxTupleAttributeNumber)
		return false;
	for (int i = 0; i < natts; i++)
		if (!column_is_sane(&columns[i]))
			return false;
	return true;
}

/* ---- and back ---- */

TupleDesc
rose_layout_tupdesc(const RoseLayout *layout)
{
	TupleDesc	tupdesc = CreateTemplateTupleDesc(layout->natts);

	for (int i = 0; i < layout->natts; i++)
	{
		const RoseLayoutColumnDisk *column = &layout->columns[i];
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		memset(att, 0, ATTRIBUTE_FIXED_PART_SIZE);
		att->attnum = (AttrNumber) (i + 1);
		att->atttypid = column->typid;
		att->attlen = column->attlen;
		att->attalign = (char) column->attalign;
		att->attbyval = (column->flags & ROSE_LAYOUT_BYVAL) != 0;
		att->attisdropped = (column->flags & ROSE_LAYOUT_DROPPED) != 0;
		rose_tupdesc_attribute_changed(tupdesc, i);
	}
	return tupdesc;
}
