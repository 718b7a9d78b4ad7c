/*-------------------------------------------------------------------------
 *
 * rose_node_group_cells.c
 *	  States of one aggregate over many groups.
 *
 * They are in an array, by the number of the group, and no larger than they need to be.  What values do to them is what
 * they do to one state (rose_node_agg_state.c), to the bit: each group takes its values one after the other.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "utils/float.h"

#include "scan/rose_node_agg_float.h"
#include "scan/rose_node_group_cells.h"

typedef struct CountCell
{
	int64		n;				/* values; first in all of them */
} CountCell;

typedef struct WordCell
{
	int64		n;
	int64		word;
} WordCell;

typedef struct WideCell
{
	int64		n;
	uint64		low;			/* sum, of 128 bits */
	int64		high;
} WideCell;

typedef struct Float4Cell
{
	int64		n;
	float4		real;
} Float4Cell;

typedef struct Float8Cell
{
	int64		n;
	float8		real;
} Float8Cell;

typedef struct AccumCell
{
	int64		n;
	float8		sum;
	float8		squares;
} AccumCell;

Size
rose_node_cell_size(RoseNodeAggKind kind)
{
	switch (kind)
	{
		case ROSE_AGG_ROWS:
		case ROSE_AGG_COUNT:
			return sizeof(CountCell);
		case ROSE_AGG_SUM_WIDE:
			return sizeof(WideCell);
		case ROSE_AGG_SUM_NUMERIC:
			return sizeof(RoseNodeNumericSum);
		case ROSE_AGG_MIN_TEXT:
		case ROSE_AGG_MAX_TEXT:
			return sizeof(RoseNodeTextExtreme);
		case ROSE_AGG_MIN_NUMERIC:
		case ROSE_AGG_MAX_NUMERIC:
			return sizeof(RoseNodeNumericExtreme);
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			return sizeof(AccumCell);
		default:
			StaticAssertStmt(sizeof(WordCell) == sizeof(Float8Cell) &&
							 sizeof(WordCell) == sizeof(Float4Cell), "cells of one size");
			return sizeof(WordCell);
	}
}

int64
rose_node_cell_number(RoseNodeAggKind kind, const char *cells, uint32 group)
{
	return ((const CountCell *) (cells + group * rose_node_cell_size(kind)))->n;
}

/* ---- integers ---- */

void
rose_node_cells_count(char *cells, const uint32 *groups, int n)
{
	CountCell  *counts = (CountCell *) cells;

	for (int i = 0; i < n; i++)
		counts[groups[i]].n++;
}

void
rose_node_cells_count_runs(char *cells, const uint32 *run_groups, const uint16 *starts, int nruns,
						   int n)
{
	CountCell  *counts = (CountCell *) cells;

	for (int run = 0; run < nruns - 1; run++)
		counts[run_groups[run]].n += starts[run + 1] - starts[run];
	counts[run_groups[nruns - 1]].n += n - starts[nruns - 1];
}

void
rose_node_cells_sum_runs(char *cells, const uint32 *run_groups, const uint16 *starts, int nruns,
						 const int64 *values, int n, int64 *sums)
{
	WordCell   *words = (WordCell *) cells;
	uint64		sum = 0;

	for (int i = 0; i < n; i++)
	{
		sums[i] = (int64) sum;
		sum += (uint64) values[i];
	}
	sums[n] = (int64) sum;
	for (int run = 0; run < nruns; run++)
	{
		int			start = starts[run];
		int			end = run + 1 < nruns ? starts[run + 1] : n;
		WordCell   *cell = &words[run_groups[run]];

		cell->n += end - start;
		cell->word = (int64) ((uint64) cell->word + (uint64) sums[end] - (uint64) sums[start]);
	}
}

static void
take_sums(WordCell *cells, const uint32 *groups, const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		WordCell   *cell = &cells[groups[i]];

		cell->n++;
		cell->word = (int64) ((uint64) cell->word + (uint64) values[i]);
	}
}

static void
take_wide(WideCell *cells, const uint32 *groups, const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		WideCell   *cell = &cells[groups[i]];
		uint64		low = cell->low + (uint64) values[i];

		cell->n++;
		cell->high += (low < cell->low) - (values[i] < 0);
		cell->low = low;
	}
}

/* The words of oids are not in their order. */
static void
take_extremes(WordCell *cells, bool max, bool is_oid, const uint32 *groups, const int64 *values,
			  int n)
{
	for (int i = 0; i < n; i++)
	{
		WordCell   *cell = &cells[groups[i]];
		int64		word = is_oid ? (int64) (uint32) values[i] : values[i];

		if (cell->n++ == 0 || (max ? word > cell->word : word < cell->word))
			cell->word = word;
	}
}

static void
take_bits(WordCell *cells, bool is_and, const uint32 *groups, const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		WordCell   *cell = &cells[groups[i]];

		if (cell->n++ == 0)
			cell->word = values[i];
		else if (is_and)
			cell->word &= values[i];
		else
			cell->word |= values[i];
	}
}

/* ---- floats ---- */

static void
sum_float8(Float8Cell *cells, const uint32 *groups, const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		Float8Cell *cell = &cells[groups[i]];
		float8		value = rose_node_float8_of(values[i]);

		cell->real = cell->n++ == 0 ? value : float8_pl(cell->real, value);
	}
}

static void
sum_float4(Float4Cell *cells, const uint32 *groups, const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		Float4Cell *cell = &cells[groups[i]];
		float4		value = rose_node_float4_of(values[i]);

		cell->real = cell->n++ == 0 ? value : float4_pl(cell->real, value);
	}
}

/* Those of float4 are kept as float8. */
static void
extreme_float(Float8Cell *cells, bool max, bool is_float4, const uint32 *groups,
			  const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		Float8Cell *cell = &cells[groups[i]];
		float8		value = rose_node_float_of(values[i], is_float4);

		cell->real = cell->n++ == 0 ? value : rose_node_float_extreme(max, cell->real, value);
	}
}

static void
accumulate(AccumCell *cells, bool is_float4, const uint32 *groups, const int64 *values, int n)
{
	for (int i = 0; i < n; i++)
	{
		AccumCell  *cell = &cells[groups[i]];
		float8		value = rose_node_float_of(values[i], is_float4);

		rose_node_float_average(&cell->sum, &cell->squares, value, cell->n++);
	}
}

/* ---- numerics ---- */

static void
take_numerics(RoseNodeAggKind kind, char *cells, const uint32 *groups, const int64 *values, int n, RoseNodeAggMemory *memory)
{
#ifdef HAVE_INT128
	if (kind == ROSE_AGG_SUM_NUMERIC)
		rose_node_numeric_take((RoseNodeNumericSum *) cells, groups, values, n, memory);
	else
		rose_node_extreme_take((RoseNodeNumericExtreme *) cells, kind == ROSE_AGG_MAX_NUMERIC, groups, values, n, memory);
#endif
}

/* ---- all ---- */

void
rose_node_cells_take(RoseNodeAggKind kind, Oid type, char *cells, const uint32 *groups,
					 const int64 *values, int n, const RoseNodeTextOrder *order,
					 RoseNodeAggMemory *memory)
{
	switch (kind)
	{
		case ROSE_AGG_COUNT:
			rose_node_cells_count(cells, groups, n);
			break;
		case ROSE_AGG_SUM:
		case ROSE_AGG_AVG:
			take_sums((WordCell *) cells, groups, values, n);
			break;
		case ROSE_AGG_SUM_WIDE:
			take_wide((WideCell *) cells, groups, values, n);
			break;
		case ROSE_AGG_SUM_NUMERIC:
		case ROSE_AGG_MIN_NUMERIC:
		case ROSE_AGG_MAX_NUMERIC:
			take_numerics(kind, cells, groups, values, n, memory);
			break;
		case ROSE_AGG_SUM_FLOAT4:
			sum_float4((Float4Cell *) cells, groups, values, n);
			break;
		case ROSE_AGG_SUM_FLOAT8:
			sum_float8((Float8Cell *) cells, groups, values, n);
			break;
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			accumulate((AccumCell *) cells, kind == ROSE_AGG_ACCUM_FLOAT4, groups, values, n);
			break;
		case ROSE_AGG_MIN:
		case ROSE_AGG_MAX:
			take_extremes((WordCell *) cells, kind == ROSE_AGG_MAX, type == OIDOID, groups, values,
						  n);
			break;
		case ROSE_AGG_MIN_FLOAT4:
		case ROSE_AGG_MAX_FLOAT4:
			extreme_float((Float8Cell *) cells, kind == ROSE_AGG_MAX_FLOAT4, true, groups, values,
						  n);
			break;
		case ROSE_AGG_MIN_FLOAT8:
		case ROSE_AGG_MAX_FLOAT8:
			extreme_float((Float8Cell *) cells, kind == ROSE_AGG_MAX_FLOAT8, false, groups, values,
						  n);
			break;
		case ROSE_AGG_AND:
		case ROSE_AGG_OR:
			take_bits((WordCell *) cells, kind == ROSE_AGG_AND, groups, values, n);
			break;
		case ROSE_AGG_MIN_TEXT:
		case ROSE_AGG_MAX_TEXT:
			rose_node_text_take((RoseNodeTextExtreme *) cells, groups, values, n, order, memory);
			break;
		case ROSE_AGG_ROWS:
		case ROSE_AGG_NONE:
			Assert(false);
			break;
	}
}

void
rose_node_cells_forget(RoseNodeAggKind kind, char *cells, bool kept, RoseNodeAggMemory *memory)
{
	if (kind == ROSE_AGG_SUM_NUMERIC)
		rose_node_numeric_forget(memory, kept ? (RoseNodeNumericSum *) cells : NULL);
#ifdef HAVE_INT128
	else if (ROSE_AGG_IS_OF_NUMERIC(kind))
		rose_node_extreme_forget(memory, kept ? (RoseNodeNumericExtreme *) cells : NULL);
#endif
	else
		rose_node_text_forget(memory, kept ? (RoseNodeTextExtreme *) cells : NULL);
}

void
rose_node_cells_take_decimals(RoseNodeAggKind kind, char *cells, uint32 ncells, const uint32 *groups, const RoseNodeDecimals *decimals,
							  int from, const int64 *values, const bool *nulls, int n, RoseNodeAggMemory *memory)
{
#ifdef HAVE_INT128
	if (kind == ROSE_AGG_SUM_NUMERIC)
		rose_node_numeric_take_decimals((RoseNodeNumericSum *) cells, ncells, groups, decimals, from, values, nulls, n, memory);
	else
		rose_node_extreme_take_decimals((RoseNodeNumericExtreme *) cells, kind == ROSE_AGG_MAX_NUMERIC, groups, decimals, from,
										values, nulls, n, memory);
#endif
}

/* ---- single states ---- */

#ifdef HAVE_INT128
static int128
load_wide(const WideCell *cell)
{
	return (int128) (((uint128) (uint64) cell->high << 64) | cell->low);
}
#endif

void
rose_node_cell_load(const char *cells, uint32 group, RoseNodeAggState *state)
{
	const char *cell = cells + group * rose_node_cell_size(state->kind);

	rose_node_agg_state_reset(state);
	state->n = ((const CountCell *) cell)->n;
	switch (state->kind)
	{
		case ROSE_AGG_ROWS:
		case ROSE_AGG_COUNT:
		case ROSE_AGG_NONE:
			break;
		case ROSE_AGG_SUM_WIDE:
#ifdef HAVE_INT128
			state->wide = load_wide((const WideCell *) cell);
#endif
			break;
		case ROSE_AGG_SUM_NUMERIC:
			state->numeric = *(const RoseNodeNumericSum *) cell;
			break;
		case ROSE_AGG_MIN_TEXT:
		case ROSE_AGG_MAX_TEXT:
			state->text = *(const RoseNodeTextExtreme *) cell;
			break;
		case ROSE_AGG_MIN_NUMERIC:
		case ROSE_AGG_MAX_NUMERIC:
			state->extreme = *(const RoseNodeNumericExtreme *) cell;
			break;
		case ROSE_AGG_SUM_FLOAT4:
			state->real4 = ((const Float4Cell *) cell)->real;
			break;
		case ROSE_AGG_SUM_FLOAT8:
		case ROSE_AGG_MIN_FLOAT4:
		case ROSE_AGG_MAX_FLOAT4:
		case ROSE_AGG_MIN_FLOAT8:
		case ROSE_AGG_MAX_FLOAT8:
			state->real8 = ((const Float8Cell *) cell)->real;
			break;
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			state->real8 = ((const AccumCell *) cell)->sum;
			state->squares = ((const AccumCell *) cell)->squares;
			break;
		default:
			state->word = ((const WordCell *) cell)->word;
			break;
	}
}

Datum
rose_node_cell_emit(RoseNodeAggKind kind, Oid type, const char *cells, uint32 group, void *room, bool *isnull)
{
	RoseNodeAggState state;

	/* most are numbers of rows */
	if (kind == ROSE_AGG_ROWS || kind == ROSE_AGG_COUNT)
	{
		*isnull = false;
		return Int64GetDatum(((const CountCell *) cells)[group].n);
	}
	state.kind = kind;
	state.type = type;
	rose_node_cell_load(cells, group, &state);
	return rose_node_agg_state_emit(&state, room, isnull);
}

void
rose_node_cell_store(char *cells, uint32 group, const RoseNodeAggState *state)
{
	char	   *cell = cells + group * rose_node_cell_size(state->kind);

	((CountCell *) cell)->n = state->n;
	switch (state->kind)
	{
		case ROSE_AGG_ROWS:
		case ROSE_AGG_COUNT:
		case ROSE_AGG_NONE:
			break;
		case ROSE_AGG_SUM_WIDE:
#ifdef HAVE_INT128
			((WideCell *) cell)->low = (uint64) state->wide;
			((WideCell *) cell)->high = (int64) (state->wide >> 64);
#endif
			break;
		case ROSE_AGG_SUM_NUMERIC:
			*(RoseNodeNumericSum *) cell = state->numeric;
			break;
		case ROSE_AGG_MIN_TEXT:
		case ROSE_AGG_MAX_TEXT:
			*(RoseNodeTextExtreme *) cell = state->text;
			break;
		case ROSE_AGG_MIN_NUMERIC:
		case ROSE_AGG_MAX_NUMERIC:
			*(RoseNodeNumericExtreme *) cell = state->extreme;
			break;
		case ROSE_AGG_SUM_FLOAT4:
			((Float4Cell *) cell)->real = state->real4;
			break;
		case ROSE_AGG_SUM_FLOAT8:
		case ROSE_AGG_MIN_FLOAT4:
		case ROSE_AGG_MAX_FLOAT4:
		case ROSE_AGG_MIN_FLOAT8:
		case ROSE_AGG_MAX_FLOAT8:
			((Float8Cell *) cell)->real = state->real8;
			break;
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			((AccumCell *) cell)->sum = state->real8;
			((AccumCell *) cell)->squares = state->squares;
			break;
		default:
			((WordCell *) cell)->word = state->word;
			break;
	}
}
