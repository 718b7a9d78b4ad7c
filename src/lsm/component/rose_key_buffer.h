/*-------------------------------------------------------------------------
 *
 * rose_key_buffer.h
 *	  A key whose memory is reused by each assignment.
 *
 * For whoever goes through sorted rows and has to remember the key that he is at.
 * Backend-local.  The functions are in rose_key_columns.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_BUFFER_H
#define ROSE_KEY_BUFFER_H

#include "postgres.h"

#include "util/rose_schema.h"

/* A key whose memory is reused by each assignment. */
typedef struct RoseKeyBuffer
{
	bool		valid;
	uint64		prefix;			/* rose_key_prefix */
	Datum		key[INDEX_MAX_KEYS];
	char	   *data[INDEX_MAX_KEYS];
	Size		capacity[INDEX_MAX_KEYS];
	MemoryContext context;
} RoseKeyBuffer;

extern void rose_key_buffer_init(RoseKeyBuffer *buffer, MemoryContext context);
extern void rose_key_buffer_set(RoseKeyBuffer *buffer, const RoseSchema *schema,
								const Datum *key);

/* Only the first columns, and no prefix. */
extern void rose_key_buffer_set_prefix(RoseKeyBuffer *buffer, const RoseSchema *schema,
									   const Datum *key, int ncols);

/* Compare by prefix first.  Both prefixes must belong to the keys. */
static inline int
rose_key_compare_prefixed(const RoseSchema *schema, bool exact, uint64 aprefix,
						  const Datum *a, uint64 bprefix, const Datum *b)
{
	if (aprefix != bprefix)
		return aprefix < bprefix ? -1 : 1;
	if (exact)
		return 0;
	return rose_key_compare(schema, a, b, rose_schema_key_width(schema));
}

#endif							/* ROSE_KEY_BUFFER_H */
