/*-------------------------------------------------------------------------
 *
 * rose_wire.h
 *	  Changes as pgoutput sends them, read in place.
 *
 * Pure: what is read points into the message.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WIRE_H
#define ROSE_WIRE_H

#include "postgres.h"

#include "access/htup_details.h"

/* What is said of a column; the protocol's letters. */
#define ROSE_WIRE_NULL		'n'
#define ROSE_WIRE_UNCHANGED 'u'
#define ROSE_WIRE_TEXT		't'
#define ROSE_WIRE_BINARY	'b'

/*
 * data points into the message, which is modified: after a value that comes as text there
 * is a zero.  The four bytes before it held its length and are free to be overwritten.
 */
typedef struct RoseWireColumn
{
	char	   *data;
	int			len;
	char		kind;
} RoseWireColumn;

typedef struct RoseWireTuple
{
	int			ncols;
	bool		has_text;		/* some column is text */
	RoseWireColumn columns[MaxHeapAttributeNumber];
} RoseWireTuple;

typedef struct RoseWireChange
{
	uint32		relid;			/* the upstream's */
	bool		has_old;		/* UPDATE: did an old row come? */
	RoseWireTuple old;			/* DELETE, UPDATE */
	RoseWireTuple new;			/* INSERT, UPDATE */
} RoseWireChange;

/*
 * Read an Insert ('I'), Update ('U') or Delete ('D') message, of which data is what
 * follows that letter.  data[len] must be there, as libpq has it.  Raises an error if it
 * is malformed.
 */
extern void rose_wire_read_change(char command, char *data, int len, RoseWireChange *change);

#endif							/* ROSE_WIRE_H */
