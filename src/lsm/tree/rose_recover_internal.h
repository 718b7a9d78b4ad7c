/*-------------------------------------------------------------------------
 *
 * rose_recover_internal.h
 *	  Shared between the files that recover a table: rose_recover.c says what
 *	  is done and when, rose_recover_c0.c puts the tail log into C0, and
 *	  rose_recover_runs.c into runs if it does not fit.
 *
 * All of it REQUIRES ROSE_LOCK_RECOVER, and that the table is not recovered yet: so
 * nobody else writes to C0 or to the tail log, in a section of C0 or not.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RECOVER_INTERNAL_H
#define ROSE_RECOVER_INTERNAL_H

#include "postgres.h"

#include "store/rose_metapage.h"
#include "store/rose_tail.h"
#include "lsm/tree/rose_tree.h"

/* Who feeds the tree, and how, as the file says. */
static inline void
rose_recover_feeding(RoseTreeShared *shared, const RoseMetaInfo *meta)
{
	shared->fed_by = meta->fed_by;
	shared->logged_by = meta->logged_by;
}

/* What became of the transaction of a record. */
typedef enum RoseTailFate
{
	ROSE_TAIL_ABORTED,			/* or it died with the server */
	ROSE_TAIL_OPEN,				/* prepared */
	ROSE_TAIL_COMMITTED
} RoseTailFate;

/*
 * The answers.  A transaction that was found to be open stays so: it may commit
 * meanwhile, and its versions must not be torn apart.  Begin with zeros.
 */
typedef struct RoseTailFates
{
	bool		have_last;
	FullTransactionId last_xid;
	TransactionId last_subxid;
	RoseTailFate last_fate;
	List	   *open;			/* of those that were open: top-level xids, in the context of the first answer */
} RoseTailFates;

/* ---- rose_recover_record.c ---- */

extern RoseTailFate rose_recover_record_fate(RoseTailFates *fates, const RoseVersion *version);

/* Does the fate, and what it is, make the record worth keeping?  Locks of what has committed are not. */
static inline bool
rose_recover_record_is_needed(RoseTailFate fate, const RoseVersion *version)
{
	return fate != ROSE_TAIL_ABORTED &&
		(fate != ROSE_TAIL_COMMITTED || version->op != ROSE_OP_LOCK);
}

/* Does the tail log describe the columns that the file was made with as the metapage does? */
extern void rose_recover_record_check_layout(Relation rel, const RoseMetaInfo *meta,
											 const RoseLayout *layout);

/* A record of a table with a key has the key. */
extern void rose_recover_record_check_key(Relation rel, const RoseMetaInfo *meta,
										  const RoseTailRecord *record);

/*
 * Fill C0 from the tail log.  False: it does not fit, and C0 is empty.  Goes on where the
 * last try was interrupted.  schema: of the first records.  next_seq: that of C0, if no
 * record has a greater one.  use_reserve: take what only spills may use.  at_once: do not
 * look at interrupts.
 */
extern bool rose_recover_c0(RoseTree *tree, const RoseSchema *schema, const RoseMetaInfo *meta,
							uint64 next_seq, bool use_reserve, bool at_once);

/*
 * Write what is in the tail log to runs, and drop it, in one switch of the manifest.
 * False: there is no room for them in the manifest.
 */
extern bool rose_recover_runs(RoseTree *tree, const RoseSchema *schema, const RoseMetaInfo *meta,
							  uint64 next_seq);

#endif							/* ROSE_RECOVER_INTERNAL_H */
