/*-------------------------------------------------------------------------
 *
 * rose_merge_internal.h
 *	  What the files named rose_merge* share.
 *
 * RoseMerge is backend-local and lives in a memory context of its own from the first step
 * to the last.  What others may know of a merge is rose_merge.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MERGE_INTERNAL_H
#define ROSE_MERGE_INTERNAL_H

#include "storage/lock.h"

#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/merge/rose_compactor.h"
#include "lsm/merge/rose_merge.h"
#include "lsm/merge/rose_merge_cursor.h"
#include "lsm/merge/rose_merge_kind.h"
#include "lsm/merge/rose_sift.h"
#include "lsm/merge/rose_tidy.h"

/* Most components that may be merged by one stride. */
#define ROSE_MERGE_MAX_SOURCES	ROSE_MAX_COMPONENTS

/* Outputs beside others never fill the manifest beyond this. */
#define ROSE_MERGE_MOST_COMPONENTS	(ROSE_MAX_COMPONENTS - 16)

/* A merge into C1 makes about so many components at most. */
#define ROSE_MERGE_MAX_PARTS	6

typedef struct RosePrivateJudge RosePrivateJudge;

typedef struct RoseMergeInput
{
	RoseComponentEntryDisk entry;
	RoseComponent *component;
	RoseComponentCursor *seeker;	/* of a pass: to find where strides end */
	uint64		from;			/* ordinals: not merged and published yet ... */
	uint64		to;				/* ... and part of the stride */
} RoseMergeInput;

/* What is merged without starting the sources anew. */
typedef struct RoseMergeStride
{
	bool		active;
	MemoryContext context;		/* reset with each */
	int			npieces;		/* of C2, that it replaces */
	RoseMergeInput pieces[ROSE_MAX_COMPONENTS];
	uint64		expected_rows;	/* of one output */
	uint64		cut_rows;		/* so many versions read are enough for an output ... */
	uint64		least_rows;		/* ... and so many at the end of an old part of C1 */
	int			nsources;		/* inputs that have rows in it, then the pieces */
	RoseMergeInput *sources[ROSE_MERGE_MAX_SOURCES];
	uint64		nrows;			/* that they have */
	uint64		nblocks;		/* that these take, about */
	uint32		behind;			/* of a pass: where its first output goes, see RoseManifestEdit; 0 = not known yet */
	RoseMergeCursor *cursor;
	const RoseRow *row;			/* next one, if it was looked at already */
	int			no_batches;		/* versions to take before the next attempt at a batch */
	bool		exhausted;		/* it has no more rows, when the output at hand is published */
} RoseMergeStride;

/* The output under construction: one of the stride's. */
typedef struct RoseMergeOutput
{
	RoseCompactor *compactor;	/* of what has ended; NULL: not open, or the kind has none */
	RoseComponentBuilder *builder;	/* of what is in progress; NULL: not open, or the kind has none */
	uint64		nread;			/* versions read for it */
	bool		complete;		/* ready to be published */
	bool		has_merged;
	uint64		settled;		/* it will be since then; ROSE_UNSETTLED = not yet */
	RoseComponentEntryDisk merged;
	uint64		nopen;			/* versions that the builder has got */
	bool		has_open;		/* of a split: what is in progress goes on, ... */
	RoseComponentEntryDisk open;	/* ... here */
} RoseMergeOutput;

/* Of a merge into C1 that makes several components. */
typedef struct RoseMergeParts
{
	int			old;			/* of the output at hand; source: the part of C1 whose end is near that of the output; -1 = none */
	int			nmade;			/* ids of those that are published */
	uint32		made[2 * ROSE_MERGE_MAX_PARTS];
} RoseMergeParts;

struct RoseMerge
{
	const RoseMergeKind *kind;
	int			target_level;
	bool		thorough;		/* a pass: rewrites every piece that could be smaller */
	RoseSift   *sift;			/* a pass: rewrites every piece, and leaves out what is not wanted; NULL: it does not */

	MemoryContext context;
	RelFileLocator locator;
	uint64		incarnation;	/* of the table's registry entry */
	LOCKTAG		lock;
	bool		keep;			/* lives across transactions: session lock */
	bool		unlocked;		/* ... which was given up already */
	TimestampTz unwanted_since; /* ... and for which somebody waits; 0 = nobody */
	RoseTicket	ticket;			/* of one that is kept: its claims; of others: only begun is set */
	bool		helps;			/* another process began the pass */
	bool		alone;			/* the transaction has read nothing else of the table */
	const RoseSchema *written_by;	/* while it begins: what schema is to be a copy of; NULL = the table's */
	RoseSchema *schema;
	RosePrivateJudge *judge;	/* of rows of private runs; NULL: there are none */
	BufferAccessStrategy strategy;

	/* what was picked; of a pass: what comes into C2 */
	int			ninputs;
	RoseMergeInput inputs[ROSE_MAX_COMPONENTS];

	bool		trims;			/* it publishes outputs one after the other and trims its inputs each time */
	uint32		last_output;	/* then: the newest one, of a pass: of its stride; 0 = none */
	uint64		piece_blocks;	/* of a pass: size to aim at for a piece */
	RoseMergeParts parts;
	RoseMergeStride stride;
	RoseMergeOutput out;

	int			stats_slot;		/* see rose_merge_stats.h */
	uint64		nread;
	uint64		total;
};

/*
 * ROSE_LOCK_MERGE.  keep: for the session, beside other workers, and without waiting;
 * false: it is taken.  Otherwise alone, and nobody's claims count any more.
 */
extern bool rose_merge_lock(RoseTree *tree, bool keep, LOCKTAG *tag);
extern void rose_merge_unlock(const LOCKTAG *tag, bool keep);

/* --- rows of private runs (rose_private_judge.c) --- */
typedef enum RoseMergeFate
{
	ROSE_FATE_COMMITTED,
	ROSE_FATE_OPEN,				/* in progress */
	ROSE_FATE_ABORTED
} RoseMergeFate;

extern RosePrivateJudge *rose_private_judge_create(const RoseMerge *merge);
extern RoseMergeFate rose_private_judge_row(RosePrivateJudge *judge, const RoseRow *row);

/* --- the bottom of the tree (rose_merge_bottom.c) --- */
/*
 * Is everything from the newest input on an input, a part of C1 that the merge has made,
 * or C2 that it takes along?
 */
extern bool rose_merge_at_bottom(const RoseMerge *merge, RoseTree *tree);

/* Could a merge of this component alone, at the bottom, forget what it has to forget now? */
extern bool rose_merge_could_forget(RoseTree *tree, const RoseComponentEntryDisk *entry);

/*
 * What an output of these sources may forget: the xid to store, 0 = nothing.  *settled:
 * since when all of them are.
 */
extern uint64 rose_merge_may_forget(RoseTree *tree, const RoseComponentEntryDisk *const *sources,
									int nsources, bool bottom, uint64 *settled);

/* --- the output under construction (rose_merge_output.c) --- */
extern bool rose_merge_output_is_open(const RoseMerge *merge);
extern void rose_merge_output_open(RoseMerge *merge, RoseTree *tree);

/* Merge into it for at most budget_ms (0: no limit); true when it has all its versions. */
extern bool rose_merge_output_fill(RoseMerge *merge, int budget_ms);
extern void rose_merge_output_finish(RoseMerge *merge);

/* About how many blocks were read for it: its share of what the stride reads. */
extern uint64 rose_merge_output_blocks_read(const RoseMerge *merge);
extern void rose_merge_output_free(RoseMerge *merge);

/* --- merges into C1, or among runs (rose_merge_c1.c) --- */
extern bool rose_merge_c1_has_work(const RoseMerge *merge, RoseTree *tree, const RoseManifest *manifest);
extern RoseMergePlanned rose_merge_c1_plan(RoseMerge *merge, RoseTree *tree);
extern void rose_merge_c1_begin_output(RoseMerge *merge);
extern bool rose_merge_c1_output_full(const RoseMerge *merge);
extern bool rose_merge_c1_publish(RoseMerge *merge, RoseTree *tree);

/* All inputs, from the first row to the last, into one output. */
extern RoseMergePlanned rose_merge_plan_whole(RoseMerge *merge, RoseTree *tree);

/* --- passes (rose_merge_pass.c) --- */

/* The size in bytes of which pieces are not made smaller. */
extern uint64 rose_merge_least_piece(void);

/* Are the pieces of C2 what a pass can start from? */
extern bool rose_merge_pass_possible(const RoseManifest *manifest);
extern bool rose_merge_pass_has_work(const RoseMerge *merge, RoseTree *tree,
									 const RoseManifest *manifest);
extern void rose_merge_pass_begin(RoseMerge *merge, RoseTree *tree);
extern RoseMergePlanned rose_merge_pass_plan(RoseMerge *merge, RoseTree *tree);
extern bool rose_merge_pass_output_full(const RoseMerge *merge);
extern bool rose_merge_pass_publish(RoseMerge *merge, RoseTree *tree);

/* May other processes have strides of this pass? */
static inline bool
rose_merge_is_shared(const RoseMerge *merge)
{
	return merge->keep && merge->kind->takes_c2;
}

/* --- publishing (rose_merge_publish.c) --- */
extern const RoseComponentEntryDisk *rose_manifest_find(const RoseManifest *manifest, uint32 id);

/* Do all sources that are left still stand in the manifest as they did? */
extern bool rose_merge_sources_unchanged(const RoseMerge *merge, const RoseManifest *manifest);

/* The output in the place of all inputs. */
extern void rose_merge_publish_whole(RoseMerge *merge, RoseTree *tree);

/*
 * One output of several: inputs are trimmed, or leave the manifest.  The first one goes
 * where behind says (as RoseManifestEdit.add_behind; 0: where its oldest input stands),
 * the next ones behind the one before.
 */
extern void rose_merge_publish_part(RoseMerge *merge, RoseTree *tree, uint32 behind);

/* False: a spill is under way, and the merge need not wait for it, because it is kept. */
extern bool rose_merge_publish_joined(RoseMerge *merge, RoseTree *tree);
extern bool rose_merge_publish_split(RoseMerge *merge, RoseTree *tree);

#endif							/* ROSE_MERGE_INTERNAL_H */
