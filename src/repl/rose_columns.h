/*-------------------------------------------------------------------------
 *
 * rose_columns.h
 *	  From the upstream's columns to local ones: see rose_columns.c.
 *
 * For rose_relmap.c, which applies the map, and for the copy, which writes it down.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COLUMNS_H
#define ROSE_COLUMNS_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "utils/relcache.h"

#include "repl/rose_repl.h"

/*
 * Set the numbers of the columns that the upstream sent.  False: it cannot be told which
 * they are.  map may be NULL.
 */
extern bool rose_columns_identify(const RoseColumnMap *map, const RoseUpstreamColumns *now,
								  RoseUpstreamColumns *sent);

/*
 * The local column of each of the upstream's.  Errors say what does not fit.  If their
 * numbers are not known (NULL), names decide.
 */
extern void rose_columns_match(Relation rel, const RoseColumnMap *map,
							   const RoseUpstreamColumns *remote, int16 *local_of);

/*
 * For a copy of all rows: the pairs that still matter, or NULL.  None does if each of the
 * upstream's columns has a namesake here; else those whose columns are there on both
 * sides.
 */
extern RoseColumnMap *rose_columns_still_there(Relation rel, const RoseColumnMap *map,
											   const RoseUpstreamColumns *remote);

/*
 * The other way round: for local column i + 1 the upstream's, counted from 0, or -1: it
 * is computed here, or stays NULL; error if it may not.  constants: columns that have values of the subscription.
 */
extern void rose_columns_invert(Relation rel, int nremote, const int16 *local_of, const Bitmapset *constants,
								int *remote_of);

/* The pairs from now on; before: those until then, or NULL. */
extern RoseColumnMap *rose_columns_form(const RoseColumnMap *before,
										const RoseUpstreamColumns *remote,
										const int16 *local_of);
extern bool rose_columns_equal(const RoseColumnMap *a, const RoseColumnMap *b);

/* Is map the other one, but that columns which that one has published are not? */
extern bool rose_columns_only_lacks(const RoseColumnMap *map, const RoseColumnMap *other);

#endif							/* ROSE_COLUMNS_H */
