/*-------------------------------------------------------------------------
 *
 * rose_new_version.h
 *	  A version that is to be written: its row, its header, its number.
 *
 * Made by inserts, changes and blind writes; written by rose_write.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NEW_VERSION_H
#define ROSE_NEW_VERSION_H

#include "postgres.h"

#include "lsm/tree/rose_tree.h"

/*
 * A version to be written.  rose_write_versions fills in seq and, in a table without key,
 * the row id of a new row; not before it is written, so that a retry takes new ones.
 */
typedef struct RoseNewVersion
{
	RoseVersion version;
	Datum		key[INDEX_MAX_KEYS];
	MinimalTuple row;
} RoseNewVersion;

/* Header of a new version of the current (sub)transaction. */
extern void rose_new_version_stamp(RoseVersion *version, RoseOp op, CommandId cid);

/* A row ready to be stored: external and compressed values detoasted, size
 * checked; allocated in the current context. */
extern MinimalTuple rose_new_version_form_row(RoseTree *tree, const Datum *values,
											  const bool *nulls, Datum *key);

/* A row with the key columns only, for tombstones and locks. */
extern MinimalTuple rose_new_version_form_key_row(RoseTree *tree, const Datum *key);

/* Give a version its number, what follows from it, and in a table without key a new row its row id. */
extern void rose_new_version_number(RoseTree *tree, RoseNewVersion *v, uint64 seq);


#endif							/* ROSE_NEW_VERSION_H */
