/*-------------------------------------------------------------------------
 *
 * rose_apply_row.c
 *	  One row: read from what the upstream sent of it, completed, and given on to be written.
 *
 * A row without a value that the upstream did not send becomes a PARTIAL version.  The table itself is read in two
 * cases only: an expression of it (rose_rules.h) looks at a value that was not sent, or an index has
 * such a column beside one that was sent; that a key changes, and a value that was not sent has to move along, is the
 * caller's to see (rose_apply.c).
 *
 * Locking: the caller's batch has the tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "lsm/read/rose_lookup.h"
#include "lsm/write/rose_blind_entries.h"
#include "repl/rose_apply_row.h"
#include "repl/rose_conflicts.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_rights.h"

/* ---------------------------------------------------------------------
 * What was sent
 */

bool
rose_apply_row_read(RoseReplRel *entry, RoseWireTuple *tuple, Datum *values, bool *nulls,
		 bits8 *present)
{
	bool		unchanged = false;
	bool		as_owner = false;
	RoseRights	rights;

	if (present != NULL)
		memset(present, 0, ROSE_PRESENT_BYTES(entry->natts));
	for (int i = 0; i < entry->natts; i++)
	{
		RoseReplColumn *column = &entry->columns[i];
		char		kind = ROSE_WIRE_NULL;

		values[i] = (Datum) 0;
		nulls[i] = true;
		if (unlikely(column->remote < 0) && (column->constant || (column->kept && present != NULL)))
		{
			unchanged |= !column->constant;
			nulls[i] = !column->constant;
			values[i] = column->value;
			if (column->constant && present != NULL)
				rose_present_set(present, i + 1);
			continue;
		}
		if (column->remote >= 0)
		{
			if (column->remote >= tuple->ncols)
				ereport(ERROR,
						(errcode(ERRCODE_PROTOCOL_VIOLATION),
						 errmsg("the upstream sent a row of %d columns, too few for its own description",
								tuple->ncols)));
			kind = tuple->columns[column->remote].kind;
		}
		if (kind == ROSE_WIRE_UNCHANGED)
		{
			unchanged = true;
			continue;
		}
		if (present != NULL)
			rose_present_set(present, i + 1);
		if (kind != ROSE_WIRE_NULL)
		{
			if (unlikely(column->has_code) && !as_owner)
			{
				rose_rights_take(entry->rel->rd_rel->relowner, &rights);
				as_owner = true;
			}
			values[i] = rose_repl_read_value(column, &tuple->columns[column->remote]);
			nulls[i] = false;
		}
	}
	if (as_owner)
		rose_rights_give_back(&rights);
	return unchanged;
}

/*
 * A value in binary format, for error messages: raises no error, whatever the
 * upstream sent.
 */
static void
describe_binary(Oid type, const RoseWireColumn *value, StringInfo out)
{
	int64		number = 0;

	if (type == TEXTOID || type == VARCHAROID || type == BPCHAROID || type == NAMEOID)
	{
		appendBinaryStringInfo(out, value->data, value->len);
		return;
	}
	if ((type == INT2OID || type == INT4OID || type == INT8OID) &&
		value->len > 0 && value->len <= (int) sizeof(number))
	{
		number = (signed char) value->data[0];
		for (int i = 1; i < value->len; i++)
			number = (int64) ((uint64) number << 8 | (unsigned char) value->data[i]);
		appendStringInfo(out, INT64_FORMAT, number);
		return;
	}
	appendStringInfoString(out, "\\x");
	for (int i = 0; i < value->len; i++)
		appendStringInfo(out, "%02x", (unsigned char) value->data[i]);
}

void
rose_apply_row_describe_key(const RoseReplTarget *target, const RoseWireTuple *tuple, StringInfo out)
{
	const RoseSchema *schema = target->table->schema;

	for (int i = 0; i < schema->nkeys; i++)
	{
		const RoseReplColumn *column = &target->of->columns[rose_route_column(target->part, schema->keys[i].def.attno - 1)];
		const RoseWireColumn *value;

		appendStringInfoString(out, i > 0 ? ", " : "");
		if (column->remote < 0 || column->remote >= tuple->ncols)
		{
			appendStringInfoString(out, "?");
			continue;
		}
		value = &tuple->columns[column->remote];
		if (value->kind == ROSE_WIRE_TEXT)
			appendStringInfoString(out, value->data);
		else if (value->kind == ROSE_WIRE_BINARY)
			describe_binary(column->type, value, out);
		else
			appendStringInfoString(out, "?");
	}
}

/* ---------------------------------------------------------------------
 * What an UPDATE did not send
 */

bool
rose_apply_row_complete_from_old(RoseReplRel *entry, const RoseWireTuple *old)
{
	bool		missing = false;

	for (int i = 0; i < entry->natts; i++)
	{
		int			remote = entry->columns[i].remote;

		if (rose_present_test(entry->present, i + 1))
			continue;
		if (remote < 0 || !bms_is_member(remote, entry->remote.attkeys) ||
			old->columns[remote].kind == ROSE_WIRE_UNCHANGED)
		{
			missing = true;
			continue;
		}
		entry->values[i] = entry->old_values[i];
		entry->nulls[i] = entry->old_nulls[i];
		rose_present_set(entry->present, i + 1);
	}
	return missing;
}

/*
 * The row of before this change may not be there, though it was: its piece of the table's copy may be of later, when it was gone, or was another one of
 * the key.  What comes later in the stream would not put that right.
 */
static void
require_exact(const RoseReplRel *entry)
{
	if (rose_apply.blame.beside || rose_apply.remote.commit_lsn >= entry->exact_lsn)
		return;
	rose_apply.copies.broken = entry->relid;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("table \"%s.%s\" has to be copied again", entry->remote.nspname, entry->remote.relname),
			 errdetail("Its copy was interrupted, and pieces of it are of later than this change, which has to read a row of before.")));
}

bool
rose_apply_row_complete_from_table(RoseReplTarget *target, const Datum *key)
{
	RoseReplRel *entry = target->of;
	RoseSchema *schema = target->table->schema;
	RoseLookup *lookup;
	const RoseRow *row;
	Snapshot	snapshot;

	require_exact(entry);
	rose_gather_write();
	/* others change it no more, before what is made of it is written */
	if (rose_apply.sub->logged)
		rose_blind_lock(target->table, key, GetCurrentCommandId(true));
	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	lookup = rose_lookup_create(target->table);
	row = rose_lookup_get(lookup, snapshot, key);
	rose_apply.progress.old_row_reads++;

	for (int i = 0; i < RelationGetNumberOfAttributes(target->rel) && row != NULL; i++)
	{
		int			c = rose_route_column(target->part, i);
		int16		typlen;
		bool		typbyval;

		if (c < 0 || rose_present_test(entry->present, c + 1))
			continue;
		entry->values[c] = rose_row_getattr(row, schema, i + 1, &entry->nulls[c]);
		get_typlenbyval(entry->columns[c].type, &typlen, &typbyval);
		if (!entry->nulls[c])
			entry->values[c] = datumCopy(entry->values[c], typbyval, typlen);
	}
	rose_lookup_free(lookup);
	UnregisterSnapshot(snapshot);
	return row != NULL;
}

/* ---------------------------------------------------------------------
 * Writing it
 */

void
rose_apply_row_write(RoseReplTarget *target)
{
	rose_target_take_new(target, false);
	rose_rules_apply(target->rules, target->values, target->nulls);
	rose_gather_row(target, ROSE_OP_PUT, target->values, target->nulls, NULL);
}

void
rose_apply_row_write_incomplete(RoseReplTarget *target, bool key_is_same)
{
	Datum		key[INDEX_MAX_KEYS];

	rose_target_take_new(target, true);
	if (!rose_rules_apply_partial(target->rules, target->values, target->nulls, target->present) ||
		rose_blind_needs_row(target->indexes, target->present, key_is_same))
	{
		rose_component_require_key(target->table->schema, target->nulls);
		rose_key_from_values(target->table->schema, target->values, 0, key);
		if (rose_apply_row_complete_from_table(target, key))
		{
			rose_apply_row_write(target);
			return;
		}
		/* A row that comes here later would take what is written now, without entries in indexes; as it comes after this change, it need not. */
		if (rose_apply.sub->logged)
		{
			rose_conflicts_note_missing(target, key);
			return;
		}
	}
	rose_gather_row(target, ROSE_OP_PARTIAL, target->values, target->nulls, target->present);
	target->of->counts.partials++;
}

void
rose_apply_row_write_tombstone(RoseReplTarget *target)
{
	rose_gather_row(target, ROSE_OP_TOMBSTONE, target->old_values, target->old_nulls, NULL);
}
