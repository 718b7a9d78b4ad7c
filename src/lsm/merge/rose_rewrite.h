/*-------------------------------------------------------------------------
 *
 * rose_rewrite.h
 *	  All versions of a table, component by component, into a new file: for CLUSTER and VACUUM FULL.
 *
 * Versions are copied, not rows: sequence numbers and xids stay, so that older snapshots
 * see what they saw.
 *
 * The caller has both files to itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REWRITE_H
#define ROSE_REWRITE_H

#include "lsm/tree/rose_tree.h"

/*
 * Returns the number of versions that were copied.  REQUIRES: an exclusive lock of both
 * tables; all that is to be copied is in components of the old one; the new one is empty.
 */
extern uint64 rose_rewrite(RoseTree *from, RoseTree *to);

#endif							/* ROSE_REWRITE_H */
