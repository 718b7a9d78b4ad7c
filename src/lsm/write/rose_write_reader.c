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
write_cache_validate(RoseTree *tree)
{
	if (WriteCache.lxid == rose_my_lxid() && WriteCache.tree == tree &&
		WriteCache.schema == tree->schema)
		return;
	if (WriteCache.lxid == rose_my_lxid() && WriteCache.reader)
		rose_key_reader_free(WriteCache.reader);
	memset(&WriteCache, 0, sizeof(WriteCache));
	WriteCache.lxid = rose_my_lxid();
	WriteCache.tree = tree;
	WriteCache.schema = tree->schema;
}

RoseKeyReader *
rose_write_reader(RoseTree *tree)
{
	write_cache_validate(tree);
	if (WriteCache.reader == NULL)
		WriteCache.reader = rose_key_reader_create(tree, TopTransactionContext);
	return WriteCache.reader;
}
