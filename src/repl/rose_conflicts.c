/*-------------------------------------------------------------------------
 *
 * rose_conflicts.c
 *	  Changes that do not fit the rows that are here, counted.
 *
 * An INSERT over a row that is there, an UPDATE or DELETE of one that is not, and an UPDATE of the key over another row
 * are applied like all others.  If the subscription's count_conflicts says so, each row of a change
 * says what it would be then, and asks what is there before it is written (rose_blind_below.c): INSERTs, and new keys, exactly,
 * for filters know nearly always that there is nothing; rows that should be there, whose keys the filters rightly have, as
 * count_conflicts says.
 *
 * What a batch has found is its own until it commits, for what is given up comes again.  Then it goes to
 * shared memory (rose_repl_state.c), with the first and the last conflict of each table, and to the server's log, once in a
 * while for a table.  What is written for rose.repair comes from a comparison, and is no conflict.
 *
 * State of the worker; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "repl/rose_conflicts.h"

/* Of one table in the open batch. */
typedef struct FoundConflicts
{
	Oid			relid;
	char		nspname[NAMEDATALEN];	/* here */
	char		relname[NAMEDATALEN];
	RoseReplConflicts found;
	uint64		unreported;		/* to be reported now; 0: not yet */
} FoundConflicts;

static MemoryContext context = NULL;	/* of the list; NULL before the first conflict */
static List *tables = NIL;		/* FoundConflicts */

/* ---------------------------------------------------------------------
 * The option
 */

static const char *const option_values[] = {"off", "certain", "exact"};

const char *
rose_count_conflicts_name(RoseCountConflicts value)
{
	return option_values[value];
}

RoseCountConflicts
rose_count_conflicts_read(const char *name)
{
	for (int i = 0; i < lengthof(option_values); i++)
		if (strcmp(name, option_values[i]) == 0)
			return (RoseCountConflicts) i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for count_conflicts: \"%s\"", name),
			 errhint("Valid values are \"off\", \"certain\" and \"exact\".")));
}

/* ---------------------------------------------------------------------
 * What a row asks
 */

RoseConflictKind
rose_conflicts_expect(const RoseReplTarget *target, RoseOp op)
{
	if (rose_apply.blame.beside || target->table->schema->nkeys == 0)
		return ROSE_CONFLICT_NONE;
	/* it may come over a row that has it, in a piece of the copy that is of later */
	if (rose_apply.remote.commit_lsn < target->of->exact_lsn)
		return ROSE_CONFLICT_NONE;
	switch (rose_apply.blame.command)
	{
		case LOGICAL_REP_MSG_INSERT:
			return ROSE_CONFLICT_INSERT_EXISTS;
		case LOGICAL_REP_MSG_DELETE:
			return ROSE_CONFLICT_DELETE_MISSING;
		default:
			return rose_apply.remote.moved && op != ROSE_OP_TOMBSTONE ? ROSE_CONFLICT_UPDATE_EXISTS :
				ROSE_CONFLICT_UPDATE_MISSING;
	}
}

static bool
expects_row(RoseConflictKind kind)
{
	return kind == ROSE_CONFLICT_UPDATE_MISSING || kind == ROSE_CONFLICT_DELETE_MISSING;
}

RoseBlindAsk
rose_conflicts_ask(RoseConflictKind kind)
{
	if (kind == ROSE_CONFLICT_NONE)
		return ROSE_BLIND_ASK_NOTHING;
	return expects_row(kind) && rose_apply.sub->count_conflicts != ROSE_COUNT_CONFLICTS_EXACT ?
		ROSE_BLIND_ASK_CHEAPLY : ROSE_BLIND_ASK_EXACTLY;
}

/* ---------------------------------------------------------------------
 * What the batch has found
 */

static RoseReplConflicts *
found_of(const RoseReplTarget *target)
{
	Relation	rel = target->of->rel;
	const char *nspname;
	FoundConflicts *table;
	MemoryContext old;
	ListCell   *lc;

	foreach(lc, tables)
	{
		table = lfirst(lc);
		if (table->relid == RelationGetRelid(rel))
			return &table->found;
	}
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "rose conflicts", ALLOCSET_SMALL_SIZES);
	nspname = get_namespace_name(RelationGetNamespace(rel));
	old = MemoryContextSwitchTo(context);
	table = palloc0(sizeof(FoundConflicts));
	table->relid = RelationGetRelid(rel);
	strlcpy(table->nspname, nspname != NULL ? nspname : "", NAMEDATALEN);
	strlcpy(table->relname, RelationGetRelationName(rel), NAMEDATALEN);
	tables = lappend(tables, table);
	MemoryContextSwitchTo(old);
	return &table->found;
}

/* As PostgreSQL shows keys: (a, b)=(1, x). */
static void
describe_key(const RoseReplTarget *target, const Datum *key, char *out, Size size)
{
	const RoseSchema *schema = target->table->schema;
	TupleDesc	desc = RelationGetDescr(target->rel);
	StringInfoData values;
	StringInfoData names;
	int			len;

	initStringInfo(&names);
	initStringInfo(&values);
	for (int i = 0; i < schema->nkeys; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, schema->keys[i].def.attno - 1);
		Oid			output;
		bool		varlena;

		getTypeOutputInfo(att->atttypid, &output, &varlena);
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", NameStr(att->attname));
		appendStringInfo(&values, "%s%s", i > 0 ? ", " : "", OidOutputFunctionCall(output, key[i]));
	}
	appendStringInfo(&names, ")=(%s)", values.data);
	len = pg_mbcliplen(names.data, names.len, (int) size - 2);
	snprintf(out, size, "(%.*s", len, names.data);
	pfree(names.data);
	pfree(values.data);
}

static void
describe(const RoseReplTarget *target, RoseConflictKind kind, XLogRecPtr lsn, const Datum *key, RoseReplConflict *out)
{
	out->kind = kind;
	out->lsn = lsn;
	out->time = GetCurrentTimestamp();
	describe_key(target, key, out->key, sizeof(out->key));
}

static bool
is_conflict(RoseConflictKind kind, RoseBlindBelow below)
{
	if (kind == ROSE_CONFLICT_NONE)
		return false;
	return below == (expects_row(kind) ? ROSE_BLIND_BELOW_NOTHING : ROSE_BLIND_BELOW_ROW);
}

/* Of many conflicts, as of tables that were not copied, two are described. */
void
rose_conflicts_note_rows(const RoseReplTarget *target, const RoseBlindRow *rows, const uint8 *kinds,
						 const uint8 *below, int n)
{
	RoseReplConflicts *found = NULL;
	int			last = -1;

	for (int i = 0; i < n; i++)
	{
		if (likely(!is_conflict((RoseConflictKind) kinds[i], (RoseBlindBelow) below[i])))
			continue;
		if (found == NULL)
			found = found_of(target);
		found->counts[kinds[i]]++;
		if (found->first.kind == ROSE_CONFLICT_NONE)
			describe(target, (RoseConflictKind) kinds[i], (XLogRecPtr) rows[i].origin, rows[i].key, &found->first);
		last = i;
	}
	if (last >= 0)
		describe(target, (RoseConflictKind) kinds[last], (XLogRecPtr) rows[last].origin, rows[last].key, &found->last);
}

void
rose_conflicts_note_missing(const RoseReplTarget *target, const Datum *key)
{
	RoseConflictKind kind = ROSE_CONFLICT_NONE;
	RoseReplConflicts *found;

	if (rose_apply.sub->count_conflicts != ROSE_COUNT_CONFLICTS_OFF)
		kind = rose_conflicts_expect(target, ROSE_OP_PARTIAL);
	if (!expects_row(kind))
		return;
	found = found_of(target);
	found->counts[kind]++;
	describe(target, kind, rose_apply.remote.commit_lsn, key, &found->last);
	if (found->first.kind == ROSE_CONFLICT_NONE)
		found->first = found->last;
}

/* ---------------------------------------------------------------------
 * The end of the batch
 */

const char *
rose_conflict_name(RoseConflictKind kind)
{
	switch (kind)
	{
		case ROSE_CONFLICT_NONE:
			break;
		case ROSE_CONFLICT_INSERT_EXISTS:
			return "insert_exists";
		case ROSE_CONFLICT_UPDATE_EXISTS:
			return "update_exists";
		case ROSE_CONFLICT_UPDATE_MISSING:
			return "update_missing";
		case ROSE_CONFLICT_DELETE_MISSING:
			return "delete_missing";
	}
	return NULL;
}

void
rose_conflicts_keep(void)
{
	ListCell   *lc;

	foreach(lc, tables)
	{
		FoundConflicts *table = lfirst(lc);

		if (!rose_repl_add_conflicts(rose_apply.sub->subid, table->relid, &table->found, &table->unreported))
			table->unreported = 0;
	}
}

/* The text of it is PostgreSQL 18's. */
static void
report(const FoundConflicts *table)
{
	const RoseReplConflict *last = &table->found.last;

	ereport(LOG,
			(errmsg("conflict detected on relation \"%s.%s\": conflict=%s",
					table->nspname, table->relname, rose_conflict_name(last->kind)),
			 errdetail("Key %s, changed by the upstream transaction committed at %X/%X.  The change was applied.  It is the last of " UINT64_FORMAT " conflicts of the table that rose subscription \"%s\" has not reported yet.",
					   last->key, LSN_FORMAT_ARGS(last->lsn), table->unreported, rose_apply.sub->name)));
}

void
rose_conflicts_report(void)
{
	ListCell   *lc;

	if (likely(tables == NIL))
		return;
	foreach(lc, tables)
	{
		const FoundConflicts *table = lfirst(lc);

		if (table->unreported > 0)
			report(table);
	}
	rose_conflicts_forget();
}

void
rose_conflicts_forget(void)
{
	if (likely(tables == NIL))
		return;
	tables = NIL;
	MemoryContextReset(context);
}
