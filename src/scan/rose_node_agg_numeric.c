/*-------------------------------------------------------------------------
 *
 * rose_node_agg_numeric.c
 *	  Sums of numerics, for sum and avg.
 *
 * A numeric's digits are of base 10000.  Most values have few: such ones are made an integer of parts of 10000 to some power, and added up as
 * integers of 128 bits.  The power grows with the values that come.  What is too large or too fine, and a sum that would become too
 * large, goes to a state of core's beside it, which has no limits but its result's; NaNs and infinities are counted there.  The sum is exact, so
 * it does not matter which value goes where.
 *
 * Values that are integers already (rose_node_decimal.h) are taken as such.
 *
 * What is written is what core's serial function writes (rose_node_agg_states_agree asks it).
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "nodes/execnodes.h"
#include "port/pg_bswap.h"
#include "utils/fmgrprotos.h"

#include "compat/rose_compat_varatt.h"
#include "vector/rose_vec_agg.h"
#include "scan/rose_node_agg_numeric.h"

struct RoseNodeNumericRest
{
	int64		nans;
	int64		infinities[2];	/* positive ones, negative ones */
	Datum		state;			/* core's, of values that are none of these; or 0 */
};

/* ---- core's state ---- */

/* A call of one of core's functions of it in the place of an Agg node whose states are in the context. */
static Datum
call_core(PGFunction function, MemoryContext context, NullableDatum a, NullableDatum b)
{
	static AggState place;
	static ExprContext econtext;

	LOCAL_FCINFO(fcinfo, 2);
	Datum		result;

	NodeSetTag(&place, T_AggState);
	place.curaggcontext = &econtext;
	econtext.ecxt_per_tuple_memory = context;
	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, (Node *) &place, NULL);
	fcinfo->args[0] = a;
	fcinfo->args[1] = b;
	result = function(fcinfo);
	econtext.ecxt_per_tuple_memory = NULL;
	return result;
}

static Datum
state_with(Datum state, Datum value, MemoryContext context)
{
	return call_core(numeric_avg_accum, context, (NullableDatum) {state, state == (Datum) 0},
					 (NullableDatum) {value, false});
}

static Datum
serialized(Datum state)
{
	return call_core(numeric_avg_serialize, CurrentMemoryContext, (NullableDatum) {state, false},
					 (NullableDatum) {(Datum) 0, true});
}

/* The same state once more, in another context. */
static Datum
copy_state(Datum state, MemoryContext context)
{
	Datum		bytes = serialized(state);
	MemoryContext old = MemoryContextSwitchTo(context);
	Datum		copy = call_core(numeric_avg_deserialize, context, (NullableDatum) {bytes, false},
								 (NullableDatum) {(Datum) 0, true});

	MemoryContextSwitchTo(old);
	pfree(DatumGetPointer(bytes));
	return copy;
}

/* ---- memory ---- */

static RoseNodeNumericRest *
rest_of(RoseNodeNumericSum *sum, RoseNodeAggMemory *memory)
{
	if (sum->rest == NULL)
		sum->rest = MemoryContextAllocZero(rose_node_agg_memory(memory), sizeof(RoseNodeNumericRest));
	return sum->rest;
}

void
rose_node_numeric_forget(RoseNodeAggMemory *memory, RoseNodeNumericSum *kept)
{
	MemoryContext old = rose_node_agg_memory_renew(memory);
	RoseNodeNumericRest *rest = kept != NULL ? kept->rest : NULL;

	if (old == NULL)
		return;
	if (rest != NULL)
	{
		kept->rest = NULL;
		*rest_of(kept, memory) = *rest;
		if (rest->state != (Datum) 0)
			kept->rest->state = copy_state(rest->state, memory->context);
	}
	MemoryContextDelete(old);
}

#ifdef HAVE_INT128

/* Digits of a value that is an integer of 64 bits, ... */
#define MAX_DIGITS_64		4

/* ... or is taken at all; those behind the point; and those of a sum. */
#define MAX_DIGITS			7
#define MAX_FRACTION		4
#define MAX_SUM_DIGITS		10

/* So many sums have their values added up apart first. */
#define FEW_SUMS		64

/* Beyond this (times 2^64, about 10^37) a sum goes to the rest: one value more, or one power, is still no harm. */
#define MAX_HIGH			INT64CONST(0x0780000000000000)

/* The same if it is to grow by a power, or by several. */
#define MAX_HIGH_TO_SCALE(powers)	(MAX_HIGH / power_of_base[powers])

static const int64 power_of_base[] = {1, 10000, INT64CONST(100000000), INT64CONST(1000000000000), INT64CONST(10000000000000000)};

/* ---- the sum of 128 bits ---- */

static inline int128
load(const RoseNodeNumericSum *sum)
{
	return (int128) (((uint128) (uint64) sum->high << 64) | sum->low);
}

static inline void
store(RoseNodeNumericSum *sum, int128 value)
{
	sum->low = (uint64) value;
	sum->high = (int64) (value >> 64);
}

/* Its digits, from the last one on. */
static int
digits_of(int128 value, int16 *digits)
{
	uint128		left = value < 0 ? -(uint128) value : (uint128) value;
	int			n = 0;
	uint64		low;

	for (; left > PG_UINT64_MAX; left /= ROSE_NODE_NUMERIC_BASE)
		digits[n++] = (int16) (left % ROSE_NODE_NUMERIC_BASE);
	for (low = (uint64) left; low > 0; low /= ROSE_NODE_NUMERIC_BASE)
		digits[n++] = (int16) (low % ROSE_NODE_NUMERIC_BASE);
	return n;
}

/* The same as a numeric. */
static Datum
numeric_of_sum(const RoseNodeNumericSum *sum)
{
	int16		digits[MAX_SUM_DIGITS];
	int			n = digits_of(load(sum), digits);
	StringInfoData bytes;
	Datum		result;

	initStringInfo(&bytes);
	pq_sendint16(&bytes, (uint16) n);
	pq_sendint16(&bytes, (uint16) (n - 1 - sum->fraction));
	pq_sendint16(&bytes, load(sum) < 0 ? ROSE_NODE_NUMERIC_NEGATIVE : 0);
	pq_sendint16(&bytes, (uint16) sum->scale);
	for (int i = n - 1; i >= 0; i--)
		pq_sendint16(&bytes, (uint16) digits[i]);
	result = DirectFunctionCall3(numeric_recv, PointerGetDatum(&bytes), ObjectIdGetDatum(InvalidOid),
								 Int32GetDatum(-1));
	pfree(bytes.data);
	return result;
}

/* ---- the rest ---- */

static void
add_to_rest(RoseNodeNumericSum *sum, Datum value, RoseNodeAggMemory *memory)
{
	RoseNodeNumericRest *rest = rest_of(sum, memory);
	struct varlena *aligned = PG_DETOAST_DATUM(value);	/* or core makes copies, and leaves them */

	rest->state = state_with(rest->state, PointerGetDatum(aligned), memory->context);
	if (PointerGetDatum(aligned) != value)
		pfree(aligned);
}

/* It begins at 0 again. */
static void
move_to_rest(RoseNodeNumericSum *sum, RoseNodeAggMemory *memory)
{
	Datum		value = numeric_of_sum(sum);

	add_to_rest(sum, value, memory);
	pfree(DatumGetPointer(value));
	sum->low = 0;
	sum->high = 0;
}

/* ---- values ---- */

static inline bool
is_beyond(const RoseNodeNumericSum *sum, int64 limit)
{
	return sum->high > limit || sum->high < -limit;
}

/* Have it count parts that are so fine. */
static void
refine(RoseNodeNumericSum *sum, int fraction, RoseNodeAggMemory *memory)
{
	int			powers = fraction - sum->fraction;

	if (is_beyond(sum, MAX_HIGH_TO_SCALE(powers)))
		move_to_rest(sum, memory);
	store(sum, load(sum) * power_of_base[powers]);
	sum->fraction = (int16) fraction;
}

static inline void
note_scale(RoseNodeNumericSum *sum, int scale)
{
	if (scale > sum->scale)
	{
		sum->scale = (int16) scale;
		sum->nscale = 0;
	}
	sum->nscale += scale == sum->scale;
}

static void
take_special(RoseNodeNumericSum *sum, uint16 header, RoseNodeAggMemory *memory)
{
	RoseNodeNumericRest *rest = rest_of(sum, memory);

	if (header == ROSE_NODE_NUMERIC_NAN)
		rest->nans++;
	else
		rest->infinities[header == ROSE_NODE_NUMERIC_INFINITY ? 0 : 1]++;
}

/* The number of its sum's parts. */
static inline int128
integer_of(const RoseNodeNumeric *number, int fraction)
{
	int			digits = number->weight + 1 + fraction;
	int			powers = digits - number->ndigits;
	int64		value = 0;
	int128		wide = 0;

	if (digits > MAX_DIGITS_64)
	{
		for (int i = 0; i < number->ndigits; i++)
			wide = wide * ROSE_NODE_NUMERIC_BASE + (int16) rose_node_decimal_word(number->digits + i * sizeof(int16));
		for (; powers > 0; powers--)
			wide *= ROSE_NODE_NUMERIC_BASE;
		return number->negative ? -wide : wide;
	}
	for (int i = 0; i < number->ndigits; i++)
		value = value * ROSE_NODE_NUMERIC_BASE + (int16) rose_node_decimal_word(number->digits + i * sizeof(int16));
	value *= power_of_base[powers];
	return number->negative ? -value : value;
}

static inline void
take_number(RoseNodeNumericSum *sum, const struct varlena *value, RoseNodeAggMemory *memory)
{
	RoseNodeNumeric number;
	int			fraction;

	rose_node_decimal_read(value, &number);
	if ((number.header & ROSE_NODE_NUMERIC_KIND) == ROSE_NODE_NUMERIC_SPECIAL)
	{
		take_special(sum, number.header, memory);
		return;
	}
	note_scale(sum, number.scale);
	if (number.ndigits == 0)
		return;
	fraction = number.ndigits - 1 - number.weight;
	if (fraction > sum->fraction && fraction <= MAX_FRACTION)
		refine(sum, fraction, memory);
	if (fraction > MAX_FRACTION || number.weight + 1 + sum->fraction > MAX_DIGITS)
	{
		add_to_rest(sum, PointerGetDatum(value), memory);
		return;
	}
	store(sum, load(sum) + integer_of(&number, sum->fraction));
	if (unlikely(is_beyond(sum, MAX_HIGH)))
		move_to_rest(sum, memory);
}

void
rose_node_numeric_take(RoseNodeNumericSum *sums, const uint32 *groups, const int64 *values, int n,
					   RoseNodeAggMemory *memory)
{
	for (int i = 0; i < n; i++)
	{
		RoseNodeNumericSum *sum = &sums[groups != NULL ? groups[i] : 0];
		struct varlena *value = PG_DETOAST_DATUM_PACKED((Datum) values[i]);

		take_number(sum, value, memory);
		sum->n++;
		if (PointerGetDatum(value) != (Datum) values[i])
			pfree(value);
	}
}

/* ---- values that are integers ---- */

/* What makes them parts of a power of the base. */
typedef struct Measure
{
	int			fraction;		/* the power */
	int			scale;			/* digits that are shown */
	int64		factor;
} Measure;

static void
measure_of(int scale, Measure *measure)
{
	measure->fraction = (scale + ROSE_NODE_NUMERIC_BASE_DIGITS - 1) / ROSE_NODE_NUMERIC_BASE_DIGITS;
	measure->factor = rose_node_decimal_power[measure->fraction * ROSE_NODE_NUMERIC_BASE_DIGITS - scale];
	measure->scale = scale;
}

Datum
rose_node_numeric_of_integer(int64 integer, int scale, int shown)
{
	RoseNodeNumericSum sum = {0};
	Measure		measure;

	measure_of(scale, &measure);
	store(&sum, (int128) integer * measure.factor);
	sum.fraction = (int16) measure.fraction;
	sum.scale = (int16) shown;
	return numeric_of_sum(&sum);
}

/* So many values, whose sum is this. */
static void
add_values(RoseNodeNumericSum *sum, int64 values, int64 n, const Measure *measure, RoseNodeAggMemory *memory)
{
	if (sum->fraction < measure->fraction)
		refine(sum, measure->fraction, memory);
	if (measure->scale > sum->scale)
	{
		sum->scale = (int16) measure->scale;
		sum->nscale = 0;
	}
	if (measure->scale == sum->scale)
		sum->nscale += n;
	store(sum, load(sum) + (int128) values * measure->factor * power_of_base[sum->fraction - measure->fraction]);
	if (is_beyond(sum, MAX_HIGH))
		move_to_rest(sum, memory);
	sum->n += n;
}

/* Those of one sum. */
static void
take_together(RoseNodeNumericSum *sum, const int64 *values, const bool *nulls, int n, const Measure *measure,
			  RoseNodeAggMemory *memory)
{
	int			left = n;

	for (int i = 0; i < n && nulls != NULL; i++)
		left -= nulls[i] ? 1 : 0;
	if (left > 0)
		add_values(sum, rose_vec_sum(values, n), left, measure, memory);
}

/* Those of a few ones. */
static void
take_few(RoseNodeNumericSum *sums, uint32 nsums, const uint32 *groups, const int64 *values, const bool *nulls, int n,
		 const Measure *measure, RoseNodeAggMemory *memory)
{
	int64		parts[FEW_SUMS] = {0};
	uint32		counts[FEW_SUMS] = {0};

	for (int i = 0; i < n; i++)
	{
		parts[groups[i]] += values[i];
		counts[groups[i]]++;
	}
	for (int i = 0; i < n && nulls != NULL; i++)
		counts[groups[i]] -= nulls[i] ? 1 : 0;
	for (uint32 s = 0; s < nsums; s++)
	{
		if (counts[s] > 0)
			add_values(&sums[s], parts[s], counts[s], measure, memory);
	}
}

/* One by one. */
static void
take_each(RoseNodeNumericSum *sums, const uint32 *groups, const int64 *values, const bool *nulls, int n,
		  const Measure *measure, RoseNodeAggMemory *memory)
{
	for (int i = 0; i < n; i++)
	{
		RoseNodeNumericSum *sum = &sums[groups != NULL ? groups[i] : 0];

		if (nulls != NULL && nulls[i])
			continue;
		if (unlikely(sum->fraction != measure->fraction || sum->scale != measure->scale || is_beyond(sum, MAX_HIGH)))
		{
			add_values(sum, values[i], 1, measure, memory);
			continue;
		}
		store(sum, load(sum) + (int128) values[i] * measure->factor);
		sum->nscale++;
		sum->n++;
	}
}

/* Those that show different numbers of digits. */
static void
take_mixed(RoseNodeNumericSum *sums, const uint32 *groups, const uint8 *scales, const int64 *values, const bool *nulls, int n,
		   Measure measure, RoseNodeAggMemory *memory)
{
	for (int i = 0; i < n; i++)
	{
		measure.scale = scales[i];
		if (nulls == NULL || !nulls[i])
			add_values(&sums[groups != NULL ? groups[i] : 0], values[i], 1, &measure, memory);
	}
}

void
rose_node_numeric_take_decimals(RoseNodeNumericSum *sums, uint32 nsums, const uint32 *groups, const RoseNodeDecimals *decimals,
								int from, const int64 *values, const bool *nulls, int n, RoseNodeAggMemory *memory)
{
	/* they can be added up as they are */
	bool		small = n > 0 && decimals->bound <= (uint64) PG_INT64_MAX / n;
	Measure		measure;

	measure_of(decimals->scale, &measure);
	if (decimals->scales != NULL)
		take_mixed(sums, groups, decimals->scales + from, values, nulls, n, measure, memory);
	else if (small && groups == NULL)
		take_together(sums, values, nulls, n, &measure, memory);
	else if (small && nsums <= FEW_SUMS)
		take_few(sums, nsums, groups, values, nulls, n, &measure, memory);
	else
		take_each(sums, groups, values, nulls, n, &measure, memory);
}

/* ---- core's form ---- */

/* What its serial functions write of a sum's digits. */
static void
send_digits(StringInfo bytes, int n, int weight, bool negative, int scale)
{
	pq_sendint32(bytes, n);
	pq_sendint32(bytes, n > 0 ? weight : 0);
	pq_sendint32(bytes, negative ? ROSE_NODE_NUMERIC_NEGATIVE : 0);
	pq_sendint32(bytes, scale);
}

static void
send_sum(StringInfo bytes, const RoseNodeNumericSum *sum)
{
	int16		digits[MAX_SUM_DIGITS];
	int			n = digits_of(load(sum), digits);
	int			last = 0;		/* zeros at the end are left out */

	while (last < n && digits[last] == 0)
		last++;
	send_digits(bytes, n - last, n - 1 - sum->fraction, load(sum) < 0, sum->scale);
	for (int i = n - 1; i >= last; i--)
		pq_sendint16(bytes, (uint16) digits[i]);
}

/* The same with what is in the rest: as core writes it, behind the number of values. */
static void
send_total(StringInfo bytes, const RoseNodeNumericSum *sum)
{
	Datum		total = state_with(copy_state(sum->rest->state, CurrentMemoryContext), numeric_of_sum(sum),
								   CurrentMemoryContext);
	const char *digits = VARDATA(DatumGetPointer(serialized(total))) + sizeof(int64);
	uint32		n;

	memcpy(&n, digits, sizeof(n));
	appendBinaryStringInfo(bytes, digits, 3 * sizeof(int32));
	pq_sendint32(bytes, sum->scale);
	appendBinaryStringInfo(bytes, digits + 4 * sizeof(int32), pg_ntoh32(n) * sizeof(int16));
}

Datum
rose_node_numeric_emit(const RoseNodeNumericSum *sum, bool *isnull)
{
	static const RoseNodeNumericRest nothing = {0};
	const RoseNodeNumericRest *rest = sum->rest != NULL ? sum->rest : &nothing;
	StringInfoData bytes;

	*isnull = sum->n == 0;
	if (*isnull)
		return (Datum) 0;
	pq_begintypsend(&bytes);
	pq_sendint64(&bytes, sum->n - rest->nans - rest->infinities[0] - rest->infinities[1]);
	if (rest->state != (Datum) 0)
		send_total(&bytes, sum);
	else
		send_sum(&bytes, sum);
	pq_sendint32(&bytes, sum->scale);
	pq_sendint64(&bytes, sum->nscale);
	pq_sendint64(&bytes, rest->nans);
	pq_sendint64(&bytes, rest->infinities[0]);
	pq_sendint64(&bytes, rest->infinities[1]);
	return PointerGetDatum(pq_endtypsend(&bytes));
}

Datum
rose_node_numeric_single(const RoseNodeDecimals *decimals, int row, int64 value, bool none, bool *isnull)
{
	RoseNodeAggMemory memory = {.parent = CurrentMemoryContext};
	RoseNodeNumericSum sum = {0};
	Datum		result;

	rose_node_numeric_take_decimals(&sum, 1, NULL, decimals, row, &value, NULL, none ? 0 : 1, &memory);
	result = rose_node_numeric_emit(&sum, isnull);
	rose_node_numeric_forget(&memory, NULL);
	return result;
}

#endif							/* HAVE_INT128 */
