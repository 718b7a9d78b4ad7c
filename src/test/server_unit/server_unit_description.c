/*-------------------------------------------------------------------------
 *
 * server_unit_description.c
 *	  Descriptions of upstream tables (repl/rose_description.c): written, read and compared.
 *
 *	test_descriptions()
 *		One that is written and read again is equal to itself, whatever was in the memory that core
 *		reads it into, and to none that differs in anything that is sent.  Raises an error with what is wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"

#include "repl/rose_repl_internal.h"

PG_FUNCTION_INFO_V1(test_descriptions);

static LogicalRepRelation *
make(const char *schema, const char *name, char replident, int natts, const char *last, Oid type, int key)
{
	LogicalRepRelation *remote = palloc0(sizeof(LogicalRepRelation));

	remote->remoteid = 16384;
	remote->nspname = pstrdup(schema);
	remote->relname = pstrdup(name);
	remote->replident = replident;
	remote->natts = natts;
	remote->attnames = palloc(sizeof(char *) * natts);
	remote->atttyps = palloc(sizeof(Oid) * natts);
	for (int i = 0; i < natts; i++)
	{
		remote->attnames[i] = i == natts - 1 ? pstrdup(last) : psprintf("c%d", i);
		remote->atttyps[i] = i == natts - 1 ? type : INT4OID;
	}
	remote->attkeys = bms_make_singleton(key);
	return remote;
}

static LogicalRepRelation *
write_and_read(const LogicalRepRelation *remote)
{
	StringInfoData s;

	initStringInfo(&s);
	rose_description_write(remote, &s);
	return logicalrep_read_rel(&s);
}

static void
check(bool ok, const char *what)
{
	if (!ok)
		elog(ERROR, "descriptions: %s", what);
}

Datum
test_descriptions(PG_FUNCTION_ARGS)
{
	LogicalRepRelation *one = make("public", "t", REPLICA_IDENTITY_DEFAULT, 3, "v", TEXTOID, 0);
	LogicalRepRelation *others[] = {
		make("other", "t", REPLICA_IDENTITY_DEFAULT, 3, "v", TEXTOID, 0),
		make("public", "u", REPLICA_IDENTITY_DEFAULT, 3, "v", TEXTOID, 0),
		make("public", "t", REPLICA_IDENTITY_FULL, 3, "v", TEXTOID, 0),
		make("public", "t", REPLICA_IDENTITY_DEFAULT, 4, "v", TEXTOID, 0),
		make("public", "t", REPLICA_IDENTITY_DEFAULT, 3, "w", TEXTOID, 0),
		make("public", "t", REPLICA_IDENTITY_DEFAULT, 3, "v", INT8OID, 0),
		make("public", "t", REPLICA_IDENTITY_DEFAULT, 3, "v", TEXTOID, 1)
	};
	LogicalRepRelation *again = write_and_read(one);
	LogicalRepRelation *copy = palloc(sizeof(LogicalRepRelation));

	one->relkind = RELKIND_RELATION;
	again->relkind = 'b';
	check(rose_description_equal(one, again) && rose_description_equal(again, one), "what is not sent makes a difference");
	rose_description_copy(copy, again, CurrentMemoryContext);
	check(rose_description_equal(copy, one), "a copy is another one");
	for (int i = 0; i < lengthof(others); i++)
	{
		LogicalRepRelation *other = write_and_read(others[i]);

		other->relkind = one->relkind;
		check(!rose_description_equal(one, other), psprintf("no difference from %d", i));
		check(rose_description_equal(others[i], other), psprintf("%d is not itself", i));
	}
	PG_RETURN_INT32(lengthof(others));
}
