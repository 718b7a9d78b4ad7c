/*-------------------------------------------------------------------------
 *
 * rose_node_filter_text.c
 *	  Comparisons of texts, and matching them, as filters: by core's functions, asked once for values that come again.
 *
 * What is equal, less, or like something else only core's functions say, under the collation of the condition.  Values of a dictionary stand in one place
 * of the page, so what was answered for a place is remembered until other rows are looked at.  Where values do not come again
 * nothing is looked for.
 *
 * All functions are immutable and strict, and get no NULL.  Most may fail: a pattern may be none, a collation not be for patterns.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "scan/rose_node_filter_text.h"

/* Answers that are remembered; a power of 2. */
#define MEMO_BITS		9
#define MEMO_ENTRIES	(1 << MEMO_BITS)

/* After so many questions it is known whether values come again. */
#define MEMO_SAMPLE		256

typedef struct TextMemo
{
	Datum		value;
	uint32		stamp;			/* of the rows: else there is nothing here */
	bool		answer;
} TextMemo;

struct RoseNodeFilterText
{
	FmgrInfo	function;
	Oid			collation;
	int			column;			/* which argument it is */
	Datum		with;			/* the other one */
	MemoryContext calls;		/* what functions leave behind */
	uint32		stamp;
	uint32		asked;			/* of these rows ... */
	uint32		known;			/* ... and so often it was there */
	TextMemo   *memo;
};

static bool
is_equality(Oid function)
{
	return function == F_TEXTEQ || function == F_TEXTNE || function == F_BPCHAREQ || function == F_BPCHARNE;
}

static bool
is_known(Oid function)
{
	switch (function)
	{
		case F_TEXTEQ:
		case F_TEXTNE:
		case F_TEXT_LT:
		case F_TEXT_LE:
		case F_TEXT_GT:
		case F_TEXT_GE:
		case F_TEXTLIKE:
		case F_TEXTNLIKE:
		case F_TEXTICLIKE:
		case F_TEXTICNLIKE:
		case F_TEXTREGEXEQ:
		case F_TEXTREGEXNE:
		case F_TEXTICREGEXEQ:
		case F_TEXTICREGEXNE:
		case F_STARTS_WITH:
		case F_BPCHAREQ:
		case F_BPCHARNE:
		case F_BPCHARLT:
		case F_BPCHARLE:
		case F_BPCHARGT:
		case F_BPCHARGE:
		case F_BPCHARLIKE:
		case F_BPCHARNLIKE:
			return true;
		default:
			return false;
	}
}

bool
rose_node_filter_text_takes(const OpExpr *op, bool *may_fail)
{
	Oid			function = get_opcode(op->opno);

	*may_fail = !is_equality(function) || !OidIsValid(op->inputcollid) ||
		!get_collation_isdeterministic(op->inputcollid);
	return is_known(function);
}

RoseNodeFilterText *
rose_node_filter_text_create(const OpExpr *op, int column)
{
	RoseNodeFilterText *match = palloc0(sizeof(RoseNodeFilterText));

	fmgr_info(get_opcode(op->opno), &match->function);
	match->collation = op->inputcollid;
	match->column = column;
	match->calls = AllocSetContextCreate(CurrentMemoryContext, "rose filter of texts", ALLOCSET_SMALL_SIZES);
	match->memo = palloc0(MEMO_ENTRIES * sizeof(TextMemo));
	match->stamp = 1;
	return match;
}

void
rose_node_filter_text_start(RoseNodeFilterText *match, Datum with, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);

	match->with = PointerGetDatum(PG_DETOAST_DATUM_COPY(with));
	MemoryContextSwitchTo(old);
	rose_node_filter_text_renew(match);
}

void
rose_node_filter_text_renew(RoseNodeFilterText *match)
{
	match->asked = match->known = 0;
	if (++match->stamp != 0)
		return;
	memset(match->memo, 0, MEMO_ENTRIES * sizeof(TextMemo));
	match->stamp = 1;
}

static inline bool
call(RoseNodeFilterText *match, Datum value)
{
	Datum		answer;

	answer = match->column == 0 ? FunctionCall2Coll(&match->function, match->collation, value, match->with) :
		FunctionCall2Coll(&match->function, match->collation, match->with, value);
	MemoryContextReset(match->calls);
	return DatumGetBool(answer);
}

static inline bool
ask(RoseNodeFilterText *match, Datum value)
{
	TextMemo   *memo = &match->memo[(uint64) value * UINT64CONST(0x9E3779B97F4A7C15) >> (64 - MEMO_BITS)];

	match->asked++;
	if (memo->stamp == match->stamp && memo->value == value)
	{
		match->known++;
		return memo->answer;
	}
	memo->answer = call(match, value);
	memo->value = value;
	memo->stamp = match->stamp;
	return memo->answer;
}

void
rose_node_filter_text_ask(RoseNodeFilterText *match, const Datum *values, int n, bool *keep)
{
	MemoryContext old = MemoryContextSwitchTo(match->calls);

	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (match->asked >= MEMO_SAMPLE && match->known * 2 < match->asked)
			keep[i] = call(match, values[i]);
		else
			keep[i] = ask(match, values[i]);
	}
	MemoryContextSwitchTo(old);
}
