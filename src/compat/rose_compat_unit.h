/*-------------------------------------------------------------------------
 *
 * rose_compat_unit.h
 *	  Release differences that the unit tests meet, which run without a server.
 *
 * Included by tests only; nothing of it is in the library.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_UNIT_H
#define ROSE_COMPAT_UNIT_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_type.h"

#include "compat/rose_compat_varatt.h"

/*
 * A descriptor of one variable-length column, aligned as integers are.  18 keeps what
 * reading a tuple needs in an array of its own.
 */
static inline TupleDesc
rose_unit_varlena_desc(void)
{
	Size		size = sizeof(struct TupleDescData) + sizeof(FormData_pg_attribute);
	TupleDesc	desc;
	Form_pg_attribute att;

#if PG_VERSION_NUM >= 180000
	size += sizeof(CompactAttribute);
#endif
	desc = calloc(1, size);
	desc->natts = 1;
	att = TupleDescAttr(desc, 0);
	att->attlen = -1;
	att->attalign = TYPALIGN_INT;
#if PG_VERSION_NUM >= 180000
	desc->compact_attrs[0].attcacheoff = 0;
	desc->compact_attrs[0].attlen = -1;
	desc->compact_attrs[0].attalignby = ALIGNOF_INT;
#else
	att->attcacheoff = 0;
#endif
	return desc;
}

/* 18 compares the two with asserts; one file of a program stands in for the server. */
#if PG_VERSION_NUM >= 180000
#define ROSE_UNIT_DEFINE_COMPACT_ATTRIBUTE_CHECK \
	void verify_compact_attribute(TupleDesc tupdesc, int attnum) {}
#else
#define ROSE_UNIT_DEFINE_COMPACT_ATTRIBUTE_CHECK
#endif

/* What rose_my_backend_slot reads, for who stands in for the server: the first backend.  17 renamed it. */
#if PG_VERSION_NUM < 170000
#define ROSE_UNIT_DEFINE_BACKEND_SLOT	int MyBackendId = 1
#define ROSE_UNIT_SET_BACKEND_SLOT(slot)	(MyBackendId = (slot) + 1)
#else
#define ROSE_UNIT_DEFINE_BACKEND_SLOT	ProcNumber MyProcNumber = 0
#define ROSE_UNIT_SET_BACKEND_SLOT(slot)	(MyProcNumber = (slot))
#endif

#endif							/* ROSE_COMPAT_UNIT_H */
