/*-------------------------------------------------------------------------
 *
 * rose_picker.h
 *	  Which components to merge next: a pure function, and what it is given.
 *
 * No locks, no I/O, no clock: equal input gives an equal answer, so that unit tests can
 * run a table for years.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PICKER_H
#define ROSE_PICKER_H

#include "postgres.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_tree.h"

/* Has a private run transactions in progress and committed ones? */
typedef enum RosePickPartly
{
	ROSE_PICK_NOT_PARTLY = 0,
	ROSE_PICK_PARTLY,
	ROSE_PICK_HALF				/* and half of all, or more, have ended */
} RosePickPartly;

typedef enum RosePickKind
{
	ROSE_PICK_MERGE,			/* of what is committed */
	ROSE_PICK_JOIN,				/* private runs of which nothing has committed become one */
	ROSE_PICK_SPLIT				/* one private run becomes an ordinary one and another private one */
} RosePickKind;

typedef struct RosePickInput
{
	uint64		c0_size;		/* bytes a memtable may reach for this table */
	int			ncomponents;	/* newest first */
	const RoseComponentEntryDisk *components;
	const bool *blocked;		/* not to be merged now: pending, private and in
								 * progress; NULL = none */
	const uint8 *partly;		/* RosePickPartly; NULL = none */
	const bool *busy;			/* inputs of merges under way; NULL = none */
	const int16 *natts;			/* private runs may be joined if they have as many columns; -1 = with any;
								 * NULL = all may */
	bool		incomplete;		/* the oldest component is still to come: no C2 */
	bool		stale;			/* of an index: many entries are of no row (rose_sift.h), not set by rose_pick_input */
	uint64		horizon;		/* full xid that every snapshot is past; 0 = unknown */
	double		min_ratio;		/* R is at least this */
} RosePickInput;

typedef struct RosePickResult
{
	bool		merge;
	int			ninputs;		/* ids of the components to merge, newest first */
	uint32		inputs[ROSE_MAX_COMPONENTS];
	int			target_level;
	RosePickKind kind;
	double		ratio;			/* R as derived */
	int			natts;			/* of a join: columns, if the input says so; -1 = any */
	const RoseSchema *schema;	/* to write by, not set by the picker; NULL = the table's */
	bool		thorough;		/* level 2: rewrite whatever could be smaller (by hand only) */
	bool		sift;			/* level 2: rewrite all of an index, without entries that no row has */
	uint64		version;		/* of the manifest, not set by the picker; 0 = picked under ROSE_LOCK_MERGE */
	uint64		claims;			/* of a merge that is to be kept: their version, not set by the picker */
} RosePickResult;

extern RosePickResult rose_pick_merge(const RosePickInput *input);

/* A table with more runs than this has its merges behind: half of what slows its writers. */
#define ROSE_PICK_SLACK_RUNS	(ROSE_MAX_COMPONENTS / 6)

/*
 * So many private runs a table may well have while one transaction fills it, although
 * they are joined (rose_picker.c): nothing is behind because of them.
 */
#define ROSE_USUAL_PRIVATE_RUNS 14

/* R is at least this. */
#define ROSE_PICK_MIN_RATIO		3.0

/*
 * How far are a table's merges behind what is written to it?  A worker's merges rest
 * while they are in time; several processes share a pass only if they are behind, for
 * each needs room in the file.
 */
typedef enum RoseMergeUrgency
{
	ROSE_MERGES_IN_TIME,
	ROSE_MERGES_LATE,			/* a good deal more has come than what makes a pass due */
	ROSE_MERGES_BEHIND			/* much more, or there are many runs */
} RoseMergeUrgency;

typedef struct RosePickSizes
{
	uint64		c0_size;
	uint32		nruns;
	uint32		nopen;			/* of these, private ones of transactions in progress; 0 if not known */
	uint64		bytes[3];		/* of rows, in runs, C1 and C2 */
	uint64		blocks[3];
} RosePickSizes;

extern RoseMergeUrgency rose_pick_urgency(const RosePickSizes *sizes);

/* The picker's input from a table's manifest; it points to flags, which are filled in. */
typedef struct RosePickFlags
{
	bool		blocked[ROSE_MAX_COMPONENTS];
	uint8		partly[ROSE_MAX_COMPONENTS];
} RosePickFlags;

extern void rose_pick_input(RoseTree *tree, RosePickInput *input, RosePickFlags *flags);

#endif							/* ROSE_PICKER_H */
