/*-------------------------------------------------------------------------
 *
 * rose_own_commits.h
 *	  Which transactions this process has committed, of late.
 *
 * For who may not ask the commit log, since that may fail or take long: within a change of C0.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OWN_COMMITS_H
#define ROSE_OWN_COMMITS_H

#include "postgres.h"

#include "access/transam.h"

/* So many transaction ids, up to the last one that is remembered, are told apart; of earlier ones nothing is known. */
#define ROSE_OWN_COMMITS	262144

/* The transaction at hand, a top-level one, is to be remembered if it commits. */
extern void rose_own_commits_note(FullTransactionId xid);

/* It has ended. */
extern void rose_own_commits_end(bool committed);

/* Is it known to have been committed by this process?  Cannot fail. */
extern bool rose_own_commits_has(FullTransactionId xid);

#endif							/* ROSE_OWN_COMMITS_H */
