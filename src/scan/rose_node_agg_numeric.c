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
 * The layout of a numeric's bytes is core's, and on its disks, so it does not change.  What is written is what core's serial function
 * writes (rose_node_agg_states_agree asks it).
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

/* A numeric's header, of two bytes, or of four. */
#define HEADER_KIND			0xC000
#define HEADER_NEGATIVE		0x4000
#define HEADER_SHORT		0x8000
#define HEADER_SPECIAL		0xC000
#define HEADER_SCALE		0x3FFF
#define SPECIAL_NAN			0xC000
#define SPECIAL_INFINITY	0xD000
#define SHORT_NEGATIVE		0x2000
#define SHORT_SCALE			0x1F80
#define SHORT_SCALE_SHIFT	7
#define SHORT_WEIGHT_SIGN	0x0040
#define SHORT_WEIGHT		0x003F

#define DIGIT_BASE			10000

/* Digits of a value that is an integer of 64 bits, ... */
#define MAX_DIGITS_64		4

/* ... or is taken at all; those behind the point; and those of a sum. */
#define MAX_DIGITS			7
#define MAX_FRACTION		4
#define MAX_SUM_DIGITS		10

/* Beyond this (times 2^64, about 10^37) a sum goes to the rest: one value more, or one power, is still no harm. */
#define MAX_HIGH			INT64CONST(0x0780000000000000)

/* The same if it is to grow by a power, or by several. */
#define MAX_HIGH_TO_SCALE(powers)	(MAX_HIGH / power_of_base[powers])

static const int64 power_of_base[] = {1, 10000, INT64CONST(100000000), INT64CONST(1000000000000), INT64CONST(10000000000000000)};

/* A value, and where its digits are. */
typedef struct Number
{
	uint16		header;
	bool		negative;
	int			scale;
	int			weight;			/* of the first digit */
	int			ndigits;
	const char *digits;
} Number;

static inline uint16
read_16(const char *bytes)
{
	uint16		value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline void
read_number(const struct varlena *value, Number *number)
{
	const char *bytes = VARDATA_ANY(value);
	Size		size = VARSIZE_ANY_EXHDR(value);
	uint16		header = read_16(bytes);

	number->header = header;
	if (header & HEADER_SHORT)
	{
		number->negative = (header & SHORT_NEGATIVE) != 0;
		number->scale = (header & SHORT_SCALE) >> SHORT_SCALE_SHIFT;
		number->weight = (header & SHORT_WEIGHT) - (header & SHORT_WEIGHT_SIGN);
		number->digits = bytes + sizeof(uint16);
		number->ndigits = (int) ((size - sizeof(uint16)) / sizeof(int16));
	}
	else
	{
		number->negative = (header & HEADER_KIND) == HEADER_NEGATIVE;
		number->scale = header & HEADER_SCALE;
		number->weight = (int16) read_16(bytes + sizeof(uint16));
		number->digits = bytes + 2 * sizeof(uint16);
		number->ndigits = (int) ((size - 2 * sizeof(uint16)) / sizeof(int16));
	}
}

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

	for (; left > PG_UINT64_MAX; left /= DIGIT_BASE)
		digits[n++] = (int16) (left % DIGIT_BASE);
	for (low = (uint64) left; low > 0; low /= DIGIT_BASE)
		digits[n++] = (int16) (low % DIGIT_BASE);
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
	pq_sendint16(&bytes, load(sum) < 0 ? HEADER_NEGATIVE : 0);
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

	if (header == SPECIAL_NAN)
		rest->nans++;
	else
		rest->infinities[header == SPECIAL_INFINITY ? 0 : 1]++;
}

/* The number of its sum's parts. */
static inline int128
integer_of(const Number *number, int fraction)
{
	int			digits = number->weight + 1 + fraction;
	int			powers = digits - number->ndigits;
	int64		value = 0;
	int128		wide = 0;

	if (digits > MAX_DIGITS_64)
	{
		for (int i = 0; i < number->ndigits; i++)
			wide = wide * DIGIT_BASE + (int16) read_16(number->digits + i * sizeof(int16));
		for (; powers > 0; powers--)
			wide *= DIGIT_BASE;
		return number->negative ? -wide : wide;
	}
	for (int i = 0; i < number->ndigits; i++)
		value = value * DIGIT_BASE + (int16) read_16(number->digits + i * sizeof(int16));
	value *= power_of_base[powers];
	return number->negative ? -value : value;
}

static inline void
take_number(RoseNodeNumericSum *sum, const struct varlena *value, RoseNodeAggMemory *memory)
{
	Number		number;
	int			fraction;

	read_number(value, &number);
	if ((number.header & HEADER_KIND) == HEADER_SPECIAL)
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

/* ---- core's form ---- */

/* What its serial functions write of a sum's digits. */
static void
send_digits(StringInfo bytes, int n, int weight, bool negative, int scale)
{
	pq_sendint32(bytes, n);
	pq_sendint32(bytes, n > 0 ? weight : 0);
	pq_sendint32(bytes, negative ? HEADER_NEGATIVE : 0);
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

#endif							/* HAVE_INT128 */
