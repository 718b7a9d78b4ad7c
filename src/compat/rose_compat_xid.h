/*-------------------------------------------------------------------------
 *
 * rose_compat_xid.h
 *	  The next transaction id, without a lock.
 *
 * Locking: none.  Core's function takes XidGenLock, whose cache line all processors would
 * write then.  The counter itself lies beside what each snapshot reads anyway.
 *
 * What this does not do: say which transaction id comes next.  It may have moved on, and
 * the reader may see one from a moment ago.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_XID_H
#define ROSE_COMPAT_XID_H

#include "postgres.h"

#include "access/transam.h"
#include "port/atomics.h"

/* About the next one: to tell by it in which epoch a transaction id is that snapshots know. */
static inline FullTransactionId
rose_xid_about_next(void)
{
#ifdef PG_HAVE_8BYTE_SINGLE_COPY_ATOMICITY
	/* 17 renamed ShmemVariableCache to TransamVariables */
#if PG_VERSION_NUM < 170000
	return FullTransactionIdFromU64(*(volatile uint64 *) &ShmemVariableCache->nextXid.value);
#else
	return FullTransactionIdFromU64(*(volatile uint64 *) &TransamVariables->nextXid.value);
#endif
#else
	return ReadNextFullTransactionId();
#endif
}

#endif							/* ROSE_COMPAT_XID_H */
