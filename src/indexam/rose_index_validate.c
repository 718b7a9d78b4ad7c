/*-------------------------------------------------------------------------
 *
 * rose_index_validate.c
 *	  Is an entry that of the row that it leads to?
 *
 * A function of a user that makes entries may give another result than it gave when the entry
 * was written: it reads a setting, or was replaced.  The entry that the row left behind
 * may be there still, then, since what was taken out was another one.  So the row that
 * a scan finds by an entry is asked again: if what is computed for it now, as its owner
 * sees it, has another key, or none, the entry is passed over.  Entries of one tree have
 * different keys, so no row is returned twice, and none that is gone.  A row whose function
 * gives another result by now is found by neither until REINDEX; on heap it would be found
 * by the old one.
 *
 * What a subscription has written blindly leaves its old entries behind, too.  Nothing but its key
 * is to be believed of an entry there: the same one may stand for several versions of the row.  So
 * whoever wants the entry itself gets it as it is made of the row.
 *
 * No locks.  Calls functions of users (rose_index_eval.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "lsm/tree/rose_index_set.h"
#include "indexam/rose_indexam.h"

struct RoseIndexValidator
{
	Relation	index;
	const RoseSchema *schema;	/* of its tree */
	const RoseSchema *table;
	RoseEntryShape shape;
	RoseEntry	entry;			/* of the row that was asked last, in row_context */
	Datum	   *values;			/* of a row */
	bool	   *nulls;
	MemoryContext row_context;	/* what is needed for one row */
};

RoseIndexValidator *
rose_index_validator_create(Relation index, const RoseSchema *table)
{
	RoseIndexValidator *validator = palloc0(sizeof(RoseIndexValidator));
	RoseTree   *tree = rose_tree_open(index);

	validator->index = index;
	validator->schema = tree->schema;
	validator->table = table;
	rose_index_set_shape(index, rose_tree_index_meta(tree), validator->schema, table->natts, &validator->shape);
	validator->values = palloc(validator->shape.last_source * sizeof(Datum));
	validator->nulls = palloc(validator->shape.last_source * sizeof(bool));
	validator->row_context = AllocSetContextCreate(CurrentMemoryContext, "rose index validation",
												   ALLOCSET_SMALL_SIZES);
	return validator;
}

/* What entries are made of; the row may go if functions are called. */
static void
take_row(RoseIndexValidator *validator, const RoseRow *row)
{
	int			attno = -1;

	rose_row_deform(row, validator->table, 1, validator->shape.last_source, validator->values,
					validator->nulls);
	while (validator->shape.evaluates &&
		   (attno = bms_next_member(validator->shape.depends, attno)) >= 0)
	{
		const RoseTupleColumn *column = &validator->table->tuple_columns[attno - 1];
		Datum	   *value = &validator->values[attno - 1];

		if (!validator->nulls[attno - 1] && !column->attbyval)
			*value = datumCopy(*value, false, column->attlen);
	}
}

const RoseEntry *
rose_index_validator_agrees(RoseIndexValidator *validator, const RoseRow *row, const Datum *key)
{
	const RoseSchema *schema = validator->schema;
	int64		rowid = validator->table->nkeys == 0 ? DatumGetInt64(row->key[0]) : 0;
	RoseEntry  *entry = &validator->entry;
	Datum		row_key[INDEX_MAX_KEYS];
	MemoryContext old;

	MemoryContextReset(validator->row_context);
	old = MemoryContextSwitchTo(validator->row_context);
	take_row(validator, row);
	rose_entry_of_row(&validator->shape, validator->index, ROSE_ENTRY_OF_OWNER,
					  validator->values, validator->nulls, rowid, entry);
	MemoryContextSwitchTo(old);
	if (!entry->exists)
		return NULL;
	rose_entry_key(schema, entry, row_key);
	return rose_key_compare(schema, row_key, key, schema->nkeys) == 0 ? entry : NULL;
}

bool
rose_index_validator_calls(const RoseIndexValidator *validator)
{
	return validator->shape.evaluates;
}
