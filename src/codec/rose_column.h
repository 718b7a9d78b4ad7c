/*-------------------------------------------------------------------------
 *
 * rose_column.h
 *	  What codecs and pages need to know about a column: its physical type.
 *
 * Included by codec/ and page/, and through page/rose_page.h by upper layers.
 *
 * Knows nothing of the catalog: whoever makes a description has looked there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COLUMN_H
#define ROSE_COLUMN_H

#include "postgres.h"

/* How the values of a column are represented.  Not on disk. */
typedef enum RoseColumnKind
{
	ROSE_COLUMN_INT,			/* by-value, not float; attlen 1, 2, 4 or 8 */
	ROSE_COLUMN_FLOAT,			/* by-value float; attlen 4 or 8 */
	ROSE_COLUMN_FIXED,			/* by-reference, attlen > 0 */
	ROSE_COLUMN_VARLEN,			/* attlen -1 */
	ROSE_COLUMN_CSTRING			/* attlen -2 */
} RoseColumnKind;

typedef struct RoseColumnDesc
{
	int16		attlen;
	bool		attbyval;
	char		attalign;		/* TYPALIGN_xxx */
	uint8		kind;			/* RoseColumnKind */
	bool		long_headers;	/* VARLEN: always give values a 4-byte header, for
								 * types of plain storage, which know no other */
} RoseColumnDesc;

/*
 * Largest by-reference value that a page takes, header included.  Larger ones
 * go to overflow pages, which is the component layer's business.
 */
#define ROSE_ITEM_MAX_SIZE	(BLCKSZ / 4)

/*
 * Describe a column from its pg_attribute (or pg_type) fields.  is_float tells
 * float4 and float8 from other by-value types.  long_headers is false.
 */
extern RoseColumnDesc rose_column_desc(int16 attlen, bool attbyval, char attalign,
									   bool is_float);

#endif							/* ROSE_COLUMN_H */
