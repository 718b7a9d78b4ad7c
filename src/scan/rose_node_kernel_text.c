/*-------------------------------------------------------------------------
 *
 * rose_node_kernel_text.c
 *	  Lengths of texts of all selected rows at once.
 *
 * In each encoding that a database may have, bytes without the highest bit are characters; so where all bytes are such, nobody needs to
 * look for characters.  Others are core's to count.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "mb/pg_wchar.h"

#include "compat/rose_compat_varatt.h"
#include "scan/rose_node_kernel.h"

#define HIGHEST_BITS	UINT64CONST(0x8080808080808080)

static inline bool
is_plain(const char *bytes, int length)
{
	uint64		any = 0;
	int			at = 0;

	for (; at + (int) sizeof(uint64) <= length; at += sizeof(uint64))
	{
		uint64		word;

		memcpy(&word, bytes + at, sizeof(word));
		any |= word;
	}
	for (; at < length; at++)
		any |= (unsigned char) bytes[at];
	return (any & HIGHEST_BITS) == 0;
}

static inline int
characters_of(const struct varlena *value, bool single)
{
	const char *bytes = VARDATA_ANY(value);
	int			length = VARSIZE_ANY_EXHDR(value);

	if (single || is_plain(bytes, length))
		return length;
	return pg_mbstrlen_with_len(bytes, length);
}

void
rose_node_kernel_text_lengths(const int64 *values, const bool *nulls, int n, int64 *result)
{
	bool		single = pg_database_encoding_max_length() == 1;

	for (int i = 0; i < n; i++)
	{
		struct varlena *value = (struct varlena *) DatumGetPointer((Datum) values[i]);
		struct varlena *plain;

		if (nulls != NULL && nulls[i])
		{
			result[i] = 0;
			continue;
		}
		plain = PG_DETOAST_DATUM_PACKED(PointerGetDatum(value));
		result[i] = characters_of(plain, single);
		if (plain != value)
			pfree(plain);
	}
}
