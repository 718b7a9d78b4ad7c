/*-------------------------------------------------------------------------
 *
 * rose_output.h
 *	  What a scan passes on at present, where that is many rows: a stretch, and the weave that it is a
 *	  piece of.
 *
 * The scan chooses the source that goes first and its rival (the next one), and takes
 * care of single rows.  Whether rows can be passed on as they are is asked of sources
 * (rose_source.h), and what was found is kept here.
 *
 * While a stretch is open its source stays at or behind the rows taken, and nobody knows
 * the key that the scan is at: leaving the stretch finds out about both.  That holds for
 * stretches of memtables in both directions, for those of components forward.  Backward
 * there are such of components with one version a key only, and they are taken row by row:
 * the source is at the row that was taken last.
 *
 * Backend-local; a part of the scan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OUTPUT_H
#define ROSE_OUTPUT_H

#include "postgres.h"

#include "lsm/read/rose_scan.h"
#include "lsm/read/rose_source.h"

typedef struct RoseWeave RoseWeave;

typedef struct RoseOutput
{
	const RoseReading *reading;
	MemoryContext context;		/* of the scan; for the weave */

	RoseStretch stretch;		/* open if rows are set */
	RoseSource *source;			/* that it is of */
	int			first;			/* slot it began with */
	bool		alone;			/* no other source has rows */
	RoseWeave  *weave;			/* that it is a piece of, if that is open; or NULL */

	RoseSource *back_source;	/* backward, of a component; NULL: no stretch is open */
	RoseStretch back;			/* from next down to end */
} RoseOutput;

/* What is known when a stretch was left. */
typedef struct RoseLeft
{
	bool		taken;			/* rows were: the key of the last one is that of the scan */
	bool		repeats;		/* ... and sources may still have versions of it */
	bool		placed;			/* sources stand behind what was taken; else position them anew */
} RoseLeft;

/* ---- stretches (rose_stretch.c) ---- */

/*
 * If the rows from this source's current one on, which is the first of all sources', are
 * results without more ado: open a stretch of them, as far as the rival's row (NULL:
 * there is none).  MVCC snapshots only.
 */
extern bool rose_stretch_begin(RoseOutput *output, RoseSource *source, const RoseSource *rival);

/* All of its rows were taken.  Was that the last of the scan? */
extern bool rose_stretch_is_last(const RoseOutput *output);

/*
 * All of its rows were taken: if nothing but the next ones of the same source can follow,
 * they become the stretch.  Who calls this takes a row next.
 */
extern bool rose_stretch_go_on(RoseOutput *output);

/* Close it, behind the rows that were taken.  key (copied into context) is that of the last one. */
extern RoseLeft rose_stretch_leave(RoseOutput *output, Datum *key, MemoryContext context);

/* Close it, whatever was taken; the sources are no longer of use. */
extern void rose_stretch_forget(RoseOutput *output);

/* Take a row; there must be one. */
extern const RoseRow *rose_stretch_next_row(RoseOutput *output);

/*
 * Backward, of a component, one row at a time: begin returns the first row, NULL if there is no stretch;
 * next the next one, NULL if there is none left.  Leaving it leaves the source at the
 * last row taken.
 */
extern const RoseRow *rose_stretch_begin_backward(RoseOutput *output, RoseSource *source,
												  const RoseSource *rival);
extern const RoseRow *rose_stretch_next_backward(RoseOutput *output);
extern RoseSource *rose_stretch_leave_backward(RoseOutput *output, Datum *key, MemoryContext context);

/* ---- weaves (rose_weave.c) ---- */

/*
 * The same for stretches of all sources in turns.  best and rival are those whose rows
 * come first.  The first piece becomes the stretch.
 */
extern bool rose_weave_begin(RoseOutput *output, RoseSource **sources, int nsources,
							 RoseSource *best, const RoseSource *rival);

/* The next piece becomes the stretch; false: there is none. */
extern bool rose_weave_next(RoseOutput *output);
extern bool rose_weave_is_open(const RoseOutput *output);

/*
 * Of a weave, all of whose rows were taken or not: make the stretch end with the last one
 * that was; false: none was.
 */
extern bool rose_weave_last_taken(RoseOutput *output);

/* Were all of its rows taken? */
extern bool rose_weave_is_done(const RoseOutput *output);

/* Close it; move: and put the sources behind all of its rows.  False: a memtable is gone. */
extern bool rose_weave_close(RoseOutput *output, bool move);

#endif							/* ROSE_OUTPUT_H */
