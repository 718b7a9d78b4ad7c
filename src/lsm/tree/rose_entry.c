/*-------------------------------------------------------------------------
 *
 * rose_entry.c
 *	  The entry that a row has in a secondary index, and what a change of the row changes
 *	  there.
 *
 * Plain columns are projected here, others computed by a hook.  Whether two entries are the same is asked of their
 * images, since INCLUDE columns, and values that are equal without being the same, are
 * read from entries; whether their keys are, of the index's order.
 *
 * No locks; nothing is kept.  Entries are written by lsm/write/rose_entries.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"

#include "lsm/tree/rose_entry.h"

RoseEntryEvalHook rose_entry_eval_hook = NULL;

void
rose_entry_of_row(const RoseEntryShape *shape, Relation index, RoseEntryUser user,
				  const Datum *values, const bool *nulls, int64 rowid, RoseEntry *entry)
{
	Datum		computed[INDEX_MAX_KEYS];
	bool		computed_nulls[INDEX_MAX_KEYS];

	entry->exists = true;
	entry->failed = false;
	if (unlikely(shape->evaluates))
	{
		RoseEntryEval result = rose_entry_eval_hook(index, user, values, nulls, computed, computed_nulls);

		entry->exists = result == ROSE_EVAL_ROW;
		entry->failed = result == ROSE_EVAL_FAILED;
	}
	for (int i = 0; entry->exists && i < shape->ncolumns; i++)
	{
		const RoseEntryColumn *column = &shape->columns[i];
		bool		plain = column->source > 0;
		int			from = plain ? column->source - 1 : rose_index_def_expression(column->source);
		bool		isnull;

		if (column->source == ROSE_ENTRY_ROWID)
		{
			entry->nulls[i] = false;
			entry->values[i] = Int64GetDatum(rowid);
			continue;
		}
		isnull = plain ? nulls[from] : computed_nulls[from];
		entry->nulls[i] = isnull && !column->rank;
		if (column->rank)
			entry->values[i] = Int16GetDatum(rose_key_rank(isnull, column->null_is_less));
		else
			entry->values[i] = isnull ? (Datum) 0 : plain ? values[from] : computed[from];
	}
}


bool
rose_entry_same(const RoseEntryShape *shape, const RoseEntry *a, const RoseEntry *b)
{
	if (!a->exists || !b->exists)
		return a->exists == b->exists;
	for (int i = 0; i < shape->ncolumns; i++)
	{
		const RoseEntryColumn *column = &shape->columns[i];

		if (a->nulls[i] != b->nulls[i] ||
			(!a->nulls[i] &&
			 !datum_image_eq(a->values[i], b->values[i], column->byval, column->len)))
			return false;
	}
	return true;
}

void
rose_entry_key(const RoseSchema *schema, const RoseEntry *entry, Datum *key)
{
	for (int i = 0; i < schema->nkeys; i++)
		key[i] = entry->values[schema->keys[i].def.attno - 1];
}

RoseEntryChange
rose_entry_compare(const RoseEntryShape *shape, const RoseSchema *schema,
				   const RoseEntry *old, const RoseEntry *new)
{
	RoseEntryChange change = {false, false};
	Datum		old_key[INDEX_MAX_KEYS];
	Datum		new_key[INDEX_MAX_KEYS];

	if (rose_entry_same(shape, old, new))
		return change;
	change.put = new->exists;
	if (!old->exists || !new->exists)
	{
		change.tombstone = old->exists;
		return change;
	}
	rose_entry_key(schema, old, old_key);
	rose_entry_key(schema, new, new_key);
	change.tombstone = rose_key_compare(schema, old_key, new_key, schema->nkeys) != 0;
	return change;
}
