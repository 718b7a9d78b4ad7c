/*-------------------------------------------------------------------------
 *
 * rose_pieces.h
 *	  How large the pieces of C2 are to be: pure functions of sizes, in blocks.
 *
 * aim is the size that a pass aims at (rose_merge_piece_blocks).  It may be one block.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PIECES_H
#define ROSE_PIECES_H

#include "postgres.h"

/* More pieces than this, and small ones are joined even if nothing else is due. */
#define ROSE_PIECES_MANY	28

/* Is a piece of so many blocks small?  One of a single block always is. */
extern bool rose_pieces_is_small(uint64 aim, uint64 nblocks);

/* Should a stride that has so many blocks take the next piece, too? */
extern bool rose_pieces_should_join(uint64 aim, int npieces, uint64 nblocks, uint64 next);

/*
 * How many pieces should a stride make of so many blocks?  nothers: pieces that stay, or
 * that others are making; room: more may not be made in any case, but one.
 */
extern uint64 rose_pieces_to_make(uint64 aim, uint64 nblocks, int nothers, int room);

#endif							/* ROSE_PIECES_H */
