/*-------------------------------------------------------------------------
 *
 * rose_duplicate.c
 *	  Which value two rows would have: what is noted, and how it is told.  See
 *	  rose_duplicate.h.
 *
 * Notes are of a transaction and are found by the index and the new row's TID: what runs
 * between the write and core's question (expressions of indexes, triggers' conditions) may
 * write other rows.  One that nobody asks for, since the statement has failed, stays to the end
 * of the transaction; TIDs of new rows are not given twice in it.
 *
 * No locks; backend-local.  Who looks whether there is another row is rose_unique_values.c's
 * and rose_unique_recheck.c's to say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "lsm/write/rose_duplicate.h"

/* ---- notes ---- */

typedef struct DuplicateNote
{
	Oid			indexid;
	ItemPointerData tid;
	uint16		padding;		/* zero */
} DuplicateNote;

StaticAssertDecl(sizeof(DuplicateNote) == 12, "is hashed as it is");

/* Of this transaction; in its context. */
static HTAB *notes = NULL;
static LocalTransactionId notes_lxid = InvalidLocalTransactionId;

static void
make_notes(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(DuplicateNote);
	ctl.entrysize = sizeof(DuplicateNote);
	ctl.hcxt = TopTransactionContext;
	notes = hash_create("rose duplicates", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	notes_lxid = rose_my_lxid();
}

void
rose_duplicate_note(Oid indexid, const ItemPointerData *tid)
{
	DuplicateNote note = {indexid, *tid, 0};

	if (notes_lxid != rose_my_lxid())
		make_notes();
	(void) hash_search(notes, &note, HASH_ENTER, NULL);
}

bool
rose_duplicate_take(Oid indexid, const ItemPointerData *tid)
{
	DuplicateNote note = {indexid, *tid, 0};
	bool		found;

	if (notes_lxid != rose_my_lxid())
		return false;
	(void) hash_search(notes, &note, HASH_REMOVE, &found);
	return found;
}

/* ---- errors ---- */

char *
rose_duplicate_describe(RoseTree *tree, int nvalue, const Datum *key)
{
	const RoseSchema *schema = tree->schema;
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	int			n = 0;

	for (int i = 0; i < nvalue; i++)
	{
		if (schema->keys[i].def.flags & ROSE_KEY_RANK)
			continue;
		values[n] = key[i];
		nulls[n++] = rose_key_is_null(schema, key, i);
	}
	return BuildIndexValueDescription(tree->rel, values, nulls);
}
