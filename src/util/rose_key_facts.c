/*-------------------------------------------------------------------------
 *
 * rose_key_facts.c
 *	  What a file remembers of its key: which columns are hashed, and versions of
 *	  collations.
 *
 * The order of a key column may depend on more collations than its own: ranges bring
 * theirs, rows have one for each column, and types of extensions may use the database's
 * whatever the column says (citext does).
 *
 * Reads catalogs; whoever calls it may not hold LWLocks.  What follows from a difference
 * is decided in lsm.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat/rose_compat_collation.h"
#include "util/rose_key_facts.h"

/* ---- collations that an order depends on ---- */

typedef struct Collations
{
	List	   *oids;
	bool		foreign_type;	/* one that depends on a collation belongs to an extension */
} Collations;

static void collect_from_type(Oid typid, Oid collation, Collations *collations);

static void
collect_from_row(Oid typid, Collations *collations)
{
	TupleDesc	tupdesc = lookup_rowtype_tupdesc(typid, -1);

	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (!att->attisdropped)
			collect_from_type(att->atttypid, att->attcollation, collations);
	}
	ReleaseTupleDesc(tupdesc);
}

static void
collect_from_type(Oid typid, Oid collation, Collations *collations)
{
	char		kind;

	check_stack_depth();
	typid = getBaseType(typid);
	if (OidIsValid(collation))
	{
		collations->oids = list_append_unique_oid(collations->oids, collation);
		if (typid >= FirstGenbkiObjectId)
		{
			collations->oids = list_append_unique_oid(collations->oids, DEFAULT_COLLATION_OID);
			collations->foreign_type = true;
		}
	}
	kind = get_typtype(typid);
	if (OidIsValid(get_element_type(typid)))
		collect_from_type(get_element_type(typid), collation, collations);
	else if (kind == TYPTYPE_MULTIRANGE)
		collect_from_type(get_multirange_range(typid), collation, collations);
	else if (kind == TYPTYPE_RANGE)
	{
		TypeCacheEntry *entry = lookup_type_cache(typid, TYPECACHE_RANGE_INFO);

		collect_from_type(entry->rngelemtype->type_id, entry->rng_collation, collations);
	}
	else if (kind == TYPTYPE_COMPOSITE)
		collect_from_row(typid, collations);
}

static void
collect_from_key(TupleDesc tupdesc, const RoseKeyColumnDisk *key, Collations *collations)
{
	Form_pg_attribute att = TupleDescAttr(tupdesc, key->attno - 1);

	collect_from_type(att->attisdropped ? key->opcintype : att->atttypid, key->collation,
					  collations);
}

/* ---- versions ---- */

/* FNV-1a; on disk, so it must never change. */
static uint64
fingerprint(uint64 hash, const char *bytes, Size n)
{
	for (Size i = 0; i < n; i++)
		hash = (hash ^ (unsigned char) bytes[i]) * UINT64CONST(0x100000001b3);
	return hash;
}

static void
add_version(RoseKeyFacts *facts, int column, Oid collation)
{
	char	   *version = rose_collation_version(collation);
	uint16		number = column;
	Size		used = strlen(facts->versions);

	if (version == NULL)
		return;
	if (facts->order == 0)
		facts->order = UINT64CONST(0xcbf29ce484222325);
	facts->order = fingerprint(facts->order, (char *) &number, sizeof(number));
	facts->order = fingerprint(facts->order, version, strlen(version) + 1);
	if (strstr(facts->versions, version) == NULL)
		snprintf(facts->versions + used, sizeof(facts->versions) - used, "%s%s",
				 used > 0 ? ", " : "", version);
	pfree(version);
}

static void
find_versions(TupleDesc tupdesc, int nkeys, const RoseKeyColumnDisk *keys, RoseKeyFacts *facts)
{
	for (int i = 0; i < nkeys; i++)
	{
		Collations	collations = {0};
		ListCell   *cell;

		collect_from_key(tupdesc, &keys[i], &collations);
		foreach(cell, collations.oids)
			add_version(facts, i, lfirst_oid(cell));
		list_free(collations.oids);
	}
}

/*
 * Text is equal if its bytes are, unless the collation is not deterministic.  Types of
 * extensions may use a collation for more than the order, as citext does.
 */
bool
rose_key_equality_is_fixed(TupleDesc tupdesc, int nkeys, const RoseKeyColumnDisk *keys)
{
	Collations	collations = {0};
	ListCell   *cell;

	for (int i = 0; i < nkeys; i++)
		collect_from_key(tupdesc, &keys[i], &collations);
	if (collations.foreign_type)
		return false;
	foreach(cell, collations.oids)
	{
		if (!get_collation_isdeterministic(lfirst_oid(cell)))
			return false;
	}
	list_free(collations.oids);
	return true;
}

void
rose_key_facts_make(TupleDesc tupdesc, int nkeys, const RoseKeyColumnDisk *keys,
					RoseKeyFacts *facts)
{
	RoseSchema *schema;

	memset(facts, 0, sizeof(*facts));
	if (nkeys == 0)
		return;
	schema = rose_schema_create(tupdesc, nkeys, keys, ROSE_HASH_WHAT_CAN_BE, CurrentMemoryContext);
	for (int i = 0; i < nkeys; i++)
		if (schema->keys[i].hashable)
			facts->hashed |= (uint32) 1 << i;
	rose_schema_free(schema);
	find_versions(tupdesc, nkeys, keys, facts);
}
