/*-------------------------------------------------------------------------
 *
 * rose_tail_pack.c
 *	  Records of the tail log, many of them in fewer bytes.
 *
 * What a COPY writes down is mostly alike from row to row: the headers, the upper bytes
 * of numbers, text.  Records that are appended together are therefore packed, some
 * kilobytes at a time, into one record of the log (ROSE_TAIL_OP_PACKED in
 * rose_store_format.h): bytes compressed with LZ4.
 *
 * Records of one length, as rows of fixed columns have, are transposed before: the first
 * byte of each of them, then the second byte of each, and so on.  Bytes that are the same
 * in all records lie together then, and LZ4, which finds repetitions of four bytes and
 * more, has them for nothing.
 *
 * Pure functions; no locks.  What the bytes mean, and which records go together, is
 * rose_tail.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <lz4.h>

#include "store/rose_store_internal.h"

/* What is packed is at most 7/8 of what it was: else it is not worth the time to unpack it. */
#define LEAST_SAVING	8

/* LZ4's: what repeats does so all over a column; the rest is not worth looking at byte by byte. */
#define ACCELERATION	4

/* to[byte][record] = from[record][byte] */
static void
transpose(const char *from, Size nbytes, Size stride, char *to)
{
	Size		nrecords = nbytes / stride;

	for (Size byte = 0; byte < stride; byte++)
	{
		const char *source = from + byte;

		for (Size i = 0; i < nrecords; i++, source += stride)
			*to++ = *source;
	}
}

static void
transpose_back(const char *from, Size nbytes, Size stride, char *to)
{
	Size		nrecords = nbytes / stride;

	for (Size byte = 0; byte < stride; byte++)
	{
		char	   *target = to + byte;

		for (Size i = 0; i < nrecords; i++, target += stride)
			*target = *from++;
	}
}

Size
rose_tail_pack(const char *records, Size nbytes, Size stride, char *scratch, char *out)
{
	RoseTailPackedDisk head = {.raw_bytes = nbytes, .stride = stride};
	Size		most = nbytes - nbytes / LEAST_SAVING;
	int			size;

	Assert(nbytes <= ROSE_TAIL_PACK_MAX && (stride == 0 || nbytes % stride == 0));
	if (most <= sizeof(head))
		return 0;
	if (stride > 0)
	{
		transpose(records, nbytes, stride, scratch);
		records = scratch;
	}
	size = LZ4_compress_fast(records, out + sizeof(head), (int) nbytes, (int) (most - sizeof(head)),
							 ACCELERATION);
	if (size <= 0)
		return 0;
	memcpy(out, &head, sizeof(head));
	return sizeof(head) + size;
}

bool
rose_tail_unpack(const RoseTailPackedDisk *head, const char *packed, Size size, char *scratch, char *out)
{
	char	   *to = head->stride > 0 ? scratch : out;

	if (head->raw_bytes == 0 || head->raw_bytes > ROSE_TAIL_PACK_MAX || size > ROSE_TAIL_PACK_MAX ||
		(head->stride > 0 && head->raw_bytes % head->stride != 0) ||
		LZ4_decompress_safe(packed, to, (int) size, (int) head->raw_bytes) != (int) head->raw_bytes)
		return false;
	if (head->stride > 0)
		transpose_back(scratch, head->raw_bytes, head->stride, out);
	return true;
}
