/*-------------------------------------------------------------------------
 *
 * rose_upstream_added.c
 *	  What the upstream's catalog says of a table, and of a column that was added to it.
 *
 * What is asked for is of now, and not of the change in the stream for which it is asked.  So a look at the table has what does
 * not come back once it has changed: the files of its rows, for whoever writes all rows anew makes a new one, and the
 * catalog rows by which it is published, for a list of columns cannot be changed in place.  What that proves is said in README.md,
 * "Columns that the upstream adds".
 *
 * Nothing here knows of local tables.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/attnum.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "nodes/bitmapset.h"
#include "replication/walreceiver.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "repl/rose_repl_internal.h"

/* Since then the upstream can name the partitions of a table, ... */
#define PARTITION_TREE_VERSION	120000
/* ... its columns may be generated, ... */
#define GENERATED_VERSION		120000
/* ... rows need not be written anew for a default, ... */
#define MISSING_VERSION			110000
/* ... and publications have lists of columns, and schemas. */
#define COLUMN_LIST_VERSION		150000

/* An expression: how the table (an alias of pg_class) is published. */
static char *
published_expression(int version, List *publications, const char *table)
{
	char	   *names = rose_upstream_literals(publications);
	bool		lists = version >= COLUMN_LIST_VERSION;

	return psprintf("(SELECT pg_catalog.string_agg(m.x, ',' ORDER BY m.x COLLATE \"C\") FROM ("
					"SELECT pg_catalog.concat('a', p.oid::pg_catalog.text) AS x FROM pg_catalog.pg_publication p WHERE p.puballtables AND p.pubname IN (%s)"
					" UNION ALL SELECT pg_catalog.concat(%s, r.oid::pg_catalog.text) FROM pg_catalog.pg_publication_rel r"
					" JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = %s.oid AND p.pubname IN (%s)"
					"%s) m)",
					names, lists ? "CASE WHEN r.prattrs IS NULL THEN 'r' ELSE 'l' END" : "'r'", table, names,
					!lists ? "" :
					psprintf(" UNION ALL SELECT pg_catalog.concat('s', s.oid::pg_catalog.text) FROM pg_catalog.pg_publication_namespace s"
							 " JOIN pg_catalog.pg_publication p ON p.oid = s.pnpubid WHERE s.pnnspid = %s.relnamespace AND p.pubname IN (%s)",
							 table, names));
}

/* What follows FROM: the tables, as f, that have its rows. */
static char *
files_source(int version, Oid relid)
{
	if (version < PARTITION_TREE_VERSION)
		return psprintf("pg_catalog.pg_class f WHERE f.oid = %u", relid);
	return psprintf("pg_catalog.pg_class f WHERE f.relkind = 'r' AND (f.oid = %u OR f.oid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(%u) t))", relid, relid);
}

/*
 * An expression: oid:attached:file.  Where it is attached does not stay the same if it is detached and attached again, when it may have got a column
 * by itself: a row of pg_inherits is never changed in place.
 */
static char *
file_name(int version)
{
	const char *attached = version < PARTITION_TREE_VERSION ? "''" :
		"(SELECT pg_catalog.string_agg(i.xmin::pg_catalog.text, '.' ORDER BY i.inhrelid) FROM pg_catalog.pg_inherits i"
		" WHERE i.inhrelid IN (SELECT t.relid FROM pg_catalog.pg_partition_ancestors(f.oid) t))";

	return psprintf("pg_catalog.concat(f.oid::pg_catalog.text, ':', %s, ':', f.relfilenode::pg_catalog.text)", attached);
}

/* A whole number between these; error if it is none.  Whatever answers need not mean well. */
static int
to_number(const char *answer, int64 least, int64 most, const char *purpose)
{
	char	   *end;
	int64		number;

	if (answer == NULL || answer[0] == '\0')
		rose_upstream_malformed(purpose);
	errno = 0;
	number = strtoll(answer, &end, 10);
	if (errno != 0 || *end != '\0' || number < least || number > most)
		rose_upstream_malformed(purpose);
	return (int) number;
}

#define LOOK_PURPOSE "read the columns of a table"

/* The first row is of the table, with the highest number as a negative one. */
static void
take_table(TupleTableSlot *slot, RoseUpstreamColumns *columns, RoseUpstreamSeen *seen)
{
	seen->natts = - to_number(rose_upstream_text(slot, 1), - MaxAttrNumber, 0, LOOK_PURPOSE);
	seen->files = rose_upstream_text(slot, 2);
	seen->published = rose_upstream_text(slot, 3);
	if (seen->files == NULL)
		seen->files = pstrdup("");
	if (seen->published == NULL)
		seen->published = pstrdup("");
	columns->attnums = palloc(sizeof(int16) * Max(seen->natts, 1));
	columns->names = palloc(sizeof(char *) * Max(seen->natts, 1));
}

/* In the order of their numbers. */
static void
take_column(TupleTableSlot *slot, RoseUpstreamColumns *columns, Bitmapset **generated, const RoseUpstreamSeen *seen)
{
	int			least = columns->n > 0 ? columns->attnums[columns->n - 1] + 1 : 1;
	int			n = to_number(rose_upstream_text(slot, 1), least, seen->natts, LOOK_PURPOSE);
	char	   *name = rose_upstream_text(slot, 2);
	char	   *kind = rose_upstream_text(slot, 3);

	if (name == NULL || kind == NULL)
		rose_upstream_malformed(LOOK_PURPOSE);
	if (kind[0] != '\0')
		*generated = bms_add_member(*generated, n);
	columns->attnums[columns->n] = (int16) n;
	columns->names[columns->n++] = name;
}

void
rose_upstream_look(WalReceiverConn *conn, List *publications, Oid relid, RoseUpstreamColumns *columns,
				   Bitmapset **generated, RoseUpstreamSeen *seen)
{
	int			version = walrcv_server_version(conn);
	Oid			types[3] = {TEXTOID, TEXTOID, TEXTOID};
	WalRcvExecResult *res;
	TupleTableSlot *slot;

	memset(columns, 0, sizeof(*columns));
	memset(seen, 0, sizeof(*seen));
	*generated = NULL;
	res = rose_upstream_query(conn,
							  psprintf("SELECT q.n::pg_catalog.text, q.a, q.b FROM ("
									   "SELECT a.attnum::pg_catalog.int4 AS n, a.attname::pg_catalog.text AS a, %s AS b FROM pg_catalog.pg_attribute a"
									   " WHERE a.attrelid = %u AND a.attnum > 0 AND NOT a.attisdropped"
									   " UNION ALL SELECT - c.relnatts, (SELECT pg_catalog.array_agg(%s ORDER BY f.oid) FROM %s)::pg_catalog.text, %s"
									   " FROM pg_catalog.pg_class c WHERE c.oid = %u) q ORDER BY q.n",
									   version >= GENERATED_VERSION ? "a.attgenerated::pg_catalog.text" : "''::pg_catalog.text",
									   relid, file_name(version), files_source(version, relid), published_expression(version, publications, "c"), relid),
							  3, types, LOOK_PURPOSE);
	slot = MakeSingleTupleTableSlot(res->tupledesc, &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(res->tuplestore, true, false, slot))
	{
		if (seen->files == NULL)
			take_table(slot, columns, seen);
		else
			take_column(slot, columns, generated, seen);
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	walrcv_clear_result(res);
}

/*
 * What rows of before have in the column (of a), by tables that were there before, and were never apart: those with the files that were seen then, and nothing; those with
 * something, whatever has become of their files.
 */
static char *
missing_source(int version, Oid relid, const char *files)
{
	char	   *value = version >= MISSING_VERSION ? "pg_catalog.array_to_string(l.attmissingval, '')" : "NULL::pg_catalog.text";
	char	   *seen = psprintf("%s::pg_catalog.text[]", quote_literal_cstr(files[0] != '\0' ? files : "{}"));

	return psprintf("SELECT pg_catalog.count(*) FILTER (WHERE %s IS NULL AND g.name = ANY (%s)) AS n,"
					" pg_catalog.count(%s) AS m, pg_catalog.count(DISTINCT %s) AS d, pg_catalog.min(%s) AS v"
					" FROM (SELECT f.oid, %s AS name FROM %s) g JOIN pg_catalog.pg_attribute l ON l.attrelid = g.oid"
					" WHERE l.attname = a.attname AND NOT l.attisdropped"
					" AND pg_catalog.regexp_replace(g.name, ':[^:]*$', '') IN (SELECT pg_catalog.regexp_replace(u.name, ':[^:]*$', '') FROM pg_catalog.unnest(%s) AS u(name))",
					value, seen, value, value, value, file_name(version), files_source(version, relid), seen);
}

#define ASK_PURPOSE "ask about a column that was added"

bool
rose_upstream_ask_added(WalReceiverConn *conn, List *publications, Oid relid, int16 attnum, int known,
						const RoseUpstreamSeen *seen, RoseUpstreamAdded *out)
{
	int			version = walrcv_server_version(conn);
	char	   *v[14];

	if (!rose_upstream_row(conn,
						   psprintf("SELECT a.atttypid::pg_catalog.text, tn.nspname::pg_catalog.text, t.typname::pg_catalog.text, (t.oid <> w.oid)::pg_catalog.text,"
									" a.atttypmod::pg_catalog.text, cn.nspname::pg_catalog.text, co.collname::pg_catalog.text, %s, %s,"
									" k.n::pg_catalog.text, k.m::pg_catalog.text, k.d::pg_catalog.text, k.v,"
									" (SELECT pg_catalog.count(*)::pg_catalog.text FROM pg_catalog.pg_attribute b"
									" WHERE b.attrelid = a.attrelid AND b.attnum > %d AND b.attnum < a.attnum AND %s = '')"
									" FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
									" JOIN pg_catalog.pg_type w ON w.oid = a.atttypid"
									" JOIN pg_catalog.pg_type t ON t.oid = CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_type e"
									" WHERE e.oid = w.typelem AND e.typarray = w.oid) THEN w.typelem ELSE w.oid END"
									" JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace"
									" LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation AND a.attcollation <> w.typcollation"
									" LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace"
									" CROSS JOIN LATERAL (%s) k"
									" WHERE a.attrelid = %u AND a.attnum = %d AND NOT a.attisdropped",
									version >= GENERATED_VERSION ? "a.attgenerated::pg_catalog.text" : "''::pg_catalog.text",
									published_expression(version, publications, "c"), known,
									version >= GENERATED_VERSION ? "b.attgenerated::pg_catalog.text" : "''::pg_catalog.text",
									missing_source(version, relid, seen->files), relid, attnum),
						   lengthof(v), v, ASK_PURPOSE))
		return false;
	if (v[1] == NULL || v[2] == NULL || v[3] == NULL || v[7] == NULL)
		rose_upstream_malformed(ASK_PURPOSE);
	out->type = (Oid) strtoul(v[0] != NULL ? v[0] : "", NULL, 10);
	out->type_schema = v[1];
	out->type_name = v[2];
	out->is_array = strcmp(v[3], "true") == 0;
	out->typmod = to_number(v[4], PG_INT32_MIN, PG_INT32_MAX, ASK_PURPOSE);
	out->collation_schema = v[5];
	out->collation_name = v[5] != NULL ? v[6] : NULL;
	out->generated = v[7][0] != '\0';
	out->published = v[8] != NULL ? v[8] : pstrdup("");
	out->unwritten = to_number(v[9], 0, PG_INT32_MAX, ASK_PURPOSE);
	out->missing = to_number(v[10], 0, PG_INT32_MAX, ASK_PURPOSE);
	out->values = to_number(v[11], 0, PG_INT32_MAX, ASK_PURPOSE);
	out->value = v[12];
	out->between = to_number(v[13], 0, MaxAttrNumber, ASK_PURPOSE);
	if ((out->missing > 0) != (out->value != NULL))
		rose_upstream_malformed(ASK_PURPOSE);
	return true;
}
