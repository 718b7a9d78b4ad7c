/*-------------------------------------------------------------------------
 *
 * rose_altered.c
 *	  What the running transaction has done to a table's columns.
 *
 * Only who holds AccessExclusiveLock can have changed columns.  He finds in pg_attribute
 * the rows that were committed before, which he has replaced, beside his own: nobody
 * removes them as long as he runs.  From them the descriptor of before is made.
 *
 * Rows of the transaction itself may be of either, or of something between.  Each says
 * how many columns it has, and what is not aborted was written by columns that are not
 * taken back either: whoever rolls back an ALTER TABLE rolls back all that has seen it.
 * So the first columns of today's descriptor are right for all such rows of the file,
 * unless ALTER TABLE has changed how a column is stored and is only about to rewrite the
 * file.
 *
 * Holds no locks of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/tupdesc_details.h"
#include "access/xact.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "store/rose_metapage.h"
#include "lsm/tree/rose_altered.h"

/* What pg_attribute says of a table. */
typedef struct Columns
{
	const RoseLayout *now;		/* of the present descriptor */
	int			file_natts;		/* columns that the file was made with; 0 = not known */
	int			ncommitted;
	HeapTuple	committed[MaxTupleAttributeNumber]; /* by attnum - 1; copies */
	TransactionId added_by[MaxTupleAttributeNumber];	/* of those that are not committed: the first xmin */
	TransactionId made_by;		/* xmin of the table's first rows; invalid if frozen */
	bool		changed;		/* some row is this transaction's */
	bool		undoable;		/* and may be rolled back without all of it */
	bool		stored_otherwise;	/* a column that came to the file later was stored in another way before */
} Columns;

/* Was this row there, and valid, before the running transaction began to change it? */
static bool
was_committed(const HeapTupleHeader header)
{
	TransactionId xmax;

	if (!HeapTupleHeaderXminFrozen(header) &&
		!TransactionIdDidCommit(HeapTupleHeaderGetRawXmin(header)))
		return false;
	if ((header->t_infomask & HEAP_XMAX_INVALID) != 0 ||
		HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
		return true;
	xmax = HeapTupleHeaderGetUpdateXid(header);
	return !TransactionIdIsValid(xmax) || !TransactionIdDidCommit(xmax);
}

/* Is it a row that this transaction has made, and not taken back? */
static bool
is_own(const HeapTupleHeader header)
{
	return !HeapTupleHeaderXminFrozen(header) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(header));
}

/* Is this xmin of what can only be rolled back with all that there is of the table? */
static bool
is_of_whole(const Columns *columns, TransactionId xmin)
{
	return TransactionIdEquals(xmin, GetTopTransactionIdIfAny()) ||
		TransactionIdEquals(xmin, columns->made_by);
}

static void
note_own(Columns *columns, AttrNumber attnum, TransactionId xmin)
{
	TransactionId *added_by = &columns->added_by[attnum - 1];

	columns->changed = true;
	columns->undoable |= GetCurrentTransactionNestLevel() > 1 && !is_of_whole(columns, xmin);
	if (!TransactionIdIsValid(*added_by) || TransactionIdPrecedes(xmin, *added_by))
		*added_by = xmin;
}

static void
note_storage(Columns *columns, Form_pg_attribute att)
{
	const RoseLayoutColumnDisk *now;

	if (att->attnum <= columns->file_natts || att->attnum > columns->now->natts)
		return;
	now = &columns->now->columns[att->attnum - 1];
	columns->stored_otherwise |= now->attlen != att->attlen || now->attalign != (uint8) att->attalign;
}

static void
look_at(Columns *columns, HeapTuple tuple)
{
	Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);

	/* rows of system columns come first, and are never changed */
	if (att->attnum == SelfItemPointerAttributeNumber)
		columns->made_by = HeapTupleHeaderGetRawXmin(tuple->t_data);
	if (att->attnum < 1)
		return;
	if (is_own(tuple->t_data))
		note_own(columns, att->attnum, HeapTupleHeaderGetRawXmin(tuple->t_data));
	else if (was_committed(tuple->t_data))
	{
		if (columns->committed[att->attnum - 1] == NULL)
			columns->ncommitted++;
		columns->committed[att->attnum - 1] = heap_copytuple(tuple);
	}
	else
		return;
	note_storage(columns, att);
}

static Columns *
read_columns(Oid relid, const RoseLayout *now, int file_natts)
{
	Columns    *columns = palloc0(sizeof(Columns));
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	columns->now = now;
	columns->file_natts = file_natts;
	ScanKeyInit(&key, Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, AttributeRelidNumIndexId, true, SnapshotAny, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		look_at(columns, tuple);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return columns;
}

/* ---- the descriptor of before ---- */

/* What a column has in rows that were stored before it was added. */
static void
set_missing_value(AttrMissing *missing, HeapTuple tuple, TupleDesc catalog)
{
	Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);
	int			one = 1;
	bool		isnull;
	Datum		array = heap_getattr(tuple, Anum_pg_attribute_attmissingval, catalog, &isnull);
	Datum		value;

	if (isnull)
		return;
	value = array_get_element(array, 1, &one, -1, att->attlen, att->attbyval, att->attalign,
							  &isnull);
	missing->am_present = true;
	missing->am_value = datumCopy(value, att->attbyval, att->attlen);
}

static TupleDesc
make_descriptor(const Columns *columns)
{
	TupleDesc	tupdesc = CreateTemplateTupleDesc(columns->ncommitted);
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	TupleConstr *constr = palloc0(sizeof(TupleConstr));

	constr->missing = palloc0(Max(columns->ncommitted, 1) * sizeof(AttrMissing));
	for (int i = 0; i < columns->ncommitted; i++)
	{
		HeapTuple	tuple = columns->committed[i];

		if (tuple == NULL)
			elog(ERROR, "column %d has no row in pg_attribute", i + 1);
		memcpy(TupleDescAttr(tupdesc, i), GETSTRUCT(tuple), ATTRIBUTE_FIXED_PART_SIZE);
		rose_tupdesc_attribute_changed(tupdesc, i);
		if (TupleDescAttr(tupdesc, i)->atthasmissing)
			set_missing_value(&constr->missing[i], tuple, RelationGetDescr(catalog));
	}
	tupdesc->constr = constr;
	table_close(catalog, AccessShareLock);
	return tupdesc;
}

/* Are the file's first columns stored like that? */
static bool
is_layout_of_file(const RoseLayout *layout, const RoseMetaInfo *meta)
{
	return layout->natts >= meta->layout_natts &&
		(meta->layout_natts == 0 ||
		 rose_layout_physical(layout, meta->layout_natts) == meta->layout_physical);
}

/* Would rows be taken apart alike by both, those too that were stored before columns were added? */
static bool
is_same(const RoseSchema *a, const RoseSchema *b)
{
	if (a->natts != b->natts || a->layout->exact != b->layout->exact)
		return false;
	for (int i = 0; i < a->natts; i++)
		if (TupleDescAttr(a->tupdesc, i)->atthasmissing !=
			TupleDescAttr(b->tupdesc, i)->atthasmissing)
			return false;
	return true;
}

/*
 * The schema of before, by which others' rows are stored, or NULL if that is the present
 * one.  *new_file: columns of before cannot be those of the file, which the transaction
 * has made since; it has no such rows, and may have another key.
 */
static RoseSchema *
schema_of_before(RoseTree *tree, const Columns *columns, const RoseMetaInfo *meta,
				 MemoryContext context, bool *new_file)
{
	const RoseSchema *schema = tree->schema;
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];
	RoseSchema *before;
	TupleDesc	tupdesc;

	*new_file = false;
	if (!columns->changed || columns->ncommitted == 0)
		return NULL;
	tupdesc = make_descriptor(columns);
	*new_file = !is_layout_of_file(rose_layout_make(tupdesc), meta);
	if (*new_file)
		return NULL;
	for (int i = 0; i < schema->nkeys; i++)
		keys[i] = schema->keys[i].def;
	before = rose_schema_create(tupdesc, schema->nkeys, keys, schema->hashed, context);
	if (!is_same(before, schema))
		return before;
	rose_schema_free(before);
	return NULL;
}

/* Columns of an index's entries stay as they are as long as its file. */
static bool
may_be_altered(Relation rel)
{
	return rel->rd_rel->relkind != RELKIND_INDEX &&
		CheckRelationLockedByMe(rel, AccessExclusiveLock, true);
}

static bool
is_new(Relation rel)
{
	return rel->rd_createSubid != InvalidSubTransactionId;
}

bool
rose_altered_before_commit(RoseTree *tree)
{
	MemoryContext work;
	MemoryContext old;
	RoseMetaInfo meta;
	Columns    *columns;
	bool		altered;
	bool		new_file;

	if (is_new(tree->rel) || !may_be_altered(tree->rel))
		return false;
	work = AllocSetContextCreate(CurrentMemoryContext, "rose altered columns",
								 ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	rose_meta_read(tree->rel, &meta);
	columns = read_columns(RelationGetRelid(tree->rel), tree->schema->layout, meta.layout_natts);
	altered = schema_of_before(tree, columns, &meta, work, &new_file) != NULL ||
		(new_file && columns->undoable);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return altered;
}

bool
rose_altered_just_now(Relation rel)
{
	MemoryContext work;
	MemoryContext old;
	bool		changed;

	if (is_new(rel) || !may_be_altered(rel))
		return false;
	work = AllocSetContextCreate(CurrentMemoryContext, "rose altered columns",
								 ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	changed = read_columns(RelationGetRelid(rel), rose_layout_make(RelationGetDescr(rel)),
						   0)->changed;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
	return changed;
}

TupleDesc
rose_altered_descriptor_before(Relation rel)
{
	Columns    *columns;

	if (is_new(rel) || !may_be_altered(rel))
		return NULL;
	columns = read_columns(RelationGetRelid(rel), rose_layout_make(RelationGetDescr(rel)), 0);
	return columns->changed && columns->ncommitted > 0 ? make_descriptor(columns) : NULL;
}

/* ---- rows of the transaction ---- */

/* Has the column gone by a command that may be undone? */
static bool
is_dropped_here(const RoseSchema *schema, const Columns *columns, int attno)
{
	HeapTuple	before = columns->committed[attno - 1];

	return TupleDescAttr(schema->tupdesc, attno - 1)->attisdropped &&
		(before == NULL || !((Form_pg_attribute) GETSTRUCT(before))->attisdropped);
}

/* The present columns, and the bytes of those whose drop may be undone: for storing rows, and for nothing else. */
static TupleDesc
make_whole_descriptor(const RoseSchema *schema, const Columns *columns)
{
	TupleDesc	tupdesc = CreateTupleDescCopyConstr(schema->tupdesc);

	for (int attno = 1; attno <= tupdesc->natts; attno++)
		if (is_dropped_here(schema, columns, attno))
		{
			TupleDescAttr(tupdesc, attno - 1)->attisdropped = false;
			rose_tupdesc_attribute_changed(tupdesc, attno - 1);
		}
	return tupdesc;
}

/*
 * Columns that were added together go together: a row that was written between may have
 * what the later ones have by default.  What that was is not known of a column that was
 * dropped again.
 */
static int16 *
make_classes(const RoseSchema *schema, const Columns *columns)
{
	int16	   *upto = palloc((schema->natts + 1) * sizeof(int16));

	upto[schema->natts] = schema->natts;
	for (int n = schema->natts - 1; n >= 0; n--)
	{
		TransactionId next = columns->added_by[n];
		TransactionId last = n > 0 ? columns->added_by[n - 1] : InvalidTransactionId;
		bool		together = is_of_whole(columns, next) || columns->committed[n] != NULL ||
			(n > 0 && columns->committed[n - 1] == NULL && TransactionIdEquals(last, next));

		upto[n] = together && !is_dropped_here(schema, columns, n + 1) ? upto[n + 1] : n;
	}
	return upto;
}

int
rose_altered_class(const RoseSpillSchemas *schemas, MinimalTuple row)
{
	Assert(schemas->apart);
	return row == NULL ? schemas->least_natts :
		schemas->upto[Min(HeapTupleHeaderGetNatts(row), schemas->open->natts)];
}

RoseSchema *
rose_altered_class_schema(const RoseSpillSchemas *schemas, int natts, MemoryContext context)
{
	const RoseSchema *open = schemas->open;
	TupleDesc	tupdesc = CreateTemplateTupleDesc(natts);
	RoseKeyColumnDisk keys[INDEX_MAX_KEYS];

	Assert(schemas->apart && natts <= open->natts);
	for (int i = 0; i < natts; i++)
	{
		memcpy(TupleDescAttr(tupdesc, i), TupleDescAttr(schemas->whole, i),
			   ATTRIBUTE_FIXED_PART_SIZE);
		rose_tupdesc_attribute_changed(tupdesc, i);
	}
	tupdesc->constr = schemas->whole->constr;
	for (int i = 0; i < open->nkeys; i++)
		keys[i] = open->keys[i].def;
	return rose_schema_create(tupdesc, open->nkeys, keys, open->hashed, context);
}

static void
keep_apart(RoseTree *tree, const Columns *columns, const RoseMetaInfo *meta,
		   RoseSpillSchemas *schemas)
{
	schemas->apart = true;
	schemas->whole = make_whole_descriptor(tree->schema, columns);
	schemas->upto = make_classes(tree->schema, columns);
	schemas->least_natts = schemas->upto[Min(meta->layout_natts, tree->schema->natts)];
}

bool
rose_altered_schemas(RoseTree *tree, MemoryContext context, RoseSpillSchemas *schemas)
{
	MemoryContext old;
	RoseMetaInfo meta;
	Columns    *columns;
	bool		fits;

	memset(schemas, 0, sizeof(*schemas));
	schemas->committed = schemas->open = tree->schema;
	if (!may_be_altered(tree->rel))
		return true;

	old = MemoryContextSwitchTo(context);
	rose_meta_read(tree->rel, &meta);
	columns = read_columns(RelationGetRelid(tree->rel), tree->schema->layout, meta.layout_natts);
	fits = !columns->changed ||
		(is_layout_of_file(tree->schema->layout, &meta) && !columns->stored_otherwise);
	if (fits && columns->changed)
	{
		bool		new_file;
		RoseSchema *before = schema_of_before(tree, columns, &meta, context, &new_file);

		if (before != NULL)
			schemas->committed = before;
		if (columns->undoable)
			keep_apart(tree, columns, &meta, schemas);
	}
	MemoryContextSwitchTo(old);
	return fits;
}
