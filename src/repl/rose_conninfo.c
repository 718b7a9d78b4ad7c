/*-------------------------------------------------------------------------
 *
 * rose_conninfo.c
 *	  What the connection string of a subscription may say.
 *
 * libpq connects as the server's process.  So a connection string can have it read files that
 * only the server may read (keys, password files, service files), write some (sslkeylogfile),
 * or be let in somewhere because it is the server that asks (peer, trust of a
 * local address, a password file).  Superusers may have that; they can do it anyway.
 *
 * A subscription of somebody else has its password in the string, as those of PostgreSQL 16
 * with password_required, and a server that lets it in without asking for that is left again
 * (rose_walrcv_connect).  Who is no superuser gives none but the options below.  These are
 * those that are known to be harmless, and not all but those that are known not to be: libpq is
 * often newer than the server, and has got options in each release.
 *
 * A superuser may give another's subscription what options he likes, a certificate for one.
 *
 * libpq is the one that core's library has loaded.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq-fe.h"

#include "repl/rose_conninfo.h"

static const char *const harmless[] = {
	"user", "password", "dbname", "host", "hostaddr", "port", "connect_timeout", "options",
	"application_name", "fallback_application_name", "client_encoding", "replication",
	"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
	"sslmode", "sslnegotiation", "sslcompression", "sslsni", "ssl_min_protocol_version",
	"ssl_max_protocol_version", "min_protocol_version", "max_protocol_version", "channel_binding",
	"require_auth", "requirepeer", "target_session_attrs", "load_balance_hosts"
};

/* Of libpq, which this library is not linked with. */
static void *
libpq_function(const char *name)
{
	return load_external_function("libpqwalreceiver", name, true, NULL);
}

/* NULL, with *err, if it has not the form of one; to be freed with free_options. */
static PQconninfoOption *
parse(const char *conninfo, char **err)
{
	PQconninfoOption *(*function) (const char *conninfo, char **errmsg) = libpq_function("PQconninfoParse");
	void		(*free_string) (void *string) = libpq_function("PQfreemem");
	char	   *message = NULL;
	PQconninfoOption *options = function(conninfo, &message);

	*err = NULL;
	if (options == NULL)
		*err = pstrdup(message != NULL ? message : "out of memory");
	if (message != NULL)
		free_string(message);
	return options;
}

static void
free_options(PQconninfoOption *options)
{
	void		(*function) (PQconninfoOption *options) = libpq_function("PQconninfoFree");

	function(options);
}

static bool
is_harmless(const char *option)
{
	for (int i = 0; i < lengthof(harmless); i++)
	{
		if (strcmp(option, harmless[i]) == 0)
			return true;
	}
	return false;
}

void
rose_conninfo_check(const char *conninfo, bool needs_password, bool by_superuser)
{
	char	   *err;
	PQconninfoOption *options = parse(conninfo, &err);
	bool		has_password = false;
	char	   *refused = NULL;

	if (options == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("invalid connection string syntax: %s", err)));
	for (PQconninfoOption *option = options; option->keyword != NULL; option++)
	{
		if (option->val == NULL)
			continue;
		if (strcmp(option->keyword, "password") == 0 && option->val[0] != '\0')
			has_password = true;
		if (!by_superuser && !is_harmless(option->keyword))
			refused = pstrdup(option->keyword);
	}
	free_options(options);

	if (refused != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\" of a connection string", refused),
				 errdetail("Non-superusers may not give options by which the server reads or writes files, or shows who it is.")));
	if (needs_password && !has_password)
		ereport(ERROR,
				(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				 errmsg("password is required"),
				 errdetail("Non-superusers must provide a password in the connection string.")));
}
