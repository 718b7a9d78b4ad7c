/*-------------------------------------------------------------------------
 *
 * rose_serial.h
 *	  Which transactions were SERIALIZABLE: for garbage collection beside
 *	  SERIALIZABLE snapshots.
 *
 * A SERIALIZABLE transaction has to meet, for each key that it reads, the first
 * SERIALIZABLE one whose version it does not see (README.md, "SERIALIZABLE").  Versions
 * do not tell how their writers ran, so each SERIALIZABLE transaction is noted before it
 * commits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SERIAL_H
#define ROSE_SERIAL_H

#include "postgres.h"

typedef enum RoseSerial
{
	ROSE_SERIAL_NO,				/* it was not, or no snapshot that there is needs to know */
	ROSE_SERIAL_MAYBE,			/* not known any more */
	ROSE_SERIAL_YES
} RoseSerial;

extern Size rose_serial_shmem_size(void);
extern void rose_serial_shmem_init(bool found);
extern void rose_serial_define_callbacks(void);

/* Remember where this server's transactions begin, if nobody has: not during recovery. */
extern void rose_serial_begin(void);

/* Of a transaction that has committed; full top-level xid. */
extern RoseSerial rose_serial_ask(uint64 xid);

#endif							/* ROSE_SERIAL_H */
