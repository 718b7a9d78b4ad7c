/*-------------------------------------------------------------------------
 *
 * rose_blind_below.h
 *	  Is there a row before a blind write?
 *
 * For this folder.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLIND_BELOW_H
#define ROSE_BLIND_BELOW_H

#include "postgres.h"

#include "lsm/write/rose_blind.h"

/*
 * What there is, at the moment, before each of n rows that are to be written in this order: below[i] of those that ask, as a
 * RoseBlindBelow.  Own writes count, and what others have committed.  REQUIRES: the tree has a key; n is ROSE_BLIND_ASK_MAX at
 * most.
 */
extern void rose_blind_look_below(RoseTree *tree, const RoseBlindRow *rows, int n, uint8 *below);

#endif							/* ROSE_BLIND_BELOW_H */
