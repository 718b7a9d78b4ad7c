/*-------------------------------------------------------------------------
 *
 * rose_node_agg_text.c
 *	  Least and greatest texts.
 *
 * Of equal values, which need not be the same, the last one stands, as core has it.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "utils/pg_locale.h"
#include "utils/varlena.h"

#include "compat/rose_compat.h"
#include "compat/rose_compat_varatt.h"
#include "scan/rose_node_agg_text.h"

void
rose_node_text_set_order(RoseNodeTextOrder *order, Oid collation, bool max)
{
	order->collation = collation;
	order->bytewise = OidIsValid(collation) && rose_collation_is_c(collation);
	order->max = max;
}

static inline int
compare(const RoseNodeTextOrder *order, const struct varlena *a, const struct varlena *b)
{
	int			a_size = VARSIZE_ANY_EXHDR(a);
	int			b_size = VARSIZE_ANY_EXHDR(b);
	int			cmp;

	if (!order->bytewise)
		return varstr_cmp(VARDATA_ANY(a), a_size, VARDATA_ANY(b), b_size, order->collation);
	cmp = memcmp(VARDATA_ANY(a), VARDATA_ANY(b), Min(a_size, b_size));
	return cmp != 0 ? cmp : a_size - b_size;
}

/* Does value take the place of best? */
static inline bool
is_better(const RoseNodeTextOrder *order, const struct varlena *best, const struct varlena *value)
{
	int			cmp = best != NULL ? compare(order, best, value) : 0;

	return order->max ? cmp <= 0 : cmp >= 0;
}

static void
keep(RoseNodeTextExtreme *extreme, const struct varlena *value, Size spare, MemoryContext context)
{
	Size		size = VARSIZE_ANY(value);

	if (size > extreme->room)
	{
		if (extreme->best != NULL)
			pfree(extreme->best);
		extreme->room = 0;
		extreme->best = MemoryContextAllocHuge(context, size + spare);
		extreme->room = size + spare;
	}
	memcpy(extreme->best, value, size);
}

/* Only the best one is copied. */
static void
take_all(RoseNodeTextExtreme *extreme, const int64 *values, int n, const RoseNodeTextOrder *order,
		 RoseNodeAggMemory *memory)
{
	const struct varlena *best = extreme->n > 0 ? extreme->best : NULL;

	for (int i = 0; i < n; i++)
	{
		const struct varlena *value = PG_DETOAST_DATUM_PACKED((Datum) values[i]);

		if (is_better(order, best, value))
			best = value;
	}
	if (best != extreme->best)
		keep(extreme, best, VARSIZE_ANY(best), rose_node_agg_memory(memory));
	extreme->n += n;
}

void
rose_node_text_take(RoseNodeTextExtreme *extremes, const uint32 *groups, const int64 *values, int n,
					const RoseNodeTextOrder *order, RoseNodeAggMemory *memory)
{
	if (n > 0 && groups == NULL)
	{
		take_all(extremes, values, n, order, memory);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		RoseNodeTextExtreme *extreme = &extremes[groups[i]];
		struct varlena *value = PG_DETOAST_DATUM_PACKED((Datum) values[i]);

		if (is_better(order, extreme->n++ > 0 ? extreme->best : NULL, value))
			keep(extreme, value, 0, rose_node_agg_memory(memory));
		if (PointerGetDatum(value) != (Datum) values[i])
			pfree(value);
	}
}

void
rose_node_text_forget(RoseNodeAggMemory *memory, RoseNodeTextExtreme *kept)
{
	MemoryContext old = rose_node_agg_memory_renew(memory);

	if (old == NULL)
		return;
	if (kept != NULL && kept->best != NULL)
	{
		const struct varlena *value = kept->best;

		kept->room = 0;
		kept->best = NULL;
		keep(kept, value, 0, rose_node_agg_memory(memory));
	}
	MemoryContextDelete(old);
}
