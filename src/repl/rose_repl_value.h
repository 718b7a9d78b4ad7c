/*-------------------------------------------------------------------------
 *
 * rose_repl_value.h
 *	  Values from the upstream to Datums.
 *
 * Memory of values is the caller's current context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REPL_VALUE_H
#define ROSE_REPL_VALUE_H

#include "postgres.h"

#include "fmgr.h"

#include "repl/rose_wire.h"

/* How values of a type in binary format are taken without calling its receive function. */
typedef enum RoseReplDirect
{
	ROSE_DIRECT_NO = 0,
	ROSE_DIRECT_BOOL,
	ROSE_DIRECT_INT2,
	ROSE_DIRECT_INT4,
	ROSE_DIRECT_INT8,
	ROSE_DIRECT_FLOAT4,
	ROSE_DIRECT_FLOAT8,
	ROSE_DIRECT_OID,
	ROSE_DIRECT_DATE,
	ROSE_DIRECT_TIMESTAMP,
	ROSE_DIRECT_UUID,
	ROSE_DIRECT_TEXT,
	ROSE_DIRECT_BYTEA
} RoseReplDirect;

typedef struct RoseReplColumn
{
	int			remote;			/* column of the upstream's tuple, or -1 */
	bool		kept;			/* only the local table has it: an UPDATE leaves it as it is */
	bool		constant;		/* ... all rows of the subscription have the value that follows */
	Datum		value;
	RoseReplDirect direct;
	bool		has_code;		/* its type may have code of a user: see rose_rights.h */
	FmgrInfo	input;
	Oid			input_ioparam;
	FmgrInfo	receive;		/* looked up when first needed */
	Oid			receive_ioparam;
	Oid			type;
	int32		typmod;
	MemoryContext context;		/* for what receive needs for long */
} RoseReplColumn;

extern RoseReplDirect rose_repl_direct(Oid type, int32 typmod);

/*
 * The value of a column that came as text or binary, which has_code wants to be read as
 * the table's owner.  It may point into the message, or is in the current context; a
 * length before a value may be overwritten.
 */
extern Datum rose_repl_read_value(RoseReplColumn *column, RoseWireColumn *value);

#endif							/* ROSE_REPL_VALUE_H */
