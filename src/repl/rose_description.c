/*-------------------------------------------------------------------------
 *
 * rose_description.c
 *	  The upstream's descriptions of its tables, as they are kept: copied, compared, and written
 *	  as they come; and which of them need text.
 *
 * Memory of callers' contexts only; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "nodes/bitmapset.h"
#include "utils/memutils.h"

#include "repl/rose_repl_internal.h"

/* On the wire, a column of the replica identity has this flag. */
#define IS_IDENTITY		1

/* ---------------------------------------------------------------------
 * Keeping them
 */

/* All that it consists of is in the context, but the struct itself. */
void
rose_description_copy(LogicalRepRelation *to, const LogicalRepRelation *from, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);

	*to = *from;
	to->nspname = pstrdup(from->nspname);
	to->relname = pstrdup(from->relname);
	to->attnames = palloc(sizeof(char *) * Max(from->natts, 1));
	to->atttyps = palloc(sizeof(Oid) * Max(from->natts, 1));
	for (int i = 0; i < from->natts; i++)
	{
		to->attnames[i] = pstrdup(from->attnames[i]);
		to->atttyps[i] = from->atttyps[i];
	}
	to->attkeys = bms_copy(from->attkeys);
	MemoryContextSwitchTo(old);
}

/* Nobody else looks at the encoding of what an upstream sends. */
void
rose_description_check(const LogicalRepRelation *remote)
{
	int			encoding = GetDatabaseEncoding();

	(void) pg_verify_mbstr(encoding, remote->nspname, strlen(remote->nspname), false);
	(void) pg_verify_mbstr(encoding, remote->relname, strlen(remote->relname), false);
	for (int i = 0; i < remote->natts; i++)
		(void) pg_verify_mbstr(encoding, remote->attnames[i], strlen(remote->attnames[i]), false);
}

/* What logicalrep_read_rel reads.  It does not read type modifiers. */
void
rose_description_write(const LogicalRepRelation *remote, StringInfo out)
{
	pq_sendint32(out, remote->remoteid);
	pq_sendbytes(out, remote->nspname, strlen(remote->nspname) + 1);
	pq_sendbytes(out, remote->relname, strlen(remote->relname) + 1);
	pq_sendbyte(out, remote->replident);
	pq_sendint16(out, remote->natts);
	for (int i = 0; i < remote->natts; i++)
	{
		pq_sendbyte(out, bms_is_member(i, remote->attkeys) ? IS_IDENTITY : 0);
		pq_sendbytes(out, remote->attnames[i], strlen(remote->attnames[i]) + 1);
		pq_sendint32(out, remote->atttyps[i]);
		pq_sendint32(out, -1);
	}
}

/* The kind of relation is not in the message, so what is there is nobody's. */
bool
rose_description_equal(const LogicalRepRelation *a, const LogicalRepRelation *b)
{
	if (a->remoteid != b->remoteid || a->natts != b->natts || a->replident != b->replident ||
		strcmp(a->nspname, b->nspname) != 0 || strcmp(a->relname, b->relname) != 0 || !bms_equal(a->attkeys, b->attkeys))
		return false;
	for (int i = 0; i < a->natts; i++)
	{
		if (a->atttyps[i] != b->atttyps[i] || strcmp(a->attnames[i], b->attnames[i]) != 0)
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------------
 * Formats
 */

/*
 * Does a type of the upstream, in binary format, mean the same here?  Only a built-in
 * one: others may have the same name and another format, or contain the oid of
 * a type, or the upstream fails to send them, as some part of them has no binary
 * format.  A reg* type's binary format is an oid of the upstream, while its text is a
 * name that is looked up here.
 */
bool
rose_description_binary_fits(Oid type)
{
	switch (type)
	{
		case REGPROCOID:
		case REGPROCARRAYOID:
		case REGPROCEDUREOID:
		case REGPROCEDUREARRAYOID:
		case REGOPEROID:
		case REGOPERARRAYOID:
		case REGOPERATOROID:
		case REGOPERATORARRAYOID:
		case REGCLASSOID:
		case REGCLASSARRAYOID:
		case REGTYPEOID:
		case REGTYPEARRAYOID:
		case REGCONFIGOID:
		case REGCONFIGARRAYOID:
		case REGDICTIONARYOID:
		case REGDICTIONARYARRAYOID:
		case REGNAMESPACEOID:
		case REGNAMESPACEARRAYOID:
		case REGROLEOID:
		case REGROLEARRAYOID:
		case REGCOLLATIONOID:
		case REGCOLLATIONARRAYOID:
		case ACLITEMARRAYOID:	/* its elements have no binary format */
			return false;
		default:
			return type < FirstGenbkiObjectId;
	}
}

bool
rose_description_needs_text(const LogicalRepRelation *remote)
{
	for (int i = 0; i < remote->natts; i++)
	{
		if (!rose_description_binary_fits(remote->atttyps[i]))
			return true;
	}
	return false;
}
