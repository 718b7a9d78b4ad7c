/*-------------------------------------------------------------------------
 *
 * rose_upstream_pieces.c
 *	  Ranges of an upstream's table that can be read one by one.
 *
 * By ranges of the primary key, whose bounds are those of a sample of blocks.  They are compared on the upstream only, so it does not matter what
 * order keys have here.  A range is read by the key's index, or, where rows do not lie in the key's order, with most of
 * the table: so there are fewer then.
 *
 * Ranges may be read in different snapshots, days apart.  What has to be the same then is described: whose table it is, its files,
 * columns and publications, and what the order of its keys depends on.
 *
 * Nothing here knows of local tables.  State is of the connection; no locks here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "replication/walreceiver.h"
#include "utils/builtins.h"

#include "repl/rose_repl_internal.h"
#include "repl/rose_upstream_pieces.h"

/* Since then the upstream can name the partitions of a table. */
#define PARTITION_TREE_VERSION	120000
/* ... and publish whole schemas. */
#define SCHEMAS_VERSION			150000
/* So many rows are asked for to find bounds. */
#define SAMPLE_ROWS			30000
/* A block is read for each range that it has rows of; more often than that, there are fewer ranges. */
#define MOST_TIMES_READ		4

/*
 * What a text's order depends on: the version of its collation.  Where that is not to be had, it is taken for the same as long
 * as the server runs.
 */
static const char *
order_expression(int version)
{
	if (version >= 150000)
		return "CASE WHEN a.attcollation = 0 THEN '' WHEN a.attcollation IN (950, 951) THEN 'C'"
			" WHEN a.attcollation = 100 THEN (SELECT pg_catalog.concat(d.datcollate, ':', CASE WHEN d.datcollate IN ('C', 'POSIX') AND d.datlocprovider = 'c' THEN ''"
			" ELSE coalesce(pg_catalog.pg_database_collation_actual_version(d.oid), pg_catalog.pg_postmaster_start_time()::pg_catalog.text) END)"
			" FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())"
			" ELSE coalesce(pg_catalog.pg_collation_actual_version(a.attcollation), pg_catalog.pg_postmaster_start_time()::pg_catalog.text) END";
	return "CASE WHEN a.attcollation = 0 THEN '' WHEN a.attcollation IN (950, 951) THEN 'C'"
		" ELSE pg_catalog.pg_postmaster_start_time()::pg_catalog.text END";
}

/* Only built-in types, whose operators are what they seem to be. */
bool
rose_upstream_find_key(WalReceiverConn *conn, Oid relid, RoseUpstreamKey *key)
{
	List	   *answer;
	StringInfoData order;
	ListCell   *lc;

	memset(key, 0, sizeof(*key));
	answer = rose_upstream_strings(conn,
								   psprintf("SELECT pg_catalog.unnest(ARRAY[a.attname::pg_catalog.text, pg_catalog.format_type(a.atttypid, a.atttypmod),"
											" pg_catalog.concat(a.attcollation::pg_catalog.text, '/', %s), a.atttypid::pg_catalog.text])"
											" FROM pg_catalog.pg_index i CROSS JOIN LATERAL pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k(attnum, n)"
											" JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
											" WHERE i.indrelid = %u AND i.indisprimary AND i.indisvalid AND i.indimmediate AND k.n <= %s ORDER BY k.n",
											order_expression(walrcv_server_version(conn)), relid,
											walrcv_server_version(conn) >= 110000 ? "i.indnkeyatts" : "i.indnatts"),
								   "read the primary key of a table");
	initStringInfo(&order);
	if (list_length(answer) % 4 != 0)
		rose_upstream_malformed("read the primary key of a table");
	foreach(lc, answer)
	{
		if (lfirst(lc) == NULL)
			rose_upstream_malformed("read the primary key of a table");
	}
	for (int i = 0; i < list_length(answer); i += 4)
	{
		Oid			type = (Oid) strtoul(list_nth(answer, i + 3), NULL, 10);

		if (type >= FirstGenbkiObjectId)
			return false;
		key->names = lappend(key->names, list_nth(answer, i));
		key->types = lappend(key->types, list_nth(answer, i + 1));
		key->type_oids = lappend_oid(key->type_oids, type);
		appendStringInfo(&order, "%u/%s;", type, (char *) list_nth(answer, i + 2));
	}
	key->order = order.data;
	return key->names != NIL;
}

/* As in a row of them, or in ORDER BY; prefix: what they are columns of. */
static char *
key_list(const RoseUpstreamKey *key, const char *prefix)
{
	StringInfoData result;
	ListCell   *lc;

	initStringInfo(&result);
	foreach(lc, key->names)
		appendStringInfo(&result, "%s%s%s", result.len > 0 ? ", " : "", prefix, quote_identifier(lfirst(lc)));
	return result.data;
}

/* A row of constants, to compare with, as an expression that makes its text. */
static char *
bound_expression(const RoseUpstreamKey *key)
{
	StringInfoData result;
	ListCell   *name;
	ListCell   *type;

	initStringInfo(&result);
	appendStringInfoString(&result, "pg_catalog.concat('ROW('");
	forboth(name, key->names, type, key->types)
		appendStringInfo(&result, "%s, pg_catalog.quote_literal(q.%s::pg_catalog.text), %s", name != list_head(key->names) ? ", ', '" : "",
						 quote_identifier(lfirst(name)), quote_literal_cstr(psprintf("::%s", (char *) lfirst(type))));
	appendStringInfoString(&result, ", ')')");
	return result.data;
}

/* What follows FROM: some of the rows.  A filter leaves fewer of them, but those that it leaves out are read, too. */
static char *
sample(WalReceiverConn *conn, Oid relid, const RoseUpstreamRows *rows)
{
	double		percent;
	int64		all;
	int64		bytes;

	rose_upstream_estimate(conn, relid, &all, &bytes);
	percent = 100.0 * SAMPLE_ROWS / Max(Max(all, rows->expected), 1);
	return psprintf("%s AS t TABLESAMPLE SYSTEM (%.6f)%s%s", rows->relation, Min(Max(percent, 0.0001), 100.0),
					rows->filter != NULL ? " WHERE " : "", rows->filter != NULL ? rows->filter : "");
}

/* A block of the table has rows of how many of n ranges?  So often it is read. */
static double
times_read(WalReceiverConn *conn, const char *some, const RoseUpstreamKey *key, int n)
{
	char	   *value = NULL;

	(void) rose_upstream_row(conn,
							 psprintf("SELECT pg_catalog.avg(g.c)::pg_catalog.text FROM (SELECT pg_catalog.count(DISTINCT s.n * %d / s.m) AS c FROM"
									  " (SELECT t.tableoid AS o, (t.ctid::pg_catalog.text::pg_catalog.point)[0] AS b,"
									  " pg_catalog.row_number() OVER (ORDER BY %s) - 1 AS n, pg_catalog.count(*) OVER () AS m FROM %s) s GROUP BY s.o, s.b) g",
									  n, key_list(key, "t."), some),
							 1, &value, "look at the order of a table's rows");
	return value != NULL ? strtod(value, NULL) : n;
}

/* Who may read columns, and not the table, may not ask where rows lie. */
static bool
may_ask_for_places(WalReceiverConn *conn, Oid relid)
{
	char	   *value = NULL;

	(void) rose_upstream_row(conn,
							 psprintf("SELECT pg_catalog.has_table_privilege(%u::pg_catalog.oid, 'SELECT')::pg_catalog.text", relid),
							 1, &value, "look at the rights on a table");
	return value != NULL && strcmp(value, "true") == 0;
}

/* So many that reading them does not cost much more than reading the table. */
static int
suitable_number(WalReceiverConn *conn, Oid relid, const char *some, const RoseUpstreamKey *key, int n)
{
	if (n > MOST_TIMES_READ && !may_ask_for_places(conn, relid))
		return MOST_TIMES_READ;
	while (n > MOST_TIMES_READ && times_read(conn, some, key, n) > MOST_TIMES_READ)
		n = Max(n * 2 / 3, MOST_TIMES_READ);
	return n;
}

List *
rose_upstream_make_ranges(WalReceiverConn *conn, Oid relid, const RoseUpstreamRows *rows, const RoseUpstreamKey *key, int n)
{
	char	   *some;
	char	   *names = key_list(key, "");
	char	   *before = NULL;
	List	   *bounds;
	List	   *result = NIL;
	ListCell   *lc;

	if (n < 2)
		return NIL;
	some = sample(conn, relid, rows);
	n = suitable_number(conn, relid, some, key, n);
	bounds = rose_upstream_strings(conn,
								   psprintf("SELECT %s FROM (SELECT %s, pg_catalog.row_number() OVER (ORDER BY %s) AS \"?n\", pg_catalog.count(*) OVER () AS \"?all\" FROM %s) q"
											" WHERE q.\"?n\" < q.\"?all\" AND q.\"?n\" * %d / q.\"?all\" <> (q.\"?n\" - 1) * %d / q.\"?all\" ORDER BY q.\"?n\"",
											bound_expression(key), key_list(key, "t."), key_list(key, "t."), some, n, n),
								   "find ranges of a table's keys");
	if (bounds == NIL || list_length(bounds) >= n)
		return NIL;
	foreach(lc, bounds)
	{
		char	   *bound = lfirst(lc);

		if (bound == NULL)
			rose_upstream_malformed("find ranges of a table's keys");
		result = lappend(result, before == NULL ? psprintf("ROW(%s) <= %s", names, bound) :
						 psprintf("ROW(%s) > %s AND ROW(%s) <= %s", names, before, names, bound));
		before = bound;
	}
	return lappend(result, psprintf("ROW(%s) > %s", names, before));
}

/*
 * Versions of the catalog's rows that say what is published of the table, and of its own rows there.  Changes that were left out for a while, by a
 * publication that is as it was again, or a schema that the table has come back to, are in no stream: so these must be the same rows.
 */
static List *
catalog_versions(WalReceiverConn *conn, List *publications, Oid relid)
{
	char	   *names = rose_upstream_literals(publications);
	char	   *tables = psprintf("%u", relid);
	char	   *schemas = "";

	if (walrcv_server_version(conn) >= PARTITION_TREE_VERSION)
		tables = psprintf("SELECT %u UNION ALL SELECT t.relid FROM pg_catalog.pg_partition_tree(%u) t"
						  " UNION ALL SELECT t.relid FROM pg_catalog.pg_partition_ancestors(%u) t", relid, relid, relid);
	/* a partition may be published with the schema of its root */
	if (walrcv_server_version(conn) >= SCHEMAS_VERSION)
		schemas = psprintf(" UNION ALL SELECT pg_catalog.concat('n', s.oid::pg_catalog.text)"
						   " FROM pg_catalog.pg_publication_namespace s JOIN pg_catalog.pg_publication p ON p.oid = s.pnpubid"
						   " JOIN pg_catalog.pg_class c ON c.relnamespace = s.pnnspid WHERE p.pubname IN (%s) AND c.oid IN (%s)", names, tables);
	return rose_upstream_strings(conn,
								 psprintf("SELECT pg_catalog.concat('p', p.oid::pg_catalog.text, ':', p.xmin::pg_catalog.text) AS x"
										  " FROM pg_catalog.pg_publication p WHERE p.pubname IN (%s)"
										  " UNION ALL SELECT pg_catalog.concat('r', r.oid::pg_catalog.text, ':', r.xmin::pg_catalog.text)"
										  " FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid"
										  " WHERE p.pubname IN (%s) AND r.prrelid IN (%s)"
										  " UNION ALL SELECT pg_catalog.concat('c', c.oid::pg_catalog.text, ':', c.xmin::pg_catalog.text)"
										  " FROM pg_catalog.pg_class c WHERE c.oid IN (%s)%s ORDER BY 1",
										  names, names, tables, tables, schemas),
								 "read how a table is published");
}

char *
rose_upstream_describe_rows(WalReceiverConn *conn, const RoseUpstreamIdentity *identity, List *publications,
							const RoseUpstreamTable *table, const RoseUpstreamRows *rows, const RoseUpstreamKey *key, List *columns)
{
	RoseUpstreamColumns all;
	RoseUpstreamSeen seen;
	Bitmapset  *generated;
	StringInfoData described;
	ListCell   *lc;

	rose_upstream_look(conn, publications, table->relid, &all, &generated, &seen);
	initStringInfo(&described);
	appendStringInfo(&described, "%s;%u;%u;%u;%d;%s;%s;%s;%s;%s;", identity->system_id, identity->timeline, identity->dbid,
					 table->relid, seen.natts, seen.files != NULL ? seen.files : "", seen.published != NULL ? seen.published : "",
					 rows->relation, rows->filter != NULL ? rows->filter : "", key->order);
	foreach(lc, columns)
		appendStringInfo(&described, "%s;", (char *) lfirst(lc));
	foreach(lc, rose_upstream_strings(conn,
									  psprintf("SELECT pg_catalog.concat(a.attnum::pg_catalog.text, ':', a.attname, ':', a.atttypid::pg_catalog.text, ':', a.atttypmod::pg_catalog.text, ':', a.attcollation::pg_catalog.text)"
											   " FROM pg_catalog.pg_attribute a WHERE a.attrelid = %u AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum", table->relid),
									  "read the columns of a table"))
		appendStringInfo(&described, "%s;", lfirst(lc) != NULL ? (char *) lfirst(lc) : "");
	foreach(lc, catalog_versions(conn, publications, table->relid))
		appendStringInfo(&described, "%s;", lfirst(lc) != NULL ? (char *) lfirst(lc) : "");
	return psprintf("%016llx%016llx",
					(unsigned long long) hash_bytes_extended((unsigned char *) described.data, described.len, 1),
					(unsigned long long) hash_bytes_extended((unsigned char *) described.data, described.len, 2));
}
