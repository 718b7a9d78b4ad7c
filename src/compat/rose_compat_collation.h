/*-------------------------------------------------------------------------
 *
 * rose_compat_collation.h
 *	  Release differences of collations' catalog rows.
 *
 * The default collation is the database's row, any other one its own; what its provider
 * says of it is asked here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMPAT_COLLATION_H
#define ROSE_COMPAT_COLLATION_H

#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"

/* 17 gave the locale of all providers but libc one column, under another name. */
#if PG_VERSION_NUM < 170000
#define ROSE_COLLATION_LOCALE(provider) \
	((provider) == COLLPROVIDER_ICU ? Anum_pg_collation_colliculocale : Anum_pg_collation_collcollate)
#define ROSE_DATABASE_LOCALE(provider) \
	((provider) == COLLPROVIDER_ICU ? Anum_pg_database_daticulocale : Anum_pg_database_datcollate)
#else
#define ROSE_COLLATION_LOCALE(provider) \
	((provider) == COLLPROVIDER_LIBC ? Anum_pg_collation_collcollate : Anum_pg_collation_colllocale)
#define ROSE_DATABASE_LOCALE(provider) \
	((provider) == COLLPROVIDER_LIBC ? Anum_pg_database_datcollate : Anum_pg_database_datlocale)
#endif

/* Version that the provider of a collation has now; NULL: it has none, for its order never changes. */
static inline char *
rose_collation_version(Oid collation)
{
	bool		is_default = collation == DEFAULT_COLLATION_OID;
	int			cache = is_default ? DATABASEOID : COLLOID;
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(is_default ? MyDatabaseId : collation));
	char	   *version = NULL;
	char		provider;
	Datum		locale;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	if (is_default)
		provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
	else
		provider = ((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
	locale = SysCacheGetAttr(cache, tuple,
							 is_default ? ROSE_DATABASE_LOCALE(provider) :
							 ROSE_COLLATION_LOCALE(provider), &isnull);
	if (!isnull)
		version = get_collation_actual_version(provider, TextDatumGetCString(locale));
	ReleaseSysCache(tuple);
	return version;
}

#endif							/* ROSE_COMPAT_COLLATION_H */
