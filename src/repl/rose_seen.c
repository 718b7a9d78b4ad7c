/*-------------------------------------------------------------------------
 *
 * rose_seen.c
 *	  What the upstream's tables were like when they were last looked at: rose.subscription_seen.
 *
 * A row for each table of a subscription.  It is written by whoever looks: the copy, and the worker when the upstream describes
 * a table.  As it is of the upstream's present and of no position of the stream, it does not matter what a crash makes of it.  An
 * extension of before has no such relation: then nothing was seen.
 *
 * Locking: as in rose_subrows.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "repl/rose_repl_internal.h"
#include "repl/rose_subrows.h"

#define SEEN_TABLE "subscription_seen"

/* Columns; see rose--1.0--1.1.sql. */
enum
{
	SEEN_SUBID = 1, SEEN_RELID, SEEN_REMOTE_NATTS, SEEN_REMOTE_FILES, SEEN_PUBLISHED,
	SEEN_COLUMNS = SEEN_PUBLISHED
};

/* there: is there such a relation? */
static bool
find(Oid subid, Oid relid, RoseUpstreamSeen *seen, bool *there)
{
	RoseRowScan cs;
	bool		found = false;

	*there = rose_subrows_begin(&cs, SEEN_TABLE, SEEN_COLUMNS);
	if (!*there)
		return false;
	while (rose_subrows_next(&cs))
	{
		if (DatumGetObjectId(rose_subrows_value(&cs, SEEN_SUBID)) != subid ||
			DatumGetObjectId(rose_subrows_value(&cs, SEEN_RELID)) != relid)
			continue;
		seen->natts = DatumGetInt32(rose_subrows_value(&cs, SEEN_REMOTE_NATTS));
		seen->files = TextDatumGetCString(rose_subrows_value(&cs, SEEN_REMOTE_FILES));
		seen->published = TextDatumGetCString(rose_subrows_value(&cs, SEEN_PUBLISHED));
		found = true;
	}
	rose_subrows_end(&cs);
	return found;
}

bool
rose_seen_get(Oid subid, Oid relid, RoseUpstreamSeen *seen)
{
	bool		there;

	return find(subid, relid, seen, &there);
}

void
rose_seen_set(Oid subid, Oid relid, const RoseUpstreamSeen *seen)
{
	RoseUpstreamSeen before = {0};
	RoseRowEdit row = {0};
	bool		there;
	bool		found = find(subid, relid, &before, &there);

	if (!there || seen->files == NULL)
		return;
	rose_row_set(&row, SEEN_SUBID, ObjectIdGetDatum(subid));
	rose_row_set(&row, SEEN_RELID, ObjectIdGetDatum(relid));
	rose_row_set(&row, SEEN_REMOTE_NATTS, Int32GetDatum(seen->natts));
	rose_row_set_text(&row, SEEN_REMOTE_FILES, seen->files);
	rose_row_set_text(&row, SEEN_PUBLISHED, seen->published);
	if (found)
		rose_subrows_update(SEEN_TABLE, ROSE_SUBROWS_OF_TABLE(subid, relid), &row);
	else
		rose_subrows_insert(SEEN_TABLE, &row);
}

void
rose_seen_forget(Oid subid, Oid relid)
{
	RoseRowScan cs;

	if (!rose_subrows_begin(&cs, SEEN_TABLE, SEEN_COLUMNS))
		return;
	rose_subrows_end(&cs);
	rose_subrows_delete(SEEN_TABLE, ROSE_SUBROWS_OF_TABLE(subid, relid));
}
