/*-------------------------------------------------------------------------
 *
 * rose_check_index.h
 *	  Does a secondary index have the entries of its table's rows?  For rose.check().
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_CHECK_INDEX_H
#define ROSE_CHECK_INDEX_H

#include "postgres.h"

#include "store/rose_store_check.h"
#include "lsm/tree/rose_tree.h"

/*
 * Compares them both ways, as the active snapshot sees table and index.  Reports where
 * they differ first.
 */
extern void rose_check_index(RoseTree *table, RoseTree *index, RoseProblemCallback report,
							 void *arg);

#endif							/* ROSE_CHECK_INDEX_H */
