/*-------------------------------------------------------------------------
 *
 * rose_extension.c
 *	  Commands that make the extension, or miss it.
 *
 * Up to version 1.0 the schema "rose" was the one that the extension is in; since 1.1 it is
 * one of the extension's objects, which dumps do not have.  Core accepts no schema but that
 * of the control file, so what older dumps say is taken out here.
 *
 * The library is in all databases of the server, the extension in those in which it was
 * made.  In any other one, default_table_access_method = rose makes each CREATE TABLE fail.
 * The error is core's; we add what to do.
 *
 * Takes the locks that reading catalogs takes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"

#include "rose_extension.h"

/* Position of SCHEMA rose in the options, or -1. */
static int
find_old_schema(const List *options)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "schema") == 0)
			return strcmp(defGetString(option), "rose") == 0 ? foreach_current_index(cell) : -1;
	}
	return -1;
}

PlannedStmt *
rose_extension_take(PlannedStmt *pstmt)
{
	CreateExtensionStmt *stmt = (CreateExtensionStmt *) pstmt->utilityStmt;
	int			position;

	if (!IsA(stmt, CreateExtensionStmt) || strcmp(stmt->extname, "rose") != 0)
		return pstmt;
	position = find_old_schema(stmt->options);
	if (position < 0)
		return pstmt;
	/* it may be in somebody's cache */
	pstmt = copyObject(pstmt);
	stmt = (CreateExtensionStmt *) pstmt->utilityStmt;
	stmt->options = list_delete_nth_cell(stmt->options, position);
	return pstmt;
}

/* Name of the access method that the command gives a table; NULL: it gives none. */
static const char *
access_method_of(Node *stmt)
{
	ListCell   *cell;

	if (IsA(stmt, CreateStmt) && ((CreateStmt *) stmt)->accessMethod != NULL)
		return ((CreateStmt *) stmt)->accessMethod;
	if (IsA(stmt, CreateTableAsStmt) && ((CreateTableAsStmt *) stmt)->into->accessMethod != NULL)
		return ((CreateTableAsStmt *) stmt)->into->accessMethod;
	if (IsA(stmt, CreateStmt) || IsA(stmt, CreateTableAsStmt))
		return default_table_access_method;
	if (!IsA(stmt, AlterTableStmt))
		return NULL;
	foreach(cell, ((AlterTableStmt *) stmt)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_SetAccessMethod)
			return cmd->name != NULL ? cmd->name : default_table_access_method;
	}
	return NULL;
}

bool
rose_extension_is_missed(Node *stmt)
{
	const char *name = access_method_of(stmt);

	return name != NULL && strcmp(name, "rose") == 0 && !OidIsValid(get_am_oid("rose", true));
}

void
rose_extension_rethrow(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	/* it may be another one; core's is in the language of the server's messages */
	if (error->sqlerrcode == ERRCODE_UNDEFINED_OBJECT && error->hint == NULL &&
		strcmp(error->message, psprintf(_("access method \"%s\" does not exist"), "rose")) == 0)
		error->hint = pstrdup("Run CREATE EXTENSION rose in this database. Databases made later have it if template1 has it, but not those made from template0.");
	ReThrowError(error);
}
