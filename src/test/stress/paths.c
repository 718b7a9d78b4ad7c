/*-------------------------------------------------------------------------
 *
 * paths.c
 *	  Reads a table in all ways that there are, within one snapshot: each way
 *	  must find the same rows.
 *
 * Some ways go by secondary indexes, if the table happens to have the right ones.
 *
 * The caller has begun a REPEATABLE READ transaction and locked the table before
 * its snapshot was taken (a rewrite empties a table for older snapshots, with
 * heap too).  In between, another session spills and merges.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

/* What a way of reading must agree on with others of its kind. */
typedef enum Agreement
{
	ALL_COLUMNS,
	KEYS_ONLY,
	NO_DISORDER,
	KINDS
} Agreement;

static const char *const summaries[KINDS] = {
	"count(*) || ' rows, sum ' || coalesce(sum(v), 0) || ', hash ' || coalesce(sum(hashtextextended(ROW(id, grp, v, n, pad)::text, 0)), 0)",
	"count(*) || ' rows, sum of ids ' || coalesce(sum(id), 0)",
	"count(*) || ' out of order'",
};

typedef struct Path
{
	const char *name;
	Agreement	kind;
	bool		with_key;		/* only where there is a key */
	bool		one_file;		/* not for partitioned tables: a ctid is one table's */
	const char *settings;		/* what the planner shall not do */
	const char *from;			/* $T: the table, $W: the condition, $K and $B: its order, forward and backward */
} Path;

static const Path paths[] = {
	{"scan", ALL_COLUMNS, false, false, "enable_indexscan enable_bitmapscan",
	"$T x WHERE $W"},
	{"scan of keys", KEYS_ONLY, false, false, "enable_indexscan enable_bitmapscan",
	"$T x WHERE $W"},
	{"scan by workers", ALL_COLUMNS, false, false, "parallel",
	"$T x WHERE $W"},
	{"in order", ALL_COLUMNS, false, false, "enable_seqscan enable_sort",
	"(SELECT * FROM $T WHERE $W ORDER BY $K) x"},
	{"backward", ALL_COLUMNS, false, false, "enable_seqscan enable_sort",
	"(SELECT * FROM $T WHERE $W ORDER BY $B) x"},
	{"order", NO_DISORDER, true, false, "enable_seqscan enable_sort",
		"(SELECT ROW($K) AS k, lag(ROW($K)) OVER () AS before FROM (SELECT $K FROM $T WHERE $W ORDER BY $K) y) x "
	"WHERE before >= k"},
	{"backward order", NO_DISORDER, true, false, "enable_seqscan enable_sort",
		"(SELECT ROW($K) AS k, lag(ROW($K)) OVER () AS before FROM (SELECT $K FROM $T WHERE $W ORDER BY $B) y) x "
	"WHERE before <= k"},
	{"index only", KEYS_ONLY, true, false, "enable_seqscan enable_bitmapscan",
	"$T x WHERE $W"},
	{"by key", ALL_COLUMNS, true, false, "enable_seqscan enable_bitmapscan",
		"(SELECT id AS i, grp AS g FROM $T WHERE $W) k, "
	"LATERAL (SELECT * FROM $T t WHERE t.id = k.i AND t.grp = k.g OFFSET 0) x"},
	{"by ctid, joined", ALL_COLUMNS, false, false, "enable_indexscan enable_nestloop enable_mergejoin",
	"(SELECT ctid AS c, tableoid AS o FROM $T WHERE $W) k JOIN $T x ON x.ctid = k.c AND x.tableoid = k.o"},
	{"by ctid, looked up", ALL_COLUMNS, false, true, "enable_hashjoin enable_mergejoin",
	"(SELECT ctid AS c FROM $T WHERE $W OFFSET 0) k JOIN $T x ON x.ctid = k.c"},
	{"by ctid, from an array", ALL_COLUMNS, false, true, "enable_indexscan",
	"$T x WHERE ctid = ANY(ARRAY(SELECT ctid FROM $T WHERE $W))"},
	{"by ctid of the key's order", ALL_COLUMNS, true, true, "enable_seqscan",
	"$T x WHERE ctid = ANY(ARRAY(SELECT ctid FROM $T WHERE $W ORDER BY $B))"},
	{"by v", ALL_COLUMNS, false, false, "enable_seqscan enable_bitmapscan",
	"$T x WHERE $W AND v = ANY(ARRAY(SELECT DISTINCT v FROM $T WHERE $W))"},
	{"by grp", ALL_COLUMNS, false, false, "enable_seqscan enable_bitmapscan",
	"$T x WHERE $W AND grp = ANY(ARRAY(SELECT DISTINCT grp FROM $T WHERE $W))"},
	{"by n", ALL_COLUMNS, false, false, "enable_seqscan enable_bitmapscan",
	"$T x WHERE $W AND n >= 0"},
	{"ids of an index", KEYS_ONLY, false, false, "enable_seqscan enable_bitmapscan",
	"$T x WHERE $W AND v IS NOT NULL AND grp > ''"},
	{"in order of v", ALL_COLUMNS, false, false, "enable_seqscan enable_sort",
	"(SELECT * FROM $T WHERE $W ORDER BY v) x"},
	{"order of v", NO_DISORDER, false, false, "enable_seqscan enable_sort",
	"(SELECT v AS k, lag(v) OVER () AS before FROM (SELECT v FROM $T WHERE $W ORDER BY v) y) x WHERE before > k"},
	{"order of v and others", NO_DISORDER, false, false, "enable_seqscan enable_sort",
		"(SELECT ROW(v, id) AS k, lag(ROW(v, id)) OVER () AS before FROM (SELECT v, id FROM $T WHERE $W ORDER BY v DESC, id DESC) y) x "
	"WHERE before < k"},
	{"joined by v", ALL_COLUMNS, false, false, "enable_seqscan enable_bitmapscan enable_hashjoin enable_nestloop enable_sort",
	"(SELECT DISTINCT v AS k FROM $T WHERE $W) y JOIN $T x ON x.v = y.k AND $W"},
};

#define NPATHS	((int) (sizeof(paths) / sizeof(paths[0])))

static const char *const knobs[] = {"enable_seqscan", "enable_indexscan", "enable_bitmapscan", "enable_sort",
"enable_hashjoin", "enable_mergejoin", "enable_nestloop"};

#define NKNOBS	((int) (sizeof(knobs) / sizeof(knobs[0])))

/* Sets what differs from the way before, so that a report is short. */
static bool
set_planner(Session *s, const Path *before, const Path *path)
{
	char		sql[1024] = "";
	bool		parallel = strcmp(path->settings, "parallel") == 0;
	bool		was_parallel = before && strcmp(before->settings, "parallel") == 0;

	for (int i = 0; i < NKNOBS; i++)
	{
		bool		off = strstr(path->settings, knobs[i]) != NULL;
		size_t		used = strlen(sql);

		if (off != (before && strstr(before->settings, knobs[i]) != NULL))
			snprintf(sql + used, sizeof(sql) - used, "SET LOCAL %s = %s; ", knobs[i], off ? "off" : "on");
	}
	if (parallel != was_parallel)
		strcat(sql, parallel ? "SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL parallel_setup_cost = 0; "
			   "SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0" :
			   "SET LOCAL max_parallel_workers_per_gather = 0");
	return sql[0] == '\0' || session_run(s, "%s", sql);
}

static void
expand(char *out, size_t size, const char *template, Family family, int shape, const char *where)
{
	size_t		n = 0;

	for (const char *c = template; *c; c++)
	{
		const char *text;

		if (*c != '$')
		{
			if (n + 1 < size)
				out[n++] = *c;
			continue;
		}
		c++;
		text = *c == 'T' ? table_name(family, shape) : *c == 'W' ? where :
			*c == 'K' ? shape_key(shape) : shape_backward(shape);

		n += snprintf(out + n, size - n, "%s", text);
	}
	out[n] = '\0';
}

static bool
applies(const Path *path, int shape)
{
	if (strstr(path->name, "ctid") && !trait_enabled(TRAIT_CTID))
		return false;
	return (!path->with_key || shape_has_key(shape)) && (!path->one_file || !shape_is_partitioned(shape));
}

/*
 * Reads the rows for which "where" holds in all ways that apply, in any order,
 * and some of them twice.  Returns false after an error that may be.
 */
bool
paths_compare(Session *s, Family family, int shape, const char *where, bool churn)
{
	char		first[KINDS][256] = {"", "", "0 out of order"};
	const char *first_name[KINDS] = {"", "", "what order means"};
	const Path *before = NULL;
	int			tries = NPATHS + 3;

	for (int i = 0; i < tries; i++)
	{
		const Path *path = &paths[i == 0 ? 0 : random_below(&s->random, NPATHS)];
		char		from[1024];
		char		answer[256];

		if (!applies(path, shape))
			continue;
		expand(from, sizeof(from), path->from, family, shape, where);
		if (!set_planner(s, before, path) ||
			!session_value(s, answer, sizeof(answer), "SELECT %s FROM %s", summaries[path->kind], from))
			return false;
		before = path;
		if (first_name[path->kind][0] == '\0')
		{
			first_name[path->kind] = path->name;
			strcpy(first[path->kind], answer);
		}
		else if (strcmp(first[path->kind], answer) != 0)
			fail(s, "%s answers differ within one snapshot: \"%s\": %s; \"%s\": %s", table_name(family, shape),
				 first_name[path->kind], first[path->kind], path->name, answer);
		if (churn && random_chance(&s->random, 25))
			tables_churn(s, family, shape);
	}
	return set_planner(s, before, &paths[0]) && session_run(s, "SET LOCAL enable_indexscan = on; SET LOCAL enable_bitmapscan = on");
}
