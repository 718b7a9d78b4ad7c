/*-------------------------------------------------------------------------
 *
 * rose_schema.h
 *	  What every layer knows of a table: its columns, its key and how keys
 *	  are compared and hashed.
 *
 * A schema is backend-local and immutable once made.  It is made from the
 * relation's tuple descriptor and the key definition stored in the metapage,
 * so that workers need no open index.  A table without a primary key has no
 * key columns: its rows are ordered by a hidden 64-bit row id, the insertion
 * sequence.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SCHEMA_H
#define ROSE_SCHEMA_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "fmgr.h"
#include "utils/sortsupport.h"

#include "util/rose_layout.h"

/* The key as the metapage stores it; embedded on disk. */
typedef struct RoseKeyColumnDisk
{
	int16		attno;			/* 0: user column number, from 1 */
	uint16		flags;			/* 2: ROSE_KEY_*; zero in the key of a table */
	Oid			collation;		/* 4 */
	Oid			opfamily;		/* 8: btree operator family */
	Oid			opcintype;		/* 12: its input type */
} RoseKeyColumnDisk;

StaticAssertDecl(sizeof(RoseKeyColumnDisk) == 16, "on-disk size");

/*
 * Of RoseKeyColumnDisk, on disk.  A key column that may be NULL stands right behind its rank,
 * a column that tells whether it is, and so where it sorts.
 */
#define ROSE_KEY_DESCENDING		0x0001	/* greater values first */
#define ROSE_KEY_RANK			0x0002	/* rank of the next key column (rose_key_rank) */
#define ROSE_KEY_NULLABLE		0x0004	/* may be NULL, as the column before says */
#define ROSE_KEY_NULLS_FIRST	0x0008	/* of a rank: NULLs are before other values */
#define ROSE_KEY_FLAGS			0x000F

typedef struct RoseKeyColumn
{
	RoseKeyColumnDisk def;
	bool		int_order;		/* order is that of the Datum as signed integer */
	int16		attlen;
	bool		attbyval;
	bool		nullable;		/* def.flags has ROSE_KEY_NULLABLE */
	SortSupportData ssup;		/* full comparator, in the key's direction; NULLs as 0 */
	uint8		prefix_kind;	/* how it goes into prefixes; private to util */
	uint8		prefix_bits;	/* of a column that goes in whole; else 0 */
	bool		hashable;		/* hash agrees with the opfamily's equality */
	uint8		hash_kind;		/* how hashfn is called; private to util */
	FmgrInfo	hashfn;			/* extended (64 bit, seeded) hash, if hashable */
} RoseKeyColumn;

/* How a column lies in tuples. */
typedef struct RoseTupleColumn
{
	int32		offset;			/* from the first column on, of one of the first nfixed columns */
	int16		attlen;
	bool		attbyval;
	bool		dropped;
	uint8		align;			/* in bytes */
} RoseTupleColumn;

typedef struct RoseSchema
{
	MemoryContext context;
	TupleDesc	tupdesc;		/* own copy, with missing values */
	RoseLayout *layout;			/* the same as files say it */
	int			natts;
	RoseTupleColumn *tuple_columns;
	int			nfixed;			/* so many first ones are at the same place in all tuples without
								 * NULL, and not dropped */
	int			nfixed_byval;	/* so many of them, the first ones, are passed by value */
	int			nkeys;			/* 0: keyed by the hidden row id */
	uint32		hashed;			/* bit i: key column i is to go into hashes of keys */
	bool		ranked;			/* key columns may be NULL */
	bool		turned;			/* key columns descend */
	bool		hashable;		/* at least one key column (or the row id) hashes */
	int			hash_columns;	/* so many first key columns decide a key's hash */
	uint64		hash_functions; /* tells by which functions keys are hashed just now; never 0 */
	int			prefix_columns; /* so many first columns are equal if the first
								 * words of two prefixes are */
	int			prefix_numbers; /* so many first columns make up the first word, and all
								 * of them are numbers; 0: not so */
	bool		prefix_wide;	/* the second word of prefixes says something */
	RoseKeyColumn keys[INDEX_MAX_KEYS]; /* rose_schema_create makes room for nkeys only */
} RoseSchema;

/* Bytes of it. */
static inline Size
rose_schema_size(int nkeys)
{
	return offsetof(RoseSchema, keys) + nkeys * sizeof(RoseKeyColumn);
}

/* *to = *from, which has no more than these bytes. */
static inline void
rose_schema_assign(RoseSchema *to, const RoseSchema *from)
{
	memcpy(to, from, rose_schema_size(from->nkeys));
}

/*
 * The value of an int_order column.  Goes by the width of the type, because
 * not everything that makes a Datum takes care of the bits above it.
 */
static inline int64
rose_key_int(const RoseKeyColumn *column, Datum value)
{
	switch (column->attlen)
	{
		case sizeof(int16):
			return DatumGetInt16(value);
		case sizeof(int32):
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/*
 * The rank of a key column's value: int2, stored.  It sorts NULLs first or last, and is 0 of
 * what is not NULL.
 */
static inline int16
rose_key_rank(bool isnull, bool nulls_first)
{
	return !isnull ? 0 : nulls_first ? -1 : 1;
}

/* Is this column of a key NULL?  Then its Datum is 0. */
static inline bool
rose_key_is_null(const RoseSchema *schema, const Datum *key, int column)
{
	return schema->ranked && schema->keys[column].nullable &&
		DatumGetInt16(key[column - 1]) != 0;
}

static inline bool
rose_schema_is_key_column(const RoseSchema *schema, AttrNumber attno)
{
	for (int i = 0; i < schema->nkeys; i++)
		if (schema->keys[i].def.attno == attno)
			return true;
	return false;
}

/*
 * Number of Datums in a key as it is passed around: nkeys, or 1 (the row id
 * as int8) for a table without a primary key.
 */
static inline int
rose_schema_key_width(const RoseSchema *schema)
{
	return schema->nkeys > 0 ? schema->nkeys : 1;
}

/*
 * Make a schema in a new child of 'context'.  Looks up catalogs, so it needs
 * a transaction and no LWLock held.  Raises an error if the operator family
 * is gone.  hashed: which key columns go into hashes, as the file says.
 */
#define ROSE_HASH_WHAT_CAN_BE	PG_UINT32_MAX	/* hashed: the file does not say */

extern RoseSchema *rose_schema_create(TupleDesc tupdesc, int nkeys,
									  const RoseKeyColumnDisk *keys, uint32 hashed,
									  MemoryContext context);
extern void rose_schema_free(RoseSchema *schema);

/* A copy with a life of its own, by what the catalogs say now. */
extern RoseSchema *rose_schema_copy(const RoseSchema *schema, MemoryContext context);

/*
 * Have comparisons look up now what they would look up in catalogs when they are first
 * made: they are made under LWLocks, where nobody may wait for a lock.  Done by create;
 * again when labels of enums change.
 */
extern void rose_schema_warm(RoseSchema *schema);

/*
 * Compare two keys over their first ncols columns: <0, 0, >0.  NULLs are 0, and equal to
 * themselves; their ranks say where they are among other values.
 */
extern int	rose_key_compare(const RoseSchema *schema, const Datum *a,
							 const Datum *b, int ncols);

/* The operator of this strategy; raises an error if there is none (any more), as does the next. */
extern Oid	rose_key_operator(Oid opfamily, Oid type, int16 strategy);

/* The operator that sorts by a key column, in its direction. */
extern Oid	rose_key_sort_operator(const RoseKeyColumnDisk *column);

/* Compare two values of one key column (0-based). */
extern int	rose_key_compare_column(const RoseSchema *schema, int column,
									Datum a, Datum b);

/*
 * The first 16 bytes of a key in an encoding whose order, as two numbers, agrees with
 * that of keys: different prefixes decide, equal ones need not mean equal keys.
 * Integers, dates, OIDs and floats go in whole, one behind the other; uuid, bytea and
 * text where order is that of the bytes with as much as there is room for; any other type
 * ends the prefix, and so does a NULL of a type that does not go in whole.  Columns that
 * descend go in inverted, ranks as a byte.  Those of ncols < all columns say as much as
 * mask: compare the other side's words with mask applied.
 */
typedef struct RoseKeyPrefix
{
	uint64		word[2];
	uint64		mask[2];
} RoseKeyPrefix;

extern void rose_key_prefix_make(const RoseSchema *schema, const Datum *key, int ncols,
								 RoseKeyPrefix *prefix);

/* The first word of a whole key's prefix. */
extern uint64 rose_key_prefix(const RoseSchema *schema, const Datum *key);

/* True if equal first words mean equal keys. */
extern bool rose_key_prefix_exact(const RoseSchema *schema);

/*
 * 64-bit hash consistent with equality of whole keys; 0 if not hashable.
 * Bloom filters on disk are made from it: it must never change.
 */
extern uint64 rose_key_hash(const RoseSchema *schema, const Datum *key);

/*
 * The hashes of n keys given as columns, by key column and row, of a table with a
 * hashable key.  Cheapest for keys in order.
 */
extern void rose_key_hash_many(const RoseSchema *schema, const Datum *const *columns, int n,
							   uint64 *hashes);

/* Copy a key's Datums (by-reference ones into context). */
extern void rose_key_copy(const RoseSchema *schema, Datum *dst,
						  const Datum *src, MemoryContext context);

/*
 * The key of a row.  Row-id tables: key[0] = Int64GetDatum(rowid).  The
 * results point into the tuple.
 */
extern void rose_key_from_tuple(const RoseSchema *schema, MinimalTuple tuple,
								int64 rowid, Datum *key);

/* One key column (0-based) of a row of a table with a key. */
extern Datum rose_key_column_of_tuple(const RoseSchema *schema, MinimalTuple tuple,
									  int column);

/* Of a NULL the values need not say anything, if its rank is there. */
extern void rose_key_from_values(const RoseSchema *schema,
								 const Datum *values, int64 rowid, Datum *key);

#endif							/* ROSE_SCHEMA_H */
