/*-------------------------------------------------------------------------
 *
 * rose_component_check.c
 *	  Does a component hold together?  For rose.check().
 *
 * All leaves are walked from the first to the last, or from the first one that is needed
 * if those before may be gone (ROSE_COMPONENT_SHRINKS).  Each page is checked by
 * itself, then rows against the order, the key range, the Bloom filter and the
 * counts of the footer, and the tree by looking up the first row of every
 * leaf, by key and by ordinal.  A page that does not decode ends the check of
 * its component, because nothing after it can be judged.
 *
 * Reads only, under the caller's pin.  Whether components fit together is
 * merge/rose_tree_check.c's, the file's structure store/rose_store_check.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "store/rose_manifest.h"
#include "store/rose_store_check.h"
#include "lsm/component/rose_component_internal.h"

typedef struct ComponentCheck
{
	RoseComponent *component;
	Relation	rel;
	const RoseSchema *schema;
	RoseProblemCallback report;
	void	   *arg;
	BlockNumber block;			/* at hand */
	int			nproblems;
	RoseComponentCursor *probe; /* looks up rows through the tree */
	BlockNumber first_leaf;		/* at which the walk begins ... */
	BlockNumber before_first;	/* ... behind this one ... */
	uint64		start;			/* ... and with this row */
	uint64		needed_from;	/* the first row that is needed */
	RoseKeyBuffer last;
	uint64		last_seq;
	RoseFooterDisk found;		/* counts as found */
	uint64		nleaves;
	bool		locks;			/* some were found */
} ComponentCheck;

static void problem(ComponentCheck *check, const char *format,...) pg_attribute_printf(2, 3);

static void
problem(ComponentCheck *check, const char *format,...)
{
	char		detail[256];
	char		message[320];
	va_list		args;

	va_start(args, format);
	vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	snprintf(message, sizeof(message), "component %u: %s", check->component->info.entry.id, detail);
	check->nproblems++;
	check->report(check->arg, check->block, message);
}

static void
page_problem(void *arg, int col, const char *message)
{
	if (col < 0)
		problem(arg, "%s", message);
	else
		problem(arg, "column %d: %s", col, message);
}

/* The image of a leaf by itself; false if it is not safe to go on. */
static bool
check_image(ComponentCheck *check, BlockNumber block)
{
	RoseComponent *component = check->component;
	PGAlignedBlock page;

	check->block = block;
	rose_component_read_page(check->rel, component->info.entry.id, block, ROSE_PAGE_LEAF,
							 page.data, NULL);
	return rose_page_check(page.data, component->ncols, component->descs,
						   page_problem, check) == 0;
}

/* The tree leads to the first row of the leaf, by key and by ordinal. */
static void
check_lookup(ComponentCheck *check, const RoseRow *row)
{
	const RoseRow *found;

	if (!rose_component_cursor_seek(check->probe, row->key,
									rose_schema_key_width(check->schema), row->version.seq))
		problem(check, "no row is found by the key of row " UINT64_FORMAT, row->ordinal);
	else
	{
		found = rose_component_cursor_row(check->probe);
		if (found->ordinal != row->ordinal)
			problem(check, "row " UINT64_FORMAT " is found by the key of row " UINT64_FORMAT,
					found->ordinal, row->ordinal);
	}
	if (!rose_component_cursor_seek_ordinal(check->probe, row->ordinal) ||
		rose_component_cursor_row(check->probe)->version.seq != row->version.seq)
		problem(check, "row " UINT64_FORMAT " is not found by its ordinal", row->ordinal);
}

static void
check_order(ComponentCheck *check, const RoseRow *row)
{
	const RoseComponent *component = check->component;
	const RoseSchema *schema = check->schema;
	int			width = rose_schema_key_width(schema);
	int			cmp = -1;

	if (check->last.valid)
		cmp = rose_key_compare(schema, check->last.key, row->key, width);
	if (cmp > 0 || (cmp == 0 && row->version.seq >= check->last_seq))
		problem(check, "row " UINT64_FORMAT " is out of order", row->ordinal);
	if (cmp != 0)
	{
		check->found.ndistinct++;
		if (schema->nkeys > 0 && schema->hashable &&
			!rose_filter_ask(check->component, check->rel, row->key,
							 rose_key_hash(schema, row->key)))
			problem(check, "the Bloom filter denies the key of row " UINT64_FORMAT, row->ordinal);
	}
	if (rose_key_compare(schema, row->key, component->min_key, width) < 0 ||
		rose_key_compare(schema, row->key, component->max_key, width) > 0)
		problem(check, "the key of row " UINT64_FORMAT " is outside the component's range",
				row->ordinal);
	rose_key_buffer_set(&check->last, schema, row->key);
	check->last_seq = row->version.seq;
}

static void
check_row(ComponentCheck *check, const RoseRow *row)
{
	const RoseFooterDisk *footer = &check->component->footer;
	const RoseVersion *version = &row->version;
	uint64		xid = U64FromFullTransactionId(version->xid);

	if (row->ordinal != check->found.nrows)
		problem(check, "row " UINT64_FORMAT " calls itself " UINT64_FORMAT,
				check->found.nrows, row->ordinal);
	if (version->op < ROSE_OP_PUT || version->op > ROSE_OP_LOCK ||
		(version->op == ROSE_OP_PARTIAL) != (version->present != NULL))
		problem(check, "row " UINT64_FORMAT " has operation %u", row->ordinal, version->op);
	if (version->seq == ROSE_SEQ_OLDEST && version->op != ROSE_OP_PUT)
		problem(check, "row " UINT64_FORMAT " is forgotten, but not a whole row", row->ordinal);
	if (version->seq < footer->min_seq || version->seq > footer->max_seq ||
		xid < footer->min_xid || xid > footer->max_xid)
		problem(check, "sequence or transaction of row " UINT64_FORMAT " is out of range",
				row->ordinal);
	check->found.nrows++;
	check->found.ntombstones += version->op == ROSE_OP_TOMBSTONE;
	check->found.npartials += version->op == ROSE_OP_PARTIAL;
	check->locks |= version->op == ROSE_OP_LOCK;
	check_order(check, row);
}

/* Every column that is the table's can be read of every row, overflow values too. */
static void
check_values(ComponentCheck *check, const RoseRow *row, Datum *values, bool *nulls)
{
	const RoseSchema *schema = check->schema;

	if (!check->component->info.keys_only)
		rose_row_deform(row, schema, 1, check->component->info.natts, values, nulls);
	for (int j = 0; j < schema->nkeys; j++)
	{
		AttrNumber	attno = schema->keys[j].def.attno;

		if (check->component->info.keys_only)
			values[attno - 1] = rose_row_getattr(row, schema, attno, &nulls[attno - 1]);
		if (nulls[attno - 1] != rose_key_is_null(schema, row->key, j))
			problem(check, "row " UINT64_FORMAT " has a null in its key", row->ordinal);
	}
}

static void
check_leaf_links(ComponentCheck *check, const RoseLeaf *leaf, BlockNumber previous)
{
	if (leaf->prev != previous)
		problem(check, "left link of a leaf is %u, expected %u", leaf->prev, previous);
	if (leaf->next == InvalidBlockNumber && leaf->block != check->component->group.last_leaf)
		problem(check, "the chain of leaves ends too early");
}

static void
check_leaves(ComponentCheck *check, MemoryContext context)
{
	RoseComponent *component = check->component;
	RoseLeaf   *leaf = rose_leaf_create(component, check->rel, check->schema, context);
	int			natts = check->schema->natts;
	Datum	   *values = palloc0((natts + 1) * sizeof(Datum));
	bool	   *nulls = palloc0((natts + 1) * sizeof(bool));
	BlockNumber block = check->first_leaf;
	BlockNumber previous = check->before_first;

	check->found.nrows = check->start;
	while (block != InvalidBlockNumber && check->nleaves < component->group.nleaves)
	{
		if (!check_image(check, block))
			break;
		rose_leaf_load(leaf, block, NULL);
		check_leaf_links(check, leaf, previous);
		if (check->start > 0 &&
			!rose_store_check_owner(check->rel, component->info.entry.id, check->needed_from, block))
			problem(check, "a leaf that is needed is in a region of another owner");
		for (int slot = 0; slot < leaf->rows.nrows; slot++)
		{
			RoseRow		row;
			Datum		key[INDEX_MAX_KEYS];

			CHECK_FOR_INTERRUPTS();
			rose_leaf_set_window(leaf, slot, true);
			rose_leaf_get_row(leaf, slot, &row, key);
			check_row(check, &row);
			check_values(check, &row, values, nulls);
			if (slot == 0)
				check_lookup(check, &row);
		}
		check->nleaves++;
		previous = block;
		block = leaf->next;
	}
	rose_rows_release(&leaf->rows);
}

static void
check_count(ComponentCheck *check, const char *what, uint64 found, uint64 expected)
{
	if (found != expected)
		problem(check, "%s: " UINT64_FORMAT " found, the footer says " UINT64_FORMAT,
				what, found, expected);
}

static void
check_totals(ComponentCheck *check)
{
	const RoseFooterDisk *footer = &check->component->footer;
	const RoseComponentEntryDisk *entry = &check->component->info.entry;

	check->block = entry->footer_block;
	check_count(check, "rows", check->found.nrows, footer->nrows);
	check_count(check, "rows in the manifest", entry->nrows, footer->nrows);
	if (check->start == 0)
	{
		check_count(check, "leaves", check->nleaves, check->component->group.nleaves);
		check_count(check, "keys", check->found.ndistinct, footer->ndistinct);
		check_count(check, "tombstones", check->found.ntombstones, footer->ntombstones);
		check_count(check, "partial rows", check->found.npartials, footer->npartials);
	}
	if ((entry->flags & ROSE_COMPONENT_UNIQUE_KEYS) &&
		check->found.ndistinct != check->found.nrows - check->start)
		problem(check, "keys repeat, but the manifest says that they do not");
	if ((entry->flags & ROSE_COMPONENT_ONLY_PUTS) &&
		check->found.ntombstones + check->found.npartials > 0)
		problem(check, "it has more than whole rows, but the manifest says that it does not");
	if ((entry->flags & ROSE_COMPONENT_NO_LOCKS) && check->locks)
		problem(check, "it has row locks, but the manifest says that it does not");
}

/* Where the walk begins: at the leaf of the first row that is needed. */
static void
find_start(ComponentCheck *check)
{
	const RoseComponent *component = check->component;
	const RoseLeaf *leaf;
	int			slot;

	check->first_leaf = component->group.first_leaf;
	check->before_first = InvalidBlockNumber;
	if ((component->info.entry.flags & ROSE_COMPONENT_SHRINKS) == 0 ||
		!rose_component_cursor_seek_ordinal(check->probe, check->needed_from))
		return;
	leaf = rose_component_cursor_leaf(check->probe, &slot);
	check->first_leaf = leaf->block;
	check->before_first = leaf->prev;
	check->start = leaf->first_ordinal;
	rose_component_cursor_set_first(check->probe, check->start);
}

void
rose_component_check(RoseComponent *component, Relation rel, const RoseSchema *schema,
					 uint64 first_ordinal, RoseProblemCallback report, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rose component check",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	ComponentCheck check = {0};

	check.component = component;
	check.rel = rel;
	check.schema = schema;
	check.report = report;
	check.arg = arg;
	check.probe = rose_component_cursor_create(component, rel, schema, NULL, context);
	check.needed_from = first_ordinal;
	rose_key_buffer_init(&check.last, context);

	find_start(&check);
	check_leaves(&check, context);
	check_totals(&check);

	rose_component_cursor_free(check.probe);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
