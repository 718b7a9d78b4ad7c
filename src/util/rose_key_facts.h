/*-------------------------------------------------------------------------
 *
 * rose_key_facts.h
 *	  What a file remembers of its key beside the columns, because the server's
 *	  answer may be another one later.
 *
 * Which columns go into the hash of a key: operator classes come and go.  All sessions
 * must agree on it, since locks for keys are found by it, and filters on disk are made
 * from it.
 *
 * By which versions of collations rows were sorted: those belong to the operating system
 * or to ICU, and change with them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_FACTS_H
#define ROSE_KEY_FACTS_H

#include "postgres.h"

#include "util/rose_schema.h"

#define ROSE_VERSIONS_SIZE	64

typedef struct RoseKeyFacts
{
	uint32		hashed;			/* bit i: key column i is hashed */
	uint64		order;			/* fingerprint of the versions; 0 = nothing has one */
	char		versions[ROSE_VERSIONS_SIZE];	/* the same for people; cut off if it is long */
} RoseKeyFacts;

/* As the server says it now.  Looks up catalogs; a transaction and no LWLock. */
extern void rose_key_facts_make(TupleDesc tupdesc, int nkeys, const RoseKeyColumnDisk *keys,
								RoseKeyFacts *facts);

/*
 * Are keys equal whenever their bytes say so, whatever version a collation has?  Then
 * another version may bring another order, but no other rows.
 */
extern bool rose_key_equality_is_fixed(TupleDesc tupdesc, int nkeys,
									   const RoseKeyColumnDisk *keys);

#endif							/* ROSE_KEY_FACTS_H */
