/*-------------------------------------------------------------------------
 *
 * rose_repl_value.c
 *	  Values from the upstream to Datums.
 *
 * In general by the type's input or receive function.  The types that most columns have
 * are taken from their binary format right here; what is not of the plainest form (a
 * length that is not the type's, a time near the ends of what there is) is left to the
 * receive function, and so are its errors.
 *
 * No locks.  Which column a value is for, and whose rights its checks have, was decided
 * before (rose_columns.c, rose_rights.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

#include "compat/rose_compat_varatt.h"
#include "repl/rose_repl_value.h"

/* Times so near to the ends may be out of range in some time zone. */
#define TIMESTAMP_MARGIN	(2 * USECS_PER_DAY)

RoseReplDirect
rose_repl_direct(Oid type, int32 typmod)
{
	switch (type)
	{
		case BOOLOID:
			return ROSE_DIRECT_BOOL;
		case INT2OID:
			return ROSE_DIRECT_INT2;
		case INT4OID:
			return ROSE_DIRECT_INT4;
		case INT8OID:
			return ROSE_DIRECT_INT8;
		case FLOAT4OID:
			return ROSE_DIRECT_FLOAT4;
		case FLOAT8OID:
			return ROSE_DIRECT_FLOAT8;
		case OIDOID:
			return ROSE_DIRECT_OID;
		case DATEOID:
			return ROSE_DIRECT_DATE;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return typmod < 0 ? ROSE_DIRECT_TIMESTAMP : ROSE_DIRECT_NO;
		case UUIDOID:
			return ROSE_DIRECT_UUID;
		case TEXTOID:
		case VARCHAROID:
			return ROSE_DIRECT_TEXT;
		case BYTEAOID:
			return ROSE_DIRECT_BYTEA;
		default:
			return ROSE_DIRECT_NO;
	}
}

/*
 * A short value becomes a varlena where it is: its header is one byte, for which
 * there was a length.
 */
static Datum
make_varlena(RoseWireColumn *value)
{
	struct varlena *result;

	if (value->len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		char	   *start = value->data - VARHDRSZ_SHORT;

		SET_VARSIZE_SHORT(start, value->len + VARHDRSZ_SHORT);
		return PointerGetDatum(start);
	}
	result = palloc(value->len + VARHDRSZ);
	SET_VARSIZE(result, value->len + VARHDRSZ);
	memcpy(VARDATA(result), value->data, value->len);
	return PointerGetDatum(result);
}

static inline uint64
read_uint(const RoseWireColumn *value)
{
	uint16		two;
	uint32		four;
	uint64		eight;

	switch (value->len)
	{
		case 2:
			memcpy(&two, value->data, sizeof(two));
			return pg_ntoh16(two);
		case 4:
			memcpy(&four, value->data, sizeof(four));
			return pg_ntoh32(four);
		default:
			Assert(value->len == 8);
			memcpy(&eight, value->data, sizeof(eight));
			return pg_ntoh64(eight);
	}
}

static inline bool
read_float4(const RoseWireColumn *value, Datum *result)
{
	uint32		bits = (uint32) read_uint(value);
	float4		number;

	memcpy(&number, &bits, sizeof(number));
	*result = Float4GetDatum(number);
	return true;
}

static inline bool
read_float8(const RoseWireColumn *value, Datum *result)
{
	uint64		bits = read_uint(value);
	float8		number;

	memcpy(&number, &bits, sizeof(number));
	*result = Float8GetDatum(number);
	return true;
}

static inline bool
read_timestamp(const RoseWireColumn *value, Datum *result)
{
	int64		timestamp = (int64) read_uint(value);

	*result = Int64GetDatum(timestamp);
	return timestamp >= MIN_TIMESTAMP + TIMESTAMP_MARGIN &&
		timestamp < END_TIMESTAMP - TIMESTAMP_MARGIN;
}

static inline bool
read_date(const RoseWireColumn *value, Datum *result)
{
	DateADT		date = (DateADT) read_uint(value);

	*result = DateADTGetDatum(date);
	return IS_VALID_DATE(date);
}

/* As the type's input function does, for text that may be of a limited length. */
static inline bool
read_text(const RoseReplColumn *column, RoseWireColumn *value, Datum *result)
{
	if (column->typmod >= VARHDRSZ && value->len > column->typmod - VARHDRSZ)
		return false;
	(void) pg_verify_mbstr(GetDatabaseEncoding(), value->data, value->len, false);
	*result = make_varlena(value);
	return true;
}

static inline bool
read_direct(const RoseReplColumn *column, RoseWireColumn *value, Datum *result)
{
	switch (column->direct)
	{
		case ROSE_DIRECT_NO:
			return false;
		case ROSE_DIRECT_BOOL:
			if (value->len != 1)
				return false;
			*result = BoolGetDatum(value->data[0] != 0);
			return true;
		case ROSE_DIRECT_INT2:
			if (value->len != sizeof(int16))
				return false;
			*result = Int16GetDatum((int16) read_uint(value));
			return true;
		case ROSE_DIRECT_INT4:
			if (value->len != sizeof(int32))
				return false;
			*result = Int32GetDatum((int32) read_uint(value));
			return true;
		case ROSE_DIRECT_INT8:
			if (value->len != sizeof(int64))
				return false;
			*result = Int64GetDatum((int64) read_uint(value));
			return true;
		case ROSE_DIRECT_FLOAT4:
			return value->len == sizeof(float4) && read_float4(value, result);
		case ROSE_DIRECT_FLOAT8:
			return value->len == sizeof(float8) && read_float8(value, result);
		case ROSE_DIRECT_OID:
			if (value->len != sizeof(Oid))
				return false;
			*result = ObjectIdGetDatum((Oid) read_uint(value));
			return true;
		case ROSE_DIRECT_DATE:
			return value->len == sizeof(DateADT) && read_date(value, result);
		case ROSE_DIRECT_TIMESTAMP:
			return value->len == sizeof(Timestamp) && read_timestamp(value, result);
		case ROSE_DIRECT_UUID:
			*result = PointerGetDatum(value->data);
			return value->len == UUID_LEN;
		case ROSE_DIRECT_TEXT:
			return read_text(column, value, result);
		case ROSE_DIRECT_BYTEA:
			*result = make_varlena(value);
			return true;
	}
	return false;
}

static Datum
receive_value(RoseReplColumn *column, RoseWireColumn *value)
{
	StringInfoData buffer;
	Datum		result;

	if (!OidIsValid(column->receive.fn_oid))
	{
		Oid			receive;

		getTypeBinaryInputInfo(column->type, &receive, &column->receive_ioparam);
		fmgr_info_cxt(receive, &column->receive, column->context);
	}

	/* a copy: receive functions may rely on a zero at the end */
	initStringInfo(&buffer);
	appendBinaryStringInfo(&buffer, value->data, value->len);
	result = ReceiveFunctionCall(&column->receive, &buffer, column->receive_ioparam,
								 column->typmod);
	if (buffer.cursor != buffer.len)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("incorrect binary data format in column %d of the upstream",
						column->remote + 1)));
	return result;
}

Datum
rose_repl_read_value(RoseReplColumn *column, RoseWireColumn *value)
{
	Datum		result = (Datum) 0; /* keep compiler quiet */

	if (value->kind == ROSE_WIRE_TEXT)
	{
		/*
		 * Input functions believe it, and so would all who read it; nor does one of them look behind a zero byte.  One byte of a
		 * "char" is no text in any encoding.
		 */
		if (column->type != CHAROID)
			(void) pg_verify_mbstr(GetDatabaseEncoding(), value->data, value->len, false);
		return InputFunctionCall(&column->input, value->data, column->input_ioparam,
								 column->typmod);
	}
	if (read_direct(column, value, &result))
		return result;
	return receive_value(column, value);
}
