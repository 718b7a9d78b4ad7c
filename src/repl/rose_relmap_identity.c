/*-------------------------------------------------------------------------
 *
 * rose_relmap_identity.c
 *	  Does an upstream's replica identity say which row of a local table is meant?
 *
 * Changes of rows are blind: a row goes where its key says, and takes the place of what
 * is there.  So the local key has to be part of what the upstream sends of an old row, and
 * no two rows of the upstream may have one key, not even for a while.  If its constraint is
 * deferrable they may, until the transaction ends: "UPDATE t SET id = id + 1" comes as 1 to 2,
 * then 2 to 3, and the second takes away what the first has written.  A primary key that is
 * the replica identity is never deferrable, but REPLICA IDENTITY FULL, or another index, needs
 * none that is not; nor does a primary key of which the key here is a part.
 *
 * That no constraint at all has the upstream's rows differ in the local key is not looked at:
 * whoever has made the key says that they do.
 *
 * Locking: the caller has the table open and locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "utils/rel.h"

#include "repl/rose_repl_internal.h"

/*
 * The primary key columns are all in the replica identity, or constants of the subscription; the places of the former
 * there, *n of them.  Of a partition, so are those that lead to it.  Of constants alone all rows would have one key.
 */
static bool
key_in_identity(const RoseReplTarget *target, int *remotes, int *n)
{
	const RoseSchema *schema = target->table->schema;
	const RoseReplRel *entry = target->of;

	*n = 0;

	for (int i = 0; i < schema->nkeys; i++)
	{
		int			column = rose_route_column(target->part, schema->keys[i].def.attno - 1);

		if (!bms_is_member(column + 1, entry->identity))
			return false;
		if (!entry->columns[column].constant)
			remotes[(*n)++] = entry->columns[column].remote;
	}
	return *n > 0 &&
		(target->part == NULL || bms_is_subset(target->part->asked, entry->identity));
}

int
rose_relmap_check_identity(RoseReplTarget *target, int16 *attnums)
{
	const RoseReplRel *entry = target->of;
	int			remotes[INDEX_MAX_KEYS];
	int			n;

	target->identity = key_in_identity(target, remotes, &n);
	/* a primary key that is the identity is not deferrable; of a part of it, another constraint may be the one that counts */
	if (!target->identity || entry->remote_attnums == NULL ||
		(entry->remote.replident == REPLICA_IDENTITY_DEFAULT &&
		 n == bms_num_members(entry->remote.attkeys)))
		return 0;
	for (int i = 0; i < n; i++)
		attnums[i] = entry->remote_attnums[remotes[i]];
	return n;
}

static void
report_no_identity(const RoseReplTarget *target, const char *verb)
{
	const char *nspname = target->of->remote.nspname;
	const char *relname = target->of->remote.relname;

	if (target->table->schema->nkeys == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot replicate %s of table \"%s.%s\", which has no primary key here",
						verb, nspname, relname),
				 errhint("Give the table the upstream's primary key, or publish only its inserts.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 target->part == NULL ?
			 errmsg("cannot replicate %s of table \"%s.%s\": the upstream's replica identity does not contain the primary key that the table has here",
					verb, nspname, relname) :
			 errmsg("cannot replicate %s of table \"%s.%s\": the upstream's replica identity does not contain the primary key, or the partition key, that partition \"%s\" has here",
					verb, nspname, relname, RelationGetRelationName(target->rel)),
			 errhint("Use the same primary key on both sides, or ALTER TABLE ... REPLICA IDENTITY FULL on the upstream.")));
}

void
rose_relmap_require_identity(const RoseReplTarget *target, const char *verb)
{
	if (!target->identity)
		report_no_identity(target, verb);
	if (target->deferrable)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot replicate %s of table \"%s.%s\": the upstream's key is deferrable",
						verb, target->of->remote.nspname, target->of->remote.relname),
				 errdetail("Until a transaction ends, two rows may have one key there; here one would take the place of the other."),
				 errhint("Make the upstream's constraint one that is not deferrable.")));
}

Bitmapset *
rose_relmap_columns_in_identity(const RoseReplRel *entry)
{
	Bitmapset  *result = NULL;

	for (int i = 0; i < entry->natts; i++)
	{
		if (entry->columns[i].constant ||
			(entry->columns[i].remote >= 0 && bms_is_member(entry->columns[i].remote, entry->remote.attkeys)))
			result = bms_add_member(result, i + 1);
	}
	return result;
}
