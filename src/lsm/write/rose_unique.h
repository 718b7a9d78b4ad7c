/*-------------------------------------------------------------------------
 *
 * rose_unique.h
 *	  Has a row this key already?
 *
 * For this folder only.  Answers hold for a moment: rose_write_look says how they are
 * used.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_UNIQUE_H
#define ROSE_UNIQUE_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

typedef enum RoseKeyState
{
	ROSE_KEY_FREE,				/* no row has the key */
	ROSE_KEY_LIVE,				/* a committed or own row has it */
	ROSE_KEY_BUSY				/* depends on a transaction in progress */
} RoseKeyState;

/* What it says holds for a moment: see rose_write_look. */
extern RoseKeyState rose_unique_key_state(RoseTree *tree, const Datum *key,
										  TransactionId *xwait);

/* Wait for the transaction that makes a key BUSY; errors meanwhile say what for.  No LWLock may be held. */
extern void rose_unique_wait(RoseTree *tree, TransactionId xwait);


#endif							/* ROSE_UNIQUE_H */
