/*-------------------------------------------------------------------------
 *
 * rose_node_agg_extreme.c
 *	  Least and greatest numerics.
 *
 * Integers of one scale are compared as such (rose_node_decimal.h), and others by core's function.  Of equal values, which need not be the same, the
 * last one stands, as core has it.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "utils/datum.h"
#include "utils/fmgrprotos.h"

#include "scan/rose_node_agg_extreme.h"
#include "scan/rose_node_agg_numeric.h"

#ifdef HAVE_INT128

Datum
rose_node_extreme_emit(const RoseNodeNumericExtreme *extreme)
{
	if (extreme->is_integer)
		return rose_node_numeric_of_integer(extreme->word, extreme->scale, extreme->shown);
	return datumCopy(PointerGetDatum(extreme->best), false, -1);
}

/* Does one take the place of another, to which it compares so? */
static inline bool
is_better(bool max, int cmp)
{
	return max ? cmp >= 0 : cmp <= 0;
}

/* The same of a numeric. */
static bool
numeric_is_better(const RoseNodeNumericExtreme *extreme, bool max, Datum value)
{
	Datum		best = extreme->is_integer ? rose_node_extreme_emit(extreme) : PointerGetDatum(extreme->best);
	int			cmp = DatumGetInt32(DirectFunctionCall2(numeric_cmp, value, best));

	if (extreme->is_integer)
		pfree(DatumGetPointer(best));
	return is_better(max, cmp);
}

static void
keep(RoseNodeNumericExtreme *extreme, Datum value, RoseNodeAggMemory *memory)
{
	MemoryContext old = MemoryContextSwitchTo(rose_node_agg_memory(memory));

	if (extreme->best != NULL)
		pfree(extreme->best);
	extreme->best = NULL;
	extreme->best = (struct varlena *) DatumGetPointer(datumCopy(value, false, -1));
	extreme->is_integer = false;
	MemoryContextSwitchTo(old);
}

void
rose_node_extreme_take(RoseNodeNumericExtreme *extremes, bool max, const uint32 *groups, const int64 *values, int n,
					   RoseNodeAggMemory *memory)
{
	for (int i = 0; i < n; i++)
	{
		RoseNodeNumericExtreme *extreme = &extremes[groups != NULL ? groups[i] : 0];
		struct varlena *value = PG_DETOAST_DATUM_PACKED((Datum) values[i]);

		if (extreme->n++ == 0 || numeric_is_better(extreme, max, PointerGetDatum(value)))
			keep(extreme, PointerGetDatum(value), memory);
		if (PointerGetDatum(value) != (Datum) values[i])
			pfree(value);
	}
}

/* Is an integer that counts, and shows, that much better? */
static inline bool
integer_is_better(const RoseNodeNumericExtreme *extreme, bool max, int64 word, int scale, int shown)
{
	Datum		value;
	bool		better;

	if (extreme->n == 0)
		return true;
	if (extreme->is_integer && extreme->scale == scale)
		return is_better(max, word > extreme->word ? 1 : word < extreme->word ? -1 : 0);
	value = rose_node_numeric_of_integer(word, scale, shown);
	better = numeric_is_better(extreme, max, value);
	pfree(DatumGetPointer(value));
	return better;
}

void
rose_node_extreme_take_decimals(RoseNodeNumericExtreme *extremes, bool max, const uint32 *groups,
								const RoseNodeDecimals *decimals, int from, const int64 *values,
								const bool *nulls, int n, RoseNodeAggMemory *memory)
{
	for (int i = 0; i < n; i++)
	{
		RoseNodeNumericExtreme *extreme = &extremes[groups != NULL ? groups[i] : 0];
		int			shown = rose_node_decimal_shown(decimals, from + i);

		if (nulls != NULL && nulls[i])
			continue;
		if (integer_is_better(extreme, max, values[i], decimals->scale, shown))
		{
			extreme->word = values[i];
			extreme->scale = (int16) decimals->scale;
			extreme->shown = (int16) shown;
			extreme->is_integer = true;
		}
		extreme->n++;
	}
}

void
rose_node_extreme_forget(RoseNodeAggMemory *memory, RoseNodeNumericExtreme *kept)
{
	MemoryContext old = rose_node_agg_memory_renew(memory);

	if (old == NULL)
		return;
	if (kept != NULL && kept->best != NULL)
	{
		Datum		value = PointerGetDatum(kept->best);
		bool		is_integer = kept->is_integer;

		kept->best = NULL;
		if (!is_integer)
			keep(kept, value, memory);
	}
	MemoryContextDelete(old);
}

#endif							/* HAVE_INT128 */
