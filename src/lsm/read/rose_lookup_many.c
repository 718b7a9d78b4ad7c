/*-------------------------------------------------------------------------
 *
 * rose_lookup_many.c
 *	  Lookups of many keys together.  See rose_lookup_many.h.
 *
 * The keys are sorted.  Memtables are asked for all of them in one reading section of C0, and
 * the view is taken before that ends.  Then each component, newest first, is asked for
 * those that are left: its filter for all, and a cursor for those that may be there, which
 * only moves forward, and looks at each leaf where it is, in its buffer.
 *
 * What is answered here is the plain case: no memtable has the key, nor may a private run
 * have it, and the newest version in any component is a whole row that the snapshot sees.  That is
 * the answer, because sources are asked newest first (invariants in src/README.md).
 * All else is left to a lookup of the single key (rose_lookup.c), which may come later:
 * what an MVCC snapshot sees does not change.  So are rows with values in overflow pages,
 * which would have to be read before anybody wants them, and what there is no memory for.
 *
 * Backend-local.  Pins of buffers are held within one call only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "store/rose_store.h"
#include "lsm/component/rose_leaf.h"
#include "lsm/snapshot/rose_visibility.h"
#include "lsm/tree/rose_copied.h"
#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_found_rows.h"
#include "lsm/read/rose_hits.h"
#include "lsm/read/rose_lookup_many.h"
#include "lsm/read/rose_tid.h"

/* Keys looked up together, at most; and bytes of their columns by value. */
#define MANY_MAX		4096
#define MANY_BYTES		(1024 * 1024)

/* They are sorted by the digits of their prefixes, which have so many bits, if there are so many for each digit. */
#define DIGIT_BITS		8
#define DIGITS			(1 << DIGIT_BITS)
#define KEYS_A_DIGIT	10

/* A key that is still looked for. */
typedef struct SortedKey
{
	uint64		prefix;
	const Datum *key;
	int			number;			/* as it was added */
} SortedKey;

/* The leaf that a cursor stands on, and rows of it that were found and whose columns are still to be taken. */
typedef struct ManyLeaf
{
	RoseLeaf   *leaf;			/* NULL: not looked at yet */
	bool		usable;			/* its rows have all values in place */
	bool		alike;			/* and versions that differ in seq and rowid alone, each of ... */
	RoseVersion version;
	bool		wanted;			/* ... which is an answer */
	bool		numbered;		/* and in rowid alone: seq is known */
	int			n;
	int			leaf_slots[ROSE_FOUND_ROWS_TAKE];
	int			numbers[ROSE_FOUND_ROWS_TAKE];
} ManyLeaf;

/* The component that is asked. */
typedef struct ManyComponent
{
	RoseComponent *component;
	int			place;			/* in the view */
	bool		alike;			/* versions are, as far as leaves do not say more of theirs */
	RoseVersion version;
	bool		wanted;			/* which is an answer */
	bool		named;			/* first_names has its first row's */
} ManyComponent;

struct RoseLookupMany
{
	RoseTree   *tree;
	const RoseSchema *schema;	/* cursors' */
	MemoryContext context;
	RoseFoundRows *found;		/* NULL: nothing begun */
	AttrNumber	asked;			/* columns, of rows before */
	const RoseWanted *wanted;	/* see rose_lookup_many_want */
	RoseView   *view;			/* that rows were found in, held; or NULL */
	Snapshot	snapshot;		/* borrowed */
	RoseVisibility vis;
	int			nfound;
	int			ncursors;
	RoseComponentCursor *cursors[ROSE_MAX_COMPONENTS];
	bool		grown;			/* by a cursor, since it was measured */
	RoseRow		row;
	ManyComponent in;			/* while a component is asked */
	ManyLeaf	at;				/* while a component is asked */
	bool		names_places;	/* rows have names by their places ... */
	uint64		first_names[ROSE_MAX_COMPONENTS];	/* ... as numbers, by component: that of its row 0, if one was found */

	/* by number of a key, and of those that are left; capacity of each */
	int			capacity;
	int16	   *places;			/* of the row's component in the view; -1: not found */
	SortedKey  *left;			/* in order */
	int			nleft;
	SortedKey  *spare;			/* while they are sorted */
	const Datum **keys;
	uint64	   *hashes;
	int		   *which;
	bool	   *maybe;
};

RoseLookupMany *
rose_lookup_many_create(RoseTree *tree, MemoryContext context)
{
	MemoryContext own = AllocSetContextCreate(context, "rose lookup of many", ALLOCSET_DEFAULT_SIZES);
	RoseLookupMany *many = MemoryContextAllocZero(own, sizeof(RoseLookupMany));

	many->tree = tree;
	many->schema = tree->schema;
	many->context = own;
	return many;
}

void
rose_lookup_many_end(RoseLookupMany *many)
{
	if (many->found != NULL)
	{
		many->asked = rose_found_rows_asked(many->found);
		rose_found_rows_abandon(many->found);
		many->found = NULL;
	}
	if (many->view != NULL)
	{
		rose_view_release(many->view);
		many->view = NULL;
	}
}

void
rose_lookup_many_free(RoseLookupMany *many)
{
	rose_lookup_many_end(many);
	for (int i = 0; i < many->ncursors; i++)
		rose_component_cursor_free(many->cursors[i]);
	MemoryContextDelete(many->context);
}

bool
rose_lookup_many_is_for(const RoseLookupMany *many, const RoseSchema *schema)
{
	return many->schema == schema;
}

void
rose_lookup_many_pass_on(RoseLookupMany *many, MemoryContext context)
{
	rose_lookup_many_end(many);
	MemoryContextSetParent(many->context, context);
	many->asked = 0;
	many->wanted = NULL;
}

bool
rose_lookup_many_may_rest(RoseLookupMany *many, Size bytes)
{
	bool		result = !many->grown || MemoryContextMemAllocated(many->context, true) <= bytes;

	many->grown = false;
	return result;
}

int
rose_lookup_many_max(const RoseLookupMany *many)
{
	int			asked = many->found != NULL ? rose_found_rows_asked(many->found) : many->asked;

	return Min(MANY_MAX, MANY_BYTES / (sizeof(Datum) + asked * (sizeof(Datum) + sizeof(bool))));
}

/* ---- keys ---- */

static void
make_room(RoseLookupMany *many, int n)
{
	MemoryContext context = many->context;

	if (n <= many->capacity)
		return;
	if (many->capacity > 0)
	{
		many->capacity = 0;
		pfree(many->places);
		pfree(many->left);
		pfree(many->spare);
		pfree(many->keys);
		pfree(many->hashes);
		pfree(many->which);
		pfree(many->maybe);
	}
	many->places = MemoryContextAlloc(context, n * sizeof(int16));
	many->left = MemoryContextAlloc(context, n * sizeof(SortedKey));
	many->spare = MemoryContextAlloc(context, n * sizeof(SortedKey));
	many->keys = MemoryContextAlloc(context, n * sizeof(Datum *));
	many->hashes = MemoryContextAlloc(context, n * sizeof(uint64));
	many->which = MemoryContextAlloc(context, n * sizeof(int));
	many->maybe = MemoryContextAlloc(context, n * sizeof(bool));
	many->capacity = n;
}

void
rose_lookup_many_begin(RoseLookupMany *many, int n)
{
	rose_lookup_many_end(many);
	make_room(many, n);
	many->found = rose_found_rows_create(many->tree, n, many->asked, many->wanted, many->context);
}

void
rose_lookup_many_want(RoseLookupMany *many, const RoseWanted *wanted)
{
	many->wanted = wanted;
}

void
rose_lookup_many_add(RoseLookupMany *many, const Datum *key)
{
	many->places[rose_found_rows_count(many->found)] = -1;
	rose_found_rows_add_key(many->found, key);
}

const Datum *
rose_lookup_many_key(const RoseLookupMany *many, int i)
{
	return rose_found_rows_key(many->found, i);
}

static int
compare_keys(const void *a, const void *b, void *arg)
{
	const SortedKey *x = a;
	const SortedKey *y = b;
	const RoseSchema *schema = arg;

	if (x->prefix != y->prefix)
		return x->prefix < y->prefix ? -1 : 1;
	return rose_key_compare(schema, x->key, y->key, rose_schema_key_width(schema));
}

/* One pass over all keys: by the digit of their prefixes, less min, at these bits. */
static void
sort_by_digit(const SortedKey *from, SortedKey *to, int n, uint64 min, int shift)
{
	int			places[DIGITS] = {0};
	int			sum = 0;

	for (int i = 0; i < n; i++)
		places[((from[i].prefix - min) >> shift) & (DIGITS - 1)]++;
	for (int digit = 0; digit < DIGITS; digit++)
	{
		int			count = places[digit];

		places[digit] = sum;
		sum += count;
	}
	for (int i = 0; i < n; i++)
		to[places[((from[i].prefix - min) >> shift) & (DIGITS - 1)]++] = from[i];
}

/* Digits from bit 'lowest' on of prefixes that differ by so much at most. */
static int
count_digits(uint64 span, int lowest)
{
	int			digits = 0;

	for (span >>= lowest; span != 0; span >>= DIGIT_BITS)
		digits++;
	return digits;
}

/* Sort the keys by so many digits of their prefixes, less min, from bit 'lowest' on. */
static void
sort_by_prefix(RoseLookupMany *many, int n, uint64 min, int lowest, int digits)
{
	for (int digit = 0; digit < digits; digit++)
	{
		SortedKey  *sorted = many->spare;

		sort_by_digit(many->left, sorted, n, min, lowest + digit * DIGIT_BITS);
		many->spare = many->left;
		many->left = sorted;
	}
}

/* Keys in the order of their prefixes: sort those that have the same one. */
static void
sort_alike(RoseLookupMany *many, int n)
{
	int			to;

	for (int from = 0; from < n; from = to)
	{
		to = from + 1;
		while (to < n && many->left[to].prefix == many->left[from].prefix)
			to++;
		if (to - from > 1)
			qsort_arg(many->left + from, to - from, sizeof(SortedKey), compare_keys,
					  many->tree->schema);
	}
}

static void
sort_keys(RoseLookupMany *many)
{
	RoseSchema *schema = many->tree->schema;
	int			n = rose_found_rows_count(many->found);
	uint64		min = PG_UINT64_MAX;
	uint64		max = 0;
	uint64		unlike = 0;		/* bits in which prefixes differ; of short numbers these are the upper ones */
	bool		ascending = true;
	int			lowest;
	int			digits;

	for (int i = 0; i < n; i++)
	{
		SortedKey  *key = &many->left[i];

		key->key = rose_found_rows_key(many->found, i);
		key->prefix = rose_key_prefix(schema, key->key);
		key->number = i;
		ascending = ascending && (i == 0 || key->prefix > max);
		min = Min(min, key->prefix);
		max = Max(max, key->prefix);
		unlike |= key->prefix ^ many->left[0].prefix;
	}
	many->nleft = n;
	if (ascending)
		return;
	lowest = unlike == 0 ? 0 : pg_rightmost_one_pos64(unlike);
	digits = count_digits(max - min, lowest);
	if (n < digits * KEYS_A_DIGIT)
	{
		qsort_arg(many->left, n, sizeof(SortedKey), compare_keys, schema);
		return;
	}
	sort_by_prefix(many, n, min, lowest, digits);
	sort_alike(many, n);
}

/* ---- memory ---- */

/* Leave out the keys that memory may have, and take the view. */
static void
ask_memory(RoseLookupMany *many)
{
	RoseTree   *tree = many->tree;
	RoseC0Shared *c0 = &tree->shared->c0;
	int			n = many->nleft;

	for (int i = 0; i < n; i++)
	{
		many->keys[i] = many->left[i].key;
		many->maybe[i] = false;
	}
	rose_c0_read_begin(c0);
	rose_c0_probe(c0, tree->schema, many->keys, n, true, many->maybe, NULL);
	many->view = rose_view_take(tree);
	rose_c0_read_end(c0);

	many->nleft = 0;
	for (int i = 0; i < n; i++)
		if (!many->maybe[i])
			many->left[many->nleft++] = many->left[i];
}

/* ---- components ---- */

/* One that stands nowhere and is on this very component: others may have had its id. */
static RoseComponentCursor *
cursor_for(RoseLookupMany *many, const RoseComponentEntryDisk *entry, RoseComponent *component)
{
	RoseTree   *tree = many->tree;
	RoseComponentCursor *cursor = NULL;

	for (int i = 0; i < many->ncursors && cursor == NULL; i++)
		if (rose_component_cursor_is_of(many->cursors[i], component))
			cursor = many->cursors[i];
	if (cursor == NULL)
	{
		if (many->ncursors == ROSE_MAX_COMPONENTS)
			while (many->ncursors > 0)
				rose_component_cursor_free(many->cursors[--many->ncursors]);
		cursor = rose_component_cursor_create(component, tree->rel, tree->schema, NULL,
											  many->context);
		rose_component_cursor_borrow(cursor);
		many->cursors[many->ncursors++] = cursor;
		many->grown = true;
	}
	rose_component_cursor_rebind(cursor, tree->rel);
	rose_component_cursor_set_first(cursor, entry->first_ordinal);
	return cursor;
}

/*
 * Which of the keys [from, to) that are left may be in the component?  Sets which to them, and
 * returns how many.  trust: all that are in its range, which are neighbours.
 */
static int
ask_filter(RoseLookupMany *many, RoseComponent *component, int from, int to, bool trust)
{
	RoseTree   *tree = many->tree;
	int			n = 0;
	int			nmaybe = 0;

	while (from < to && !rose_component_in_range(component, many->left[from].key))
		from++;
	while (from < to && !rose_component_in_range(component, many->left[to - 1].key))
		to--;
	for (int i = from; i < to; i++)
	{
		many->keys[i] = many->left[i].key;
		many->which[n++] = i;
	}
	if (trust || n == 0)
		return n;
	for (int i = 0; i < n; i++)
	{
		many->hashes[many->which[i]] = rose_key_hash(tree->schema, many->keys[many->which[i]]);
		many->maybe[many->which[i]] = false;
	}
	rose_filter_ask_many(component, tree->rel, many->keys, many->hashes, many->which, n,
						 many->maybe);
	for (int i = 0; i < n; i++)
		if (many->maybe[many->which[i]])
			many->which[nmaybe++] = many->which[i];
	return nmaybe;
}

static void
take_columns(RoseLookupMany *many)
{
	ManyLeaf   *at = &many->at;

	if (at->n > 0)
		rose_found_rows_take(many->found, at->leaf, at->leaf_slots, at->numbers, at->n,
							 at->alike && !at->numbered);
	at->n = 0;
}

/* The cursor goes to another leaf. */
static void
leave_leaf(RoseLookupMany *many)
{
	take_columns(many);
	many->at.leaf = NULL;
}

static bool
is_answer(RoseLookupMany *many, const RoseVersion *version)
{
	return version->op == ROSE_OP_PUT && rose_version_visible(&many->vis, version, true);
}

/* What is known of a component's rows without reading them. */
static void
enter_component(RoseLookupMany *many, RoseComponent *component, int place)
{
	ManyComponent *in = &many->in;

	in->component = component;
	in->place = place;
	in->named = false;
	in->alike = rose_component_common_version(component, &in->version);
	in->wanted = in->alike && is_answer(many, &in->version);
}

static void
enter_leaf(RoseLookupMany *many, RoseLeaf *leaf)
{
	ManyLeaf   *at = &many->at;

	at->leaf = leaf;
	at->usable = rose_leaf_is_self_contained(leaf);
	at->numbered = many->in.alike && leaf->flags == 0;
	if (at->numbered)
	{
		at->alike = true;
		at->version = many->in.version;
		at->wanted = many->in.wanted;
		return;
	}
	at->alike = at->usable && rose_leaf_common_version(leaf, &at->version);
	at->wanted = at->alike && is_answer(many, &at->version);
}

/* The first row of the component that is asked was found. */
static void
name_first(RoseLookupMany *many)
{
	ManyComponent *in = &many->in;

	in->named = true;
	if (many->names_places)
		many->names_places = rose_tid_first_number(many->tree, rose_view_entry(many->view, in->place),
												   &many->first_names[in->place]);
}

/* The cursor is on the newest version of a key.  Is it the answer?  Then take it over. */
static void
take_row(RoseLookupMany *many, RoseComponentCursor *cursor, const SortedKey *key)
{
	ManyLeaf   *at = &many->at;
	int			slot;
	RoseLeaf   *leaf = rose_component_cursor_leaf(cursor, &slot);

	if (at->leaf == NULL)
		enter_leaf(many, leaf);
	Assert(at->leaf == leaf);
	if (!at->usable || (at->alike && !at->wanted))
		return;
	if (!at->alike)
	{
		rose_leaf_get_version(leaf, slot, &at->version);
		if (!is_answer(many, &at->version))
			return;
	}
	else if (many->tree->schema->nkeys == 0)
		at->version.rowid = DatumGetInt64(key->key[0]);
	if (!rose_found_rows_set(many->found, key->number, &at->version, many->in.component,
							 leaf->first_ordinal + slot))
		return;
	if (!many->in.named)
		name_first(many);
	if (at->n == ROSE_FOUND_ROWS_TAKE)
		take_columns(many);
	at->leaf_slots[at->n] = slot;
	at->numbers[at->n++] = key->number;
	many->places[key->number] = many->in.place;
	many->nfound++;
}

/* Is there a version of the key?  Then the cursor is on the newest one. */
static bool
find_key(RoseLookupMany *many, RoseComponentCursor *cursor, const Datum *key)
{
	bool		found;

	if (rose_component_cursor_find_here(cursor, key, &found))
		return found;
	leave_leaf(many);
	return !rose_component_cursor_is_before(cursor, key) &&
		rose_component_cursor_seek_key(cursor, key);
}

/* Look for the keys [from, to) that are left in a component; those of which it has a version have a key of NULL then. */
static void
ask_component(RoseLookupMany *many, int place, int from, int to, bool oldest)
{
	RoseTree   *tree = many->tree;
	const RoseComponentEntryDisk *entry = rose_view_entry(many->view, place);
	bool		private = (entry->flags & ROSE_COMPONENT_PRIVATE) != 0;
	RoseComponent *component;
	RoseComponentCursor *cursor;
	int			n;

	if (!rose_component_readable(entry))
		return;
	component = rose_view_component(many->view, place);
	n = ask_filter(many, component, from, to, oldest && rose_hits_expected(tree));
	if (n == 0)
		return;
	enter_component(many, component, place);
	cursor = cursor_for(many, entry, component);
	for (int i = 0; i < n; i++)
	{
		SortedKey  *key = &many->left[many->which[i]];
		bool		found = private || find_key(many, cursor, key->key);

		if (found && !private)
			take_row(many, cursor, key);
		if (oldest && !private)
			rose_hits_note(tree, found);
		if (found)
			key->key = NULL;
	}
	leave_leaf(many);
	rose_component_cursor_give_back(cursor);
}

/* Of the keys [from, to) leave those that have one still. */
static void
drop_answered(RoseLookupMany *many)
{
	int			n = 0;

	for (int i = 0; i < many->nleft; i++)
		if (many->left[i].key != NULL)
			many->left[n++] = many->left[i];
	many->nleft = n;
}

/* A key is in one of C2's pieces at most, and the first keys are in the first pieces. */
static void
ask_pieces(RoseLookupMany *many)
{
	RoseView   *view = many->view;
	int			width = rose_schema_key_width(many->tree->schema);
	int			from = 0;

	while (from < many->nleft)
	{
		int			place = rose_view_find_piece(view, many->left[from].key, width, false);
		const RoseComponentInfo *info;
		int			to = from + 1;

		if (place >= view->manifest.ncomponents)
			return;
		info = rose_component_info(rose_view_component(view, place));
		while (to < many->nleft && rose_key_compare(many->tree->schema, many->left[to].key,
													info->max_key, width) <= 0)
			to++;
		ask_component(many, place, from, to, true);
		from = to;
	}
}

int
rose_lookup_many_run(RoseLookupMany *many, Snapshot snapshot)
{
	Assert(IsMVCCSnapshot(snapshot) && many->view == NULL);
	rose_tid_prepare(many->tree);
	many->snapshot = snapshot;
	many->nfound = 0;
	many->names_places = !rose_tid_exact;
	rose_visibility_init(&many->vis, snapshot);
	rose_copied_require(many->tree, &many->vis);
	sort_keys(many);
	ask_memory(many);
	for (int i = 0; i < many->view->first_piece && many->nleft > 0; i++)
	{
		ask_component(many, i, 0, many->nleft, i == many->view->manifest.ncomponents - 1);
		drop_answered(many);
	}
	ask_pieces(many);
	return many->nfound;
}

const RoseRow *
rose_lookup_many_row(RoseLookupMany *many, int i, ItemPointer tid)
{
	if (many->places[i] < 0)
		return NULL;
	rose_found_rows_get(many->found, i, &many->row);
	if (likely(many->names_places && !rose_tid_exact))
		rose_tid_from_number(many->first_names[many->places[i]] + many->row.ordinal, tid);
	else
		rose_tid_name(many->tree, rose_view_entry(many->view, many->places[i]), &many->row,
					  many->snapshot, tid);
	return &many->row;
}
