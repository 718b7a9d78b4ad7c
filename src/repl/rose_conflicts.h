/*-------------------------------------------------------------------------
 *
 * rose_conflicts.h
 *	  Changes that do not fit the rows that are here, counted.
 *
 * For the files of the replication consumer; what the layers above see of it is in rose_repl.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CONFLICTS_H
#define ROSE_CONFLICTS_H

#include "postgres.h"

#include "lsm/write/rose_blind.h"
#include "repl/rose_repl_internal.h"

/* What a row of the change at hand would be, if what is there does not fit; NONE: nobody wants to know. */
extern RoseConflictKind rose_conflicts_expect(const RoseReplTarget *target, RoseOp op);

/* What a row asks for that, a RoseBlindAsk. */
extern RoseBlindAsk rose_conflicts_ask(RoseConflictKind kind);

/*
 * Rows of the open batch were written: kinds[i] is what row i would be, below[i] what was there.  REQUIRES: the target is open.
 */
extern void rose_conflicts_note_rows(const RoseReplTarget *target, const RoseBlindRow *rows, const uint8 *kinds,
									 const uint8 *below, int n);

/* The change at hand found no row, and nothing is written. */
extern void rose_conflicts_note_missing(const RoseReplTarget *target, const Datum *key);

/* The batch has committed: what it has found is seen from now on (raises no error), and is in the log; or it was given up. */
extern void rose_conflicts_keep(void);
extern void rose_conflicts_report(void);
extern void rose_conflicts_forget(void);

#endif							/* ROSE_CONFLICTS_H */
