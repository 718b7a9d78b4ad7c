/*-------------------------------------------------------------------------
 *
 * rose_key_internal.h
 *	  Between rose_schema.c, which makes schemas, and rose_key.c, which uses
 *	  them.  Not for other folders.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_KEY_INTERNAL_H
#define ROSE_KEY_INTERNAL_H

/* How a key column goes into the key's prefix.  Not on disk. */
typedef enum RosePrefixKind
{
	ROSE_PREFIX_NONE = 0,		/* not at all: the prefix ends before it */
	ROSE_PREFIX_INT,			/* int_order columns */
	ROSE_PREFIX_OID,
	ROSE_PREFIX_FLOAT4,
	ROSE_PREFIX_FLOAT8,
	ROSE_PREFIX_BYTES,			/* bytea, and text where order is that of the bytes */
	ROSE_PREFIX_BLANK_PADDED,	/* the same for bpchar */
	ROSE_PREFIX_UUID,
	ROSE_PREFIX_RANK			/* of a column that may be NULL */
} RosePrefixKind;

/* Hash functions of core that are computed here, without a call through fmgr.  Not on disk. */
typedef enum RoseHashKind
{
	ROSE_HASH_FUNCTION = 0,		/* any other: is called */
	ROSE_HASH_INT2,
	ROSE_HASH_INT4,
	ROSE_HASH_INT8
} RoseHashKind;

/* Fill in a new schema's prefix_columns, prefix_numbers and prefix_wide from the kinds of its columns. */
struct RoseSchema;
extern void rose_key_prefix_plan(struct RoseSchema *schema);

#endif							/* ROSE_KEY_INTERNAL_H */
