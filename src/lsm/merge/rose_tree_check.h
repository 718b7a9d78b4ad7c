/*-------------------------------------------------------------------------
 *
 * rose_tree_check.h
 *	  Do the components of a table fit together?  For rose.check().
 *
 * What is inside a component is checked by lsm/component.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TREE_CHECK_H
#define ROSE_TREE_CHECK_H

#include "store/rose_store_check.h"
#include "lsm/tree/rose_tree.h"

/*
 * The manifest as a whole: pieces of C2, versions that have moved, and the order of
 * versions across components.  Each component must have passed rose_component_check.
 * Reads all components once.
 */
extern void rose_tree_check(RoseTree *tree, RoseProblemCallback report, void *arg);

/* The pieces of C2, and what has moved, alone. */
extern void rose_tree_check_pieces(RoseTree *tree, RoseProblemCallback report, void *arg);

#endif							/* ROSE_TREE_CHECK_H */
