/*-------------------------------------------------------------------------
 *
 * fuzz_stubs.c
 *	  Functions of the server that the modules under test are linked with and that
 *	  opening a footer never calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "fmgr.h"
#include "utils/datum.h"

static void
not_here(const char *name)
{
	fprintf(stderr, "%s was called\n", name);
	abort();
}

Datum
FunctionCall2Coll(FmgrInfo *flinfo, Oid collation, Datum arg1, Datum arg2)
{
	not_here("FunctionCall2Coll");
	return 0;
}

Datum
datumCopy(Datum value, bool typByVal, int typLen)
{
	not_here("datumCopy");
	return 0;
}

Size
datumGetSize(Datum value, bool typByVal, int typLen)
{
	not_here("datumGetSize");
	return 0;
}

Datum
getmissingattr(TupleDesc tupleDesc, int attnum, bool *isnull)
{
	not_here("getmissingattr");
	return 0;
}

Datum
nocachegetattr(HeapTuple tup, int attnum, TupleDesc att)
{
	not_here("nocachegetattr");
	return 0;
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	not_here("pg_detoast_datum_packed");
	return NULL;
}

TupleDesc
CreateTemplateTupleDesc(int natts)
{
	not_here("CreateTemplateTupleDesc");
	return NULL;
}
