/*-------------------------------------------------------------------------
 *
 * rose_target.c
 *	  What takes the rows of a table of the subscription: the table, or a partition of it.
 *
 * A partition is opened in a batch when it first gets a row, and made the subscription's then if it is not yet.
 * It has a tree, indexes, rules and a key of its own, and its columns may lie in another order.  A
 * change is read in the table's columns (RoseReplRel), and taken over into the partition's.
 *
 * Blind writes need to know which partition has a row, without a look at it.  Of a DELETE, and of an UPDATE that sends
 * the old row, that follows from the old row, of which the upstream sends the columns of its
 * replica identity.  An UPDATE that sends none has left those columns as they were; so if the partition
 * key is among them, the new row is where the old one was.  If it is not, on any level that leads to the
 * partition, nobody can tell, and the change is an error of the table (rose_route_find, or
 * rose_relmap_identity.c).  A primary key of the partitioned table has the partition key in it, so one that is
 * part of the identity is enough; but partitions may have keys of their own.
 *
 * Locking: as for any table of a batch (rose_repl_lock_table), levels in between, too, so that
 * none is detached or dropped before the batch ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/rel.h"

#include "lsm/write/rose_blind_entries.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"

/* ---------------------------------------------------------------------
 * Opening and closing
 */

void
rose_target_open(RoseReplTarget *target, RoseReplRel *of, Relation rel, const RoseRoutePart *part,
				 MemoryContext context)
{
	memset(target, 0, sizeof(RoseReplTarget));
	target->of = of;
	target->part = part;
	target->rel = rel;
	rose_target_tables_require(rel);
	rose_owner_require_table(rose_apply.sub, rel, ACL_NO_RIGHTS);
	target->lacking = rose_owner_lacking(rose_apply.sub, rel);
	rose_repl_feed(rel, of->subid);
	target->table = rose_tree_open(rel);
	target->rules = rose_rules_create(rel, context);
	if (part != NULL && part->in_bounds)
		rose_rules_trust_bounds(target->rules);
	target->indexes = rose_blind_indexes_open(target->table, context);
}

void
rose_target_bind(RoseReplTarget *target)
{
	RoseReplRel *of = target->of;

	target->values = of->values;
	target->nulls = of->nulls;
	target->old_values = of->old_values;
	target->old_nulls = of->old_nulls;
	target->present = of->present;
	if (target->part != NULL && target->part->from != NULL)
	{
		int			natts = Max(target->part->natts, 1);

		target->values = palloc0(sizeof(Datum) * natts);
		target->nulls = palloc0(sizeof(bool) * natts);
		target->old_values = palloc0(sizeof(Datum) * natts);
		target->old_nulls = palloc0(sizeof(bool) * natts);
		target->present = palloc0(ROSE_PRESENT_BYTES(natts));
	}
}

void
rose_target_close(RoseReplTarget *target)
{
	if (target->rules != NULL)
		rose_rules_free(target->rules);
	target->rules = NULL;
	if (target->indexes != NULL)
		rose_blind_indexes_close(target->indexes);
	target->indexes = NULL;
	target->table = NULL;
	target->rel = NULL;
}

RoseRoute *
rose_target_open_route(RoseReplRel *entry, RoseRouteLock lock)
{
	rose_target_tables_require(entry->rel);
	rose_owner_require_table(rose_apply.sub, entry->rel, ACL_NO_RIGHTS);
	return rose_route_create(entry->rel, lock, entry->context);
}

/* For core's statistics, when the batch commits. */
void
rose_target_keep_counts(RoseReplRel *entry)
{
	ListCell   *lc;

	foreach(lc, rose_route_parts(entry->route))
	{
		RoseReplTarget *target = ((RoseRoutePart *) lfirst(lc))->owner;

		if (target == NULL)
			continue;
		rose_repl_stats_keep(target->part->relid, target->inserts, target->updates, target->deletes);
		target->inserts = target->updates = target->deletes = 0;
	}
}

void
rose_target_close_route(RoseReplRel *entry)
{
	ListCell   *lc;

	rose_target_keep_counts(entry);
	foreach(lc, rose_route_parts(entry->route))
	{
		if (((RoseRoutePart *) lfirst(lc))->owner != NULL)
			rose_target_close(((RoseRoutePart *) lfirst(lc))->owner);
	}
	rose_route_free(entry->route);
	entry->route = NULL;
}

/* ---------------------------------------------------------------------
 * Rows
 */

static RoseReplTarget *
target_of_part(RoseReplRel *entry, RoseRoutePart *part)
{
	MemoryContext old;
	RoseReplTarget *target;

	if (likely(part->owner != NULL))
		return part->owner;
	old = MemoryContextSwitchTo(rose_route_context(entry->route));
	target = palloc(sizeof(RoseReplTarget));
	rose_target_open(target, entry, part->rel, part, CurrentMemoryContext);
	rose_target_bind(target);
	MemoryContextSwitchTo(old);
	part->owner = target;
	return target;
}

/* Columns that the row at hand has. */
static Bitmapset *
present_columns(const RoseReplRel *entry)
{
	Bitmapset  *result = NULL;

	for (int i = 0; i < entry->natts; i++)
	{
		if (rose_present_test(entry->present, i + 1))
			result = bms_add_member(result, i + 1);
	}
	return result;
}

RoseReplTarget *
rose_target_of_new(RoseReplRel *entry, bool partial, const char *verb)
{
	if (likely(entry->route == NULL))
		return &entry->target;
	return target_of_part(entry, rose_route_find(entry->route, entry->values, entry->nulls,
												 partial ? present_columns(entry) : NULL,
												 partial ? verb : NULL));
}

RoseReplTarget *
rose_target_of_old(RoseReplRel *entry, const char *verb)
{
	if (likely(entry->route == NULL))
		return &entry->target;
	return target_of_part(entry, rose_route_find(entry->route, entry->old_values, entry->old_nulls,
												 entry->identity, verb));
}

void
rose_target_take_new(RoseReplTarget *target, bool present)
{
	const RoseReplRel *of = target->of;

	if (likely(target->values == of->values))
		return;
	rose_route_convert(target->part, of->values, of->nulls, target->values, target->nulls);
	if (!present)
		return;
	memset(target->present, 0, ROSE_PRESENT_BYTES(target->part->natts));
	for (int i = 0; i < target->part->natts; i++)
	{
		int			column = rose_route_column(target->part, i);

		if (column < 0 || rose_present_test(of->present, column + 1))
			rose_present_set(target->present, i + 1);
	}
}

void
rose_target_take_old(RoseReplTarget *target)
{
	const RoseReplRel *of = target->of;

	if (unlikely(target->old_values != of->old_values))
		rose_route_convert(target->part, of->old_values, of->old_nulls, target->old_values, target->old_nulls);
}
