/*-------------------------------------------------------------------------
 *
 * rose_write_reader.c
 *	  The reader of keys that the writes of a transaction share.
 *
 * Uniqueness and conflicts are both looked up in all versions of a key, newest first.  To
 * make a reader for that costs more than to use it once, so the one of the table that was
 * written last is kept until the end of the transaction, in TopTransactionContext.
 *
 * No locks; backend-local.  What the versions mean is rose_unique.c's and
 * rose_conflict.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "util/rose_foreign.h"
#include "store/rose_pin.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_write_reader.h"

/* The transaction's reader of the table written last. */
static struct
{
	LocalTransactionId lxid;
	RoseTree   *tree;
	RoseSchema *schema;
	RoseKeyReader *reader;
}			WriteCache;

void
rose_write_reader_forget(void)
{
	memset(&WriteCache, 0, sizeof(WriteCache));
}

static void
write_cache_clear(void)
{
	if (WriteCache.lxid == rose_my_lxid() && WriteCache.reader)
		rose_key_reader_free(WriteCache.reader);
	memset(&WriteCache, 0, sizeof(WriteCache));
}

static void
write_cache_validate(RoseTree *tree)
{
	if (WriteCache.lxid == rose_my_lxid() && WriteCache.tree == tree &&
		WriteCache.schema == tree->schema)
		return;
	write_cache_clear();
	WriteCache.lxid = rose_my_lxid();
	WriteCache.tree = tree;
	WriteCache.schema = tree->schema;
}

/*
 * Who only inserts, for hours perhaps, would keep all runs that were merged meanwhile.
 * Every row of a component that the executor has got from the table has a name that says so; what
 * is being read has a view, or the transaction is marked (rose_view_is_held).  Names of
 * rows in memory are sequence numbers, and found in the components of now.  Functions of
 * users that compare keys may be within anything.
 */
void
rose_write_let_go(RoseTree *tree)
{
	uint64		version = pg_atomic_read_u64(&tree->shared->store.manifest_version);

	if (likely(version == tree->let_go_at))
		return;
	tree->let_go_at = version;
	if (unlikely(rose_foreign_used) || rose_tid_names_places(tree))
		return;
	if (WriteCache.tree == tree)
		write_cache_clear();
	if (!rose_view_is_held(tree))
		rose_pin_let_go(tree->locator);
}

RoseKeyReader *
rose_write_reader(RoseTree *tree)
{
	write_cache_validate(tree);
	if (WriteCache.reader == NULL)
		WriteCache.reader = rose_key_reader_create(tree, TopTransactionContext);
	return WriteCache.reader;
}
