/*-------------------------------------------------------------------------
 *
 * rose_write_let_go.h
 *	  What merges have replaced is not kept for who only inserts.
 *
 * For this folder only.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_WRITE_LET_GO_H
#define ROSE_WRITE_LET_GO_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

/*
 * Before a row is looked for and written: what merges have replaced is not kept for this transaction, if
 * it reads nothing of the table but by the reader of its writes (rose_lookup_cache.h).
 */
extern void rose_write_let_go(RoseTree *tree);

#endif							/* ROSE_WRITE_LET_GO_H */
