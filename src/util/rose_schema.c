/*-------------------------------------------------------------------------
 *
 * rose_schema.c
 *	  Making schemas: look up how a table's key is compared and hashed.
 *
 * All that a comparator or hash function may want to remember lives in the
 * schema's own memory context and goes with it.  Using keys is rose_key.c.
 *
 * Reads catalogs, so whoever calls it may not hold LWLocks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/hash.h"
#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat/rose_compat.h"
#include "util/rose_foreign.h"
#include "util/rose_key_internal.h"
#include "util/rose_schema.h"

/*
 * Operator families that pg_opfamily.h has no name for.  OIDs of built-in
 * objects do not change between releases.
 */
#define ROSE_DATETIME_BTREE_FAM_OID 434
#define ROSE_FLOAT_BTREE_FAM_OID	1970
#define ROSE_TIME_BTREE_FAM_OID		1996
#define ROSE_UUID_BTREE_FAM_OID		2968

/* Does the operator family order this column's Datums as signed integers? */
static bool
is_ordered_as_int(const RoseKeyColumn *column)
{
	if (!column->attbyval)
		return false;			/* 64-bit types on a 32-bit machine */

	switch (column->def.opfamily)
	{
		case INTEGER_BTREE_FAM_OID:
			return column->def.opcintype == INT2OID ||
				column->def.opcintype == INT4OID ||
				column->def.opcintype == INT8OID;
		case ROSE_DATETIME_BTREE_FAM_OID:
			return column->def.opcintype == DATEOID ||
				column->def.opcintype == TIMESTAMPOID ||
				column->def.opcintype == TIMESTAMPTZOID;
		case ROSE_TIME_BTREE_FAM_OID:
			return column->def.opcintype == TIMEOID;
	}
	return false;
}

/* How this column goes into the prefix of a key. */
static RosePrefixKind
key_column_prefix_kind(const RoseKeyColumn *column)
{
	Oid			opcintype = column->def.opcintype;

	if (column->def.flags & ROSE_KEY_RANK)
		return ROSE_PREFIX_RANK;
	if (is_ordered_as_int(column))
		return ROSE_PREFIX_INT;

	switch (column->def.opfamily)
	{
		case OID_BTREE_FAM_OID:
			return opcintype == OIDOID ? ROSE_PREFIX_OID : ROSE_PREFIX_NONE;
		case ROSE_FLOAT_BTREE_FAM_OID:
			if (opcintype == FLOAT4OID)
				return ROSE_PREFIX_FLOAT4;
			return opcintype == FLOAT8OID ? ROSE_PREFIX_FLOAT8 : ROSE_PREFIX_NONE;
		case TEXT_BTREE_FAM_OID:
			if (opcintype == TEXTOID && rose_collation_is_c(column->def.collation))
				return ROSE_PREFIX_BYTES;
			return ROSE_PREFIX_NONE;
		case BPCHAR_BTREE_FAM_OID:
			if (opcintype == BPCHAROID && rose_collation_is_c(column->def.collation))
				return ROSE_PREFIX_BLANK_PADDED;
			return ROSE_PREFIX_NONE;
		case TEXT_PATTERN_BTREE_FAM_OID:
			return opcintype == TEXTOID ? ROSE_PREFIX_BYTES : ROSE_PREFIX_NONE;
		case BYTEA_BTREE_FAM_OID:
			return opcintype == BYTEAOID ? ROSE_PREFIX_BYTES : ROSE_PREFIX_NONE;
		case ROSE_UUID_BTREE_FAM_OID:
			return opcintype == UUIDOID ? ROSE_PREFIX_UUID : ROSE_PREFIX_NONE;
	}
	return ROSE_PREFIX_NONE;
}

/* ---- comparators that stand before others ---- */

static int
compare_descending(Datum a, Datum b, SortSupport ssup)
{
	SortSupport inner = (SortSupport) ssup->ssup_extra;
	int			result = inner->comparator(a, b, inner);

	INVERT_COMPARE_RESULT(result);
	return result;
}

/* Values of equal ranks: if one is NULL, so is the other. */
static int
compare_nullable_byval(Datum a, Datum b, SortSupport ssup)
{
	SortSupport inner = (SortSupport) ssup->ssup_extra;

	return a == 0 && b == 0 ? 0 : inner->comparator(a, b, inner);
}

static int
compare_nullable(Datum a, Datum b, SortSupport ssup)
{
	SortSupport inner = (SortSupport) ssup->ssup_extra;

	if (likely(DatumGetPointer(a) != NULL && DatumGetPointer(b) != NULL))
		return inner->comparator(a, b, inner);
	if (DatumGetPointer(a) != DatumGetPointer(b))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a key has a null that its rank does not tell of")));
	return 0;
}

static void
put_before(SortSupport ssup, int (*comparator) (Datum, Datum, SortSupport),
		   MemoryContext context)
{
	SortSupport inner = MemoryContextAlloc(context, sizeof(SortSupportData));

	*inner = *ssup;
	ssup->ssup_extra = inner;
	ssup->comparator = comparator;
}

static void
key_column_set_comparator(RoseKeyColumn *column, MemoryContext context)
{
	Oid			ltop;

	ltop = get_opfamily_member(column->def.opfamily, column->def.opcintype,
							   column->def.opcintype, BTLessStrategyNumber);
	if (!OidIsValid(ltop))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("operator family %u of key column %d does not order type %s",
						column->def.opfamily, column->def.attno,
						format_type_be(column->def.opcintype)),
				 errhint("Recreate the operator family, or dump and reload the table.")));

	memset(&column->ssup, 0, sizeof(column->ssup));
	column->ssup.ssup_cxt = context;
	column->ssup.ssup_collation = column->def.collation;
	column->ssup.ssup_attno = column->def.attno;
	PrepareSortSupportFromOrderingOp(ltop, &column->ssup);
	if (rose_foreign_is(get_opfamily_proc(column->def.opfamily, column->def.opcintype,
										  column->def.opcintype, BTORDER_PROC)))
		rose_foreign_guard_sort(&column->ssup, context);
	if (column->nullable)
		put_before(&column->ssup, column->attbyval ? compare_nullable_byval : compare_nullable,
				   context);
	if (column->def.flags & ROSE_KEY_DESCENDING)
		put_before(&column->ssup, compare_descending, context);
}

/*
 * A container type's hash function works only if those of its parts exist;
 * the type cache knows.
 */
static bool
container_is_hashable(Oid typid)
{
	TypeCacheEntry *entry = lookup_type_cache(getBaseType(typid),
											  TYPECACHE_HASH_EXTENDED_PROC);

	return OidIsValid(entry->hash_extended_proc);
}

/*
 * The 64-bit hash function that goes with the btree family's equality: that
 * of any hash family in which the very same operator is the equality.
 */
static Oid
find_extended_hash(const RoseKeyColumnDisk *def)
{
	Oid			eqop;
	Oid			proc = InvalidOid;
	CatCList   *catlist;

	eqop = get_opfamily_member(def->opfamily, def->opcintype, def->opcintype,
							   BTEqualStrategyNumber);
	if (!OidIsValid(eqop))
		return InvalidOid;

	catlist = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(eqop));
	for (int i = 0; i < catlist->n_members && !OidIsValid(proc); i++)
	{
		Form_pg_amop amop = (Form_pg_amop) GETSTRUCT(&catlist->members[i]->tuple);

		if (amop->amopmethod == HASH_AM_OID &&
			amop->amopstrategy == HTEqualStrategyNumber)
			proc = get_opfamily_proc(amop->amopfamily, amop->amoplefttype,
									 amop->amoplefttype, HASHEXTENDED_PROC);
	}
	ReleaseSysCacheList(catlist);
	return proc;
}

static RoseHashKind
hash_kind(Oid proc)
{
	switch (proc)
	{
		case F_HASHINT2EXTENDED:
			return ROSE_HASH_INT2;
		case F_HASHINT4EXTENDED:
			return ROSE_HASH_INT4;
		case F_HASHINT8EXTENDED:
		case F_TIMESTAMP_HASH_EXTENDED:
			return ROSE_HASH_INT8;
		default:
			return ROSE_HASH_FUNCTION;
	}
}

static void
key_column_set_hash(RoseKeyColumn *column, Oid typid, MemoryContext context)
{
	Oid			proc = find_extended_hash(&column->def);

	column->hashable = OidIsValid(proc);
	if (column->hashable &&
		(IsPolymorphicType(column->def.opcintype) ||
		 column->def.opcintype == RECORDOID))
		column->hashable = container_is_hashable(typid);
	if (column->hashable)
	{
		fmgr_info_cxt(proc, &column->hashfn, context);
		column->hash_kind = hash_kind(proc);
		if (rose_foreign_is(proc))
			rose_foreign_guard_hash(&column->hashfn, context);
	}
}

/* In bytes. */
static int
alignment_of(char attalign)
{
	return att_align_nominal(1, attalign);
}

static void
describe_tuples(RoseSchema *schema)
{
	Size		offset = 0;

	schema->tuple_columns = palloc0(schema->natts * sizeof(RoseTupleColumn));
	for (int i = 0; i < schema->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(schema->tupdesc, i);
		RoseTupleColumn *column = &schema->tuple_columns[i];

		column->attlen = att->attlen;
		column->attbyval = att->attbyval;
		column->dropped = att->attisdropped;
		column->align = alignment_of(att->attalign);
		if (schema->nfixed < i || att->attisdropped || att->attlen <= 0)
			continue;
		offset = TYPEALIGN(column->align, offset);
		column->offset = offset;
		schema->nfixed = i + 1;
		if (att->attbyval && schema->nfixed_byval == i)
			schema->nfixed_byval = i + 1;
		offset += att->attlen;
	}
}

/* Columns of the table or index are where the key says, and ranks before what they rank. */
static void
check_key(TupleDesc tupdesc, int nkeys, const RoseKeyColumnDisk *keys)
{
	for (int i = 0; i < nkeys; i++)
	{
		bool		ranked = i > 0 && (keys[i - 1].flags & ROSE_KEY_RANK) != 0;

		if (keys[i].attno < 1 || keys[i].attno > tupdesc->natts)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("key of a rose table names column %d, but the table has %d columns",
							keys[i].attno, tupdesc->natts)));
		if ((keys[i].flags & ~ROSE_KEY_FLAGS) != 0 ||
			((keys[i].flags & ROSE_KEY_NULLABLE) != 0) != ranked ||
			((keys[i].flags & ROSE_KEY_RANK) != 0 &&
			 (i + 1 == nkeys || (keys[i].flags & (ROSE_KEY_DESCENDING | ROSE_KEY_NULLABLE)) != 0 ||
			  keys[i].opcintype != INT2OID)) ||
			((keys[i].flags & ROSE_KEY_NULLS_FIRST) != 0 && (keys[i].flags & ROSE_KEY_RANK) == 0))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("key column %d of a rose index has flags %u, which do not suit its neighbours",
							i + 1, keys[i].flags)));
	}
}

RoseSchema *
rose_schema_create(TupleDesc tupdesc, int nkeys, const RoseKeyColumnDisk *keys,
				   uint32 hashed, MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose schema",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(own);
	RoseSchema *schema = palloc0(rose_schema_size(nkeys));

	Assert(nkeys >= 0 && nkeys <= INDEX_MAX_KEYS);
	check_key(tupdesc, nkeys, keys);
	schema->context = own;
	schema->tupdesc = CreateTupleDescCopyConstr(tupdesc);
	schema->layout = rose_layout_make(tupdesc);
	schema->natts = tupdesc->natts;
	describe_tuples(schema);
	schema->nkeys = nkeys;
	schema->hashed = hashed;
	schema->hashable = (nkeys == 0);

	for (int i = 0; i < nkeys; i++)
	{
		RoseKeyColumn *column = &schema->keys[i];
		Form_pg_attribute att = TupleDescAttr(tupdesc, keys[i].attno - 1);

		column->def = keys[i];
		column->nullable = (keys[i].flags & ROSE_KEY_NULLABLE) != 0;
		column->attlen = att->attlen;
		column->attbyval = att->attbyval;
		column->int_order = is_ordered_as_int(column) &&
			(keys[i].flags & ROSE_KEY_DESCENDING) == 0;
		column->prefix_kind = key_column_prefix_kind(column);
		key_column_set_comparator(column, own);
		if ((hashed & (uint32) 1 << i) != 0)
			key_column_set_hash(column, att->atttypid, own);
		schema->ranked |= column->nullable;
		schema->turned |= (keys[i].flags & ROSE_KEY_DESCENDING) != 0;
		schema->hashable |= column->hashable;
		if (column->hashable)
			schema->hash_columns = i + 1;
		schema->hash_functions = schema->hash_functions * 31 +
			(column->hashable ? column->hashfn.fn_oid : 0);
	}
	if (schema->hash_functions == 0)
		schema->hash_functions = 1;

	rose_key_prefix_plan(schema);
	MemoryContextSwitchTo(oldcontext);
	rose_schema_warm(schema);
	return schema;
}

RoseSchema *
rose_schema_copy(const RoseSchema *schema, MemoryContext context)
{
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];

	for (int i = 0; i < schema->nkeys; i++)
		keys[i] = schema->keys[i].def;
	return rose_schema_create(schema->tupdesc, schema->nkeys, keys, schema->hashed, context);
}

/*
 * Labels that were added to an enum later compare by what the type cache has read from
 * pg_enum, and it reads on when it meets one that it does not know.
 */
static void
warm_enum(RoseKeyColumn *column, Oid typid)
{
	CatCList   *labels = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(typid));
	Oid			first = InvalidOid;

	for (int i = 0; i < labels->n_members; i++)
	{
		Oid			label = ((Form_pg_enum) GETSTRUCT(&labels->members[i]->tuple))->oid;

		if (OidIsValid(first))
			(void) column->ssup.comparator(ObjectIdGetDatum(label), ObjectIdGetDatum(first),
										   &column->ssup);
		else
			first = label;
	}
	ReleaseSysCacheList(labels);
}

void
rose_schema_warm(RoseSchema *schema)
{
	for (int i = 0; i < schema->nkeys; i++)
	{
		RoseKeyColumn *column = &schema->keys[i];

		if (column->def.opcintype == ANYENUMOID)
			warm_enum(column,
					  getBaseType(TupleDescAttr(schema->tupdesc, column->def.attno - 1)->atttypid));
	}
}

void
rose_schema_free(RoseSchema *schema)
{
	MemoryContextDelete(schema->context);
}

Oid
rose_key_operator(Oid opfamily, Oid type, int16 strategy)
{
	Oid			operator = get_opfamily_member(opfamily, type, type, strategy);

	if (!OidIsValid(operator))
		elog(ERROR, "operator family %u has no operator %d for type %u", opfamily, strategy, type);
	return operator;
}

Oid
rose_key_sort_operator(const RoseKeyColumnDisk *column)
{
	return rose_key_operator(column->opfamily, column->opcintype,
							 (column->flags & ROSE_KEY_DESCENDING) != 0 ?
							 BTGreaterStrategyNumber : BTLessStrategyNumber);
}
