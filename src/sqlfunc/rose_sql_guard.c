/*-------------------------------------------------------------------------
 *
 * rose_sql_guard.c
 *	  What protects the tables of subscriptions: the type rose.secret, and the
 *	  function that refuses to refresh them.
 *
 * A secret is stored as text is; what is none is shown as bytea.  Only superusers see it, or make one: who could make
 * values could compare them with others', and so find those out.  That guards against
 * roles that may read all tables; it does not hide anything from who can read files or
 * memory.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/extension.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "compat/rose_compat_varatt.h"

PG_FUNCTION_INFO_V1(rose_secret_in);
PG_FUNCTION_INFO_V1(rose_secret_out);
PG_FUNCTION_INFO_V1(rose_refuse_refresh);

/* What others see instead. */
#define SECRET_MASK		"********"

Datum
rose_secret_in(PG_FUNCTION_ARGS)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to make values of type %s", "rose.secret")));
	PG_RETURN_TEXT_P(cstring_to_text(PG_GETARG_CSTRING(0)));
}

Datum
rose_secret_out(PG_FUNCTION_ARGS)
{
	text	   *secret;

	if (!superuser())
		PG_RETURN_CSTRING(pstrdup(SECRET_MASK));
	secret = PG_GETARG_TEXT_PP(0);
	if (memchr(VARDATA_ANY(secret), '\0', VARSIZE_ANY_EXHDR(secret)) != NULL ||
		!pg_verifymbstr(VARDATA_ANY(secret), VARSIZE_ANY_EXHDR(secret), true))
		return DirectFunctionCall1(byteaout, PointerGetDatum(secret));
	PG_RETURN_CSTRING(text_to_cstring(secret));
}

/* The condition of the queries of materialized views that hold rows of our own. */
Datum
rose_refuse_refresh(PG_FUNCTION_ARGS)
{
	if (!creating_extension)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot refresh a materialized view of rose"),
				 errdetail("It holds subscriptions or their state, which a refresh would delete."),
				 errhint("Leave the schema rose out.")));
	PG_RETURN_BOOL(false);
}
