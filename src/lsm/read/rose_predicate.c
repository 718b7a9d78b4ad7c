/*-------------------------------------------------------------------------
 *
 * rose_predicate.c
 *	  Predicate locks of SERIALIZABLE transactions: on keys and ranges of keys.
 *
 * Core locks relations, pages and rows, and what is a page is ours to say: a number.
 * Rows move from leaf to leaf with each merge, so pages of files are of no use, and gaps
 * between rows have to be locked as well.  So the pages are parts of the key space, that
 * never change:
 *
 *	  - all keys of one hash.  Who reads a single key, or those that agree in all columns that
 *		are hashed (of an index, those of one indexed value), locks this one.
 *	  - all keys whose prefix (the first word of rose_key_prefix_make, a number that grows
 *		with the keys) has the same leading bits, for each number of bits that is a
 *		multiple of LEVEL_STEP.  Who reads a range takes so many bits that the range lies in
 *		a few parts, and locks these.
 *
 * Each part has a number by a hash of its own, in 32 bits.  Two parts may have the same one,
 * and a part may be larger than what was read: then a transaction is told of a reader
 * that does not concern it, and may fail in vain.
 *
 * Nobody is overlooked.  A key lies in one part of each kind, which both sides compute from
 * the key alone, and the writer looks into all of them, and at locks of the whole tree,
 * in which core joins many of one reader.  A reader locks before it takes its view; a
 * writer looks when its version can be met.  So either it finds the lock, or the reader
 * meets the version, and names its writer (CheckForSerializableConflictOut).  That is true of each tree by
 * itself: who reads entries of an index locks these in the index's tree, which is all that an
 * index-only scan depends on, and the keys of the rows that it fetches in the table's.
 *
 * How a key is hashed by functions that are not built in may change with them; such keys
 * are locked by their prefixes.  A table that gets another key, and an index that is
 * dropped or built anew, has its locks made those of the whole table (by us, respectively by core).
 *
 * Backend-local, but for core's locks.  Whole tables, which sequential scans read, and rows by TID are
 * tableam's to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "common/hashfn.h"
#include "storage/predicate.h"
#include "utils/rel.h"

#include "lsm/read/rose_predicate.h"

/* Bits between the sizes of parts, and bits of a word. */
#define LEVEL_STEP	4
#define WORD_BITS	64

/* A range is locked by at most so many parts. */
#define RANGE_PARTS	8

/* What a part's number is made of; no padding. */
typedef struct PartName
{
	uint64		value;			/* hash, or leading bits */
	uint64		kind;			/* bits that were left out; or ... */
} PartName;

#define KIND_HASH	WORD_BITS

static BlockNumber
part_number(uint64 kind, uint64 value)
{
	PartName	name = {value, kind};
	BlockNumber number = DatumGetUInt32(hash_any((const unsigned char *) &name, sizeof(name)));

	return BlockNumberIsValid(number) ? number : 0;
}

/* ---- what keys of a tree are found by ---- */

/* Do keys that are equal have the same hash, today and tomorrow? */
static bool
hash_is_settled(const RoseSchema *schema)
{
	if (!schema->hashable)
		return false;
	for (int i = 0; i < schema->nkeys; i++)
		if (schema->keys[i].hashable && schema->keys[i].hashfn.fn_oid >= FirstNormalObjectId)
			return false;
	return true;
}

/* Smallest and greatest prefix of keys that begin with these columns. */
static uint64
prefix_of_bound(const RoseSchema *schema, const Datum *key, int ncols, bool greatest)
{
	RoseKeyPrefix prefix;

	if (ncols == 0)
		return greatest ? PG_UINT64_MAX : 0;
	rose_key_prefix_make(schema, key, ncols, &prefix);
	return greatest ? prefix.word[0] | ~prefix.mask[0] : prefix.word[0];
}

/* ---- readers ---- */

bool
rose_predicate_is_needed(RoseTree *tree, Snapshot snapshot)
{
	return IsolationIsSerializable() &&
		CheckForSerializableConflictOutNeeded(tree->rel, snapshot);
}

static void
lock_hash(RoseTree *tree, const Datum *key, Snapshot snapshot)
{
	PredicateLockPage(tree->rel, part_number(KIND_HASH, rose_key_hash(tree->schema, key)),
					  snapshot);
}

/* All keys whose prefixes are between these. */
static void
lock_prefixes(RoseTree *tree, uint64 first, uint64 last, Snapshot snapshot)
{
	int			level = 0;

	while (level < WORD_BITS && (last >> level) - (first >> level) >= RANGE_PARTS)
		level += LEVEL_STEP;
	if (level >= WORD_BITS)
	{
		PredicateLockRelation(tree->rel, snapshot);
		return;
	}
	for (uint64 part = first >> level;; part++)
	{
		PredicateLockPage(tree->rel, part_number((uint64) level, part), snapshot);
		if (part == last >> level)
			break;
	}
}

void
rose_predicate_lock_key(RoseTree *tree, const Datum *key, Snapshot snapshot)
{
	uint64		prefix;

	if (!rose_predicate_is_needed(tree, snapshot))
		return;
	if (hash_is_settled(tree->schema))
	{
		lock_hash(tree, key, snapshot);
		return;
	}
	prefix = rose_key_prefix(tree->schema, key);
	lock_prefixes(tree, prefix, prefix, snapshot);
}

void
rose_predicate_lock_range(RoseTree *tree, const RoseKeyRange *range, Snapshot snapshot)
{
	const RoseSchema *schema = tree->schema;
	uint64		first;
	uint64		last;

	if (!rose_predicate_is_needed(tree, snapshot))
		return;
	if (range->nhashed > 0 && hash_is_settled(schema))
	{
		lock_hash(tree, range->lower, snapshot);
		return;
	}
	first = prefix_of_bound(schema, range->lower, range->nlower, false);
	last = prefix_of_bound(schema, range->upper, range->nupper, true);
	if (first <= last)			/* else no key is in the range */
		lock_prefixes(tree, first, last, snapshot);
}

/* ---- writers ---- */

static void
check_part(RoseTree *tree, uint64 kind, uint64 value)
{
	CheckForSerializableConflictIn(tree->rel, NULL, part_number(kind, value));
}

void
rose_predicate_check_written(RoseTree *tree, const Datum *key)
{
	const RoseSchema *schema = tree->schema;
	uint64		prefix = rose_key_prefix(schema, key);

	if (hash_is_settled(schema))
		check_part(tree, KIND_HASH, rose_key_hash(schema, key));
	for (int level = 0; level < WORD_BITS; level += LEVEL_STEP)
		check_part(tree, (uint64) level, prefix >> level);
}
