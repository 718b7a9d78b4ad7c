/*-------------------------------------------------------------------------
 *
 * rose_empty.h
 *	  A temporary table loses its rows, in place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_EMPTY_H
#define ROSE_EMPTY_H

#include "lsm/tree/rose_tree.h"

/*
 * Whatever is rolled back.  REQUIRES: a temporary table, which nobody is about to read
 * with an older snapshot.
 */
extern void rose_empty_local(RoseTree *tree);

#endif							/* ROSE_EMPTY_H */
