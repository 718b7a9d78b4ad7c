/*-------------------------------------------------------------------------
 *
 * rose_added.c
 *	  A column that the upstream has added is added here, too.
 *
 * A subscription with on_schema_change 'add' does it when the first change comes that has the column.  The batch is cut before that
 * transaction, so that all that came before is durable, and given up; then, between batches, in a transaction of its own, the
 * column is added, as the table's owner; and the stream begins again at the same transaction.
 *
 * Rows of before have in it what they have on the upstream: NULL, or the one value that its catalog has for rows of before.  It is the
 * column's default here, and stays that, for rows that are described without the column may come yet: of the transaction that
 * has added it, and after a crash.  What the upstream's catalog says is of now.  Where it does not prove what rows of before have,
 * the column is not added, which is an error of the table, and says why and what to do (README.md, "Columns that the upstream
 * adds").  Constraints are not taken along: the upstream looks after them.
 *
 * Locking: AccessExclusiveLock of the table and all that inherits from it.  The queue for that lock would keep readers waiting, so
 * it is tried without, and only now and then is the worker in it, for a moment.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "replication/walreceiver.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "util/rose_stop_point.h"
#include "repl/rose_owner.h"
#include "repl/rose_repl_internal.h"
#include "repl/rose_rights.h"

/* Every so many tries the worker is in the lock's queue, for so long. */
#define QUEUE_EVERY		10
#define QUEUE_MS		100

typedef struct AddedColumn
{
	char	   *name;
	Oid			type;			/* here */
	int32		typmod;
	List	   *collation;		/* its name, or NIL */
	char	   *value;			/* of rows of before, or NULL */
} AddedColumn;

/* What the stream waits for. */
static struct
{
	RoseReplRel *entry;			/* NULL: nothing */
	MemoryContext context;		/* owns the columns */
	List	   *columns;		/* AddedColumn */
	int			tries;
} wanted;

/* ---------------------------------------------------------------------
 * What was seen
 */

/* Are all of the table's columns sent?  When another one is, it must be seen that something has changed since it was there. */
static bool
is_whole(const RoseUpstreamColumns *sent, const RoseUpstreamColumns *now, const Bitmapset *generated)
{
	Bitmapset  *unsent = NULL;

	for (int i = 0; i < now->n; i++)
		unsent = bms_add_member(unsent, now->attnums[i]);
	unsent = bms_del_members(unsent, generated);
	for (int i = 0; i < sent->n; i++)
		unsent = bms_del_member(unsent, sent->attnums[i]);
	return bms_is_empty(unsent);
}

/*
 * The highest number that a column had at this place of the stream, for sure.  One of the catalog that is not there any more may be described yet,
 * if the stream lags.
 */
static int
highest_described(int before, const RoseUpstreamColumns *sent, const Bitmapset *generated)
{
	int			result = before;

	for (int i = 0; i < sent->n; i++)
		result = Max(result, sent->attnums[i]);
	for (int n = -1; (n = bms_next_member(generated, n)) >= 0;)
		result = Max(result, n);
	return result;
}

void
rose_added_take_seen(RoseReplRel *entry, const RoseUpstreamColumns *sent, const RoseUpstreamColumns *now,
					 const Bitmapset *generated, const RoseUpstreamSeen *seen)
{
	RoseUpstreamSeen before = {0};
	MemoryContext old;

	if (seen->files == NULL || !is_whole(sent, now, generated) ||
		(rose_seen_get(rose_apply.sub->subid, entry->relid, &before) &&
		 strcmp(before.files, seen->files) == 0 && strcmp(before.published, seen->published) == 0))
		return;
	old = MemoryContextSwitchTo(entry->context);
	entry->seen = palloc(sizeof(RoseUpstreamSeen));
	entry->seen->natts = highest_described(before.natts, sent, generated);
	entry->seen->files = pstrdup(seen->files);
	entry->seen->published = pstrdup(seen->published);
	MemoryContextSwitchTo(old);
}

void
rose_added_note_seen(RoseReplRel *entry)
{
	if (entry->seen != NULL)
		rose_seen_set(rose_apply.sub->subid, entry->relid, entry->seen);
	entry->seen = NULL;
}

static bool
is_listed(const char *published)
{
	return published[0] == 'l' || strstr(published, ",l") != NULL;
}

/* ---------------------------------------------------------------------
 * What is to be added
 */

#define HINT_ADD		"Add the column here with ALTER TABLE, with the value that rows of before have there."
#define HINT_RESYNC		"Add the column here with ALTER TABLE, and have the table copied again with rose.alter_subscription(..., resync => ...); or add it with the value that all rows of before have."

static void
refuse(RoseReplRel *entry, const char *name, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("table \"%s\" has no column \"%s\", which the upstream publishes",
					RelationGetRelationName(entry->rel), name),
			 errdetail_internal("It could not be added, as on_schema_change says: %s.", why),
			 errhint("%s", hint)));
}

/* Why nobody can tell what rows of before have in the column; NULL: it is told. */
static const char *
why_unknown(const RoseUpstreamSeen *seen, const RoseUpstreamAdded *added, int16 attnum)
{
	if (seen->files == NULL)
		return "it is not known what the upstream's table was like before";
	if (added->generated)
		return "it is generated on the upstream";
	if (is_listed(added->published))
		return "the table is published with a list of columns, so the column may have been there before, with values that were not sent";
	if (strcmp(added->published, seen->published) != 0 || attnum <= seen->natts)
		return "the publications of the table have changed, so the column may have been there before, with values that were not sent";
	if (added->between > 0)
		return "columns that were added before it have been dropped or renamed since, so it is not known which of them this change has";
	if (added->values > 1 || (added->missing > 0) == (added->unwritten > 0))
		return "the upstream has written all rows of the table anew, as for a default that is not the same for all of them, so it is not known what they have in it";
	return NULL;
}

/* InvalidOid: there is none. */
static Oid
local_type(const RoseUpstreamAdded *added)
{
	Oid			nspid;
	Oid			type;

	if (added->type < FirstGenbkiObjectId)
		return SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(added->type)) ? added->type : InvalidOid;
	nspid = get_namespace_oid(added->type_schema, true);
	type = OidIsValid(nspid) ?
		GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(added->type_name), ObjectIdGetDatum(nspid)) : InvalidOid;
	return added->is_array && OidIsValid(type) ? get_array_type(type) : type;
}

/* Nobody else looks whether it is one of the type's. */
static bool
is_typmod_of(Oid type, int32 typmod)
{
	HeapTuple	tuple;
	Form_pg_type form;
	char	   *parts;
	Datum		elems[2];
	int			n = 0;
	bool		result = false;

	if (typmod == -1)
		return true;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_type) GETSTRUCT(tuple);
	/* as "(10,2)"; of an interval, only that it has one is known */
	if (OidIsValid(form->typmodin) && OidIsValid(form->typmodout))
	{
		parts = DatumGetCString(OidFunctionCall1(form->typmodout, Int32GetDatum(typmod)));
		result = getBaseType(type) == INTERVALOID || get_element_type(type) == INTERVALOID;
		for (char *part = strtok(parts, "(,)"); part != NULL && n < lengthof(elems); part = strtok(NULL, "(,)"))
			elems[n++] = CStringGetDatum(part);
		if (!result && n > 0)
			result = DatumGetInt32(OidFunctionCall1(form->typmodin,
													PointerGetDatum(construct_array(elems, n, CSTRINGOID, -2, false, TYPALIGN_CHAR)))) == typmod;
	}
	ReleaseSysCache(tuple);
	return result;
}

static Oid
require_type(RoseReplRel *entry, const char *name, const RoseUpstreamAdded *added)
{
	Oid			type = local_type(added);

	if (!OidIsValid(type))
		refuse(entry, name,
			   psprintf("type \"%s.%s\" does not exist here", added->type_schema, added->type_name),
			   "Create the type here, or add the column with ALTER TABLE.");
	/* rows would have to be written anew, or would get the default */
	if (get_typdefault(type) != NULL || (get_typtype(type) == TYPTYPE_DOMAIN && DomainHasConstraints(type)))
		refuse(entry, name,
			   psprintf("type %s has constraints or a default here", format_type_be(type)), HINT_ADD);
	if (!is_typmod_of(type, added->typmod))
		refuse(entry, name,
			   psprintf("type %s has no modifier %d here", format_type_be(type), added->typmod), HINT_ADD);
	return type;
}

static List *
require_collation(RoseReplRel *entry, const char *name, const RoseUpstreamAdded *added)
{
	List	   *collation;

	if (added->collation_name == NULL)
		return NIL;
	collation = list_make2(makeString(added->collation_schema), makeString(added->collation_name));
	if (!OidIsValid(get_collation_oid(collation, true)))
		refuse(entry, name,
			   psprintf("collation \"%s.%s\" does not exist here", added->collation_schema, added->collation_name),
			   "Create the collation here, or add the column with ALTER TABLE.");
	return collation;
}

/* In the context of what is wanted. */
static AddedColumn *
make_column(RoseReplRel *entry, const char *name, const RoseUpstreamAdded *added)
{
	AddedColumn *column = palloc0(sizeof(AddedColumn));

	column->name = pstrdup(name);
	column->type = require_type(entry, name, added);
	column->typmod = added->typmod;
	column->collation = copyObject(require_collation(entry, name, added));
	column->value = added->missing > 0 ? pstrdup(added->value) : NULL;
	return column;
}

/* ---------------------------------------------------------------------
 * One that is here already
 */

/* Is it what rows of before have here, in a column that has had no values of the upstream's?  Its type's code runs as the table's owner. */
static bool
is_value_here(Relation rel, Form_pg_attribute att, const char *value)
{
	bool		isnull;
	Datum		here = getmissingattr(RelationGetDescr(rel), att->attnum, &isnull);
	Datum		there;
	RoseRights	rights;
	Oid			input;
	Oid			ioparam;

	if (isnull || value == NULL)
		return isnull && value == NULL;
	getTypeInputInfo(att->atttypid, &input, &ioparam);
	rose_rights_take(rel->rd_rel->relowner, &rights);
	there = OidInputFunctionCall(input, pstrdup(value), ioparam, att->atttypmod);
	rose_rights_give_back(&rights);
	return datumIsEqual(here, there, att->attbyval, att->attlen);
}

/*
 * The column was added here before, by somebody, or with the whole that the table is a partition of.  Then rows of before must have
 * the same in it.  Of a table that is partitioned itself, nothing is asked.
 */
static void
check_column(RoseReplRel *entry, AttrNumber attno, const RoseUpstreamSeen *seen, const RoseUpstreamAdded *added, int16 remote_attnum)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(entry->rel), attno - 1);

	if (att->attgenerated || entry->partitioned || why_unknown(seen, added, remote_attnum) != NULL ||
		is_value_here(entry->rel, att, added->missing > 0 ? added->value : NULL))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("rows of before have another value in column \"%s\" of table \"%s\" than on the upstream",
					NameStr(att->attname), RelationGetRelationName(entry->rel)),
			 errdetail("The column was here before the upstream has added it."),
			 errhint("Drop it here: then it is added as it is there.  Or, if it has the right values, set on_schema_change => 'stop' until it is taken as it is.")));
}

/* ---------------------------------------------------------------------
 * The stream meets a column
 */

/* Of the system's columns, none has a name of the upstream's: ALTER TABLE says that it is taken. */
static AttrNumber
column_here(Oid relid, const char *name)
{
	return Max(get_attnum(relid, name), InvalidAttrNumber);
}

static bool
is_paired(const RoseColumnMap *map, int16 remote_attnum)
{
	for (int i = 0; i < map->n; i++)
	{
		if (map->remote_attnums[i] == remote_attnum)
			return true;
	}
	return false;
}

/* A local column that has had another one's values is none for this one: rose_columns_match says so. */
static bool
had_values(const RoseColumnMap *map, AttrNumber attno)
{
	for (int i = 0; i < map->n; i++)
	{
		if (map->attnums[i] == attno)
			return true;
	}
	return false;
}

/*
 * Whatever has a lower number, and may still be described, is higher than this: the stream has described columns up to here, and those that it has passed
 * over were dropped by then.
 */
static int
highest_known(const RoseColumnMap *map, const RoseUpstreamSeen *seen)
{
	int			result = seen->files != NULL ? seen->natts : 0;

	for (int i = 0; i < map->n; i++)
		result = Max(result, abs(map->remote_attnums[i]));
	return result;
}

static int
sent_between(const RoseUpstreamColumns *sent, int after, int before)
{
	int			n = 0;

	for (int i = 0; i < sent->n; i++)
		n += sent->attnums[i] > after && sent->attnums[i] < before;
	return n;
}

static void
look_at_column(WalReceiverConn *conn, RoseReplRel *entry, const RoseColumnMap *map, const RoseUpstreamColumns *sent, int i)
{
	int16		attnum = sent->attnums[i];
	const char *name = sent->names[i];
	AttrNumber	here = column_here(entry->relid, name);
	RoseUpstreamSeen seen = {0};
	RoseUpstreamAdded added;
	const char *why;
	int			known;
	MemoryContext old;

	if (here != InvalidAttrNumber && had_values(map, here))
		return;
	if (!rose_seen_get(rose_apply.sub->subid, entry->relid, &seen))
		seen.published = seen.files = NULL;
	known = highest_known(map, &seen);
	if (!rose_upstream_ask_added(conn, rose_apply.sub->publications, entry->remoteid, attnum, known,
								 seen.files != NULL ? &seen : &(RoseUpstreamSeen) {0, "", ""}, &added) ||
		added.type != entry->remote.atttyps[i])
	{
		if (here == InvalidAttrNumber)
			refuse(entry, name, "it has been changed again on the upstream, or dropped", HINT_RESYNC);
		return;
	}
	added.between -= sent_between(sent, known, attnum);
	if (here != InvalidAttrNumber)
	{
		check_column(entry, here, &seen, &added, attnum);
		return;
	}
	why = why_unknown(&seen, &added, attnum);
	if (why != NULL)
		refuse(entry, name, why, HINT_RESYNC);
	old = MemoryContextSwitchTo(wanted.context);
	wanted.columns = lappend(wanted.columns, make_column(entry, name, &added));
	MemoryContextSwitchTo(old);
}

bool
rose_added_is_new(const RoseColumnMap *map, const RoseUpstreamColumns *sent)
{
	bool		all_paired = true;

	/* what is known of no column, and what does not come from the stream, is for rose_columns_match */
	if (!rose_apply.sub->add_columns || map == NULL || sent->attnums == NULL || rose_apply.blame.beside)
		return false;
	for (int i = 0; i < sent->n; i++)
		all_paired &= is_paired(map, sent->attnums[i]);
	return !all_paired;
}

bool
rose_added_look(WalReceiverConn *conn, RoseReplRel *entry, const RoseColumnMap *map, const RoseUpstreamColumns *sent)
{
	rose_added_forget();
	wanted.context = AllocSetContextCreate(TopMemoryContext, "rose added columns", ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < sent->n; i++)
	{
		if (!is_paired(map, sent->attnums[i]))
			look_at_column(conn, entry, map, sent, i);
	}
	if (wanted.columns == NIL)
		return false;
	wanted.entry = entry;
	return true;
}

/* ---------------------------------------------------------------------
 * Adding them
 */

bool
rose_added_are_wanted(void)
{
	return wanted.entry != NULL;
}

void
rose_added_forget(void)
{
	if (wanted.context != NULL)
		MemoryContextDelete(wanted.context);
	memset(&wanted, 0, sizeof(wanted));
}

/* A partition gets columns with the whole only. */
static Oid
whole_of(Oid relid)
{
	return get_rel_relispartition(relid) ? llast_oid(get_partition_ancestors(relid)) : relid;
}

/* Everything that gets the column, if the subscription may write there.  Returns what somebody has locked, or InvalidOid. */
static Oid
lock_all(Oid relid, RoseAddedLock lock)
{
	int			ms = ++wanted.tries % QUEUE_EVERY == 0 ? QUEUE_MS : 0;
	ListCell   *lc;

	rose_owner_require_relid(rose_apply.sub, relid);
	if (!lock(relid, AccessExclusiveLock, ms))
		return relid;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		rose_owner_require_relid(rose_apply.sub, lfirst_oid(lc));
		if (!lock(lfirst_oid(lc), AccessExclusiveLock, ms))
			return lfirst_oid(lc);
	}
	/* with the locks in hand: they may have got other owners while they were waited for */
	rose_owner_require_relids(rose_apply.sub, find_all_inheritors(relid, NoLock, NULL));
	return InvalidOid;
}

static Node *
make_default(const AddedColumn *column)
{
	A_Const    *value = makeNode(A_Const);
	TypeCast   *cast = makeNode(TypeCast);

	if (column->value == NULL)
		return NULL;
	value->val.sval.type = T_String;
	value->val.sval.sval = column->value;
	value->location = -1;
	cast->arg = (Node *) value;
	cast->typeName = makeTypeNameFromOid(column->type, column->typmod);
	cast->location = -1;
	return (Node *) cast;
}

static AlterTableCmd *
make_command(const AddedColumn *column)
{
	AlterTableCmd *cmd = makeNode(AlterTableCmd);
	ColumnDef  *def = makeNode(ColumnDef);

	def->colname = column->name;
	def->typeName = makeTypeNameFromOid(column->type, column->typmod);
	def->is_local = true;
	def->raw_default = make_default(column);
	def->location = -1;
	if (column->collation != NIL)
	{
		def->collClause = makeNode(CollateClause);
		def->collClause->collname = column->collation;
		def->collClause->location = -1;
	}
	cmd->subtype = AT_AddColumn;
	cmd->def = (Node *) def;
	cmd->behavior = DROP_RESTRICT;
	return cmd;
}

/* As if its owner had said so: hooks and triggers of commands see it. */
static void
run_alter(Relation rel, List *cmds, const char *what)
{
	AlterTableStmt *stmt = makeNode(AlterTableStmt);
	PlannedStmt *planned = makeNode(PlannedStmt);
	RoseRights	rights;

	stmt->relation = makeRangeVar(get_namespace_name(RelationGetNamespace(rel)), pstrdup(RelationGetRelationName(rel)), -1);
	stmt->cmds = cmds;
	stmt->objtype = OBJECT_TABLE;
	planned->commandType = CMD_UTILITY;
	planned->utilityStmt = (Node *) stmt;
	planned->stmt_location = -1;
	rose_rights_take(rel->rd_rel->relowner, &rights);
	table_close(rel, NoLock);
	ProcessUtility(planned, what, false, PROCESS_UTILITY_QUERY, NULL, NULL, None_Receiver, NULL);
	rose_rights_give_back(&rights);
	CommandCounterIncrement();
}

/* Those that nobody else has added meanwhile. */
static void
add_columns(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	StringInfoData what;
	List	   *cmds = NIL;
	ListCell   *lc;

	initStringInfo(&what);
	appendStringInfo(&what, "ALTER TABLE %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel)));
	foreach(lc, wanted.columns)
	{
		AddedColumn *column = lfirst(lc);

		if (column_here(relid, column->name) != InvalidAttrNumber)
			continue;
		appendStringInfo(&what, "%s ADD COLUMN %s %s", cmds != NIL ? "," : "", quote_identifier(column->name),
						 format_type_with_typemod(column->type, column->typmod));
		if (column->collation != NIL)
			appendStringInfo(&what, " COLLATE %s", NameListToQuotedString(column->collation));
		if (column->value != NULL)
			appendStringInfo(&what, " DEFAULT %s", quote_literal_cstr(column->value));
		cmds = lappend(cmds, make_command(column));
	}
	if (cmds == NIL)
	{
		table_close(rel, NoLock);
		return;
	}
	ereport(LOG,
			(errmsg("rose subscription \"%s\" adds what the upstream has added: %s", rose_apply.sub->name, what.data)));
	run_alter(rel, cmds, what.data);
	foreach(lc, wanted.columns)
	{
		/* or its schema has got another name, and another table this one's, at this moment */
		if (column_here(relid, ((AddedColumn *) lfirst(lc))->name) == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not add a column to table with OID %u, which has got another name", relid)));
	}
}

/* An error is the table's, as one of the change that wants the column. */
Oid
rose_added_try(RoseAddedLock lock)
{
	Oid			relid = wanted.entry->relid;
	Oid			whole;
	Oid			locked;

	rose_repl_local_begin();
	rose_apply.blame.command = LOGICAL_REP_MSG_RELATION;
	rose_apply.blame.rel = wanted.entry;
	rose_apply.blame.certain = true;
	whole = whole_of(relid);
	locked = lock_all(whole, lock);
	/* it may be gone, or no partition any more: the stream will see */
	if (!OidIsValid(locked) && SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) && whole_of(relid) == whole)
		add_columns(whole);
	ROSE_STOP_POINT("columns-added");
	rose_apply.blame.command = 0;
	rose_apply.blame.rel = NULL;
	rose_apply.blame.certain = false;
	rose_repl_local_commit();
	if (!OidIsValid(locked))
	{
		rose_added_forget();
		ROSE_STOP_POINT("columns-committed");
	}
	return locked;
}
