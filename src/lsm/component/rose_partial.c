/*-------------------------------------------------------------------------
 *
 * rose_partial.c
 *	  Completing a PARTIAL version from older versions of its key.
 *
 * See rose_partial.h.
 *
 * Backend-local; no locks.  Which versions are visible, and in what order they come, is
 * for the caller to see to.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "lsm/component/rose_partial.h"

void
rose_partial_init(RosePartial *partial, const RoseSchema *schema, MemoryContext parent)
{
	memset(partial, 0, sizeof(*partial));
	partial->schema = schema;
	partial->parent = parent;
}

/* Take the columns that row has and nobody newer gave. */
static void
partial_take(RosePartial *partial, const RoseRow *row)
{
	const RoseSchema *schema = partial->schema;
	MemoryContext old = MemoryContextSwitchTo(partial->context);

	for (AttrNumber attno = 1; attno <= schema->natts; attno++)
	{
		Form_pg_attribute att = TupleDescAttr(schema->tupdesc, attno - 1);
		Datum		value;
		bool		isnull;

		if (rose_present_test(partial->have, attno))
			continue;
		if (row->version.present && !rose_present_test(row->version.present, attno))
			continue;
		value = rose_row_getattr(row, schema, attno, &isnull);
		partial->nulls[attno - 1] = isnull;
		if (!isnull)
			partial->values[attno - 1] = datumCopy(value, att->attbyval, att->attlen);
		rose_present_set(partial->have, attno);
	}
	MemoryContextSwitchTo(old);
}

void
rose_partial_start(RosePartial *partial, const RoseRow *row)
{
	int			natts = partial->schema->natts;

	if (partial->context == NULL)
		partial->context = AllocSetContextCreate(partial->parent, "rose partial row",
												 ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(partial->context);
	partial->values = MemoryContextAllocZero(partial->context, natts * sizeof(Datum));
	partial->nulls = MemoryContextAllocZero(partial->context, natts * sizeof(bool));
	partial->have = MemoryContextAllocZero(partial->context, ROSE_PRESENT_BYTES(natts));
	partial->version = row->version;
	partial->active = true;
	partial_take(partial, row);
}

bool
rose_partial_add(RosePartial *partial, const RoseRow *row)
{
	Assert(partial->active);
	partial_take(partial, row);
	return row->version.op == ROSE_OP_PUT;
}

void
rose_partial_finish(RosePartial *partial, RoseRow *row, Datum *key)
{
	MemoryContext old = MemoryContextSwitchTo(partial->context);

	memset(row, 0, sizeof(*row));
	row->version = partial->version;
	row->version.op = ROSE_OP_PUT;
	row->version.present = NULL;
	row->tuple = rose_form_minimal_tuple(partial->schema->tupdesc,
										 partial->values, partial->nulls);
	rose_key_from_values(partial->schema, partial->values, row->version.rowid, key);
	row->key = key;
	partial->active = false;
	MemoryContextSwitchTo(old);
}

void
rose_partial_missing_base(const RosePartial *partial)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("partial version with sequence %llu has no complete version below it",
					(unsigned long long) partial->version.seq),
			 errhint("Check the table with rose.check(); a replicated table can be copied anew.")));
}
