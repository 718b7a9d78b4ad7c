/*-------------------------------------------------------------------------
 *
 * rose_release.c
 *	  The version of the library, and of the extension in a database.
 *
 * The scripts of the extension ask for the library's by the setting rose.version.  What
 * goes on in a database whose extension is older is not decided here: results have the
 * columns that their function declares (sqlfunc/rose_sql_row.h).
 *
 * Reads pg_extension; no locks beyond that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_extension.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "util/rose_release.h"

static char *shown_release;

void
rose_release_define_settings(void)
{
	DefineCustomStringVariable("rose.version",
							   "Shows the version of rose's library.",
							   "That of the extension is another one until it is updated in each database.",
							   &shown_release, ROSE_RELEASE,
							   PGC_INTERNAL, GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE,
							   NULL, NULL, NULL);
}

/* NULL: it is not installed in this database. */
static char *
installed_release(void)
{
	Relation	pg_extension = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *release = NULL;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("rose"));
	scan = systable_beginscan(pg_extension, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, Anum_pg_extension_extversion,
										 RelationGetDescr(pg_extension), &isnull);

		if (!isnull)
			release = TextDatumGetCString(value);
	}
	systable_endscan(scan);
	table_close(pg_extension, AccessShareLock);
	return release;
}

/* Less than, equal to or greater than 0, as strcmp; numbers between points are compared as such. */
static int
compare_releases(const char *a, const char *b)
{
	while (*a != '\0' || *b != '\0')
	{
		char	   *end_a;
		char	   *end_b;
		unsigned long x = strtoul(a, &end_a, 10);
		unsigned long y = strtoul(b, &end_b, 10);

		if (x != y)
			return x < y ? -1 : 1;
		if (end_a == a && end_b == b)
			return strcmp(a, b);
		a = *end_a == '.' ? end_a + 1 : end_a;
		b = *end_b == '.' ? end_b + 1 : end_b;
	}
	return 0;
}

void
rose_release_mismatch(const char *message)
{
	char	   *installed = installed_release();
	int			cmp = installed != NULL ? compare_releases(installed, ROSE_RELEASE) : 0;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg_internal("%s", message),
			 installed == NULL ? 0 :
			 errdetail("The extension in this database has version %s, the library version %s.",
					   installed, ROSE_RELEASE),
			 cmp < 0 ? errhint("Run ALTER EXTENSION rose UPDATE in this database.") :
			 cmp > 0 ? errhint("Install the library of version %s, or a later one, and restart the server.",
							   installed) :
			 errhint("It was made by another build of this version, or changed since.  Dump the database, and restore the dump into a new one.")));
}
