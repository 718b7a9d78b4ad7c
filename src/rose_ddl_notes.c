/*-------------------------------------------------------------------------
 *
 * rose_ddl_notes.c
 *	  What a command does that is to be looked at when it has been run.
 *
 * What that is, and whether it may be, others know (rose_constraint_ddl.c, rose_partition_ddl.c).  Each command has notes of
 * its own: one that is run by a function, or a trigger, of another one is looked at when it ends.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "rose_ddl_notes.h"

/* Of the command that is being run, in TopMemoryContext: it may consist of several transactions. */
static List *notes = NIL;

void
rose_ddl_notes_add(RoseDdlCheck check, Oid object, Oid other, AttrNumber column)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	RoseDdlNote *note = palloc(sizeof(RoseDdlNote));

	note->check = check;
	note->object = object;
	note->other = other;
	note->column = column;
	notes = lappend(notes, note);
	MemoryContextSwitchTo(old);
}

bool
rose_ddl_notes_has(RoseDdlCheck check, Oid object, AttrNumber column)
{
	ListCell   *lc;

	foreach(lc, notes)
	{
		const RoseDdlNote *note = lfirst(lc);

		if (note->check == check && note->object == object && note->column == column)
			return true;
	}
	return false;
}

List *
rose_ddl_notes_enter(void)
{
	List	   *outer = notes;

	notes = NIL;
	return outer;
}

void
rose_ddl_notes_check(void)
{
	ListCell   *lc;

	foreach(lc, notes)
	{
		const RoseDdlNote *note = lfirst(lc);

		note->check(note);
	}
}

void
rose_ddl_notes_leave(List *outer)
{
	list_free_deep(notes);
	notes = outer;
}
