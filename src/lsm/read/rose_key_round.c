/*-------------------------------------------------------------------------
 *
 * rose_key_round.c
 *	  Values that a key column is compared with, as values of the column's type.
 *
 * Backend-local; no locks.  What becomes of a value that is not exact is for
 * rose_key_quals.c to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "catalog/pg_type.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/timestamp.h"

#include "lsm/read/rose_key_round.h"

static bool
get_integer(Oid type, Datum value, int64 *result)
{
	switch (type)
	{
		case INT2OID:
			*result = DatumGetInt16(value);
			return true;
		case INT4OID:
			*result = DatumGetInt32(value);
			return true;
		case INT8OID:
			*result = DatumGetInt64(value);
			return true;
		default:
			return false;
	}
}

static RoseRounding
round_integer(Oid type, int64 value, Datum *result)
{
	int64		min = type == INT2OID ? PG_INT16_MIN : type == INT4OID ? PG_INT32_MIN : PG_INT64_MIN;
	int64		max = type == INT2OID ? PG_INT16_MAX : type == INT4OID ? PG_INT32_MAX : PG_INT64_MAX;

	if (value < min)
		return ROSE_ROUND_BELOW;
	if (value > max)
		return ROSE_ROUND_ABOVE;
	switch (type)
	{
		case INT2OID:
			*result = Int16GetDatum((int16) value);
			return ROSE_ROUND_EXACT;
		case INT4OID:
			*result = Int32GetDatum((int32) value);
			return ROSE_ROUND_EXACT;
		case INT8OID:
			*result = Int64GetDatum(value);
			return ROSE_ROUND_EXACT;
		default:
			return ROSE_ROUND_IMPOSSIBLE;
	}
}

static RoseRounding
round_to_float4(float8 value, Datum *result)
{
	float4		rounded;

	if (!isnan(value) && !isinf(value) && fabs(value) > FLT_MAX)
		rounded = value > 0 ? get_float4_infinity() : -get_float4_infinity();
	else
		rounded = (float4) value;
	*result = Float4GetDatum(rounded);
	return isnan(value) || (float8) rounded == value ? ROSE_ROUND_EXACT : ROSE_ROUND_NEAR;
}

/*
 * Operators between these types convert the earlier one in the same way before
 * they compare.  Values out of the column's range are left to them.
 */
static RoseRounding
round_to_timestamp(Oid type, Oid subtype, Datum value, Datum *result)
{
	int			overflow = 0;

	if (type == TIMESTAMPOID && subtype == DATEOID)
		*result = TimestampGetDatum(date2timestamp_opt_overflow(DatumGetDateADT(value),
																&overflow));
	else if (type == TIMESTAMPTZOID && subtype == DATEOID)
		*result = TimestampTzGetDatum(date2timestamptz_opt_overflow(DatumGetDateADT(value),
																	&overflow));
	else if (type == TIMESTAMPTZOID && subtype == TIMESTAMPOID)
		*result = TimestampTzGetDatum(timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value),
																		 &overflow));
	else
		return ROSE_ROUND_IMPOSSIBLE;
	return overflow == 0 ? ROSE_ROUND_EXACT : ROSE_ROUND_IMPOSSIBLE;
}

RoseRounding
rose_round_value(const RoseKeyColumn *column, Oid subtype, Datum value, Datum *result)
{
	Oid			type = column->def.opcintype;
	int64		integer;

	if (!OidIsValid(subtype) || subtype == type)
	{
		*result = value;
		return ROSE_ROUND_EXACT;
	}
	if (get_integer(subtype, value, &integer))
		return round_integer(type, integer, result);
	if (type == FLOAT8OID && subtype == FLOAT4OID)
	{
		*result = Float8GetDatum((float8) DatumGetFloat4(value));
		return ROSE_ROUND_EXACT;
	}
	if (type == FLOAT4OID && subtype == FLOAT8OID)
		return round_to_float4(DatumGetFloat8(value), result);
	return round_to_timestamp(type, subtype, value, result);
}
