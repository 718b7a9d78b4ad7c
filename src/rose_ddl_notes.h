/*-------------------------------------------------------------------------
 *
 * rose_ddl_notes.h
 *	  What a command does that is to be looked at when it has been run.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_DDL_NOTES_H
#define ROSE_DDL_NOTES_H

#include "postgres.h"

#include "access/attnum.h"
#include "nodes/pg_list.h"

typedef struct RoseDdlNote RoseDdlNote;

/* Raises an error if it must not be. */
typedef void (*RoseDdlCheck) (const RoseDdlNote *note);

struct RoseDdlNote
{
	RoseDdlCheck check;
	Oid			object;			/* these are the check's */
	Oid			other;
	AttrNumber	column;
};

/* Of the command that is being run: for the hook on objects. */
extern void rose_ddl_notes_add(RoseDdlCheck check, Oid object, Oid other, AttrNumber column);

/* Is this noted already, whatever other is? */
extern bool rose_ddl_notes_has(RoseDdlCheck check, Oid object, AttrNumber column);

/*
 * A command begins, which may be within another one; when it has been run, what was noted is looked at.  It ends
 * with what enter returned, whether it has failed or not.
 */
extern List *rose_ddl_notes_enter(void);
extern void rose_ddl_notes_check(void);
extern void rose_ddl_notes_leave(List *outer);

#endif							/* ROSE_DDL_NOTES_H */
