/*-------------------------------------------------------------------------
 *
 * rose_table_options.h
 *	  Statements that set options of tables; for the hooks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_TABLE_OPTIONS_H
#define ROSE_TABLE_OPTIONS_H

#include "postgres.h"

#include "nodes/plannodes.h"
#include "nodes/primnodes.h"

/* What a command that is being run does with options; private to rose_table_options.c. */
typedef struct RoseOptionsCommand
{
	struct RoseOptionsCommand *outer;
	const char *creating;		/* name of the table to come, or NULL */
	List	   *options;		/* rose's, that it gets */
	List	   *unused;			/* names of others that are of no use to it */
	Oid			altering;		/* a table whose options are to be put back, or InvalidOid */
	Datum		wanted;			/* those, as an array; 0 = none */
	int			nevents;		/* after so many events; 0 = at the end */
	RangeVar   *retyped;		/* a table that may get another access method, or NULL */
} RoseOptionsCommand;

/*
 * Around a command: begin and leave for all of them, end for those that succeeded.  take
 * returns what to run instead, which has nothing of rose's options.
 */
extern void rose_table_options_begin(RoseOptionsCommand *command);
extern PlannedStmt *rose_table_options_take(RoseOptionsCommand *command, PlannedStmt *pstmt);
extern void rose_table_options_end(RoseOptionsCommand *command);
extern void rose_table_options_leave(RoseOptionsCommand *command);

/* Core has made this relation, or altered it. */
extern void rose_table_options_note_created(Oid relid);
extern void rose_table_options_note_altered(Oid relid);

#endif							/* ROSE_TABLE_OPTIONS_H */
