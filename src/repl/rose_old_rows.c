/*-------------------------------------------------------------------------
 *
 * rose_old_rows.c
 *	  Tables that show the rows of before until their new copy is there.
 *
 * One that is to be copied again keeps its rows, to be read, until the new ones take their place (rose_replace.c).  That it has
 * them is in rose.subscription_old_rows, apart from the table's state: whatever becomes of the copy, the rows are there
 * and may go when it succeeds.  A table without such a row must be empty when it is copied, for its rows are nobody's
 * to remove.
 *
 * Locking: as for the rows of tables (README.md, "Who writes what").
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"

#include "repl/rose_old_rows.h"
#include "repl/rose_subrows.h"

#define TABLE_NAME	"subscription_old_rows"

enum
{
	OLD_SUBID = 1, OLD_RELID, OLD_LSN,
	OLD_NATTS = OLD_LSN
};

/* relid InvalidOid: any.  exists: false if the extension is of before the table. */
static bool
find(Oid subid, Oid relid, XLogRecPtr *lsn, bool *exists)
{
	RoseRowScan cs;
	bool		found = false;

	*exists = rose_subrows_begin(&cs, TABLE_NAME, OLD_NATTS);
	if (!*exists)
		return false;
	while (rose_subrows_next(&cs))
	{
		if (DatumGetObjectId(rose_subrows_value(&cs, OLD_SUBID)) != subid ||
			(OidIsValid(relid) && DatumGetObjectId(rose_subrows_value(&cs, OLD_RELID)) != relid))
			continue;
		found = true;
		if (lsn != NULL)
			*lsn = DatumGetLSN(rose_subrows_value(&cs, OLD_LSN));
	}
	rose_subrows_end(&cs);
	return found;
}

bool
rose_old_rows_are_there(Oid subid, Oid relid, XLogRecPtr *lsn)
{
	bool		exists;

	return find(subid, relid, lsn, &exists);
}

void
rose_old_rows_note(Oid subid, Oid relid, XLogRecPtr lsn)
{
	RoseRowEdit row = {0};
	bool		exists;
	bool		found = find(subid, relid, NULL, &exists);

	if (!exists)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot have table \"%s\" copied again before the extension is updated", get_rel_name(relid)),
				 errhint("Call ALTER EXTENSION rose UPDATE.")));
	rose_row_set(&row, OLD_SUBID, ObjectIdGetDatum(subid));
	rose_row_set(&row, OLD_RELID, ObjectIdGetDatum(relid));
	rose_row_set(&row, OLD_LSN, LSNGetDatum(lsn));
	if (found)
		rose_subrows_update(TABLE_NAME, ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
	else
		rose_subrows_insert(TABLE_NAME, &row);
}

void
rose_old_rows_forget(Oid subid, Oid relid)
{
	bool		exists;

	if (find(subid, relid, NULL, &exists))
		rose_subrows_delete(TABLE_NAME, (RoseRowKey) {.subid = subid,.relid = relid});
}
