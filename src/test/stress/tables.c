/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  The tables: three families (what is in them) by six shapes (how they are
 *	  made).
 *
 * All have the columns id, grp, v, n and pad, so that the same statements run on
 * each; grp follows from id, and pad from v.  Partitioned tables have "leaves",
 * which is what spills, merges and checks are for.
 *
 *-------------------------------------------------------------------------
 */
#include "stress.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Shape
{
	const char *key;			/* NULL: none */
	const char *backward;
	const char *partition_by;	/* NULL: not partitioned */
	bool		wide;
} Shape;

#define PARTITIONS		3
#define WIDE_COLUMNS	24

const char *const shape_names[SHAPES] = {"keyed", "composite", "keyless", "partitioned", "wide", "keyless_partitioned"};

static const char *const family_names[FAMILIES] = {"account", "own", "batch"};

static const Shape shapes[SHAPES] = {
	{"id", "id DESC", NULL, false},
	{"grp, id", "grp DESC, id DESC", NULL, false},
	{NULL, NULL, NULL, false},
	{"id", "id DESC", "HASH (id)", false},
	{"id", "id DESC", NULL, true},
	{NULL, NULL, "LIST ((id % 3))", false},
};

static char names[FAMILIES][SHAPES][64];
static char (*leaves)[64];
static int	nleaves;

const char *
table_name(Family family, int shape)
{
	return names[family][shape];
}

bool
shape_has_key(int shape)
{
	return shapes[shape].key != NULL;
}

bool
shape_is_partitioned(int shape)
{
	return shapes[shape].partition_by != NULL;
}

bool
shape_is_wide(int shape)
{
	return shapes[shape].wide;
}

/* The columns of the key; without one, those that rows can be told apart by, mostly. */
const char *
shape_key(int shape)
{
	return shapes[shape].key ? shapes[shape].key : "id, v";
}

const char *
shape_backward(int shape)
{
	return shapes[shape].backward ? shapes[shape].backward : "id DESC, v DESC";
}

int
shape_pick(Session *s)
{
	for (;;)
	{
		int			shape = random_below(&s->random, SHAPES);

		if (options.shapes >> shape & 1)
			return shape;
	}
}

const char *
group_of(int64_t id)
{
	static const char *const groups[] = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"};

	return groups[id % 7];
}

static void
must(Session *s, const char *sql)
{
	PGresult   *result = PQexec(s->conn, sql);

	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
		fail(s, "could not prepare the tables: %s\n%s", PQerrorMessage(s->conn), sql);
	PQclear(result);
}

static void
add_leaf(const char *name)
{
	leaves = realloc(leaves, (nleaves + 1) * sizeof(*leaves));
	snprintf(leaves[nleaves++], sizeof(*leaves), "%s", name);
}

static void
create_partitions(Session *s, const char *name, const Shape *shape)
{
	char		sql[512];
	char		leaf[64];

	for (int i = 0; i < PARTITIONS; i++)
	{
		snprintf(leaf, sizeof(leaf), "%.50s_p%d", name, i);
		if (shape->partition_by[0] == 'H')
			snprintf(sql, sizeof(sql), "CREATE TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS %d, REMAINDER %d)",
					 leaf, name, PARTITIONS, i);
		else
			snprintf(sql, sizeof(sql), "CREATE TABLE %s PARTITION OF %s FOR VALUES IN (%d)", leaf, name, i);
		must(s, sql);
		add_leaf(leaf);
	}
}

static void
create_table(Session *s, const char *name, const Shape *shape)
{
	char		sql[4096];
	int			n;

	n = snprintf(sql, sizeof(sql), "CREATE TABLE %s (id bigint NOT NULL, grp text NOT NULL, v bigint, n int, pad text", name);
	for (int i = 0; shape->wide && i < WIDE_COLUMNS; i++)
		n += snprintf(sql + n, sizeof(sql) - n, ", w%d %s", i,
					  i % 4 == 0 ? "int DEFAULT 7" : i % 4 == 1 ? "text DEFAULT 'some text'" :
					  i % 4 == 2 ? "float8 DEFAULT 0.5" : "timestamptz");
	if (shape->key)
		n += snprintf(sql + n, sizeof(sql) - n, ", PRIMARY KEY (%s)", shape->key);
	n += snprintf(sql + n, sizeof(sql) - n, ")");
	if (shape->partition_by)
		n += snprintf(sql + n, sizeof(sql) - n, " PARTITION BY %s", shape->partition_by);
	must(s, sql);
	if (shape->partition_by)
		create_partitions(s, name, shape);
	else
		add_leaf(name);
}

/* Makes and fills all tables; before the sessions are started. */
void
tables_create(Session *s)
{
	char		sql[512];

	must(s, "SET default_table_access_method = heap");
	must(s, "CREATE TABLE stress_mark (session int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 10)");
	snprintf(sql, sizeof(sql), "INSERT INTO stress_mark SELECT i, 0 FROM generate_series(1, %d) i", MAX_PROCESSES);
	must(s, sql);
	must(s, options.rose ? "SET default_table_access_method = rose" : "SET default_table_access_method = heap");
	for (int family = 0; family < FAMILIES; family++)
	{
		for (int shape = 0; shape < SHAPES; shape++)
		{
			char	   *name = names[family][shape];

			snprintf(name, sizeof(names[0][0]), "%s_%s", family_names[family], shape_names[shape]);
			if (!(options.shapes >> shape & 1))
				continue;
			create_table(s, name, &shapes[shape]);
			indexes_create(s, name);
			if (family != ACCOUNT)
				continue;
			snprintf(sql, sizeof(sql), "INSERT INTO %s (id, grp, v, n, pad) SELECT i, "
					 "(ARRAY['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta', 'eta'])[i %% 7 + 1], %d, 0, repeat(md5('%d'), 3) "
					 "FROM generate_series(1, %d) i", name, ACCOUNT_START, ACCOUNT_START, ACCOUNTS);
			must(s, sql);
		}
	}
}

int
tables_leaves(char (**list)[64])
{
	*list = leaves;
	return nleaves;
}

const char *
tables_pick_any(Session *s)
{
	return leaves[random_below(&s->random, nleaves)];
}

/* A leaf of the table. */
const char *
tables_pick_leaf(Session *s, Family family, int shape)
{
	const char *name = names[family][shape];
	size_t		length = strlen(name);

	for (;;)
	{
		const char *leaf = tables_pick_any(s);

		if (strncmp(leaf, name, length) == 0 &&
			(leaf[length] == '\0' || (strncmp(leaf + length, "_p", 2) == 0 && isdigit((unsigned char) leaf[length + 2]))))
			return leaf;
	}
}

/* Has a leaf of the table spilled or merged by another session, in the middle of this one's transaction. */
void
tables_churn(Session *s, Family family, int shape)
{
	if (options.rose && trait_enabled(TRAIT_CHURN))
		session_beside(s, "SELECT rose.%s('%s')", random_chance(&s->random, 65) ? "spill" : "merge",
					   tables_pick_leaf(s, family, shape));
}

/* Asks rose.check. */
void
tables_check(Session *s, const char *name)
{
	PGresult   *result;

	if (!options.rose)
		return;
	result = session_query(s, "SELECT blkno, msg FROM rose.check('%s')", name);
	if (result && PQntuples(result) > 0)
		fail(s, "rose.check('%s') says, in %d rows: block %s: %s", name, PQntuples(result),
			 PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1));
	PQclear(result);
}
