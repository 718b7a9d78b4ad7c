/*-------------------------------------------------------------------------
 *
 * rose_local_trees.c
 *	  The entries of temporary tables, and of their indexes: memory of this session.
 *
 * A temporary table is its session's own.  So its entry, which for other tables is in
 * shared memory, is in that of the session, as are its memtables (rose_local_arena.c), its
 * pins (rose_local_pin.c) and its pages (core's local buffers).  No list that others go
 * through has it: workers, the launcher, other sessions and their views never meet it, and
 * when the process ends, however it does, nothing of it is left but a file, which core
 * removes.  All code above works with it as with any other: locks in it are taken and
 * always free.
 *
 * An entry stays as long as the file, since there is no tail log to make it from anew.
 * One that was dropped goes at the end of the transaction, with the handles that know it.
 * Its life, the word by which they see that, stays for the next one, with another number.
 *
 * Of this process: no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "store/rose_region_owner.h"
#include "lsm/tree/rose_local_trees.h"
#include "lsm/tree/rose_registry.h"

typedef struct LocalLife
{
	pg_atomic_uint64 value;		/* 0, or the incarnation of its entry */
	slist_node	node;			/* among those without an entry */
} LocalLife;

typedef struct LocalTree
{
	dlist_node	node;			/* among all, or those that were dropped */
	LocalLife  *life;
	RoseTreeShared shared;
} LocalTree;

typedef struct NamedTree
{
	RelFileLocator name;		/* hash key */
	LocalTree  *local;			/* NULL: an error has come in between */
} NamedTree;

static HTAB *named_trees = NULL;
static dlist_head trees = DLIST_STATIC_INIT(trees);
static dlist_head dropped = DLIST_STATIC_INIT(dropped);
static slist_head free_lives = SLIST_STATIC_INIT(free_lives);
static uint64 last_incarnation = 0;

static LocalTree *
find_tree(RelFileLocator name)
{
	NamedTree  *named;

	if (named_trees == NULL)
		return NULL;
	named = hash_search(named_trees, &name, HASH_FIND, NULL);
	return named != NULL ? named->local : NULL;
}

static LocalLife *
new_life(void)
{
	LocalLife  *life;

	if (!slist_is_empty(&free_lives))
		return slist_container(LocalLife, node, slist_pop_head_node(&free_lives));
	life = MemoryContextAlloc(TopMemoryContext, sizeof(LocalLife));
	pg_atomic_init_u64(&life->value, 0);
	return life;
}

static LocalTree *
make_tree(RelFileLocator name, Oid relid)
{
	LocalTree  *local = MemoryContextAllocZero(TopMemoryContext, sizeof(LocalTree));
	RoseTreeShared *shared = &local->shared;

	local->life = new_life();
	shared->incarnation = ++last_incarnation;
	rose_registry_entry_init(shared, name, relid, shared->store.alloc_lock.tranche);
	rose_c0_set_local(&shared->c0);
	pg_atomic_write_u64(&local->life->value, shared->incarnation);
	dlist_push_tail(&trees, &local->node);
	return local;
}

RoseTreeShared *
rose_local_trees_enter(RelFileLocator name, Oid relid, uint64 *incarnation,
					   pg_atomic_uint64 **life)
{
	NamedTree  *named;
	bool		found;

	if (named_trees == NULL)
	{
		HASHCTL		info = {0};

		info.keysize = sizeof(RelFileLocator);
		info.entrysize = sizeof(NamedTree);
		named_trees = hash_create("rose temporary tables", 64, &info, HASH_ELEM | HASH_BLOBS);
	}
	named = hash_search(named_trees, &name, HASH_ENTER, &found);
	if (!found)
		named->local = NULL;
	if (named->local == NULL)
		named->local = make_tree(name, relid);
	*incarnation = named->local->shared.incarnation;
	*life = &named->local->life->value;
	return &named->local->shared;
}

/* Raises no error: nobody reads the table. */
void
rose_local_trees_drop(RelFileLocator name)
{
	LocalTree  *local = find_tree(name);
	RoseC0Shared *c0;

	if (local == NULL)
		return;
	c0 = &local->shared.c0;
	pg_atomic_write_u64(&local->life->value, 0);
	rose_region_owner_forget(name);
	rose_c0_write_begin(c0);
	rose_c0_clear(c0);
	rose_c0_write_end(c0);
	(void) hash_search(named_trees, &name, HASH_REMOVE, NULL);
	dlist_delete(&local->node);
	dlist_push_tail(&dropped, &local->node);
}

void
rose_local_trees_note_options(RelFileLocator name)
{
	LocalTree  *local = find_tree(name);

	if (local != NULL)
		pg_atomic_write_u32(&local->shared.store.options.stale, 1);
}

void
rose_local_trees_end_transaction(void)
{
	while (!dlist_is_empty(&dropped))
	{
		LocalTree  *local = dlist_container(LocalTree, node, dlist_pop_head_node(&dropped));

		slist_push_head(&free_lives, &local->life->node);
		pfree(local);
	}
}

void
rose_local_trees_visit(void (*visitor) (RoseTreeShared *shared, void *arg), void *arg)
{
	dlist_iter	iter;

	dlist_foreach(iter, &trees)
		visitor(&dlist_container(LocalTree, node, iter.cur)->shared, arg);
}
