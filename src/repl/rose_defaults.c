/*-------------------------------------------------------------------------
 *
 * rose_defaults.c
 *	  What new rows have in columns that only the local table has.
 *
 * As with PostgreSQL's own subscriptions: a row that is inserted has the column's default, or
 * its type's, or the next number of an identity column; one that is updated keeps what it has, which is
 * rose_apply.c's business.  A change that comes again after a crash may get another
 * value than before, as nothing of it was durable.
 *
 * Of a partitioned table its own defaults count, not those of the partition.
 *
 * Expressions are evaluated as the table's owner (rose_rights.h).  State is kept with the columns of
 * the table's entry in rose_relmap.c, and made anew when the table is altered.
 *
 * What this does not do: copies, where COPY has defaults of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"

#include "repl/rose_defaults.h"
#include "repl/rose_rights.h"

struct RoseDefaults
{
	Oid			owner;
	ExprContext *econtext;
	int			n;
	int		   *columns;		/* from 0 */
	ExprState **states;
};

RoseDefaults *
rose_defaults_create(Relation rel, const RoseReplColumn *columns)
{
	int			natts = RelationGetNumberOfAttributes(rel);
	RoseDefaults *defaults = palloc0(sizeof(RoseDefaults));
	RoseRights	before;

	defaults->owner = rel->rd_rel->relowner;
	defaults->columns = palloc(sizeof(int) * Max(natts, 1));
	defaults->states = palloc(sizeof(ExprState *) * Max(natts, 1));
	rose_rights_take(defaults->owner, &before); /* functions may be called while it is planned */
	for (int i = 0; i < natts; i++)
	{
		Node	   *expr = columns[i].kept ? build_column_default(rel, i + 1) : NULL;

		if (expr == NULL)
			continue;
		defaults->columns[defaults->n] = i;
		defaults->states[defaults->n++] = ExecInitExpr(expression_planner((Expr *) expr), NULL);
	}
	rose_rights_give_back(&before);
	if (defaults->n == 0)
		return NULL;
	defaults->econtext = CreateStandaloneExprContext();
	return defaults;
}

void
rose_defaults_fill(RoseDefaults *defaults, Datum *values, bool *nulls)
{
	RoseRights	before;

	rose_rights_take(defaults->owner, &before);
	ResetExprContext(defaults->econtext);
	for (int i = 0; i < defaults->n; i++)
	{
		int			column = defaults->columns[i];

		values[column] = ExecEvalExprSwitchContext(defaults->states[i], defaults->econtext,
												   &nulls[column]);
	}
	rose_rights_give_back(&before);
}

bool
rose_defaults_of_others(Relation rel, List *names)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && !att->attgenerated && (att->atthasdef || att->attidentity) &&
			!list_member(names, makeString(NameStr(att->attname))))
			return true;
	}
	return false;
}
