/*-------------------------------------------------------------------------
 *
 * rose_node_filter_text.c
 *	  Comparisons of texts, and matching them, as filters: by core's functions, asked once for values that come again.
 *
 * What is equal, less, or like something else only core's functions say, under the collation of the condition.  Values of a dictionary stand in one place
 * of the page, so what was answered for a place is remembered until other rows are looked at.  Where values do not come again
 * nothing is looked for.
 *
 * All functions are immutable and strict, and get no NULL.  They are called for a vector's rows, of which the consumer may want the first ones
 * only, so what may raise an error for a row is none of these: regular expressions, and patterns that are not known, or that end in an escape.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "fmgr.h"
#include "mb/pg_wchar.h"
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

/* Bytes of a pattern. */
#define PATTERN_MOST	256

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
is_comparison(Oid function)
{
	switch (function)
	{
		case F_TEXTEQ:
		case F_TEXTNE:
		case F_TEXT_LT:
		case F_TEXT_LE:
		case F_TEXT_GT:
		case F_TEXT_GE:
		case F_BPCHAREQ:
		case F_BPCHARNE:
		case F_BPCHARLT:
		case F_BPCHARLE:
		case F_BPCHARGT:
		case F_BPCHARGE:
			return true;
		default:
			return false;
	}
}

static bool
is_match(Oid function)
{
	switch (function)
	{
		case F_TEXTLIKE:
		case F_TEXTNLIKE:
		case F_BPCHARLIKE:
		case F_BPCHARNLIKE:
			return true;
		case F_TEXTICLIKE:
		case F_TEXTICNLIKE:
			/* they make wide characters, and the system's locales do not know all of other encodings */
			return GetDatabaseEncoding() == PG_UTF8 || pg_database_encoding_max_length() == 1;
		default:
			return false;
	}
}

/* No error whatever it is matched with.  Backslashes are no part of other characters in servers' encodings. */
static bool
is_safe_pattern(const Node *pattern)
{
	const Const *constant = (const Const *) pattern;
	const text *string;
	int			length;
	int			escapes = 0;

	if (!IsA(pattern, Const) || constant->constisnull)
		return false;
	string = DatumGetTextPP(constant->constvalue);
	length = VARSIZE_ANY_EXHDR(string);
	/* the matcher calls itself for each % */
	if (length > PATTERN_MOST)
		return false;
	while (escapes < length && VARDATA_ANY(string)[length - 1 - escapes] == '\\')
		escapes++;
	return escapes % 2 == 0;
}

bool
rose_node_filter_text_takes(const OpExpr *op, int column, bool *not_first)
{
	Oid			function = get_opcode(op->opno);
	bool		deterministic = OidIsValid(op->inputcollid) && get_collation_isdeterministic(op->inputcollid);

	*not_first = !is_equality(function) || !deterministic;
	if (is_comparison(function))
		return OidIsValid(op->inputcollid);
	if (!deterministic)
		return false;
	return function == F_STARTS_WITH || (column == 0 && is_match(function) && is_safe_pattern(lsecond(op->args)));
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
