/*-------------------------------------------------------------------------
 *
 * rose_repair.c
 *	  Rows of a table that differ from the upstream's become as they are there.
 *
 * A position is reached as for a comparison (rose_verify.c): the upstream has a snapshot of it, and the
 * worker stands still there.  Then the rows with the keys that are named are read on both sides, by
 * these keys, and compared as text.  What differs is formed into messages as the upstream would
 * have sent them: an INSERT of a row that is missing here, an UPDATE (which leaves columns as they are that
 * only we have) of one that is different, a DELETE of one that is only here.  The worker applies them before it goes
 * on (rose_repair_apply.c).  So nothing that the stream brings later can be older, and
 * nothing that it brought before can be missing: at the position, the rows are those of the upstream.
 *
 * A kind of change that no publication has is not made here either: rows that a subscription with publish = 'insert' has kept
 * are not removed because the upstream has them no more.
 *
 * Which keys: those that the caller has, or those that a comparison names just before, at an earlier position.
 *
 * Two keys of different texts may be one (1.0 and 1.00).  So what is to go goes first, and a row that is only here does not go if
 * the upstream has one of an equal key: it becomes that one.
 *
 * Locking: as rose_verify.c; the changes are in a segment of shared memory that nobody changes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "replication/logicalproto.h"
#include "replication/walreceiver.h"
#include "storage/dsm.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "repl/rose_owner.h"
#include "repl/rose_repair.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_verify.h"

/* As many keys are looked up in one query. */
#define ROSE_REPAIR_QUERY_KEYS	64

/* A row on both sides, as text; NULL: there is none. */
typedef struct RepairedRow
{
	char	   *key;
	char	   *upstream;
	char	   *here;
	char	   *equal;			/* only here: the upstream's of an equal key */
	char	   *equal_key;		/* only upstream: the equal key of a row here */
	char	   *exact;			/* upstream and equal with all digits of floats, if they are compared with less */
	char	   *exact_equal;
} RepairedRow;

typedef struct Repair
{
	List	   *keys;			/* of char * */
	RoseRepairResult *result;
	MemoryContext context;		/* of the result */

	RoseVerify *verify;
	RoseVerifyTable *table;
	Oid		   *remote_types;	/* of the published columns */
	bool	   *in_identity;
	char		replident;
	RoseUpstreamKinds kinds;	/* that are published */
	int			n;
	RepairedRow *rows;
	int			asked;			/* which of the row's texts comes, as its place in RepairedRow */
} Repair;

/* ---------------------------------------------------------------------
 * Rows as text
 */

/* A value of a row, up to the comma or parenthesis behind it; NULL for NULL. */
static char *
take_value(const char **row)
{
	const char *at = *row;
	StringInfoData value;
	bool		inside = false;
	bool		quoted = false;

	initStringInfo(&value);
	for (; *at != '\0' && (inside || (*at != ',' && *at != ')')); at++)
	{
		if (*at == '"' && inside && at[1] == '"')
			appendStringInfoChar(&value, *++at);
		else if (*at == '"')
		{
			inside = !inside;
			quoted = true;
		}
		else if (*at == '\\' && at[1] != '\0')
			appendStringInfoChar(&value, *++at);
		else
			appendStringInfoChar(&value, *at);
	}
	*row = at;
	return value.len > 0 || quoted ? value.data : NULL;
}

/* The n values of a row in the form in which record_out writes it; NULL: it is none, or has not so many. */
static char **
split_row(const char *row, int n)
{
	char	  **values = palloc0(sizeof(char *) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		if (*row++ != (i == 0 ? '(' : ','))
			return NULL;
		values[i] = take_value(&row);
	}
	return strcmp(row, ")") == 0 ? values : NULL;
}

/* A key that somebody has given. */
static char **
split_key(const Repair *repair, const char *key)
{
	char	  **values = split_row(key, repair->table->nkeys);
	bool		whole = values != NULL;

	for (int i = 0; whole && i < repair->table->nkeys; i++)
		whole = values[i] != NULL;
	if (!whole)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is not a key of table \"%s\"", key, repair->table->relname),
				 errhint("Give keys as rose.verify does.")));
	return values;
}

/* ---------------------------------------------------------------------
 * Looking rows up
 */

/*
 * Can a row be looked up by its key, in an index?  Of built-in types that are the same on both sides a value is equal to
 * what has the same text.
 */
static bool
keys_are_plain(const Repair *repair)
{
	const RoseVerifyTable *table = repair->table;

	for (int i = 0; i < table->nkeys; i++)
	{
		Oid			here = table->key_types[i];

		if (here != repair->remote_types[table->compared[table->keys[i]]] || !rose_description_binary_fits(here))
			return false;
	}
	return true;
}

/* The row with this key, with its place and the row; equal: or one that is equal. */
static void
add_lookup(const Repair *repair, const RoseVerifySide *side, List *names, int i, bool equal, StringInfo sql)
{
	const char *key = repair->rows[i].key;
	char	  **values = split_key(repair, key);
	int			k = 0;
	ListCell   *lc;

	appendStringInfo(sql, "%sSELECT '%d', s.r, s.k FROM (SELECT %s AS k, %s AS r", sql->len > 0 ? " UNION ALL " : "",
					 i, side->key, side->row);
	foreach(lc, names)
		appendStringInfo(sql, ", %s AS c%d", quote_identifier(lfirst(lc)), ++k);
	appendStringInfo(sql, " FROM %s) s WHERE true", side->source);
	if (!equal)
		appendStringInfo(sql, " AND s.k COLLATE pg_catalog.\"C\" OPERATOR(pg_catalog.=) %s", quote_literal_cstr(key));
	for (k = 0; keys_are_plain(repair) && k < list_length(names); k++)
		appendStringInfo(sql, " AND s.c%d OPERATOR(pg_catalog.=) %s", k + 1, quote_literal_cstr(values[k]));
}

static int
compare_rows(const void *a, const void *b)
{
	return strcmp(((const RepairedRow *) a)->key, ((const RepairedRow *) b)->key);
}

static void
take_row(void *arg, char **values)
{
	Repair	   *repair = arg;
	int			no = values[0] != NULL ? atoi(values[0]) : -1;
	RepairedRow *row;
	char	  **side;

	if (no < 0 || no >= repair->n || values[1] == NULL || values[2] == NULL)
		rose_upstream_malformed("look rows up");
	row = &repair->rows[no];
	side = (char **) ((char *) row + repair->asked);
	if (*side != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("cannot repair table \"%s\": several rows have the key %s", repair->table->relname, row->key)));
	*side = values[repair->asked == offsetof(RepairedRow, equal_key) ? 2 : 1];
}

/* The names of the key's columns on either side, in the order of the key's text. */
static List *
key_names(const Repair *repair, bool upstream)
{
	const RoseVerifyTable *table = repair->table;
	List	   *result = NIL;

	for (int i = 0; i < table->nkeys; i++)
		result = lappend(result, upstream ? (char *) table->columns.names[table->compared[table->keys[i]]] :
						 get_attname(table->relid, table->key_attnums[i], false));
	return result;
}

static void
ask(Repair *repair, int asked, const char *sql)
{
	repair->asked = asked;
	if (sql[0] == '\0')
		return;
	if (asked == offsetof(RepairedRow, here) || asked == offsetof(RepairedRow, equal_key))
		rose_verify_query_here(repair->verify, repair->table->owner, sql, 3, take_row, repair);
	else
		rose_verify_query_upstream(repair->verify, sql, 3, take_row, repair);
}

/* The same rows of the upstream, as they are to become here. */
static void
ask_exactly(Repair *repair, int asked, const char *sql)
{
	if (sql[0] == '\0' || rose_verify_query_is_exact(repair->verify))
		return;
	rose_verify_query_write_exactly(repair->verify, true);
	ask(repair, asked, sql);
	rose_verify_query_write_exactly(repair->verify, false);
}

static void
read_rows(Repair *repair)
{
	RoseVerifyTable *table = repair->table;
	List	   *upstream_names = key_names(repair, true);
	List	   *here_names = key_names(repair, false);
	StringInfoData upstream;
	StringInfoData here;

	initStringInfo(&upstream);
	initStringInfo(&here);
	for (int from = 0; from < repair->n; from += ROSE_REPAIR_QUERY_KEYS)
	{
		int			to = Min(from + ROSE_REPAIR_QUERY_KEYS, repair->n);

		resetStringInfo(&upstream);
		resetStringInfo(&here);
		for (int i = from; i < to; i++)
		{
			add_lookup(repair, &table->upstream, upstream_names, i, false, &upstream);
			add_lookup(repair, &table->here, here_names, i, false, &here);
		}
		ask(repair, offsetof(RepairedRow, upstream), upstream.data);
		ask_exactly(repair, offsetof(RepairedRow, exact), upstream.data);
		ask(repair, offsetof(RepairedRow, here), here.data);

		resetStringInfo(&upstream);
		resetStringInfo(&here);
		for (int i = from; i < to && keys_are_plain(repair); i++)
		{
			if (repair->rows[i].upstream == NULL && repair->rows[i].here != NULL)
				add_lookup(repair, &table->upstream, upstream_names, i, true, &upstream);
			else if (repair->rows[i].upstream != NULL && repair->rows[i].here == NULL)
				add_lookup(repair, &table->here, here_names, i, true, &here);
		}
		ask(repair, offsetof(RepairedRow, equal), upstream.data);
		ask_exactly(repair, offsetof(RepairedRow, exact_equal), upstream.data);
		ask(repair, offsetof(RepairedRow, equal_key), here.data);
	}
}

/* ---------------------------------------------------------------------
 * Messages
 */

static void
take_column(void *arg, char **values)
{
	Repair	   *repair = arg;
	const RoseUpstreamColumns *columns = &repair->table->columns;

	if (values[0] == NULL || values[1] == NULL || values[2] == NULL || strlen(values[2]) != 2)
		rose_upstream_malformed("ask for the columns of a table");
	for (int i = 0; i < columns->n; i++)
	{
		if (columns->attnums[i] != atoi(values[0]))
			continue;
		repair->remote_types[i] = (Oid) strtoul(values[1], NULL, 10);
		repair->in_identity[i] = values[2][1] == 't';
		repair->replident = values[2][0];
	}
}

/* What the upstream says of its columns when it describes the table. */
static void
ask_description(Repair *repair)
{
	int			n = Max(repair->table->columns.n, 1);

	repair->remote_types = palloc0(sizeof(Oid) * n);
	repair->in_identity = palloc0(sizeof(bool) * n);
	rose_verify_query_upstream(repair->verify,
							   psprintf("SELECT a.attnum::pg_catalog.text, a.atttypid::pg_catalog.oid::pg_catalog.text,"
										" pg_catalog.concat(c.relreplident, CASE WHEN c.relreplident OPERATOR(pg_catalog.=) 'f' OR EXISTS (SELECT FROM pg_catalog.pg_index i"
										" WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisvalid AND i.indimmediate"
										" AND a.attnum OPERATOR(pg_catalog.=) ANY (%s)"
										" AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END)"
										" THEN 't' ELSE 'f' END)"
										" FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid"
										" WHERE c.oid OPERATOR(pg_catalog.=) %u AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped",
										walrcv_server_version(repair->verify->conn) >= 110000 ?
										"(i.indkey::pg_catalog.int2[])[:i.indnkeyatts OPERATOR(pg_catalog.-) 1]" : "i.indkey",
										repair->table->remote.relid),
							   3, take_column, repair);
}

static void
add_message(StringInfo out, const StringInfo message)
{
	int32		len = message->len;

	appendBinaryStringInfo(out, (char *) &len, sizeof(len));
	appendBinaryStringInfo(out, message->data, len);
	pfree(message->data);
}

static void
form_description(const Repair *repair, StringInfo out)
{
	const RoseVerifyTable *table = repair->table;
	StringInfoData s;

	initStringInfo(&s);
	pq_sendbyte(&s, LOGICAL_REP_MSG_RELATION);
	pq_sendint32(&s, table->remote.relid);
	/* the protocol's abbreviation */
	pq_sendstring(&s, strcmp(table->remote.nspname, "pg_catalog") == 0 ? "" : table->remote.nspname);
	pq_sendstring(&s, table->remote.relname);
	pq_sendbyte(&s, repair->replident);
	pq_sendint16(&s, table->columns.n);
	for (int i = 0; i < table->columns.n; i++)
	{
		pq_sendbyte(&s, repair->in_identity[i] ? 1 : 0);
		pq_sendstring(&s, table->columns.names[i]);
		pq_sendint32(&s, repair->remote_types[i]);
		pq_sendint32(&s, -1);
	}
	add_message(out, &s);
}

/* A row, or the key of one, in the form of the protocol. */
static void
add_tuple(const Repair *repair, char kind, const char *row, StringInfo s)
{
	const RoseVerifyTable *table = repair->table;
	bool		is_key = kind == 'K';
	int			n = is_key ? table->nkeys : table->ncompared;
	char	  **values = split_row(row, n);
	char	  **of_column = palloc0(sizeof(char *) * Max(table->columns.n, 1));

	if (values == NULL)
		elog(ERROR, "a row of table \"%s\" is not in the form of a row", table->relname);
	for (int i = 0; i < n; i++)
		of_column[table->compared[is_key ? table->keys[i] : i]] = values[i];
	pq_sendbyte(s, kind);
	pq_sendint16(s, table->columns.n);
	for (int i = 0; i < table->columns.n; i++)
	{
		if (of_column[i] == NULL)
		{
			pq_sendbyte(s, LOGICALREP_COLUMN_NULL);
			continue;
		}
		pq_sendbyte(s, LOGICALREP_COLUMN_TEXT);
		pq_sendint32(s, strlen(of_column[i]));
		pq_sendbytes(s, of_column[i], strlen(of_column[i]));
	}
}

/* old_key, new_row: or NULL. */
static void
form_change(const Repair *repair, char command, const char *old_key, const char *new_row, StringInfo out)
{
	StringInfoData s;

	initStringInfo(&s);
	pq_sendbyte(&s, command);
	pq_sendint32(&s, repair->table->remote.relid);
	if (old_key != NULL)
		add_tuple(repair, 'K', old_key, &s);
	if (new_row != NULL)
		add_tuple(repair, 'N', new_row, &s);
	add_message(out, &s);
}

static void
count_change(Repair *repair, const RepairedRow *row, int64 *count)
{
	MemoryContext old = MemoryContextSwitchTo(repair->context);

	(*count)++;
	repair->result->keys = lappend(repair->result->keys, pstrdup(row->key));
	MemoryContextSwitchTo(old);
}

/* That it differs is what the publications want. */
static bool
is_left(Repair *repair, bool published)
{
	if (!published)
		repair->result->left++;
	return !published;
}

/* Which row to send, of the upstream's; NULL for NULL. */
static const char *
exact_row(const Repair *repair, const char *row, const char *exact)
{
	if (row == NULL || rose_verify_query_is_exact(repair->verify))
		return row;
	if (exact == NULL)			/* it was looked up by a float */
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot repair table \"%s\": its key has floats, which an upstream of before PostgreSQL 12 does not write exactly",
						repair->table->relname),
				 errhint("Have it copied again with rose.alter_subscription(..., resync => ...).")));
	return exact;
}

/* Of a row that the upstream has not. */
static void
form_removal(Repair *repair, const RepairedRow *row, StringInfo out)
{
	if (row->upstream != NULL || row->here == NULL ||
		is_left(repair, row->equal == NULL ? repair->kinds.deletes : repair->kinds.updates))
		return;
	form_change(repair, row->equal == NULL ? LOGICAL_REP_MSG_DELETE : LOGICAL_REP_MSG_UPDATE, row->key,
				exact_row(repair, row->equal, row->exact_equal), out);
	count_change(repair, row, row->equal == NULL ? &repair->result->deleted : &repair->result->updated);
}

static bool
is_named(const Repair *repair, const char *key)
{
	for (int i = 0; i < repair->n; i++)
	{
		if (strcmp(repair->rows[i].key, key) == 0)
			return true;
	}
	return false;
}

/* Of one that it has.  One that has an equal key here is that row, and was taken with it if that key is named, too. */
static void
form_row(Repair *repair, const RepairedRow *row, StringInfo out)
{
	bool		is_new = row->here == NULL && row->equal_key == NULL;

	if (row->upstream == NULL || (row->here != NULL && strcmp(row->upstream, row->here) == 0) ||
		(row->equal_key != NULL && is_named(repair, row->equal_key)) ||
		is_left(repair, is_new ? repair->kinds.inserts : repair->kinds.updates))
		return;
	form_change(repair, is_new ? LOGICAL_REP_MSG_INSERT : LOGICAL_REP_MSG_UPDATE, row->equal_key,
				exact_row(repair, row->upstream, row->exact), out);
	count_change(repair, row, is_new ? &repair->result->inserted : &repair->result->updated);
}

/* All that differs; false: nothing does. */
static bool
form_changes(Repair *repair, StringInfo out)
{
	RoseRepairResult *result = repair->result;

	result->inserted = result->updated = result->deleted = result->left = 0;
	result->keys = NIL;
	form_description(repair, out);
	for (int i = 0; i < repair->n; i++)
		form_removal(repair, &repair->rows[i], out);
	for (int i = 0; i < repair->n; i++)
		form_row(repair, &repair->rows[i], out);
	return result->keys != NIL;
}

/* ---------------------------------------------------------------------
 * At the position
 */

static void
require_repairable(const RoseVerify *verify, const RoseVerifyTable *table)
{
	if (table->problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot repair table \"%s.%s\": %s", table->nspname, table->relname, table->problem)));
	if (table->here.key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot repair table \"%s.%s\", which has no primary key that the upstream publishes",
						table->nspname, table->relname),
				 errhint("Have it copied again with rose.alter_subscription(..., resync => ...).")));
	if (verify->other_encoding)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot repair tables of an upstream of another encoding"),
				 errhint("Have the table copied again with rose.alter_subscription(..., resync => ...).")));
}

static void
begin_rows(Repair *repair)
{
	ListCell   *lc;
	int			n = 0;

	repair->n = 0;
	repair->rows = palloc0(sizeof(RepairedRow) * Max(list_length(repair->keys), 1));
	foreach(lc, repair->keys)
		repair->rows[repair->n++].key = lfirst(lc);
	qsort(repair->rows, repair->n, sizeof(RepairedRow), compare_rows);
	for (int i = 0; i < repair->n; i++)
	{
		if (i == 0 || compare_rows(&repair->rows[i], &repair->rows[n - 1]) != 0)
			repair->rows[n++] = repair->rows[i];
	}
	repair->n = n;
}

static bool
hand_over(Repair *repair, const StringInfo changes)
{
	RoseVerify *verify = repair->verify;
	dsm_segment *segment = dsm_create(MAXALIGN(sizeof(RoseRepairChangesShared)) + changes->len, 0);
	RoseRepairChangesShared *shared = dsm_segment_address(segment);
	bool		done;

	shared->remote_relid = repair->table->remote.relid;
	shared->len = changes->len;
	memcpy(ROSE_REPAIR_CHANGES(shared), changes->data, changes->len);
	done = rose_verify_position_repair(verify->sub, verify->deadline, dsm_segment_handle(segment));
	dsm_detach(segment);
	return done;
}

/* The worker stands still. */
static bool
repair_at_position(RoseVerify *verify)
{
	Repair	   *repair = verify->arg;
	StringInfoData changes;

	repair->verify = verify;
	repair->table = linitial(verify->tables);
	if (repair->table->problem == NULL && !rose_upstream_has_names(verify->conn, &repair->table->remote))
		return false;
	require_repairable(verify, repair->table);
	begin_rows(repair);
	ask_description(repair);
	rose_upstream_published_kinds(verify->conn, verify->sub->publications, &repair->table->remote, &repair->kinds);
	read_rows(repair);
	initStringInfo(&changes);
	if (!form_changes(repair, &changes))
		return true;
	return hand_over(repair, &changes);
}

/* ---------------------------------------------------------------------
 * All of it
 */

/* A difference that a comparison has named. */
static void
note_difference(void *arg, const RoseVerifyProblem *problem)
{
	Repair	   *repair = arg;
	MemoryContext old = MemoryContextSwitchTo(repair->context);

	if (problem->key != NULL)
		repair->keys = lappend(repair->keys, pstrdup(problem->key));
	else if (problem->upstream_rows >= 0)
		repair->result->more = true;
	else
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot repair table \"%s.%s\": %s", problem->nspname, problem->relname, problem->problem)));
	MemoryContextSwitchTo(old);
}

/*
 * As rose_verify_run, and nothing is locked here afterwards.  Else the worker might wait for us, to empty the table for one, while we
 * wait for the worker.
 */
static void
run_and_let_go(RoseVerify *verify, const RoseSubscription *sub, const RoseVerifyOptions *options)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile failed = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		rose_verify_run(verify, sub, options);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		failed = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	/* it has written nothing */
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (failed != NULL)
		ReThrowError(failed);
}

/* What the publications leave out is a difference on purpose, maybe; the caller is told. */
static void
tell_left(const char *nspname, const char *relname, int64 left)
{
	ereport(NOTICE,
			(errmsg("rows of table \"%s.%s\" that differ and were left as they are: " INT64_FORMAT,
					nspname, relname, left),
			 errdetail("The publications do not publish such changes of the table (publish).")));
}

void
rose_repair_table(const RoseSubscription *sub, Oid relid, List *keys, int timeout_s, int64 max_keys,
				  RoseRepairResult *result)
{
	Repair		repair = {.keys = keys, .result = result, .context = CurrentMemoryContext};
	RoseVerifyOptions options = {.relids = list_make1_oid(relid), .timeout_s = timeout_s, .max_keys = max_keys,
	.report = note_difference, .arg = &repair};
	RoseVerify *verify = palloc0(sizeof(RoseVerify));

	memset(result, 0, sizeof(RoseRepairResult));
	rose_owner_require_relid(sub, relid);
	if (keys == NIL)
	{
		RoseVerify *compared = palloc0(sizeof(RoseVerify));

		run_and_let_go(compared, sub, &options);
		require_repairable(compared, linitial(compared->tables));
		if (repair.keys == NIL)
			return;
	}
	verify->at_position = repair_at_position;
	verify->arg = &repair;
	run_and_let_go(verify, sub, &options);
	require_repairable(verify, linitial(verify->tables));
	if (result->keys != NIL)
		rose_repl_spill(sub->subid, timeout_s);
	if (result->left == 0)
		return;
	result->more = true;
	tell_left(repair.table->nspname, repair.table->relname, result->left);
}
