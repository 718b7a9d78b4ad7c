/*-------------------------------------------------------------------------
 *
 * rose_verify_table.c
 *	  One table, here and upstream: which rows differ.
 *
 * The rows are dealt into buckets by a hash of their key, and each side computes
 * how many rows a bucket has and the sum of the rows' hashes: one scan on each side, whatever
 * the size, and some kilobytes to compare.  Of the buckets that differ, a second scan on each
 * side lists keys with the hash of their row, and these name the rows.
 *
 * Why by a hash of the key, and not by ranges of it: both sides must agree on where a row belongs,
 * to the last one.  They need not agree on the order of texts (collations and their versions), of enums, or of
 * types of extensions; and neither may have an index in an order that they do agree on.  Of a hash of the
 * key's text there is no doubt, and each key, composite or not, has one.
 *
 * So what is listed is bounded: by ROSE_VERIFY_LIST_ROWS rows in memory at a time, by so many
 * scans, and by the caller's number of keys.  What is left is said in one row, with its counts.
 *
 * No locks: the caller has the table's, on both sides.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "repl/rose_repl_internal.h"
#include "repl/rose_verify.h"

/* Buckets, as a power of two, and the rows of one that are aimed at. */
#define ROSE_VERIFY_MIN_BITS	6
#define ROSE_VERIFY_MAX_BITS	14
#define ROSE_VERIFY_BUCKET_ROWS	256

/* Rows of one side that are listed in one scan, and how many scans list some. */
#define ROSE_VERIFY_LIST_ROWS	100000
#define ROSE_VERIFY_LIST_SCANS	8

/* What both sides say of a bucket. */
typedef struct Bucket
{
	int64		rows;
	char	   *sum;			/* NULL: it has no rows */
} Bucket;

#define PURPOSE "compare a table"

typedef struct Buckets
{
	int			n;
	Bucket	   *upstream;
	Bucket	   *here;
} Buckets;

/* Those of one side, while they come. */
typedef struct SideOfBuckets
{
	int			n;
	Bucket	   *buckets;
} SideOfBuckets;

/* A row that is listed. */
typedef struct Listed
{
	char	   *key;
	int64		hash;
} Listed;

typedef struct ListOfRows
{
	int			n;
	int			size;
	Listed	   *rows;
} ListOfRows;

typedef struct Comparison
{
	RoseVerify *verify;
	const RoseVerifyTable *table;
	int			bits;			/* there are two to the power of it buckets */
	Buckets		buckets;
	int64		named;			/* rows that were reported so far */
} Comparison;

void
rose_verify_table_report(RoseVerify *verify, const RoseVerifyTable *table, const char *key,
						 int64 upstream_rows, int64 replica_rows, const char *problem)
{
	RoseVerifyProblem report = {
		.nspname = table->nspname, .relname = table->relname, .key = key,
		.upstream_rows = upstream_rows, .replica_rows = replica_rows, .problem = problem
	};

	verify->options->report(verify->options->arg, &report);
}

/* ---------------------------------------------------------------------
 * Queries
 */

/* A hash of a text: of its bytes, whatever the collation of the database is. */
static char *
hash_of(const RoseVerify *verify, const char *expr, int seed)
{
	if (verify->other_encoding)
		expr = psprintf("pg_catalog.encode(pg_catalog.convert_to(%s, 'UTF8'), 'hex')", expr);
	return psprintf("pg_catalog.hashtextextended((%s) COLLATE pg_catalog.\"C\", %d::pg_catalog.int8)", expr, seed);
}

/* Rows with the bucket b, the hash h and, if it is wanted, the key k. */
static char *
hashed_rows(const Comparison *c, const RoseVerifySide *side, bool with_key)
{
	const char *bucket = "0::pg_catalog.int8";

	if (side->key != NULL)
		bucket = psprintf("(%s OPERATOR(pg_catalog.&) %d::pg_catalog.int8)", hash_of(c->verify, side->key, 1),
						  (1 << c->bits) - 1);
	return psprintf("(SELECT %s AS b, %s AS h%s FROM %s) s", bucket, hash_of(c->verify, side->row, 0),
					with_key ? psprintf(", %s AS k", side->key) : "", side->source);
}

static char *
sums_query(const Comparison *c, const RoseVerifySide *side)
{
	return psprintf("SELECT s.b::pg_catalog.text, pg_catalog.count(*)::pg_catalog.text, pg_catalog.sum(s.h)::pg_catalog.text"
					" FROM %s GROUP BY s.b", hashed_rows(c, side, false));
}

static char *
list_query(const Comparison *c, const RoseVerifySide *side, const char *buckets)
{
	return psprintf("SELECT s.k, s.h::pg_catalog.text FROM %s"
					" WHERE s.b OPERATOR(pg_catalog.=) ANY ('{%s}'::pg_catalog.int8[])",
					hashed_rows(c, side, true), buckets);
}

static void
ask_both(Comparison *c, const char *upstream_sql, const char *here_sql, int ncols, RoseVerifyRow row,
		 void *upstream, void *here)
{
	rose_verify_query_upstream(c->verify, upstream_sql, ncols, row, upstream);
	rose_verify_query_here(c->verify, c->table->owner, here_sql, ncols, row, here);
}

/* ---------------------------------------------------------------------
 * Sums
 */

static void
take_sum(void *arg, char **values)
{
	SideOfBuckets *side = arg;
	long		no;

	if (values[0] == NULL || values[1] == NULL || values[2] == NULL)
		rose_upstream_malformed(PURPOSE);
	no = strtol(values[0], NULL, 10);
	if (no < 0 || no >= side->n)
		rose_upstream_malformed(PURPOSE);
	side->buckets[no].rows = strtoll(values[1], NULL, 10);
	side->buckets[no].sum = values[2];
}

static void
compute_sums(Comparison *c)
{
	Buckets    *buckets = &c->buckets;
	SideOfBuckets upstream = {1 << c->bits};
	SideOfBuckets here = {1 << c->bits};

	buckets->n = 1 << c->bits;
	buckets->upstream = upstream.buckets = palloc0(sizeof(Bucket) * buckets->n);
	buckets->here = here.buckets = palloc0(sizeof(Bucket) * buckets->n);
	ask_both(c, sums_query(c, &c->table->upstream), sums_query(c, &c->table->here), 3, take_sum, &upstream, &here);
}

static bool
differs(const Buckets *buckets, int i)
{
	const Bucket *a = &buckets->upstream[i];
	const Bucket *b = &buckets->here[i];

	return a->rows != b->rows || (a->rows > 0 && strcmp(a->sum, b->sum) != 0);
}

/* As few rows in each as are aimed at, if there are so many rows in all. */
static int
bits_for(int64 rows)
{
	int			bits = ROSE_VERIFY_MIN_BITS;

	while (bits < ROSE_VERIFY_MAX_BITS && rows >> bits > ROSE_VERIFY_BUCKET_ROWS)
		bits++;
	return bits;
}

/* Of the buckets that differ, or all: the rows of the side that has more of them. */
static int64
count_rows(const Buckets *buckets, bool all)
{
	int64		upstream = 0;
	int64		here = 0;

	for (int i = 0; i < buckets->n; i++)
	{
		if (!all && !differs(buckets, i))
			continue;
		upstream += buckets->upstream[i].rows;
		here += buckets->here[i].rows;
	}
	return Max(upstream, here);
}

/* ---------------------------------------------------------------------
 * Rows
 */

static void
take_row(void *arg, char **values)
{
	ListOfRows *list = arg;

	if (values[0] == NULL || values[1] == NULL)
		rose_upstream_malformed(PURPOSE);
	if (list->n == list->size)
	{
		list->size = list->size == 0 ? 1024 : list->size * 2;
		list->rows = list->rows == NULL ? palloc(sizeof(Listed) * list->size) :
			repalloc(list->rows, sizeof(Listed) * list->size);
	}
	list->rows[list->n].key = values[0];
	list->rows[list->n++].hash = (int64) strtoll(values[1], NULL, 10);
}

static int
compare_listed(const void *a, const void *b)
{
	const Listed *x = a;
	const Listed *y = b;
	int			order = strcmp(x->key, y->key);

	if (order != 0)
		return order;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* False: that is enough. */
static bool
name_row(Comparison *c, const char *key, bool upstream, bool here)
{
	if (c->named >= c->verify->options->max_keys)
		return false;
	c->named++;
	rose_verify_table_report(c->verify, c->table, key, upstream, here,
							 !here ? "missing here" : !upstream ? "only here" : "different");
	return true;
}

/* False: not all of them were named. */
static bool
name_differences(Comparison *c, ListOfRows *upstream, ListOfRows *here)
{
	int			i = 0;
	int			j = 0;
	bool		all = true;

	qsort(upstream->rows, upstream->n, sizeof(Listed), compare_listed);
	qsort(here->rows, here->n, sizeof(Listed), compare_listed);
	while (all && (i < upstream->n || j < here->n))
	{
		int			order = i == upstream->n ? 1 : j == here->n ? -1 :
			strcmp(upstream->rows[i].key, here->rows[j].key);

		if (order < 0)
			all = name_row(c, upstream->rows[i++].key, true, false);
		else if (order > 0)
			all = name_row(c, here->rows[j++].key, false, true);
		else
		{
			if (upstream->rows[i].hash != here->rows[j].hash)
				all = name_row(c, upstream->rows[i].key, true, true);
			i++;
			j++;
		}
	}
	return all;
}

/* As many of the buckets that differ, from *next on, as are listed together; false: there are none, or the first has too many rows. */
static bool
choose_buckets(Comparison *c, int *next, StringInfo chosen)
{
	Buckets    *buckets = &c->buckets;
	int64		rows = 0;

	resetStringInfo(chosen);
	for (; *next < buckets->n; (*next)++)
	{
		if (!differs(buckets, *next))
			continue;
		rows += Max(buckets->upstream[*next].rows, buckets->here[*next].rows);
		if (rows > ROSE_VERIFY_LIST_ROWS)
			break;
		appendStringInfo(chosen, "%s%d", chosen->len > 0 ? "," : "", *next);
	}
	return chosen->len > 0;
}

/* What was not listed, from a bucket on. */
static void
report_rest(Comparison *c, int from)
{
	int64		upstream = 0;
	int64		here = 0;

	for (int i = from; i < c->buckets.n; i++)
	{
		if (!differs(&c->buckets, i))
			continue;
		upstream += c->buckets.upstream[i].rows;
		here += c->buckets.here[i].rows;
	}
	rose_verify_table_report(c->verify, c->table, NULL, upstream, here, "more differences, among so many rows");
}

static void
name_rows(Comparison *c)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose verify rows", ALLOCSET_DEFAULT_SIZES);
	StringInfoData chosen;
	int			next = 0;
	int			from = 0;
	bool		all = true;

	initStringInfo(&chosen);
	for (int i = 0; all && i < ROSE_VERIFY_LIST_SCANS && choose_buckets(c, &next, &chosen); i++)
	{
		ListOfRows	upstream = {0};
		ListOfRows	here = {0};
		MemoryContext old = MemoryContextSwitchTo(context);

		ask_both(c, list_query(c, &c->table->upstream, chosen.data), list_query(c, &c->table->here, chosen.data), 2,
				 take_row, &upstream, &here);
		all = name_differences(c, &upstream, &here);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
		if (all)
			from = next;
	}
	while (from < c->buckets.n && !differs(&c->buckets, from))
		from++;
	if (from < c->buckets.n)
		report_rest(c, from);
	MemoryContextDelete(context);
}

/* ---------------------------------------------------------------------
 * The table
 */

static void
compare(Comparison *c)
{
	bool		has_key = c->table->here.key != NULL;

	c->bits = has_key ? bits_for(c->table->expected_rows) : 0;
	compute_sums(c);
	if (count_rows(&c->buckets, false) == 0)
		return;
	if (!has_key)
	{
		rose_verify_table_report(c->verify, c->table, NULL, c->buckets.upstream[0].rows, c->buckets.here[0].rows,
								 "rows differ");
		return;
	}
	/* the table is larger than was thought: it takes smaller buckets for what differs to be listed */
	if (count_rows(&c->buckets, false) > ROSE_VERIFY_LIST_ROWS && bits_for(count_rows(&c->buckets, true)) > c->bits)
	{
		c->bits = bits_for(count_rows(&c->buckets, true));
		compute_sums(c);
	}
	name_rows(c);
}

void
rose_verify_table_compare(RoseVerify *verify, const RoseVerifyTable *table)
{
	Comparison	c = {.verify = verify, .table = table};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose verify table", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	compare(&c);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
