/*-------------------------------------------------------------------------
 *
 * rose_tree_check.c
 *	  Do the components of a table fit together?  For rose.check().
 *
 * Readers rest on three rules, which hold for any manifest:
 *
 *	  pieces	the components of level 2 have disjoint key ranges, in ascending order
 *	  moved		what has moved to other components (first_ordinal) ends with the last version
 *				of a key, as far as it is still there
 *	  order		from one component to the next older one the sequence numbers of a key fall, and
 *				behind a forgotten version (ROSE_SEQ_OLDEST) it has none
 *
 * The last one is checked by merging all components once.  Row locks and the versions of
 * aborted (sub)transactions, which private runs may have, take no part in any order.
 * Memtables are not looked at.
 *
 * Works on one view of the tree, whose components the transaction's pin keeps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "store/rose_manifest.h"
#include "lsm/component/rose_key_buffer.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_merge_cursor.h"
#include "lsm/merge/rose_tree_check.h"

typedef struct TableCheck
{
	RoseTree   *tree;
	RoseView   *view;
	const RoseManifest *manifest;	/* of the view */
	RoseProblemCallback report;
	void	   *arg;
	MemoryContext context;

	/* the key at hand; components by their index in the manifest */
	RoseKeyBuffer key;
	uint64		seq;			/* of the version before */
	int			oldest;			/* oldest component that has had a version of it ... */
	int			oldest_newer;	/* ... and one with a greater number than seq; -1 = none */
	uint64	   *disorder;		/* versions out of order: [newer component][older one] */
} TableCheck;

static void problem(TableCheck *check, int index, const char *format,...) pg_attribute_printf(3, 4);

static void
problem(TableCheck *check, int index, const char *format,...)
{
	char		message[256];
	va_list		args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	check->report(check->arg, check->manifest->components[index].footer_block, message);
}

static int
compare_keys(const TableCheck *check, const Datum *a, const Datum *b)
{
	const RoseSchema *schema = check->tree->schema;

	return rose_key_compare(schema, a, b, rose_schema_key_width(schema));
}

/* A cursor on the version with this ordinal; free it. */
static RoseComponentCursor *
cursor_at(TableCheck *check, int index, uint64 ordinal)
{
	RoseComponentCursor *cursor =
		rose_component_cursor_create(rose_view_component(check->view, index), check->tree->rel,
									 check->tree->schema, NULL, check->context);

	if (!rose_component_cursor_seek_ordinal(cursor, ordinal))
		elog(ERROR, "component %u has no row " UINT64_FORMAT,
			 check->manifest->components[index].id, ordinal);
	return cursor;
}

/* ---- pieces, and what has moved ---- */

static void
check_piece(TableCheck *check, int index)
{
	const RoseComponentEntryDisk *entry = &check->manifest->components[index];
	const RoseComponentInfo *before = rose_component_info(rose_view_component(check->view, index - 1));
	RoseComponentCursor *cursor = cursor_at(check, index, entry->first_ordinal);

	if (compare_keys(check, before->max_key, rose_component_cursor_row(cursor)->key) >= 0)
		problem(check, index, "component %u does not begin behind component %u",
				entry->id, before->entry.id);
	rose_component_cursor_free(cursor);
}

/* Of a component that SHRINKS, the row before is only there if it is in the same leaf. */
static bool
has_row_before(TableCheck *check, int index)
{
	const RoseComponentEntryDisk *entry = &check->manifest->components[index];
	RoseComponentCursor *cursor;
	int			slot;

	if ((entry->flags & ROSE_COMPONENT_SHRINKS) == 0)
		return true;
	cursor = cursor_at(check, index, entry->first_ordinal);
	(void) rose_component_cursor_leaf(cursor, &slot);
	rose_component_cursor_free(cursor);
	return slot > 0;
}

static void
check_moved(TableCheck *check, int index)
{
	const RoseComponentEntryDisk *entry = &check->manifest->components[index];
	RoseComponentCursor *cursor;

	if (!has_row_before(check, index))
		return;
	cursor = cursor_at(check, index, entry->first_ordinal - 1);
	rose_key_buffer_set(&check->key, check->tree->schema, rose_component_cursor_row(cursor)->key);
	if (rose_component_cursor_next(cursor) &&
		compare_keys(check, check->key.key, rose_component_cursor_row(cursor)->key) == 0)
		problem(check, index, "component %u: the key of row " UINT64_FORMAT " has moved in part",
				entry->id, entry->first_ordinal);
	rose_component_cursor_free(cursor);
}

/* ---- order ---- */

static int
component_index(const TableCheck *check, uint32 id)
{
	for (int i = 0; i < check->manifest->ncomponents; i++)
		if (check->manifest->components[i].id == id)
			return i;
	elog(ERROR, "component %u is not in the manifest", id);
}

/* Does it take part in the order? */
static bool
counts(const TableCheck *check, int index, const RoseVersion *version)
{
	if (!(check->manifest->components[index].flags & ROSE_COMPONENT_PRIVATE))
		return true;
	return version->op != ROSE_OP_LOCK && rose_version_status(version) != ROSE_XID_ABORTED;
}

/* The next version in the order of (key, sequence descending). */
static void
check_version(TableCheck *check, const RoseRow *row)
{
	int			index = component_index(check, row->component);
	uint64		seq = row->version.seq;

	if (!counts(check, index, &row->version))
		return;
	if (!check->key.valid || compare_keys(check, check->key.key, row->key) != 0)
	{
		rose_key_buffer_set(&check->key, check->tree->schema, row->key);
		check->oldest = index;
		check->oldest_newer = -1;
		check->seq = seq;
		return;
	}
	/* equal numbers are the same version, found twice, unless they stand for older ones */
	if (seq != check->seq || seq == ROSE_SEQ_OLDEST)
		check->oldest_newer = check->oldest;
	if (index < check->oldest_newer ||
		(seq == ROSE_SEQ_OLDEST && check->seq == ROSE_SEQ_OLDEST))
		check->disorder[Min(index, check->oldest_newer) * check->manifest->ncomponents +
						Max(index, check->oldest_newer)]++;
	check->oldest = Max(check->oldest, index);
	check->seq = seq;
}

static void
report_disorder(TableCheck *check)
{
	const RoseManifest *manifest = check->manifest;
	int			n = manifest->ncomponents;

	for (int i = 0; i < n * n; i++)
		if (check->disorder[i] > 0)
			problem(check, i / n, "component %u stands before component %u, but " UINT64_FORMAT
					" of its versions are not newer than those of the same keys there",
					manifest->components[i / n].id, manifest->components[i % n].id,
					check->disorder[i]);
}

static void
check_order(TableCheck *check)
{
	RoseTree   *tree = check->tree;
	int			n = check->manifest->ncomponents;
	RoseMergeCursor *cursor = rose_merge_cursor_create(tree->rel, tree->schema, n,
													   GetAccessStrategy(BAS_BULKREAD),
													   check->context);
	const RoseRow *row;

	for (int i = 0; i < n; i++)
		rose_merge_cursor_add(cursor, rose_view_component(check->view, i),
							  check->manifest->components[i].first_ordinal,
							  check->manifest->components[i].nrows);
	check->disorder = palloc0(n * n * sizeof(uint64));
	check->key.valid = false;
	while ((row = rose_merge_cursor_next(cursor)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		check_version(check, row);
	}
	report_disorder(check);
}

/* order: go through all versions, too. */
static void
check_manifest(RoseTree *tree, bool order, RoseProblemCallback report, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose table check",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	TableCheck *check = palloc0(sizeof(TableCheck));
	int			first_piece;

	check->tree = tree;
	check->view = rose_view_present(tree);
	check->manifest = &check->view->manifest;
	check->report = report;
	check->arg = arg;
	check->context = context;
	rose_key_buffer_init(&check->key, context);

	first_piece = check->view->first_piece;
	for (int i = 0; i < check->manifest->ncomponents; i++)
	{
		if (i > first_piece)
			check_piece(check, i);
		if (check->manifest->components[i].first_ordinal > 0)
			check_moved(check, i);
	}
	/* pieces have no key in common */
	if (order && first_piece > 0)
		check_order(check);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

void
rose_tree_check(RoseTree *tree, RoseProblemCallback report, void *arg)
{
	check_manifest(tree, true, report, arg);
}

void
rose_tree_check_pieces(RoseTree *tree, RoseProblemCallback report, void *arg)
{
	check_manifest(tree, false, report, arg);
}
