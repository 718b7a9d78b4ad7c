/*-------------------------------------------------------------------------
 *
 * rose_rekey_notes.c
 *	  Tables whose keys a command has still to settle at its end.  See rose_rekey_notes.h.
 *
 * Commands may run others: those of functions that rows are computed with, of event triggers, and those
 * that ALTER TABLE makes for columns with sequences.  When such a one ends, what is noted
 * by those around it waits, for they are not done: a table may be without a primary key
 * because it is about to get another one.  So a note has the depth of its command.
 *
 * A command that fails has changed nothing: its notes go with its subtransaction.
 *
 * Needs no lock: all of it is the backend's own, in TopTransactionContext.
 *
 * What this does not do: settle anything (rose_rekey.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "tableam/rose_rekey_notes.h"
#include "tableam/rose_tableam.h"

typedef struct RekeyNote
{
	RoseRekeyNoteKind kind;
	Oid			relid;
	int			depth;			/* of the command */
	SubTransactionId subid;
} RekeyNote;

static List *notes = NIL;

/* How many commands are being run, each by the one before. */
static int	command_depth = 0;

/* From commands as deep as that on; NULL: none.  InvalidOid: of any table. */
static RekeyNote *
find_note(RoseRekeyNoteKind kind, Oid relid, int depth)
{
	ListCell   *cell;

	foreach(cell, notes)
	{
		RekeyNote  *note = lfirst(cell);

		if (note->kind == kind && note->depth >= depth &&
			(note->relid == relid || !OidIsValid(relid)))
			return note;
	}
	return NULL;
}

void
rose_rekey_note(RoseRekeyNoteKind kind, Oid relid)
{
	MemoryContext old;
	RekeyNote  *note;

	if (find_note(kind, relid, command_depth) != NULL)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	note = palloc(sizeof(RekeyNote));
	note->kind = kind;
	note->relid = relid;
	note->depth = command_depth;
	note->subid = GetCurrentSubTransactionId();
	notes = lappend(notes, note);
	MemoryContextSwitchTo(old);
}

bool
rose_rekey_is_noted(RoseRekeyNoteKind kind, Oid relid)
{
	return find_note(kind, relid, 0) != NULL;
}

Oid
rose_rekey_next_note(RoseRekeyNoteKind kind, bool of_all)
{
	RekeyNote  *note = find_note(kind, InvalidOid, of_all ? 0 : command_depth);

	return note != NULL ? note->relid : InvalidOid;
}

/* One of the command that is being run, if there is one. */
void
rose_rekey_remove_note(RoseRekeyNoteKind kind, Oid relid)
{
	RekeyNote  *note = find_note(kind, relid, command_depth);

	if (note == NULL)
		note = find_note(kind, relid, 0);
	notes = list_delete_ptr(notes, note);
}

bool
rose_rekey_has_notes(void)
{
	return notes != NIL;
}

int
rose_rekey_enter_notes(void)
{
	return command_depth++;
}

void
rose_rekey_leave_notes(int outer)
{
	command_depth = outer;
}

void
rose_rekey_forget_notes(void)
{
	notes = NIL;
}

static void
notes_on_subtransaction_event(SubXactEvent event, SubTransactionId mine,
							  SubTransactionId parent, void *arg)
{
	ListCell   *cell;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(cell, notes)
	{
		RekeyNote  *note = lfirst(cell);

		if (note->subid != mine)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			note->subid = parent;
		else
			notes = foreach_delete_current(notes, cell);
	}
}

void
rose_rekey_notes_define_callbacks(void)
{
	RegisterSubXactCallback(notes_on_subtransaction_event, NULL);
}
