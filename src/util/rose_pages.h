/*-------------------------------------------------------------------------
 *
 * rose_pages.h
 *	  Giving pages of shared memory back to the operating system.
 *
 * No locks; see rose_pages.c for who may call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PAGES_H
#define ROSE_PAGES_H

#include "postgres.h"

/*
 * Give back the whole pages of a piece of shared memory, which stays mapped everywhere;
 * what was in them is gone, and nobody may touch it until rose_pages_take.  False: the
 * system cannot do that, and nothing was changed.
 */
extern bool rose_pages_give_back(void *start, Size size);

/* Have these pages again, all zero where they were given back; false: there is no memory. */
extern bool rose_pages_take(void *start, Size size);

#endif							/* ROSE_PAGES_H */
