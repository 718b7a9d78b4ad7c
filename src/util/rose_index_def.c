/*-------------------------------------------------------------------------
 *
 * rose_index_def.c
 *	  What the file of a secondary index says of its entries and their key: made
 *	  from the catalogs, checked, and made a schema of.  See rose_index_def.h.
 *
 * Backend-local; no locks.  Types are looked up, so no LWLock may be held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "access/genam.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "port/pg_crc32c.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "util/rose_index_def.h"
#include "util/rose_index_expr.h"

/* ---- columns ---- */

typedef struct DefMaker
{
	Relation	index;
	RoseIndexExpr expr;
	const RoseSchema *base;
	RoseIndexDef *def;
	int			ncolumns;		/* wanted; those beyond the places are only counted */
	int			nkeys;
} DefMaker;

/* Returns the column's number, from 1. */
static int
add_column(DefMaker *maker, int16 source, uint8 role, uint8 flags)
{
	RoseEntryColumnDisk *column;

	if (maker->ncolumns++ >= ROSE_ENTRY_COLUMNS)
		return ROSE_ENTRY_COLUMNS;
	column = &maker->def->meta.columns[maker->ncolumns - 1];
	column->source = source;
	column->role = role;
	column->flags = flags;
	column->typmod = -1;
	if (role == ROSE_ENTRY_RANK)
		column->type = INT2OID;
	else if (source == ROSE_ENTRY_ROWID)
		column->type = INT8OID;
	else if (source < 0)
	{
		Node	   *expression = list_nth(maker->expr.columns, rose_index_def_expression(source));

		column->type = getBaseType(exprType(expression));
		column->typmod = exprTypmod(expression);
	}
	else
	{
		Form_pg_attribute att = TupleDescAttr(maker->base->tupdesc, source - 1);

		/* the domain may be dropped when the column is none of it any more, and the file stays */
		column->type = getBaseType(att->atttypid);
		column->typmod = att->atttypmod;
	}
	return maker->ncolumns;
}

/* A column of the tree's key; like: how it is ordered. */
static void
add_key(DefMaker *maker, int attno, const RoseKeyColumnDisk *like, uint16 flags)
{
	RoseKeyColumnDisk *key;

	if (maker->nkeys++ >= INDEX_MAX_KEYS)
		return;
	key = &maker->def->keys[maker->nkeys - 1];
	*key = *like;
	key->attno = (int16) attno;
	key->flags = flags;
}

static bool
is_base_key(const RoseSchema *base, AttrNumber attno)
{
	return rose_schema_is_key_column(base, attno);
}

/* Is a column of the table's key in the index's key, in the same order? */
static bool
is_key_of_index(const DefMaker *maker, const RoseKeyColumnDisk *base_key)
{
	Relation	index = maker->index;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		if (index->rd_index->indkey.values[i] == base_key->attno &&
			index->rd_opfamily[i] == base_key->opfamily &&
			index->rd_opcintype[i] == base_key->opcintype &&
			index->rd_indcollation[i] == base_key->collation)
			return true;
	return false;
}

/* What the index's column i, from 0, is made of. */
static int16
source_of(Relation index, int i)
{
	int16		nexpressions = 0;

	if (index->rd_index->indkey.values[i] != 0)
		return index->rd_index->indkey.values[i];
	for (int j = 0; j <= i; j++)
		nexpressions += index->rd_index->indkey.values[j] == 0;
	return -nexpressions;
}

/* KEY columns; their places in the tree's key are taken when those of the RANKs are known. */
static void
add_key_columns(DefMaker *maker)
{
	Relation	index = maker->index;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		(void) add_column(maker, source_of(index, i), ROSE_ENTRY_KEY, 0);
	maker->def->meta.nkeys = (uint8) maker->ncolumns;
}

static void
add_includes(DefMaker *maker)
{
	Relation	index = maker->index;
	int			before = maker->ncolumns;

	for (int i = IndexRelationGetNumberOfKeyAttributes(index);
		 i < IndexRelationGetNumberOfAttributes(index); i++)
	{
		maker->def->meta.ncolumns = (uint8) Min(maker->ncolumns, ROSE_ENTRY_COLUMNS);
		if (rose_index_def_carrier(&maker->def->meta, index->rd_index->indkey.values[i]) < 0)
			(void) add_column(maker, index->rd_index->indkey.values[i], ROSE_ENTRY_INCLUDE, 0);
	}
	maker->def->meta.ninclude = (uint8) (maker->ncolumns - before);
}

/* RANK columns, and with them the KEYs' part of the tree's key. */
static void
add_ordered_keys(DefMaker *maker)
{
	static const RoseKeyColumnDisk rank = {.opfamily = INTEGER_BTREE_FAM_OID, .opcintype = INT2OID};
	Relation	index = maker->index;
	bool		turned = (index->rd_indoption[0] & INDOPTION_DESC) != 0;

	if (turned)
		maker->def->meta.flags |= ROSE_INDEX_TURNED;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		int16		option = index->rd_indoption[i];
		bool		descending = ((option & INDOPTION_DESC) != 0) != turned;
		bool		nulls_first = ((option & INDOPTION_NULLS_FIRST) != 0) != turned;
		int16		source = source_of(index, i);
		bool		nullable = !is_base_key(maker->base, source);
		RoseKeyColumnDisk key = {
			.collation = index->rd_indcollation[i],
			.opfamily = index->rd_opfamily[i],
			.opcintype = index->rd_opcintype[i]
		};

		if (nullable)
			add_key(maker, add_column(maker, source, ROSE_ENTRY_RANK,
									  nulls_first ? ROSE_ENTRY_NULLS_FIRST : 0),
					&rank, ROSE_KEY_RANK | (nulls_first ? ROSE_KEY_NULLS_FIRST : 0));
		add_key(maker, i + 1, &key,
				(descending ? ROSE_KEY_DESCENDING : 0) | (nullable ? ROSE_KEY_NULLABLE : 0));
	}
	maker->def->meta.nhash = (uint8) Min(maker->nkeys, INDEX_MAX_KEYS);
}

/* BASEKEY columns, from this one on, in the tree's key. */
static void
add_base_keys(DefMaker *maker, int column)
{
	static const RoseKeyColumnDisk rowid = {.opfamily = INTEGER_BTREE_FAM_OID, .opcintype = INT8OID};

	if (maker->base->nkeys == 0)
		add_key(maker, column + 1, &rowid, 0);
	for (int i = 0; i < maker->base->nkeys; i++)
		if (!is_key_of_index(maker, &maker->base->keys[i].def))
			add_key(maker, ++column, &maker->base->keys[i].def, 0);
}

static void
check_limits(const DefMaker *maker)
{
	if (maker->nkeys > INDEX_MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("index \"%s\" needs %d key columns with those of the primary key, at most %d are possible",
						RelationGetRelationName(maker->index), maker->nkeys, INDEX_MAX_KEYS),
				 errdetail("A column that is not in the primary key counts twice, because it may be null.")));
	if (maker->ncolumns > ROSE_ENTRY_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("index \"%s\" needs %d columns with those of the primary key, at most %d are possible",
						RelationGetRelationName(maker->index), maker->ncolumns,
						ROSE_ENTRY_COLUMNS),
				 errdetail("A key column that is not in the primary key counts twice, because it may be null.")));
}

void
rose_index_def_make(Relation index, const RoseSchema *base, RoseIndexDef *def)
{
	DefMaker	maker = {.index = index, .base = base, .def = def};
	int			first_base;

	memset(def, 0, sizeof(*def));
	rose_index_expr_read(index, &maker.expr);
	def->meta.magic = ROSE_INDEX_MAGIC;
	def->meta.version = ROSE_INDEX_VERSION;
	def->meta.base_key_crc = rose_index_def_base_crc(base);
	if (!rose_index_expr_is_lasting(&maker.expr))
		def->meta.flags |= ROSE_INDEX_VALIDATED;

	add_key_columns(&maker);
	first_base = maker.ncolumns;
	if (base->nkeys == 0)
		(void) add_column(&maker, ROSE_ENTRY_ROWID, ROSE_ENTRY_BASEKEY, 0);
	for (int i = 0; i < base->nkeys; i++)
		if (!is_key_of_index(&maker, &base->keys[i].def))
			(void) add_column(&maker, base->keys[i].def.attno, ROSE_ENTRY_BASEKEY, 0);
	add_includes(&maker);
	add_ordered_keys(&maker);
	add_base_keys(&maker, first_base);
	check_limits(&maker);
	def->meta.ncolumns = (uint8) maker.ncolumns;
	def->nkeys = maker.nkeys;
	Assert(rose_index_def_is_sane(def));
}

uint32
rose_index_def_base_crc(const RoseSchema *base)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	for (int i = 0; i < base->nkeys; i++)
	{
		const RoseKeyColumnDisk *key = &base->keys[i].def;

		COMP_CRC32C(crc, &key->attno, sizeof(key->attno));
		COMP_CRC32C(crc, &key->opcintype, sizeof(key->opcintype));
	}
	FIN_CRC32C(crc);
	return crc;
}

/* ---- reading ---- */

static bool
columns_are_sane(const RoseIndexMetaDisk *meta)
{
	int			nkeys = 0;
	int			ninclude = 0;

	for (int i = 0; i < meta->ncolumns; i++)
	{
		const RoseEntryColumnDisk *column = &meta->columns[i];
		uint8		last = i > 0 ? meta->columns[i - 1].role : ROSE_ENTRY_KEY;
		bool		rowid = column->source == ROSE_ENTRY_ROWID;

		nkeys += column->role == ROSE_ENTRY_KEY;
		ninclude += column->role == ROSE_ENTRY_INCLUDE;
		if (column->role < last || column->role > ROSE_ENTRY_RANK || !OidIsValid(column->type) ||
			(column->flags & ~(column->role == ROSE_ENTRY_RANK ? ROSE_ENTRY_FLAGS : 0)) != 0 ||
			(rowid && column->role != ROSE_ENTRY_BASEKEY) ||
			(column->source < 0 && column->role != ROSE_ENTRY_KEY && column->role != ROSE_ENTRY_RANK) ||
			column->source < -INDEX_MAX_KEYS)
			return false;
	}
	return nkeys == meta->nkeys && nkeys > 0 && ninclude == meta->ninclude;
}

/* Keys name columns of a role that suits their flags, each once. */
static bool
keys_are_sane(const RoseIndexDef *def)
{
	uint64		seen = 0;

	for (int i = 0; i < def->nkeys; i++)
	{
		const RoseKeyColumnDisk *key = &def->keys[i];
		bool		ranked = i > 0 && (def->keys[i - 1].flags & ROSE_KEY_RANK) != 0;
		bool		rank = (key->flags & ROSE_KEY_RANK) != 0;
		bool		hashed = i < def->meta.nhash;
		const RoseEntryColumnDisk *column;

		if (key->attno < 1 || key->attno > def->meta.ncolumns ||
			(seen & UINT64CONST(1) << (key->attno - 1)) != 0)
			return false;
		seen |= UINT64CONST(1) << (key->attno - 1);
		column = &def->meta.columns[key->attno - 1];
		if (column->role != (rank ? ROSE_ENTRY_RANK : hashed ? ROSE_ENTRY_KEY : ROSE_ENTRY_BASEKEY) ||
			((key->flags & ROSE_KEY_NULLABLE) != 0) != ranked ||
			((key->flags & ROSE_KEY_NULLS_FIRST) != 0) != ((column->flags & ROSE_ENTRY_NULLS_FIRST) != 0) ||
			(rank && ((key->flags & (ROSE_KEY_DESCENDING | ROSE_KEY_NULLABLE)) != 0 ||
					  i + 1 == def->nkeys)))
			return false;
	}
	return true;
}

bool
rose_index_def_is_sane(const RoseIndexDef *def)
{
	const RoseIndexMetaDisk *meta = &def->meta;

	return meta->magic == ROSE_INDEX_MAGIC && meta->version == ROSE_INDEX_VERSION &&
		(meta->flags & ~ROSE_INDEX_FLAGS) == 0 && meta->ncolumns <= ROSE_ENTRY_COLUMNS &&
		def->nkeys >= 1 && def->nkeys <= INDEX_MAX_KEYS &&
		meta->nhash >= 1 && meta->nhash <= def->nkeys &&
		columns_are_sane(meta) && keys_are_sane(def);
}

/* For messages: people know the columns by their places in CREATE INDEX. */
static const char *
column_name(const RoseIndexMetaDisk *meta, int i)
{
	static const char *const roles[] = {
		[ROSE_ENTRY_KEY] = "key",
		[ROSE_ENTRY_BASEKEY] = "row",
		[ROSE_ENTRY_INCLUDE] = "included",
		[ROSE_ENTRY_RANK] = "rank"
	};

	return psprintf("%s %d", roles[meta->columns[i].role], i + 1);
}

TupleDesc
rose_index_def_tupdesc(const RoseIndexDef *def)
{
	const RoseIndexMetaDisk *meta = &def->meta;
	TupleDesc	tupdesc = CreateTemplateTupleDesc(meta->ncolumns);

	for (int i = 0; i < meta->ncolumns; i++)
		TupleDescInitEntry(tupdesc, i + 1, column_name(meta, i), meta->columns[i].type,
						   meta->columns[i].typmod, 0);
	for (int i = 0; i < def->nkeys; i++)
		TupleDescInitEntryCollation(tupdesc, def->keys[i].attno, def->keys[i].collation);
	return tupdesc;
}

void
rose_index_def_facts(const RoseIndexDef *def, RoseKeyFacts *facts)
{
	TupleDesc	tupdesc = rose_index_def_tupdesc(def);

	rose_key_facts_make(tupdesc, def->nkeys, def->keys, facts);
	if (def->meta.nhash < 32)
		facts->hashed &= ((uint32) 1 << def->meta.nhash) - 1;
	FreeTupleDesc(tupdesc);
}

RoseSchema *
rose_schema_of_index(const RoseIndexDef *def, uint32 hashed, MemoryContext context)
{
	TupleDesc	tupdesc = rose_index_def_tupdesc(def);
	RoseSchema *schema = rose_schema_create(tupdesc, def->nkeys, def->keys, hashed, context);

	FreeTupleDesc(tupdesc);
	return schema;
}

int
rose_index_def_carrier(const RoseIndexMetaDisk *meta, int16 source)
{
	for (int i = 0; i < meta->ncolumns; i++)
		if (meta->columns[i].source == source && meta->columns[i].role != ROSE_ENTRY_RANK)
			return i;
	return -1;
}

int
rose_index_def_rank(const RoseIndexDef *def, int column)
{
	for (int i = 1; i < def->nkeys; i++)
		if (def->keys[i].attno == column + 1 && (def->keys[i].flags & ROSE_KEY_NULLABLE) != 0)
			return def->keys[i - 1].attno - 1;
	return -1;
}
