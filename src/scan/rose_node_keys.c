/*-------------------------------------------------------------------------
 *
 * rose_node_keys.c
 *	  The key ranges of a node: from conditions of its plan to what lsm understands.
 *
 * The conditions are those of an index scan of the primary key, on the table's columns.  Core
 * makes scan keys of them, as if they were on the index's columns, and evaluates what they compare with;
 * lsm/read/rose_key_quals.c makes ranges of those.
 *
 * The key's index is opened with the lock that the statement has on the table, as an index scan does: it
 * says what the operators mean, and its storage is not touched.  Everything else is backend-local.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "executor/executor.h"
#include "executor/nodeIndexscan.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "lsm/tree/rose_relation.h"
#include "scan/rose_node_keys.h"

struct RoseNodeKeys
{
	Relation	index;
	ScanKey		keys;
	int			nkeys;
	IndexRuntimeKeyInfo *runtime_keys;	/* what is to be evaluated ... */
	int			nruntime_keys;
	ExprContext *runtime;		/* ... here; NULL: all are constants */
	MemoryContext context;		/* of the ranges */
};

/* ---- conditions on the index's columns ---- */

typedef struct ToIndex
{
	Index		table;
	Relation	index;
} ToIndex;

static Var *
index_column_of(const Var *var, const ToIndex *to)
{
	Var		   *column = copyObject(unconstify(Var *, var));

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(to->index); i++)
	{
		if (to->index->rd_index->indkey.values[i] == var->varattno)
		{
			column->varno = INDEX_VAR;
			column->varattno = i + 1;
			return column;
		}
	}
	elog(ERROR, "column %d is not in the key", var->varattno);
	return NULL;
}

static bool
is_table_column(const Node *node, const ToIndex *to)
{
	return node != NULL && IsA(node, Var) && ((const Var *) node)->varno == to->table;
}

/* Columns of the table are on the left side only.  A binary-compatible type does not matter to the index. */
static Node *
put_index_columns(Node *node, void *context)
{
	const ToIndex *to = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, RelabelType) && is_table_column((Node *) ((RelabelType *) node)->arg, to))
		node = (Node *) ((RelabelType *) node)->arg;
	if (is_table_column(node, to))
		return (Node *) index_column_of((Var *) node, to);
	return expression_tree_mutator(node, put_index_columns, context);
}

/* ---- keys ---- */

RoseNodeKeys *
rose_node_keys_create(ScanState *scan, List *quals)
{
	RoseNodeKeys *keys = palloc0(sizeof(RoseNodeKeys));
	EState	   *estate = scan->ps.state;
	ToIndex		to;

	to.table = ((Scan *) scan->ps.plan)->scanrelid;
	to.index = index_open(rose_primary_key_index(scan->ss_currentRelation),
						  exec_rt_fetch(to.table, estate)->rellockmode);
	keys->index = to.index;
	keys->context = AllocSetContextCreate(CurrentMemoryContext, "rose scan ranges",
										  ALLOCSET_SMALL_SIZES);
	ExecIndexBuildScanKeys(&scan->ps, to.index,
						   (List *) put_index_columns((Node *) quals, &to), false,
						   &keys->keys, &keys->nkeys, &keys->runtime_keys,
						   &keys->nruntime_keys, NULL, NULL);
	if (keys->nruntime_keys > 0)
	{
		ExprContext *standard = scan->ps.ps_ExprContext;

		ExecAssignExprContext(estate, &scan->ps);
		keys->runtime = scan->ps.ps_ExprContext;
		scan->ps.ps_ExprContext = standard;
	}
	return keys;
}

const RoseKeyQuals *
rose_node_keys_evaluate(RoseNodeKeys *keys, const RoseSchema *schema)
{
	MemoryContext old;
	RoseKeyQuals *quals;

	MemoryContextReset(keys->context);
	if (keys->runtime != NULL)
	{
		ResetExprContext(keys->runtime);
		ExecIndexEvalRuntimeKeys(keys->runtime, keys->runtime_keys, keys->nruntime_keys);
	}
	old = MemoryContextSwitchTo(keys->context);
	quals = rose_key_quals_create(schema, keys->keys, keys->nkeys);
	MemoryContextSwitchTo(old);
	return quals;
}

Relation
rose_node_keys_index(const RoseNodeKeys *keys)
{
	return keys->index;
}

void
rose_node_keys_end(RoseNodeKeys *keys)
{
	if (keys->runtime != NULL)
		FreeExprContext(keys->runtime, true);
	index_close(keys->index, NoLock);
}
