/*-------------------------------------------------------------------------
 *
 * rose_write_let_go.c
 *	  What merges have replaced is not kept for who only inserts.
 *
 * Who only inserts, for hours perhaps, would keep all runs that were merged meanwhile.
 * Every row of a component that the executor has got from the table has a name that says so; what
 * is being read has a view, or the transaction is marked (rose_view_is_held).  Names of
 * rows in memory are sequence numbers, and found in the components of now.  Functions of
 * users that compare keys may be within anything.
 *
 * Backend-local; the pin's lock is rose_pin.c's.  What a pin keeps is its business, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/rose_foreign.h"
#include "store/rose_pin.h"
#include "store/rose_store.h"
#include "lsm/tree/rose_view.h"
#include "lsm/read/rose_lookup_cache.h"
#include "lsm/read/rose_tid.h"
#include "lsm/write/rose_write_let_go.h"

void
rose_write_let_go(RoseTree *tree)
{
	uint64		version = pg_atomic_read_u64(&tree->shared->store.manifest_version);

	if (likely(version == tree->let_go_at))
		return;
	tree->let_go_at = version;
	if (unlikely(rose_foreign_used) || rose_tid_names_places(tree))
		return;
	rose_lookup_cache_forget_reader(tree);
	if (!rose_view_is_held(tree))
		rose_pin_let_go(tree->locator);
}
