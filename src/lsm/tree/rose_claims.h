/*-------------------------------------------------------------------------
 *
 * rose_claims.h
 *	  Who merges what of a table: claims on components, and the turns of processes that share a pass.
 *
 * A merge that goes on in steps, a worker's, is a *job*: it claims the components that it
 * reads, and what it has made of them, so that nobody else merges them, or merges
 * anything past them.  Each process that works on a job is a *hand* of it.  Only a pass
 * may have several.  They take *strides* of its key range, in ascending order, one at a
 * time each: strides are built side by side, and published one after the other, in the
 * order in which they were taken.  A stride whose hand goes before it is published breaks
 * all later ones, whose hands take others then.
 *
 * Claims end with the process that has them.  They say nothing to who holds
 * ROSE_LOCK_MERGE exclusively: he has dropped them all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CLAIMS_H
#define ROSE_CLAIMS_H

#include "postgres.h"

#include "storage/latch.h"
#include "storage/lwlock.h"

#include "store/rose_manifest.h"

#define ROSE_CLAIM_JOBS		4
#define ROSE_CLAIM_HANDS	8

/* A hand builds one component, or two if it has a job to itself. */
StaticAssertDecl(ROSE_CLAIM_HANDS + ROSE_CLAIM_JOBS <= ROSE_MAX_BUILDING_KEPT,
				 "a merge may find no place for a component that it builds");

/* Components of all jobs: those of a manifest, parts of C1 that are about to be listed, and those that were used up. */
#define ROSE_CLAIM_IDS		(2 * ROSE_MAX_COMPONENTS)

/* All fields: lock. */
typedef struct RoseJobShared
{
	uint64		number;			/* never used again; 0 = free */
	bool		takes_c2;		/* it is a pass, and has all pieces of C2 as well */
	bool		open;			/* ... that others may join */
	uint32		begun;			/* newest owner id when it began: pieces of C2 with a greater one are what it has made */
} RoseJobShared;

typedef struct RoseHandShared
{
	uint64		job;			/* number; 0 = free */
	int			slot;			/* its process, as rose_pin_whoami says */
	uint32		incarnation;
	Latch	   *latch;			/* of the process */
	bool		plans;			/* it looks for a stride just now */
	uint64		turn;			/* of its stride; 0 = it has none */
	bool		broken;			/* the stride, or what it looks for, comes behind one that was given up */
	bool		takes_rest;		/* no stride can follow */
	uint32		last_piece;		/* the greatest piece of C2 that the stride replaces; 0 = none */
	int			noutputs;		/* components that it will make, about */
} RoseHandShared;

typedef struct RoseClaimedIdShared
{
	uint32		id;				/* of a component */
	int			job;			/* index */
} RoseClaimedIdShared;

typedef struct RoseClaimsShared
{
	LWLock		lock;
	uint64		version;		/* changes when components are claimed or let go of */
	uint64		last_number;	/* of a job */
	uint64		last_turn;
	int			nids;
	RoseClaimedIdShared ids[ROSE_CLAIM_IDS];
	RoseJobShared jobs[ROSE_CLAIM_JOBS];
	RoseHandShared hands[ROSE_CLAIM_HANDS];
} RoseClaimsShared;

/* What a hand knows itself by; backend-local. */
typedef struct RoseTicket
{
	int			hand;			/* index */
	uint64		job;			/* number; 0 = none */
	uint32		begun;			/* as the job's */
} RoseTicket;

extern void rose_claims_init(RoseClaimsShared *claims, int tranche);

/* Does anybody merge the table?  Without lock: a hint, but for claims of the asker's own. */
extern bool rose_claims_are_any(const RoseClaimsShared *claims);

/* Jobs there are. */
extern int	rose_claims_count(RoseClaimsShared *claims);

/* Which of these components are claimed; returns the version of claims, for rose_claims_begin. */
extern uint64 rose_claims_find(RoseClaimsShared *claims, int ncomponents,
							   const RoseComponentEntryDisk *components, bool *claimed);

/*
 * Claim these components (pieces of C2 need not be named) as the inputs of a new job;
 * false if claims have changed since this version, or there are too many jobs.
 * newest_owner: of the manifest, read before.
 */
extern bool rose_claims_begin(RoseClaimsShared *claims, uint64 version, const uint32 *ids, int n,
							  bool takes_c2, uint32 newest_owner, RoseTicket *ticket);

/* From now on others may join the pass. */
extern void rose_claims_open(RoseClaimsShared *claims, const RoseTicket *ticket);

/*
 * Become another hand of a pass that is open; false if there is none, or it has hands
 * enough, or one in this process.  ids gets the components that were claimed for it, up to
 * ROSE_CLAIM_IDS, in no order.
 */
extern bool rose_claims_join(RoseClaimsShared *claims, RoseTicket *ticket, uint32 *ids, int *n);

/* Claim one more component; false: there is no place for it. */
extern bool rose_claims_add(RoseClaimsShared *claims, const RoseTicket *ticket, uint32 id);

/* The hand ends, and its job if there is no other hand. */
extern void rose_claims_end(RoseClaimsShared *claims, RoseTicket *ticket);

/* Is it still a hand?  Not if claims were dropped. */
extern bool rose_claims_hold(RoseClaimsShared *claims, const RoseTicket *ticket);

/* All claims, of whomsoever.  REQUIRES: ROSE_LOCK_MERGE exclusively. */
extern void rose_claims_drop(RoseClaimsShared *claims);

/* ---- strides ---- */

/* What is taken, as the next stride is planned. */
typedef struct RoseStridesTaken
{
	uint32		last_piece;		/* of the latest stride that is not published; 0 = there is none */
	bool		takes_rest;		/* ... and nothing is left */
	int			noutputs;		/* that all of them will make, about */
} RoseStridesTaken;

/* Look for a stride; false: another hand does just now.  Ended by take_stride. */
extern bool rose_claims_plan(RoseClaimsShared *claims, const RoseTicket *ticket,
							 RoseStridesTaken *taken);

/* Take the one that was found, or none (NULL). */
extern void rose_claims_take_stride(RoseClaimsShared *claims, const RoseTicket *ticket,
									const RoseStridesTaken *stride);

typedef enum RoseStrideTurn
{
	ROSE_STRIDE_NEXT,			/* it may be published */
	ROSE_STRIDE_WAITS,			/* others come first; the latch is set when one of them was published */
	ROSE_STRIDE_BROKEN			/* give it up */
} RoseStrideTurn;

extern RoseStrideTurn rose_claims_turn(RoseClaimsShared *claims, const RoseTicket *ticket);

/* The stride is published, all of it, or will never be. */
extern void rose_claims_end_stride(RoseClaimsShared *claims, const RoseTicket *ticket, bool published);

#endif							/* ROSE_CLAIMS_H */
