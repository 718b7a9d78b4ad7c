/*-------------------------------------------------------------------------
 *
 * rose_node_agg_state.c
 *	  States of aggregates, and the form in which core takes them.
 *
 * A state is what core's transition function would have after the same values in the same order, to the bit; so
 * floats are taken one after the other, with core's checks, and raise its errors.  Integers wrap where core's do.
 *
 * The form of a partial state is core's, and no interface that it promises: rose_node_agg_states_agree has core's
 * functions make some, and if they are not ours, nothing is aggregated here.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "vector/rose_vec_agg.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_agg_float.h"

void
rose_node_agg_state_reset(RoseNodeAggState *state)
{
	state->n = 0;
	state->word = 0;
#ifdef HAVE_INT128
	state->wide = 0;
#endif
	MemSet(&state->numeric, 0, sizeof(state->numeric));
	MemSet(&state->text, 0, sizeof(state->text));
	MemSet(&state->extreme, 0, sizeof(state->extreme));
	state->real4 = 0;
	state->real8 = state->squares = 0;
}

/* ---- integers ---- */

static void
take_wide(RoseNodeAggState *state, const int64 *values, int n)
{
#ifdef HAVE_INT128
	int64		high;
	int64		low;

	rose_vec_sum_parts(values, n, &high, &low);
	state->wide += (int128) high * (INT64CONST(1) << 32) + low;
#endif
}

static inline int64
word_of_oid(int64 word)
{
	return (uint32) word;
}

/* Their words are not in their order. */
static void
take_oids(RoseNodeAggState *state, const int64 *values, int n)
{
	bool		max = state->kind == ROSE_AGG_MAX;
	int64		best = state->n > 0 ? state->word : word_of_oid(values[0]);

	for (int i = 0; i < n; i++)
	{
		int64		word = word_of_oid(values[i]);

		if (max ? word > best : word < best)
			best = word;
	}
	state->word = best;
}

static void
take_extreme(RoseNodeAggState *state, const int64 *values, int n)
{
	int64		best;

	if (state->type == OIDOID)
	{
		take_oids(state, values, n);
		return;
	}
	best = state->kind == ROSE_AGG_MAX ? rose_vec_max(values, n) : rose_vec_min(values, n);
	if (state->n == 0)
		state->word = best;
	else
		state->word = state->kind == ROSE_AGG_MAX ? Max(state->word, best) : Min(state->word, best);
}

static void
take_bits(RoseNodeAggState *state, const int64 *values, int n)
{
	int64		bits = state->kind == ROSE_AGG_AND ? rose_vec_and(values, n) : rose_vec_or(values, n);

	if (state->n == 0)
		state->word = bits;
	else
		state->word = state->kind == ROSE_AGG_AND ? state->word & bits : state->word | bits;
}

/* ---- floats, in their order ---- */

/* The first value is the sum as it is: that of -0 is -0. */
static void
sum_float8(RoseNodeAggState *state, const int64 *values, int n)
{
	float8		sum = state->n > 0 ? state->real8 : rose_node_float8_of(values[0]);

	for (int i = state->n > 0 ? 0 : 1; i < n; i++)
		sum = float8_pl(sum, rose_node_float8_of(values[i]));
	state->real8 = sum;
}

static void
sum_float4(RoseNodeAggState *state, const int64 *values, int n)
{
	float4		sum = state->n > 0 ? state->real4 : rose_node_float4_of(values[0]);

	for (int i = state->n > 0 ? 0 : 1; i < n; i++)
		sum = float4_pl(sum, rose_node_float4_of(values[i]));
	state->real4 = sum;
}

/* Those of float4 are kept as float8. */
static void
extreme_float(RoseNodeAggState *state, bool max, bool is_float4, const int64 *values, int n)
{
	float8		best = state->n > 0 ? state->real8 : rose_node_float_of(values[0], is_float4);

	for (int i = state->n > 0 ? 0 : 1; i < n; i++)
		best = rose_node_float_extreme(max, best, rose_node_float_of(values[i], is_float4));
	state->real8 = best;
}

static void
accumulate_all(RoseNodeAggState *state, const int64 *values, int n)
{
	bool		is_float4 = state->kind == ROSE_AGG_ACCUM_FLOAT4;

	for (int i = 0; i < n; i++)
		rose_node_float_average(&state->real8, &state->squares, rose_node_float_of(values[i], is_float4), state->n + i);
}

void
rose_node_agg_state_take(RoseNodeAggState *state, const int64 *values, int n)
{
	if (n == 0)
		return;
	switch (state->kind)
	{
		case ROSE_AGG_SUM:
		case ROSE_AGG_AVG:
			state->word = (int64) ((uint64) state->word + (uint64) rose_vec_sum(values, n));
			break;
		case ROSE_AGG_SUM_WIDE:
			take_wide(state, values, n);
			break;
		case ROSE_AGG_SUM_NUMERIC:
#ifdef HAVE_INT128
			rose_node_numeric_take(&state->numeric, NULL, values, n, state->memory);
#endif
			break;
		case ROSE_AGG_SUM_FLOAT4:
			sum_float4(state, values, n);
			break;
		case ROSE_AGG_SUM_FLOAT8:
			sum_float8(state, values, n);
			break;
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			accumulate_all(state, values, n);
			break;
		case ROSE_AGG_MIN:
		case ROSE_AGG_MAX:
			take_extreme(state, values, n);
			break;
		case ROSE_AGG_MIN_FLOAT4:
		case ROSE_AGG_MAX_FLOAT4:
			extreme_float(state, state->kind == ROSE_AGG_MAX_FLOAT4, true, values, n);
			break;
		case ROSE_AGG_MIN_FLOAT8:
		case ROSE_AGG_MAX_FLOAT8:
			extreme_float(state, state->kind == ROSE_AGG_MAX_FLOAT8, false, values, n);
			break;
		case ROSE_AGG_AND:
		case ROSE_AGG_OR:
			take_bits(state, values, n);
			break;
		case ROSE_AGG_MIN_TEXT:
		case ROSE_AGG_MAX_TEXT:
			rose_node_text_take(&state->text, NULL, values, n, &state->order, state->memory);
			break;
		case ROSE_AGG_MIN_NUMERIC:
		case ROSE_AGG_MAX_NUMERIC:
#ifdef HAVE_INT128
			rose_node_extreme_take(&state->extreme, state->kind == ROSE_AGG_MAX_NUMERIC, NULL, values, n, state->memory);
#endif
			break;
		case ROSE_AGG_ROWS:
		case ROSE_AGG_COUNT:
		case ROSE_AGG_NONE:
			break;
	}
	state->n += n;
}

bool
rose_node_agg_state_needs_extremes(const RoseNodeAggState *state)
{
	return state->kind == ROSE_AGG_COUNT ||
		((state->kind == ROSE_AGG_MIN || state->kind == ROSE_AGG_MAX) && state->type != OIDOID);
}

void
rose_node_agg_state_take_extremes(RoseNodeAggState *state, int64 min, int64 max, int n)
{
	if (state->kind != ROSE_AGG_COUNT)
		take_extreme(state, state->kind == ROSE_AGG_MAX ? &max : &min, 1);
	state->n += n;
}

void
rose_node_agg_state_take_decimals(RoseNodeAggState *state, const RoseNodeDecimals *decimals, const int64 *values,
								  const bool *nulls, int n)
{
#ifdef HAVE_INT128
	if (state->kind == ROSE_AGG_SUM_NUMERIC)
	{
		rose_node_numeric_take_decimals(&state->numeric, 1, NULL, decimals, 0, values, nulls, n, state->memory);
		state->n = state->numeric.n;
		return;
	}
	rose_node_extreme_take_decimals(&state->extreme, state->kind == ROSE_AGG_MAX_NUMERIC, NULL, decimals, 0, values, nulls, n,
									state->memory);
	state->n = state->extreme.n;
#endif
}

/* ---- core's form ---- */

/* A value of the column's type. */
static Datum
datum_of_word(Oid type, int64 word)
{
	switch (type)
	{
		case BOOLOID:
			return BoolGetDatum(word != 0);
		case INT2OID:
			return Int16GetDatum((int16) word);
		case INT4OID:
		case DATEOID:
			return Int32GetDatum((int32) word);
		case OIDOID:
			return ObjectIdGetDatum((Oid) word);
		default:
			return Int64GetDatum(word);
	}
}

/* Arrays of numbers, which are put into them. */
static ArrayType *
array_of(Oid type, int n)
{
	Datum		values[3] = {0};

	return construct_array(values, n, type, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

static Datum
put_int8s(ArrayType *array, int64 a, int64 b)
{
	int64	   *values = (int64 *) ARR_DATA_PTR(array);

	values[0] = a;
	values[1] = b;
	return PointerGetDatum(array);
}

static Datum
put_float8s(ArrayType *array, float8 a, float8 b, float8 c)
{
	float8	   *values = (float8 *) ARR_DATA_PTR(array);

	values[0] = a;
	values[1] = b;
	values[2] = c;
	return PointerGetDatum(array);
}

#ifdef HAVE_INT128

/* A numeric's digits, as core's serial functions write them. */
#define DIGIT_BASE		10000
#define MAX_DIGITS		10		/* of 2^127 */
#define SIGN_NEGATIVE	0x4000

/* What they write: the number of values, then a sum. */
typedef struct WideBytes
{
	int32		header;			/* varlena's */
	uint32		n[2];
	uint32		ndigits;
	uint32		weight;			/* of the first digit */
	uint32		sign;
	uint32		scale;			/* digits behind the point */
	uint16		digits[MAX_DIGITS];
} WideBytes;

/* From the last one on.  Most sums are of 64 bits, which are divided faster. */
static int
digits_of(uint128 left, int16 *digits)
{
	int			ndigits = 0;
	uint64		low;

	for (; left > PG_UINT64_MAX; left /= DIGIT_BASE)
		digits[ndigits++] = (int16) (left % DIGIT_BASE);
	for (low = (uint64) left; low > 0; low /= DIGIT_BASE)
		digits[ndigits++] = (int16) (low % DIGIT_BASE);
	return ndigits;
}

static Datum
write_wide(WideBytes *bytes, int64 n, int128 sum)
{
	int16		digits[MAX_DIGITS];
	int			ndigits = digits_of(sum < 0 ? -(uint128) sum : (uint128) sum, digits);

	SET_VARSIZE(bytes, offsetof(WideBytes, digits) + ndigits * sizeof(uint16));
	bytes->n[0] = pg_hton32((uint32) ((uint64) n >> 32));
	bytes->n[1] = pg_hton32((uint32) n);
	bytes->ndigits = pg_hton32(ndigits);
	bytes->weight = pg_hton32(Max(ndigits - 1, 0));
	bytes->sign = pg_hton32(sum < 0 ? SIGN_NEGATIVE : 0);
	bytes->scale = 0;
	for (int i = 0; i < ndigits; i++)
		bytes->digits[i] = pg_hton16((uint16) digits[ndigits - 1 - i]);
	return PointerGetDatum(bytes);
}

#endif

void *
rose_node_agg_room(RoseNodeAggKind kind)
{
	switch (kind)
	{
		case ROSE_AGG_AVG:
			return array_of(INT8OID, 2);
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			return array_of(FLOAT8OID, 3);
#ifdef HAVE_INT128
		case ROSE_AGG_SUM_WIDE:
			return palloc(sizeof(WideBytes));
#endif
		default:
			return NULL;
	}
}

Datum
rose_node_agg_state_emit(const RoseNodeAggState *state, void *room, bool *isnull)
{
	*isnull = false;
	switch (state->kind)
	{
		case ROSE_AGG_ROWS:
		case ROSE_AGG_COUNT:
			return Int64GetDatum(state->n);
		case ROSE_AGG_AVG:
			return put_int8s(room, state->n, state->word);
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			return put_float8s(room, (float8) state->n, state->real8, state->squares);
#ifdef HAVE_INT128
		case ROSE_AGG_SUM_WIDE:
			return write_wide(room, state->n, state->wide);
		case ROSE_AGG_SUM_NUMERIC:
			return rose_node_numeric_emit(&state->numeric, isnull);
#endif
		default:
			break;
	}
	*isnull = state->n == 0;
	if (*isnull)
		return (Datum) 0;
	switch (state->kind)
	{
		case ROSE_AGG_SUM:
			return Int64GetDatum(state->word);
		case ROSE_AGG_SUM_FLOAT4:
			return Float4GetDatum(state->real4);
		case ROSE_AGG_MIN_FLOAT4:
		case ROSE_AGG_MAX_FLOAT4:
			return Float4GetDatum((float4) state->real8);
		case ROSE_AGG_SUM_FLOAT8:
		case ROSE_AGG_MIN_FLOAT8:
		case ROSE_AGG_MAX_FLOAT8:
			return Float8GetDatum(state->real8);
		case ROSE_AGG_MIN_TEXT:
		case ROSE_AGG_MAX_TEXT:
			return datumCopy(PointerGetDatum(state->text.best), false, -1);
#ifdef HAVE_INT128
		case ROSE_AGG_MIN_NUMERIC:
		case ROSE_AGG_MAX_NUMERIC:
			return rose_node_extreme_emit(&state->extreme);
#endif
		default:
			return datum_of_word(state->type, state->word);
	}
}

/* ---- the same of one value ---- */

static Datum
single_accumulated(ArrayType *array, float8 value, bool none)
{
	float8		sum = 0;
	float8		squares = 0;

	if (!none)
		rose_node_float_average(&sum, &squares, value, 0);
	return put_float8s(array, none ? 0 : 1, sum, squares);
}

#ifdef HAVE_INT128
static Datum
single_numeric(Datum value, bool none, bool *isnull)
{
	RoseNodeAggMemory memory = {.parent = CurrentMemoryContext};
	RoseNodeNumericSum sum = {0};
	int64		word = (int64) value;
	Datum		result;

	rose_node_numeric_take(&sum, NULL, &word, none ? 0 : 1, &memory);
	result = rose_node_numeric_emit(&sum, isnull);
	rose_node_numeric_forget(&memory, NULL);
	return result;
}
#endif

Datum
rose_node_agg_single_decimal(RoseNodeAggKind kind, const RoseNodeDecimals *decimals, int row, int64 value,
							 bool none, bool *isnull)
{
	*isnull = true;
#ifdef HAVE_INT128
	if (kind == ROSE_AGG_SUM_NUMERIC)
		return rose_node_numeric_single(decimals, row, value, none, isnull);
	*isnull = none;
	if (!none)
		return rose_node_numeric_of_integer(value, decimals->scale, rose_node_decimal_shown(decimals, row));
#endif
	return (Datum) 0;
}

Datum
rose_node_agg_single(RoseNodeAggKind kind, Oid type, int64 value, bool none, void *room,
					 bool *isnull)
{
	*isnull = false;
	switch (kind)
	{
		case ROSE_AGG_ROWS:
			return Int64GetDatum(1);
		case ROSE_AGG_COUNT:
			return Int64GetDatum(none ? 0 : 1);
		case ROSE_AGG_AVG:
			return put_int8s(room, none ? 0 : 1, none ? 0 : value);
		case ROSE_AGG_ACCUM_FLOAT4:
		case ROSE_AGG_ACCUM_FLOAT8:
			return single_accumulated(room, rose_node_float_of(value, kind == ROSE_AGG_ACCUM_FLOAT4),
									  none);
#ifdef HAVE_INT128
		case ROSE_AGG_SUM_WIDE:
			return write_wide(room, none ? 0 : 1, none ? 0 : value);
		case ROSE_AGG_SUM_NUMERIC:
			return single_numeric((Datum) value, none, isnull);
#endif
		default:
			break;
	}
	*isnull = none;
	if (none)
		return (Datum) 0;
	switch (kind)
	{
		case ROSE_AGG_SUM:
			return Int64GetDatum(value);
		case ROSE_AGG_SUM_FLOAT4:
		case ROSE_AGG_MIN_FLOAT4:
		case ROSE_AGG_MAX_FLOAT4:
			return Float4GetDatum(rose_node_float4_of(value));
		case ROSE_AGG_SUM_FLOAT8:
		case ROSE_AGG_MIN_FLOAT8:
		case ROSE_AGG_MAX_FLOAT8:
			return Float8GetDatum(rose_node_float8_of(value));
		default:
			return datum_of_word(type, value);
	}
}

/* ---- is it core's? ---- */

/* An aggregate of which core is asked for its state. */
typedef struct Sample
{
	RoseNodeAggKind kind;
	Oid			transition;
	Oid			serial;			/* 0: none */
	Oid			start;			/* array type of the first state, of zeros; 0: it is NULL */
	int			nzeros;
	bool		is_real;
} Sample;

static const Sample samples[] = {
	{ROSE_AGG_AVG, F_INT4_AVG_ACCUM, 0, INT8OID, 2, false},
	{ROSE_AGG_SUM_WIDE, F_INT8_AVG_ACCUM, F_INT8_AVG_SERIALIZE, 0, 0, false},
	{ROSE_AGG_SUM_NUMERIC, F_NUMERIC_AVG_ACCUM, F_NUMERIC_AVG_SERIALIZE, 0, 0, false},
	{ROSE_AGG_ACCUM_FLOAT8, F_FLOAT8_ACCUM, 0, FLOAT8OID, 3, true},
};

#define SAMPLE_VALUES	3

static const int64 sample_words[2][SAMPLE_VALUES] = {
	{12, -2000000000, 7},
	{-1, 2147483647, 2147480000}
};
static const char *const sample_numerics[2][SAMPLE_VALUES] = {
	{"12.50", "-200000000.000001", "70000"},
	{"1e30", "NaN", "-0.0000000000000000001"}
};
static const int64 sample_wide[SAMPLE_VALUES] = {PG_INT64_MAX, PG_INT64_MAX, 1234500000000};

static int64
sample_value(const Sample *sample, int round, int i)
{
	float8		real = sample_words[round][i] / 3.0 * 1e140;	/* of which the squares are kept */
	int64		bits;

	if (sample->kind == ROSE_AGG_SUM_NUMERIC)
		return (int64) DirectFunctionCall3(numeric_in, CStringGetDatum(sample_numerics[round][i]),
										   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	if (sample->kind == ROSE_AGG_SUM_WIDE && round > 0)
		return sample_wide[i];
	if (!sample->is_real)
		return sample_words[round][i];
	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

/* A call of core's in the place of an Agg node. */
static Datum
call_core(AggState *place, Oid function, NullableDatum a, NullableDatum b, int nargs)
{
	LOCAL_FCINFO(fcinfo, 2);
	FmgrInfo	info;

	fmgr_info(function, &info);
	InitFunctionCallInfoData(*fcinfo, &info, nargs, InvalidOid, (Node *) place, NULL);
	fcinfo->args[0] = a;
	fcinfo->args[1] = b;
	return FunctionCallInvoke(fcinfo);
}

static Datum
core_state(AggState *place, const Sample *sample, int round)
{
	NullableDatum state = {(Datum) 0, true};
	NullableDatum value = {(Datum) 0, false};

	if (sample->start != 0)
	{
		state.value = PointerGetDatum(array_of(sample->start, sample->nzeros));
		state.isnull = false;
	}
	for (int i = 0; i < SAMPLE_VALUES; i++)
	{
		value.value = Int64GetDatum(sample_value(sample, round, i));
		state.value = call_core(place, sample->transition, state, value, 2);
		state.isnull = false;
	}
	if (sample->serial != 0)
		return call_core(place, sample->serial, state, value, 1);
	return state.value;
}

static bool
sample_agrees(AggState *place, const Sample *sample, int round)
{
	RoseNodeAggMemory memory = {.parent = CurrentMemoryContext};
	RoseNodeAggState state = {.kind = sample->kind, .memory = &memory};
	int64		values[SAMPLE_VALUES];
	bool		isnull;

	for (int i = 0; i < SAMPLE_VALUES; i++)
		values[i] = sample_value(sample, round, i);
	rose_node_agg_state_reset(&state);
	rose_node_agg_state_take(&state, values, SAMPLE_VALUES);
	return datumIsEqual(rose_node_agg_state_emit(&state, rose_node_agg_room(sample->kind), &isnull),
						core_state(place, sample, round),
						false, -1);
}

static bool
all_agree(void)
{
	AggState   *place = makeNode(AggState);

	place->curaggcontext = makeNode(ExprContext);
	place->curaggcontext->ecxt_per_tuple_memory = CurrentMemoryContext;
	for (int i = 0; i < lengthof(samples); i++)
	{
#ifndef HAVE_INT128
		if (ROSE_AGG_IS_WIDE(samples[i].kind))
			continue;
#endif
		if (!sample_agrees(place, &samples[i], 0) || !sample_agrees(place, &samples[i], 1))
		{
			ereport(LOG,
					(errmsg("partial states of aggregates have another form than rose knows"),
					 errdetail("Function %u makes other ones. Rose Aggregate is not used.",
							   samples[i].transition)));
			return false;
		}
	}
	return true;
}

bool
rose_node_agg_states_agree(void)
{
	static bool asked = false;
	static bool agree = false;

	if (!asked)
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose aggregate samples",
													  ALLOCSET_SMALL_SIZES);
		MemoryContext old = MemoryContextSwitchTo(context);

		agree = all_agree();
		asked = true;
		MemoryContextSwitchTo(old);
		MemoryContextDelete(context);
	}
	return agree;
}
