/*-------------------------------------------------------------------------
 *
 * rose_node_quals.c
 *	  Conditions that are checked for many rows at a time.
 *
 * So far there are none.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "scan/rose_node_quals.h"

bool
rose_node_quals_takes(Node *clause, Index relid)
{
	return false;
}

RoseNodeQuals *
rose_node_quals_create(List *clauses, PlanState *planstate)
{
	Assert(clauses == NIL);
	return NULL;
}

void
rose_node_quals_start(RoseNodeQuals *quals)
{
}

int
rose_node_quals_narrow(RoseNodeQuals *quals, RoseBatch *batch, int first, int n, uint64 *mask)
{
	return n;
}
