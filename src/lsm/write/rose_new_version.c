/*-------------------------------------------------------------------------
 *
 * rose_new_version.c
 *	  A version that is to be written: its row, its header, its number.
 *
 * A row that is stored has all values in it, detoasted, and fits a page and the arena;
 * one that stands for its key alone (tombstones, locks) has the key's columns.  The
 * header names the transaction and the command.  The number comes last, when the version
 * is linked or its run is built, so that numbers are in the order of writes.
 *
 * No locks; who gives numbers has them from C0.  Nothing is written here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/xact.h"
#include "utils/datum.h"

#include "memtable/rose_pressure.h"
#include "lsm/write/rose_new_version.h"

void
rose_new_version_stamp(RoseVersion *version, RoseOp op, CommandId cid)
{
	FullTransactionId top = GetTopFullTransactionId();
	TransactionId current = GetCurrentTransactionId();

	memset(version, 0, sizeof(*version));
	version->xid = top;
	if (current != XidFromFullTransactionId(top))
		version->subxid = current;
	version->cid = cid;
	version->op = op;
}

MinimalTuple
rose_new_version_form_row(RoseTree *tree, const Datum *values, const bool *nulls, Datum *key)
{
	const RoseSchema *schema = tree->schema;
	Datum	   *flat = palloc(schema->natts * sizeof(Datum));
	MinimalTuple row;

	for (int i = 0; i < schema->natts; i++)
	{
		flat[i] = values[i];
		if (!nulls[i] && TupleDescAttr(schema->tupdesc, i)->attlen == -1 &&
			(VARATT_IS_EXTERNAL(DatumGetPointer(values[i])) ||
			 VARATT_IS_COMPRESSED(DatumGetPointer(values[i]))))
			flat[i] = PointerGetDatum(detoast_attr((struct varlena *) DatumGetPointer(values[i])));
	}
	rose_component_check_row_fits(schema, flat, nulls);
	row = rose_form_minimal_tuple(schema->tupdesc, flat, (bool *) nulls);
	if (row->t_len > rose_pressure_share(ROSE_SHARE_ROW))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row of %zu bytes is too large for the shared memory of rose tables",
						(Size) row->t_len),
				 errhint("Increase rose.memtable_size to at least four times that size.")));
	if (schema->nkeys > 0)
		rose_key_from_tuple(schema, row, 0, key);
	return row;
}

MinimalTuple
rose_new_version_form_key_row(RoseTree *tree, const Datum *key)
{
	const RoseSchema *schema = tree->schema;
	Datum	   *values = palloc0(schema->natts * sizeof(Datum));
	bool	   *nulls = palloc(schema->natts * sizeof(bool));

	memset(nulls, true, schema->natts * sizeof(bool));
	for (int i = 0; i < schema->nkeys; i++)
	{
		int			column = schema->keys[i].def.attno - 1;

		values[column] = key[i];
		nulls[column] = rose_key_is_null(schema, key, i);
	}
	return rose_form_minimal_tuple(schema->tupdesc, values, nulls);
}

/* Give a version its number. */
void
rose_new_version_number(RoseTree *tree, RoseNewVersion *v, uint64 seq)
{
	RoseVersion *version = &v->version;

	version->seq = seq;
	/* the row under its new key comes next */
	if (version->op == ROSE_OP_TOMBSTONE && version->moved_to != 0 &&
		version->moved_to != ROSE_MOVED_TO_PARTITION)
		version->moved_to = seq + 1;
	if (tree->schema->nkeys > 0)
		return;
	if (version->rowid == 0)
		version->rowid = (int64) seq;
	v->key[0] = Int64GetDatum(version->rowid);
}
