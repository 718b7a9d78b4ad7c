/*-------------------------------------------------------------------------
 *
 * rose_route.c
 *	  From a row of a partitioned table to the partition that takes it.
 *
 * As a local INSERT is routed by the executor: from level to level, by each one's partition key
 * and bounds.  The executor's own way (ExecFindPartition) is not taken, since it queues for
 * locks by itself, of which the upstream, and whoever waits for the worker, must know; and a
 * row of which only some columns are known must not be routed by others.
 *
 * A level's columns may lie in another order than the root's, so each has a list of where its
 * columns come from.  Expressions of partition keys run as the level's owner (rose_rights.h).
 *
 * The bounds of levels are asked for anew for each row: partitions may come meanwhile.  None can go: that takes
 * a lock of the level that a writer's excludes.  What a default partition no longer takes, as another partition
 * has come, is for its constraint to say (rose_rules.h), and what a root takes that is a partition itself.
 *
 * Locking: the caller's function locks levels and partitions, when they are first met.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tupconvert.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "optimizer/optimizer.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/ruleutils.h"

#include "util/rose_stop_point.h"
#include "repl/rose_rights.h"
#include "repl/rose_route.h"

/* What an error shows of a value. */
#define VALUE_LENGTH	64

/* A partitioned table on the way, or a partition with rows. */
typedef struct RouteNode
{
	Oid			relid;			/* hash key */
	bool		is_open;		/* what follows is valid */
	RoseRoutePart part;			/* of a level, too */
	PartitionKey key;			/* NULL: it has rows */
	const Bitmapset *asks;		/* columns of the root that lead here and on */

	/* for expressions in the key; NULL before the first row, and if there are none */
	List	   *exprs;
	TupleTableSlot *slot;
} RouteNode;

struct RoseRoute
{
	MemoryContext context;
	RoseRouteLock lock;
	HTAB	   *nodes;
	RouteNode  *root;
	EState	   *estate;			/* NULL before the first expression */
};

MemoryContext
rose_route_context(const RoseRoute *route)
{
	return route->context;
}

/* ---------------------------------------------------------------------
 * Levels and partitions
 */

/* The root's column for one of a level's. */
static AttrNumber
root_column(const RoseRoutePart *part, AttrNumber attno)
{
	return part->from != NULL ? part->from[attno - 1] : attno;
}

/* All columns of the root that a level's key looks at. */
static const Bitmapset *
find_asked(const RouteNode *node, const Bitmapset *before)
{
	Bitmapset  *result = bms_copy(before);
	Bitmapset  *in_exprs = NULL;
	int			member = -1;

	for (int i = 0; i < node->key->partnatts; i++)
	{
		if (node->key->partattrs[i] != 0)
			result = bms_add_member(result, root_column(&node->part, node->key->partattrs[i]));
	}
	pull_varattnos((Node *) node->key->partexprs, 1, &in_exprs);
	while ((member = bms_next_member(in_exprs, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		/* the whole row */
		if (attno == InvalidAttrNumber)
		{
			for (int i = 1; i <= node->part.natts; i++)
				result = bms_add_member(result, root_column(&node->part, i));
		}
		else
			result = bms_add_member(result, root_column(&node->part, attno));
	}
	return bms_del_member(result, 0);
}

/* As the level's owner: when the cache gets the key, functions may be called of which expressions make constants. */
static PartitionKey
partition_key(Relation rel)
{
	PartitionKey key;
	RoseRights	before;

	rose_rights_take(rel->rd_rel->relowner, &before);
	key = RelationGetPartitionKey(rel);
	rose_rights_give_back(&before);
	return key;
}

/* In the route's context.  REQUIRES: it is locked. */
static void
fill_node(RoseRoute *route, RouteNode *node, Relation rel, const Bitmapset *asked, bool in_bounds)
{
	TupleConversionMap *map = NULL;

	node->part.relid = node->relid;
	node->part.rel = rel;
	node->part.natts = RelationGetNumberOfAttributes(rel);
	node->part.asked = asked;
	node->part.in_bounds = in_bounds;
	if (node != route->root)
		map = convert_tuples_by_name(RelationGetDescr(route->root->part.rel), RelationGetDescr(rel));
	if (map != NULL)
		node->part.from = map->attrMap->attnums;
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		node->key = partition_key(rel);
		node->asks = find_asked(node, asked);
	}
	node->is_open = true;
}

static RouteNode *
open_node(RoseRoute *route, Oid relid, const Bitmapset *asked, bool in_bounds)
{
	bool		found;
	RouteNode  *node = hash_search(route->nodes, &relid, HASH_ENTER, &found);
	MemoryContext old;

	if (found && node->is_open)
		return node;
	memset((char *) node + sizeof(Oid), 0, sizeof(RouteNode) - sizeof(Oid));
	route->lock(relid);
	old = MemoryContextSwitchTo(route->context);
	fill_node(route, node, table_open(relid, NoLock), asked, in_bounds);
	MemoryContextSwitchTo(old);
	return node;
}

RoseRoute *
rose_route_create(Relation root, RoseRouteLock lock, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "rose route", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RoseRoute  *route = palloc0(sizeof(RoseRoute));
	HASHCTL		ctl = {0};
	Oid			relid = RelationGetRelid(root);

	route->context = context;
	route->lock = lock;
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(RouteNode);
	ctl.hcxt = context;
	route->nodes = hash_create("rose route", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	route->root = hash_search(route->nodes, &relid, HASH_ENTER, NULL);
	memset((char *) route->root + sizeof(Oid), 0, sizeof(RouteNode) - sizeof(Oid));
	fill_node(route, route->root, root, NULL, !root->rd_rel->relispartition);
	MemoryContextSwitchTo(old);
	return route;
}

/* The root is the caller's. */
void
rose_route_free(RoseRoute *route)
{
	HASH_SEQ_STATUS status;
	RouteNode  *node;

	hash_seq_init(&status, route->nodes);
	while ((node = hash_seq_search(&status)) != NULL)
	{
		if (node->slot != NULL)
			ExecDropSingleTupleTableSlot(node->slot);
		if (node->is_open && node != route->root)
			table_close(node->part.rel, NoLock);
	}
	if (route->estate != NULL)
		FreeExecutorState(route->estate);
	MemoryContextDelete(route->context);
}

List *
rose_route_parts(const RoseRoute *route)
{
	HASH_SEQ_STATUS status;
	RouteNode  *node;
	List	   *result = NIL;

	hash_seq_init(&status, route->nodes);
	while ((node = hash_seq_search(&status)) != NULL)
	{
		if (node->is_open && node->key == NULL)
			result = lappend(result, &node->part);
	}
	return result;
}

/* ---------------------------------------------------------------------
 * Keys
 */

void
rose_route_convert(const RoseRoutePart *part, const Datum *values, const bool *nulls,
				   Datum *own_values, bool *own_nulls)
{
	for (int i = 0; i < part->natts; i++)
	{
		AttrNumber	from = part->from[i];

		own_values[i] = from != 0 ? values[from - 1] : (Datum) 0;
		own_nulls[i] = from != 0 ? nulls[from - 1] : true;
	}
}

/* As the level's owner, for planning may run functions. */
static void
prepare_exprs(RoseRoute *route, RouteNode *node)
{
	MemoryContext old = MemoryContextSwitchTo(route->context);

	if (route->estate == NULL)
		route->estate = CreateExecutorState();
	node->slot = MakeSingleTupleTableSlot(RelationGetDescr(node->part.rel), &TTSOpsVirtual);
	MemoryContextSwitchTo(route->estate->es_query_cxt);
	node->exprs = ExecPrepareExprList(node->key->partexprs, route->estate);
	MemoryContextSwitchTo(old);
}

static void
fill_slot(RouteNode *node, const Datum *values, const bool *nulls)
{
	TupleTableSlot *slot = node->slot;

	ExecClearTuple(slot);
	if (node->part.from != NULL)
		rose_route_convert(&node->part, values, nulls, slot->tts_values, slot->tts_isnull);
	else
	{
		memcpy(slot->tts_values, values, sizeof(Datum) * node->part.natts);
		memcpy(slot->tts_isnull, nulls, sizeof(bool) * node->part.natts);
	}
	ExecStoreVirtualTuple(slot);
}

/* Those parts of the key that are expressions.  What they return lives until the next row. */
static void
evaluate_exprs(RoseRoute *route, RouteNode *node, const Datum *values, const bool *nulls,
			   Datum *key, bool *isnull)
{
	RoseRights	before;
	ExprContext *econtext;
	ListCell   *lc;

	rose_rights_take(node->part.rel->rd_rel->relowner, &before);
	if (node->exprs == NIL)
		prepare_exprs(route, node);
	fill_slot(node, values, nulls);
	econtext = GetPerTupleExprContext(route->estate);
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = node->slot;
	lc = list_head(node->exprs);
	for (int i = 0; i < node->key->partnatts; i++)
	{
		if (node->key->partattrs[i] != 0)
			continue;
		key[i] = ExecEvalExprSwitchContext(lfirst(lc), econtext, &isnull[i]);
		lc = lnext(node->exprs, lc);
	}
	rose_rights_give_back(&before);
}

static void
form_key(RoseRoute *route, RouteNode *node, const Datum *values, const bool *nulls,
		 Datum *key, bool *isnull)
{
	for (int i = 0; i < node->key->partnatts; i++)
	{
		AttrNumber	attno = node->key->partattrs[i];

		if (attno == 0)
			continue;
		attno = root_column(&node->part, attno);
		key[i] = values[attno - 1];
		isnull[i] = nulls[attno - 1];
	}
	if (node->key->partexprs != NIL)
		evaluate_exprs(route, node, values, nulls, key, isnull);
}

/* ---------------------------------------------------------------------
 * Bounds
 */

static bool
any_null(const bool *isnull, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (isnull[i])
			return true;
	}
	return false;
}

/* Index of the partition whose bounds say that it takes the key, or -1. */
static int
find_by_bounds(PartitionKey key, PartitionBoundInfo bounds, Datum *values, bool *isnull)
{
	bool		equal = false;
	int			place;

	if (key->strategy == PARTITION_STRATEGY_HASH)
		return bounds->indexes[compute_partition_hash_value(key->partnatts, key->partsupfunc,
															key->partcollation, values, isnull) %
							   bounds->nindexes];
	if (key->strategy == PARTITION_STRATEGY_LIST)
	{
		if (isnull[0])
			return bounds->null_index;
		place = partition_list_bsearch(key->partsupfunc, key->partcollation, bounds, values[0], &equal);
		return place >= 0 && equal ? bounds->indexes[place] : -1;
	}
	if (any_null(isnull, key->partnatts))
		return -1;				/* no range has them */
	/* the greatest bound that is not above the key; what begins there has the index after it */
	place = partition_range_datum_bsearch(key->partsupfunc, key->partcollation, bounds,
										  key->partnatts, values, &equal);
	return bounds->indexes[place + 1];
}

/* InvalidOid: there is none.  by_default: as no other takes it. */
static Oid
find_partition(RouteNode *node, Datum *key, bool *isnull, bool *by_default)
{
	PartitionDesc desc = RelationGetPartitionDesc(node->part.rel, true);
	int			index;

	if (desc->nparts == 0)
		return InvalidOid;
	index = find_by_bounds(node->key, desc->boundinfo, key, isnull);
	*by_default = index < 0;
	if (index < 0)
		index = desc->boundinfo->default_index;
	return index >= 0 ? desc->oids[index] : InvalidOid;
}

/*
 * The same, by bounds of now where that matters: a partition may have been attached since the batch began, for which nobody
 * waits for us, unless there is a default partition and we have that open.
 */
static Oid
find_partition_now(RouteNode *node, Datum *key, bool *isnull, bool *by_default)
{
	Oid			found = find_partition(node, key, isnull, by_default);

	if (OidIsValid(found) && !*by_default)
		return found;
	ROSE_STOP_POINT("route-without");
	AcceptInvalidationMessages();
	return find_partition(node, key, isnull, by_default);
}

/* ---------------------------------------------------------------------
 * Errors
 */

static char *
describe_key(const RouteNode *node, const Datum *key, const bool *isnull)
{
	StringInfoData out;
	RoseRights	before;

	initStringInfo(&out);
	rose_rights_take(node->part.rel->rd_rel->relowner, &before);
	for (int i = 0; i < node->key->partnatts; i++)
	{
		char	   *value = "null";
		Oid			output;
		bool		varlena;
		int			len;

		if (!isnull[i])
		{
			getTypeOutputInfo(node->key->parttypid[i], &output, &varlena);
			value = OidOutputFunctionCall(output, key[i]);
		}
		len = pg_mbcliplen(value, strlen(value), VALUE_LENGTH);
		appendStringInfo(&out, "%s%.*s%s", i > 0 ? ", " : "", len, value,
						 value[len] != '\0' ? "..." : "");
	}
	rose_rights_give_back(&before);
	return out.data;
}

static void
report_no_partition(const RouteNode *node, const Datum *key, const bool *isnull)
{
	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("no partition of relation \"%s\" found for row",
					RelationGetRelationName(node->part.rel)),
			 errdetail("Partition key of the failing row contains (%s) = (%s).",
					   pg_get_partkeydef_columns(node->relid, true), describe_key(node, key, isnull)),
			 errhint("Create a partition for it, here as on the upstream."),
			 errtable(node->part.rel)));
}

static void
require_known(const RouteNode *node, const Bitmapset *known, const char *verb)
{
	if (verb == NULL || bms_is_subset(node->asks, known))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot replicate %s of table \"%s\": the upstream does not send the partition key (%s) that the table has here",
					verb, RelationGetRelationName(node->part.rel), pg_get_partkeydef_columns(node->relid, true)),
			 errdetail("So it is not known which partition has the row."),
			 errhint("Use a replica identity on the upstream that contains these columns, as ALTER TABLE ... REPLICA IDENTITY FULL does."),
			 errtable(node->part.rel)));
}

RoseRoutePart *
rose_route_find(RoseRoute *route, const Datum *values, const bool *nulls,
				const Bitmapset *known, const char *verb)
{
	RouteNode  *node = route->root;

	while (node->key != NULL)
	{
		Datum		key[PARTITION_MAX_KEYS];
		bool		isnull[PARTITION_MAX_KEYS];
		bool		by_default;
		Oid			relid;

		require_known(node, known, verb);
		form_key(route, node, values, nulls, key, isnull);
		relid = find_partition_now(node, key, isnull, &by_default);
		if (!OidIsValid(relid))
			report_no_partition(node, key, isnull);
		node = open_node(route, relid, node->asks, node->part.in_bounds && !by_default);
	}
	return &node->part;
}
