/*-------------------------------------------------------------------------
 *
 * rose_columns.c
 *	  From the upstream's columns to local ones.
 *
 * A column is known by its number on both sides, for names change, and may come to mean
 * another column.  The numbers are in rose.subscription_rel: a pair for each column,
 * written by the copy, or when the first change comes.  By its name a local column is
 * found once, when there is no pair with the upstream's column yet.
 *
 * A local column that had an upstream's column is no other one's later: the rows would
 * have values of both.  So the pair of one that is published no more stays, retired.
 * What does not fit is an error of the table, and ends with its next copy.
 *
 * The stream tells names only.  The numbers are asked for on another connection, so they
 * are those of now and not of the change: see rose_columns_identify().
 *
 * Locking: the caller has the table open and locked.  Values are converted in
 * rose_repl_value.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "repl/rose_columns.h"

/* ---------------------------------------------------------------------
 * Pairs
 */

/* The pair with that column of the upstream, or -1. */
static int
find_remote(const RoseColumnMap *map, int16 attnum)
{
	for (int i = 0; map != NULL && i < map->n; i++)
	{
		if (map->remote_attnums[i] == attnum)
			return i;
	}
	return -1;
}

static int
find_local(const RoseColumnMap *map, int16 attnum)
{
	for (int i = 0; map != NULL && i < map->n; i++)
	{
		if (map->attnums[i] == attnum)
			return i;
	}
	return -1;
}

static void
add_pair(RoseColumnMap *map, int16 attnum, int16 remote_attnum, char *remote_name)
{
	map->attnums[map->n] = attnum;
	map->remote_attnums[map->n] = remote_attnum;
	map->remote_names[map->n++] = remote_name;
}

static RoseColumnMap *
make_map(int size)
{
	RoseColumnMap *map = palloc0(sizeof(RoseColumnMap));

	map->attnums = palloc(sizeof(int16) * Max(size, 1));
	map->remote_attnums = palloc(sizeof(int16) * Max(size, 1));
	map->remote_names = palloc(sizeof(char *) * Max(size, 1));
	return map;
}

RoseColumnMap *
rose_columns_form(const RoseColumnMap *before, const RoseUpstreamColumns *remote,
				  const int16 *local_of)
{
	int			nbefore = before != NULL ? before->n : 0;
	RoseColumnMap *map = make_map(remote->n + nbefore);

	for (int i = 0; i < remote->n; i++)
		add_pair(map, local_of[i], remote->attnums[i], remote->names[i]);
	for (int i = 0; i < nbefore; i++)
	{
		if (find_local(map, before->attnums[i]) < 0)
			add_pair(map, before->attnums[i], -abs(before->remote_attnums[i]),
					 before->remote_names[i]);
	}
	return map;
}

/* In any order. */
bool
rose_columns_equal(const RoseColumnMap *a, const RoseColumnMap *b)
{
	if (a->n != b->n)
		return false;
	for (int i = 0; i < a->n; i++)
	{
		int			j = find_local(b, a->attnums[i]);

		if (j < 0 || a->remote_attnums[i] != b->remote_attnums[j] ||
			strcmp(a->remote_names[i], b->remote_names[j]) != 0)
			return false;
	}
	return true;
}

bool
rose_columns_only_lacks(const RoseColumnMap *map, const RoseColumnMap *other)
{
	if (map->n != other->n)
		return false;
	for (int i = 0; i < map->n; i++)
	{
		int			j = find_local(other, map->attnums[i]);

		if (j < 0 || (map->remote_attnums[i] != other->remote_attnums[j] && map->remote_attnums[i] != -other->remote_attnums[j]) ||
			map->remote_attnums[i] > other->remote_attnums[j])
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------------
 * The upstream's numbers
 */

/* The pairs of columns that are published, in the order of the upstream's numbers. */
static RoseColumnMap *
published_before(const RoseColumnMap *map)
{
	RoseColumnMap *result = make_map(map->n);

	for (int i = 0; i < map->n; i++)
	{
		int16		remote = map->remote_attnums[i];
		int			at = result->n;

		if (remote < 0)
			continue;
		add_pair(result, 0, 0, NULL);
		for (; at > 0 && result->remote_attnums[at - 1] > remote; at--)
		{
			result->remote_attnums[at] = result->remote_attnums[at - 1];
			result->remote_names[at] = result->remote_names[at - 1];
		}
		result->remote_attnums[at] = remote;
		result->remote_names[at] = map->remote_names[i];
	}
	return result;
}

static bool
has_attnum(const RoseUpstreamColumns *columns, int16 attnum)
{
	for (int i = 0; i < columns->n; i++)
	{
		if (columns->attnums[i] == attnum)
			return true;
	}
	return false;
}

/* All columns that are known, in the order of their numbers, each with its name of before and of now, or NULL. */
typedef struct KnownColumns
{
	int			n;
	int16	   *attnums;
	char	  **before;
	char	  **now;
} KnownColumns;

static KnownColumns
merge_known(const RoseColumnMap *before, const RoseUpstreamColumns *now)
{
	int			nbefore = before != NULL ? before->n : 0;
	int			size = Max(nbefore + now->n, 1);
	KnownColumns known = {0, palloc(sizeof(int16) * size), palloc0(sizeof(char *) * size), palloc0(sizeof(char *) * size)};
	int			i = 0;
	int			j = 0;

	while (i < nbefore || j < now->n)
	{
		int16		attnum = i >= nbefore ? now->attnums[j] :
			j >= now->n ? before->remote_attnums[i] : Min(before->remote_attnums[i], now->attnums[j]);

		known.attnums[known.n] = attnum;
		if (i < nbefore && before->remote_attnums[i] == attnum)
			known.before[known.n] = before->remote_names[i++];
		if (j < now->n && now->attnums[j] == attnum)
			known.now[known.n] = now->names[j++];
		known.n++;
	}
	return known;
}

static bool
had_name(const KnownColumns *known, int i, const char *name)
{
	return (known->before[i] != NULL && strcmp(known->before[i], name) == 0) ||
		(known->now[i] != NULL && strcmp(known->now[i], name) == 0);
}

/*
 * Number the columns that were sent so that each has a name of its own, and they are in
 * order.  Returns in how many ways that can be done: 0, 1, or 2 for more.
 */
static int
identify_by_names(const KnownColumns *known, RoseUpstreamColumns *sent)
{
	int			width = known->n + 1;
	uint8	   *ways = palloc0((Size) width * (sent->n + 1));	/* for the first i, among the first k */
	int			result;

	for (int k = 0; k <= known->n; k++)
		ways[k] = 1;
	for (int i = 1; i <= sent->n; i++)
	{
		for (int k = 1; k <= known->n; k++)
		{
			int			n = ways[i * width + k - 1];

			if (had_name(known, k - 1, sent->names[i - 1]))
				n += ways[(i - 1) * width + k - 1];
			ways[i * width + k] = Min(n, 2);
		}
	}
	result = ways[sent->n * width + known->n];
	for (int i = sent->n, k = known->n; i > 0 && result > 0; k--)
	{
		if (ways[i * width + k - 1] == 0)
			sent->attnums[--i] = known->attnums[k - 1];
	}
	pfree(ways);
	return result;
}

static bool
all_are_there(const RoseColumnMap *before, const RoseUpstreamColumns *now)
{
	for (int i = 0; i < before->n; i++)
	{
		if (!has_attnum(now, before->remote_attnums[i]))
			return false;
	}
	return true;
}

/*
 * sent: the names in a description that the upstream sent, in the order of their numbers,
 * which are set.  now: its columns as they are now, or as of some time since.  A number
 * is never used again.  So
 *
 * 1 if there is one way only to give them numbers of columns that have or had their
 * names, in order, it is that; 2 if there is none, but there are as many as before, and
 * those are all there still, they are the same columns,
 *   with other names for a while.
 *
 * False: nobody can tell which they are.
 */
bool
rose_columns_identify(const RoseColumnMap *map, const RoseUpstreamColumns *now,
					  RoseUpstreamColumns *sent)
{
	RoseColumnMap *before = map != NULL ? published_before(map) : NULL;
	KnownColumns known = merge_known(before, now);
	int			ways = identify_by_names(&known, sent);

	if (ways > 0)
		return ways == 1;
	if (before == NULL || before->n != sent->n || !all_are_there(before, now))
		return false;
	memcpy(sent->attnums, before->remote_attnums, sizeof(int16) * sent->n);
	return true;
}

/* ---------------------------------------------------------------------
 * Local columns
 */

static Form_pg_attribute
local_column(Relation rel, int16 attnum)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Form_pg_attribute att = attnum <= desc->natts ? TupleDescAttr(desc, attnum - 1) : NULL;

	return att != NULL && !att->attisdropped ? att : NULL;
}

static int16
find_column(Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att->attnum;
	}
	return InvalidAttrNumber;
}

/* All rows come anew.  So names decide, if all are there; else what is together stays so. */
RoseColumnMap *
rose_columns_still_there(Relation rel, const RoseColumnMap *map, const RoseUpstreamColumns *remote)
{
	RoseColumnMap *result = map != NULL ? make_map(map->n) : NULL;
	bool		all_named = true;

	for (int i = 0; i < remote->n; i++)
		all_named &= find_column(rel, remote->names[i]) != InvalidAttrNumber;
	if (all_named)
		return NULL;
	for (int i = 0; map != NULL && i < map->n; i++)
	{
		if (has_attnum(remote, map->remote_attnums[i]) && local_column(rel, map->attnums[i]) != NULL)
			add_pair(result, map->attnums[i], map->remote_attnums[i], map->remote_names[i]);
	}
	return result;
}

static void
report_other_column(Relation rel, const char *name, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("column \"%s\" of table \"%s\" is another one than before %s",
					name, RelationGetRelationName(rel), what),
			 errdetail("Rows that came before do not have its values."),
			 errhint("Have the table copied again with rose.alter_subscription(..., resync => ...).")));
}

/* The local column for one of the upstream that has none yet. */
static int16
new_pair(Relation rel, const RoseColumnMap *map, const char *name)
{
	int16		attnum = find_column(rel, name);

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("table \"%s\" has no column \"%s\", which the upstream publishes",
						RelationGetRelationName(rel), name),
				 errhint("Add the column here with ALTER TABLE.")));
	if (find_local(map, attnum) >= 0)
		report_other_column(rel, name, "on the upstream");
	return attnum;
}

void
rose_columns_match(Relation rel, const RoseColumnMap *map, const RoseUpstreamColumns *remote,
				   int16 *local_of)
{
	for (int i = 0; i < remote->n; i++)
	{
		int			pair = remote->attnums == NULL ? -1 : find_remote(map, remote->attnums[i]);

		if (pair < 0)
			local_of[i] = new_pair(rel, remote->attnums == NULL ? NULL : map, remote->names[i]);
		else if (local_column(rel, map->attnums[pair]) != NULL)
			local_of[i] = map->attnums[pair];
		else if (find_column(rel, remote->names[i]) != InvalidAttrNumber)
			report_other_column(rel, remote->names[i], "here");
		else
			local_of[i] = new_pair(rel, NULL, remote->names[i]);	/* says that there is none */
	}
}

/* One that the upstream does not have: new rows have its default, or NULL. */
static void
check_local_only_column(Relation rel, Form_pg_attribute att)
{
	if (att->attnotnull && !att->atthasdef && !att->attidentity && get_typdefault(att->atttypid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replicate into table \"%s\": column \"%s\" is not published by the upstream, and it is NOT NULL without a default",
						RelationGetRelationName(rel), NameStr(att->attname)),
				 errhint("Publish the column, or give it a default or drop its NOT NULL here.")));
}

static void
report_constant(Relation rel, Form_pg_attribute att)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("cannot replicate into table \"%s\": column \"%s\" is published by the upstream, and the subscription has a constant for it",
					RelationGetRelationName(rel), NameStr(att->attname)),
			 errhint("Leave the column out of the publication with a column list, or make the subscription without the constant.")));
}

void
rose_columns_invert(Relation rel, int nremote, const int16 *local_of, const Bitmapset *constants, int *remote_of)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
		remote_of[i] = -1;
	for (int i = 0; i < nremote; i++)
	{
		if (remote_of[local_of[i] - 1] >= 0)
			report_other_column(rel, NameStr(TupleDescAttr(desc, local_of[i] - 1)->attname), "on the upstream");
		remote_of[local_of[i] - 1] = i;
	}
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attgenerated)
			remote_of[i] = -1;	/* computed here, whatever the upstream says */
		else if (bms_is_member(i + 1, constants))
		{
			if (remote_of[i] >= 0)
				report_constant(rel, att);
		}
		else if (remote_of[i] < 0 && !att->attisdropped)
			check_local_only_column(rel, att);
	}
}
