/*-------------------------------------------------------------------------
 *
 * rose_vec_group.h
 *	  Which group each of many rows is in.
 *
 * A row's key is some words, and a mask of flags; two rows are in one group if all of these are equal.  Groups are numbered
 * from 0 in the order in which their first rows came.  Rows are given column by column.
 *
 * All memory is the caller's.  Results never depend on how this was compiled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VEC_GROUP_H
#define ROSE_VEC_GROUP_H

#include "postgres.h"

/* Columns of a key, at most: flags has a bit for each. */
#define ROSE_VEC_GROUP_COLUMNS	32

/* Room that functions need behind what they write. */
#define ROSE_VEC_GROUP_RUN_SPARE	64
#define ROSE_VEC_GROUP_SPARE		8

/* Columns that are looked up by code, at most, and how many codes there are together. */
#define ROSE_VEC_DENSE_COLUMNS	4
#define ROSE_VEC_DENSE_CODES	16384

/* Keys of some rows: words[c][i] and flags[i] are of row i. */
typedef struct RoseVecKeys
{
	int			nwords;
	const int64 *words[ROSE_VEC_GROUP_COLUMNS];
	const uint32 *flags;		/* NULL: all are 0 */
} RoseVecKeys;

typedef struct RoseVecGroupSlot
{
	uint32		hash;
	uint32		group;			/* its number + 1; 0: there is none */
} RoseVecGroupSlot;

typedef struct RoseVecGroups
{
	int			nwords;
	uint32		ngroups;
	uint32		capacity;		/* groups that there is room for */
	int64	   *keys;			/* of each group nwords words, and the flags */
	uint32		nslots;			/* a power of 2, at least 2 * capacity */
	RoseVecGroupSlot *slots;
} RoseVecGroups;

/* Words that are close to one another, by which groups are found without hashing. */
typedef struct RoseVecDense
{
	bool		off;			/* they are not */
	int			ncolumns;		/* 0: nothing is known yet */
	int64		base[ROSE_VEC_DENSE_COLUMNS];
	uint32		range[ROSE_VEC_DENSE_COLUMNS];	/* words base ... base + range - 1 */
	uint32		map[ROSE_VEC_DENSE_CODES];	/* a code's group + 1; 0: not known */
} RoseVecDense;

/* The words of a group's key, and its flags. */
static inline const int64 *
rose_vec_group_key(const RoseVecGroups *groups, uint32 group)
{
	return groups->keys + (Size) group * (groups->nwords + 1);
}

static inline uint32
rose_vec_group_flags(const RoseVecGroups *groups, uint32 group)
{
	return (uint32) rose_vec_group_key(groups, group)[groups->nwords];
}

/* Forget all groups. */
extern void rose_vec_group_reset(RoseVecGroups *groups);

/* After slots became other ones, that are empty: find the groups there again. */
extern void rose_vec_group_rehash(RoseVecGroups *groups);

/*
 * Where the key changes: starts[0] is 0, and starts[k] the first row of the k-th run of rows with the same key.  Returns how many runs
 * there are; 0: there are more than max_runs.  starts has room for max_runs and ROSE_VEC_GROUP_RUN_SPARE more.
 */
extern int	rose_vec_group_runs(const RoseVecKeys *keys, int n, int max_runs, uint16 *starts);

/* found[i] is the group of the run that row i is in; there is room for ROSE_VEC_GROUP_SPARE rows more. */
extern void rose_vec_group_spread(const uint16 *starts, int nruns, int n, const uint32 *run_groups,
								  uint32 *found);

/*
 * The groups of rows [0, n) into found[]; those that there are not yet are added, and the row that did so noted in added[].  Returns how
 * many were.  Room for n groups more must be there.
 */
extern int	rose_vec_group_find(RoseVecGroups *groups, const RoseVecKeys *keys, int n,
								uint32 *hashes, uint32 *found, uint16 *added);

/* The same of n rows that are named; found[k] is of rows[k]. */
extern int	rose_vec_group_find_some(RoseVecGroups *groups, const RoseVecKeys *keys,
									 const uint16 *rows, int n, uint32 *found, uint16 *added);

/*
 * The groups of rows [0, n) that there are already: into found[], and of these rows alone, one after the other, into kept[].  Of other rows left_out[] becomes
 * true; of those of which it is true before nothing is asked.  found[] of rows that are left out is 0.  Returns how many are not.
 */
extern int	rose_vec_group_look_up(const RoseVecGroups *groups, const RoseVecKeys *keys, int n,
								   uint32 *hashes, uint32 *found, bool *left_out, uint32 *kept);

/* The same as rose_vec_group_find by codes; -1: words are too far from one another, and nothing was done. */
extern int	rose_vec_group_find_dense(RoseVecGroups *groups, RoseVecDense *dense,
									  const RoseVecKeys *keys, int n, uint32 *codes, uint32 *found,
									  uint16 *added);

/* Groups' numbers were forgotten. */
extern void rose_vec_dense_reset(RoseVecDense *dense);

/* Of values[i] and groups[i] keep those that are not NULL, in their order; returns how many. */
extern int	rose_vec_group_keep(int64 *values, uint32 *kept, const uint32 *groups, const bool *nulls,
								int n);

#endif							/* ROSE_VEC_GROUP_H */
