/*-------------------------------------------------------------------------
 *
 * rose_foreign.c
 *	  Functions of users that compare or hash keys.  See rose_foreign.h.
 *
 * That a call is going on is told by the stack of error contexts, which core takes back
 * when an error has ended the call, wherever it is caught.  Nobody looks through that
 * stack before a guarded function was called in this process.
 *
 * While a process has LWLocks it is deaf to cancels, and a function that waits for
 * somebody could wait for ever.  So interrupts are heard during the call: what they raise
 * is no worse than an error that the function raises itself, of which callers know that
 * it lets go of all LWLocks.
 *
 * It is worse if the function catches an error: core has let go of its caller's LWLocks
 * then, and yet the caller goes on.  So such a call ends in an error of its own.
 *
 * Locking: none.  What it does not do: keep a function from waiting for what somebody
 * holds who waits for its caller's LWLocks; that ends by a cancel, and not by core's
 * detection of deadlocks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "util/rose_foreign.h"

typedef struct ForeignCall
{
	ErrorContextCallback context;
	uint32		holdoff;		/* of interrupts, before the call */
	uint64		nrollbacks;
} ForeignCall;

bool		rose_foreign_used = false;

/* Subtransactions that this process has rolled back. */
static uint64 nrollbacks = 0;

void
rose_foreign_note_rollback(void)
{
	nrollbacks++;
}

/* Functions of core that call those of a type's parts. */
static bool
is_of_container(Oid function)
{
	switch (function)
	{
		case F_BTARRAYCMP:
		case F_BTRECORDCMP:
		case F_RANGE_CMP:
		case F_MULTIRANGE_CMP:
		case F_HASH_ARRAY_EXTENDED:
		case F_HASH_RECORD_EXTENDED:
		case F_HASH_RANGE_EXTENDED:
		case F_HASH_MULTIRANGE_EXTENDED:
			return true;
		default:
			return false;
	}
}

bool
rose_foreign_is(Oid function)
{
	HeapTuple	tuple;
	Oid			language;

	if (is_of_container(function))
		return true;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return false;			/* who calls it will say so */
	language = ((Form_pg_proc) GETSTRUCT(tuple))->prolang;
	ReleaseSysCache(tuple);
	return language != INTERNALlanguageId && language != ClanguageId;
}

/* ---- calls ---- */

/* Also how a call is known. */
static void
describe_call(void *arg)
{
	errcontext("while comparing or hashing keys of a rose table");
}

int
rose_foreign_count(void)
{
	int			n = 0;

	for (ErrorContextCallback *context = error_context_stack; context != NULL;
		 context = context->previous)
		n += context->callback == describe_call;
	return n;
}

static void
begin_call(ForeignCall *call)
{
	if (rose_foreign_depth() >= ROSE_FOREIGN_MAX_DEPTH)
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("functions that compare keys of rose tables call one another too deeply"),
				 errhint("Such a function should not read a table whose keys it compares.")));
	rose_foreign_used = true;
	call->nrollbacks = nrollbacks;
	call->holdoff = InterruptHoldoffCount;
	InterruptHoldoffCount = 0;
	call->context.callback = describe_call;
	call->context.arg = NULL;
	call->context.previous = error_context_stack;
	error_context_stack = &call->context;
}

static void
end_call(const ForeignCall *call)
{
	if (call->holdoff > 0 && call->nrollbacks != nrollbacks)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot go on after an error that was caught by a function that compares keys of a rose table"),
				 errhint("Such a function must not have an exception block that catches errors.")));
	InterruptHoldoffCount = call->holdoff;
	error_context_stack = call->context.previous;
}

void
rose_foreign_refuse(const char *relname)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot change table \"%s\" in a function that compares keys of a rose table", relname),
			 errdetail("Neither rows may be written or locked there nor rose tables be created, spilled or merged."),
			 errhint("Functions of operator classes should be immutable.")));
}

/* ---- comparison ---- */

static int
compare_guarded(Datum a, Datum b, SortSupport ssup)
{
	SortSupport inner = (SortSupport) ssup->ssup_extra;
	ForeignCall call;
	int			result;

	begin_call(&call);
	result = inner->comparator(a, b, inner);
	end_call(&call);
	return result;
}

void
rose_foreign_guard_sort(SortSupport ssup, MemoryContext context)
{
	SortSupport inner = MemoryContextAlloc(context, sizeof(SortSupportData));

	*inner = *ssup;
	ssup->ssup_extra = inner;
	ssup->comparator = compare_guarded;
}

/* ---- hash ---- */

static Datum
hash_guarded(PG_FUNCTION_ARGS)
{
	FmgrInfo   *inner = (FmgrInfo *) fcinfo->flinfo->fn_extra;
	ForeignCall call;
	Datum		result;

	begin_call(&call);
	result = FunctionCall2Coll(inner, PG_GET_COLLATION(), PG_GETARG_DATUM(0), PG_GETARG_DATUM(1));
	end_call(&call);
	return result;
}

/* It keeps its OID. */
void
rose_foreign_guard_hash(FmgrInfo *function, MemoryContext context)
{
	FmgrInfo   *inner = MemoryContextAlloc(context, sizeof(FmgrInfo));

	fmgr_info_copy(inner, function, context);
	function->fn_addr = hash_guarded;
	function->fn_extra = inner;
}
