/*-------------------------------------------------------------------------
 *
 * rose_forget.h
 *	  May a merge forget sequence numbers and transaction ids, and what does it
 *	  store in their place?  A pure function.
 *
 * A version that everybody sees and under which its key has no other needs no
 * sequence number and no writer: it is the oldest of its key (ROSE_SEQ_OLDEST), and
 * visible.  "Forgotten versions" in the README says why nobody misses them.
 *
 * Applications use xmin as the token of a row: who reads a row, and later finds
 * the same token, must find the same row.  So the one transaction id that stands
 * for those forgotten must be greater than all that readers may have seen on older
 * versions of the same row.  That is the greatest one of all sources, if what that
 * transaction wrote cannot have been superseded; else the next one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_FORGET_H
#define ROSE_FORGET_H

#include "store/rose_manifest.h"
#include "store/rose_store.h"

typedef struct RoseForgetInput
{
	int			nsources;		/* of one output, newest first */
	const RoseComponentEntryDisk *sources[ROSE_MAX_COMPONENTS];
	bool		bottom;			/* nothing older than the sources is left below */
	uint64		horizon;		/* full xid: every snapshot sees what is older, and finds all of it
								 * ended; as it was before the pins were looked at */
	uint64		settled;		/* all sources are since then, or ROSE_UNSETTLED */
	uint64		oldest_pin;		/* generation of the table's oldest pin ... */
	uint64		pinned_xmin;	/* ... and the least full xmin of pins; 0 = none */
} RoseForgetInput;

/* The full xid to store, 0 = forget nothing. */
extern uint64 rose_forget_xid(const RoseForgetInput *input);

#endif							/* ROSE_FORGET_H */
