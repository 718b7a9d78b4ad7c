/*-------------------------------------------------------------------------
 *
 * rose_horizon.c
 *	  The horizon of a table, made of core's oldest xmin and of declared snapshots.  See rose_horizon.h.
 *
 * Locking: what core's functions and rose_declared_horizon take.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/rel.h"

#include "lsm/snapshot/rose_declared.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/snapshot/rose_visibility.h"

/*
 * The table that this is, or is an index of; to be closed.  Entries have the stamps of the
 * table's versions, and an index may have been made just now on a table that others read
 * since long.  Nobody can drop the table without a lock on its index that conflicts with the
 * caller's.
 */
static Relation
open_table(Relation rel)
{
	Relation	table;

	if (rel->rd_rel->relkind != RELKIND_INDEX)
	{
		RelationIncrementReferenceCount(rel);
		return rel;
	}
	table = RelationIdGetRelation(rel->rd_index->indrelid);
	if (table == NULL)
		elog(ERROR, "could not open the table of index \"%s\"", RelationGetRelationName(rel));
	return table;
}

/*
 * Of a temporary table, core thinks that all snapshots of the session see what it has
 * committed.  But one that was imported may be older.
 */
static uint64
oldest_of_table(Relation table)
{
	TransactionId oldest = GetOldestNonRemovableTransactionId(table);

	if (RelationUsesLocalBuffers(table) && IsolationUsesXactSnapshot() &&
		TransactionIdIsValid(MyProc->xmin) && TransactionIdPrecedes(MyProc->xmin, oldest))
		oldest = MyProc->xmin;
	return U64FromFullTransactionId(rose_full_xid(oldest));
}

uint64
rose_horizon_oldest(Relation rel)
{
	Relation	table = open_table(rel);
	uint64		oldest = oldest_of_table(table);

	RelationClose(table);
	return oldest;
}

uint64
rose_horizon_running(void)
{
	return U64FromFullTransactionId(rose_full_xid(GetOldestActiveTransactionId()));
}

uint64
rose_horizon_ended(Relation rel)
{
	uint64		result = Min(rose_horizon_running(), rose_horizon_oldest(rel));

	/* core leaves snapshots out of a temporary table's horizon: this session's, and those of others that it may import */
	if (RelationUsesLocalBuffers(rel))
		result = Min(result, U64FromFullTransactionId(rose_full_xid(GetOldestNonRemovableTransactionId(NULL))));
	return result;
}

RoseHorizon *
rose_horizon_get(Relation rel, MemoryContext context)
{
	Relation	table = open_table(rel);
	RoseHorizon *horizon = MemoryContextAllocZero(context, sizeof(RoseHorizon));

	horizon->oldest = oldest_of_table(table);
	rose_declared_horizon(horizon, table, context);
	RelationClose(table);
	return horizon;
}
