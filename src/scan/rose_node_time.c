/*-------------------------------------------------------------------------
 *
 * rose_node_time.c
 *	  Functions that take a part of times: what they do not tell apart.
 *
 * The hour of a time is that of all times of this hour, and of the same hour of all days.  So what an expression makes of a time can be known
 * from another one, if it looks at times by such functions only.  Of times without a zone: days and hours of others
 * depend on the zone's rules.
 *
 * Functions are known by their OIDs, units by core's own table of their names.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"

#include "scan/rose_node_time.h"

#define WEEK_USECS	(USECS_PER_DAY * 7)
#define YEAR_USECS	(USECS_PER_DAY * 365.0)

static const RoseNodeTimeUnit units[] = {
	{DTK_SECOND, 0, USECS_PER_SEC, 0, 0},
	{DTK_MINUTE, 60, USECS_PER_MINUTE, USECS_PER_MINUTE, USECS_PER_HOUR},
	{DTK_HOUR, 24, USECS_PER_HOUR, USECS_PER_HOUR, USECS_PER_DAY},
	{DTK_DAY, 31, USECS_PER_DAY, USECS_PER_DAY, 0},
	{DTK_DOW, 7, 0, USECS_PER_DAY, WEEK_USECS},
	{DTK_ISODOW, 7, 0, USECS_PER_DAY, WEEK_USECS},
	{DTK_DOY, 366, 0, USECS_PER_DAY, 0},
	{DTK_WEEK, 53, WEEK_USECS, USECS_PER_DAY, 0},
	{DTK_MONTH, 12, USECS_PER_DAY * 30.0, USECS_PER_DAY, 0},
	{DTK_QUARTER, 4, USECS_PER_DAY * 91.0, USECS_PER_DAY, 0},
	{DTK_YEAR, 100, YEAR_USECS, USECS_PER_DAY, 0},
	{DTK_ISOYEAR, 100, 0, USECS_PER_DAY, 0},
	{DTK_DECADE, 10, YEAR_USECS * 10, USECS_PER_DAY, 0},
	{DTK_CENTURY, 2, YEAR_USECS * 100, USECS_PER_DAY, 0},
	{DTK_MILLENNIUM, 2, YEAR_USECS * 1000, USECS_PER_DAY, 0},
};

const RoseNodeTimeUnit *
rose_node_time_unit(const Node *name)
{
	const Const *constant = (const Const *) name;
	char	   *given;
	char	   *low;
	int			code;
	int			type;

	if (!IsA(name, Const) || constant->consttype != TEXTOID || constant->constisnull)
		return NULL;
	given = TextDatumGetCString(constant->constvalue);
	low = downcase_truncate_identifier(given, strlen(given), false);
	/* where core looks for it, in this order */
	type = DecodeUnits(0, low, &code);
	if (type == UNKNOWN_FIELD)
		type = DecodeSpecial(0, low, &code);
	if (type != UNITS)
		return NULL;
	for (int i = 0; i < lengthof(units); i++)
	{
		if (units[i].code == code)
			return &units[i];
	}
	return NULL;
}

/* ---- what is not told apart ---- */

/* Of what the function makes of a column of times; false: it is not one of these. */
static bool
grain_of_call(const FuncExpr *call, RoseNodeTimeGrain *grain)
{
	const RoseNodeTimeUnit *unit;

	if (call->funcid == F_DATE_TIMESTAMP)
	{
		*grain = (RoseNodeTimeGrain) {USECS_PER_DAY, 0};
		return IsA(linitial(call->args), Var);
	}
	if ((call->funcid != F_EXTRACT_TEXT_TIMESTAMP && call->funcid != F_DATE_PART_TEXT_TIMESTAMP &&
		 call->funcid != F_DATE_TRUNC_TEXT_TIMESTAMP) || !IsA(lsecond(call->args), Var))
		return false;
	unit = rose_node_time_unit(linitial(call->args));
	if (unit == NULL)
		return false;
	*grain = (RoseNodeTimeGrain) {unit->grain, unit->period};
	if (call->funcid == F_DATE_TRUNC_TEXT_TIMESTAMP)
	{
		grain->grain = Min((int64) unit->usecs, USECS_PER_DAY);
		grain->period = 0;
	}
	return grain->grain > 0;
}

/* True: it looks at times in another way. */
static bool
join_grains(Node *node, RoseNodeTimeGrain *joined)
{
	RoseNodeTimeGrain grain;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return true;
	if (!IsA(node, FuncExpr) || !grain_of_call((const FuncExpr *) node, &grain))
		return expression_tree_walker(node, join_grains, joined);
	/* the longer ones of these are made of the shorter ones */
	if (joined->grain == 0)
		*joined = grain;
	joined->grain = Min(joined->grain, grain.grain);
	joined->period = joined->period == 0 || grain.period == 0 ? 0 : Max(joined->period, grain.period);
	return false;
}

RoseNodeTimeGrain
rose_node_time_grain(const Node *expr)
{
	RoseNodeTimeGrain grain = {0, 0};

	if (join_grains(unconstify(Node *, expr), &grain))
		grain.grain = 0;
	return grain;
}
