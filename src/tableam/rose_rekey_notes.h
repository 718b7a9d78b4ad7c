/*-------------------------------------------------------------------------
 *
 * rose_rekey_notes.h
 *	  Tables whose keys a command has still to settle at its end.
 *
 * For rose_rekey.c only, but for where commands begin and end (rose_tableam.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_REKEY_NOTES_H
#define ROSE_REKEY_NOTES_H

#include "postgres.h"

typedef enum RoseRekeyNoteKind
{
	ROSE_REKEY_ADOPTED,			/* an index may have become the primary key, and has entries still */
	ROSE_REKEY_DROPPED,			/* the primary key was dropped */
	ROSE_REKEY_REKEYED			/* it has another key now, by which its indexes do not name rows yet */
} RoseRekeyNoteKind;

extern void rose_rekey_note(RoseRekeyNoteKind kind, Oid relid);

/* By any command that is being run. */
extern bool rose_rekey_is_noted(RoseRekeyNoteKind kind, Oid relid);

/* The next one of the command that is being run, or also of those around it; InvalidOid: none. */
extern Oid	rose_rekey_next_note(RoseRekeyNoteKind kind, bool of_all);
extern void rose_rekey_remove_note(RoseRekeyNoteKind kind, Oid relid);
extern bool rose_rekey_has_notes(void);

/* At the end of the transaction.  At that of a subtransaction callbacks do it. */
extern void rose_rekey_forget_notes(void);
extern void rose_rekey_notes_define_callbacks(void);

#endif							/* ROSE_REKEY_NOTES_H */
