/*-------------------------------------------------------------------------
 *
 * rose_merge_pass.c
 *	  A pass: the merge into C2, piece by piece of its key range.
 *
 * C2 consists of pieces with disjoint, ascending key ranges.  A pass goes
 * through them in key order, in strides.  A stride merges a piece, or a few
 * small neighbours, with the rows of all inputs (C1, sometimes runs) that
 * belong there: those not greater than the piece's greatest key; the last
 * piece gets the rest.  What it makes is published before the next stride:
 * the old pieces leave the manifest, and the inputs' rows up to there are
 * trimmed off, by first_ordinal of their manifest entries.  So each version
 * is in one place at any time, freed space can be reused by the next stride,
 * and a pass that ends early has lost at most one stride of work: the next
 * one finds the inputs as far as they are trimmed.
 *
 * Pieces for which the inputs have no rows are not touched, unless they have
 * garbage of their own or have to be joined with a neighbour.
 *
 * The size aimed at is a twentieth of all data, but not less than a piece that is
 * cheap to rewrite.  A stride that would make a much larger piece makes several.
 *
 * Several processes may work on a pass (rose_claims.h).  Each takes the next stride
 * behind all that are taken, builds its pieces, and publishes them when all strides
 * before are published: so the inputs are trimmed in the order of their keys, as if one
 * process had done it.  What a stride has to do is found anew each time, from the
 * manifest and from the latest stride that is taken; nobody relies on what others have
 * planned.  If one is given up, so are those behind it, of which nothing was published
 * yet.
 *
 * Locking: none of its own; see rose_merge.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"
#include "utils/memutils.h"

#include "util/rose_stop_point.h"
#include "store/rose_manifest.h"
#include "store/rose_store.h"
#include "lsm/snapshot/rose_horizon.h"
#include "lsm/tree/rose_view.h"
#include "lsm/merge/rose_merge_internal.h"
#include "lsm/merge/rose_pieces.h"

/* A piece is not aimed to be smaller than this part of C2 and its inputs. */
#define PIECES_OF_ALL		20

/* Old tombstones that are this part of a piece make it worth rewriting. */
#define TOMBSTONE_PART		0.25

/* A smaller table has room for more than a piece at a time; a smaller piece has much of a last region unused. */
#define LEAST_PIECE			1024

static int	piece_size = LEAST_PIECE;	/* rose.debug_piece_size, kB */

void
rose_merge_define_settings(void)
{
	DefineCustomIntVariable("rose.debug_piece_size",
							"Sets the size of which merges do not make the pieces of C2 smaller.",
							"For tests of rose: with little data and a small size a table has many pieces.",
							&piece_size,
							LEAST_PIECE,
							8,
							MAX_KILOBYTES,
							PGC_SUSET,
							GUC_UNIT_KB | GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL,
							NULL, NULL, NULL);
}

uint64
rose_merge_least_piece(void)
{
	return (uint64) piece_size * 1024;
}

uint64
rose_merge_piece_blocks(uint64 nblocks)
{
	return Max(nblocks / PIECES_OF_ALL, rose_merge_least_piece() / BLCKSZ);
}

bool
rose_merge_pass_possible(const RoseManifest *manifest)
{
	for (int i = rose_manifest_first_piece(manifest); i < manifest->ncomponents; i++)
		if (manifest->components[i].state != ROSE_COMPONENT_LIVE ||
			(manifest->components[i].flags & ROSE_COMPONENT_PRIVATE))
			return false;
	return true;
}

/*
 * Does a piece have garbage that is worth a rewrite, or, for a thorough pass, any that
 * might go?
 */
static bool
needs_cleaning(const RoseMerge *merge, RoseTree *tree, const RoseComponentEntryDisk *entry,
			   uint64 horizon)
{
	bool		repeats = !(entry->flags & ROSE_COMPONENT_UNIQUE_KEYS);

	if (merge->sift != NULL)
		return true;
	if (merge->thorough)
		return repeats || entry->ntombstones > 0 || rose_merge_could_forget(tree, entry);
	return entry->max_xid < horizon &&
		(repeats || entry->ntombstones > TOMBSTONE_PART * entry->nrows);
}

bool
rose_merge_pass_has_work(const RoseMerge *merge, RoseTree *tree, const RoseManifest *manifest)
{
	if (merge->ninputs > 0)
		return true;
	for (int i = rose_manifest_first_piece(manifest); i < manifest->ncomponents; i++)
		if (needs_cleaning(merge, tree, &manifest->components[i], PG_UINT64_MAX))
			return true;
	return false;
}

void
rose_merge_pass_begin(RoseMerge *merge, RoseTree *tree)
{
	const RoseManifest *manifest = rose_tree_manifest(tree);
	uint64		nblocks = 0;

	for (int i = 0; i < merge->ninputs; i++)
	{
		RoseMergeInput *input = &merge->inputs[i];

		nblocks += rose_component_rest(&input->entry, input->entry.nblocks);
		input->seeker = rose_component_cursor_create(input->component, tree->rel,
													 merge->schema, merge->strategy,
													 merge->context);
	}
	for (int i = rose_manifest_first_piece(manifest); i < manifest->ncomponents; i++)
	{
		const RoseComponentEntryDisk *entry = &manifest->components[i];

		nblocks += rose_component_rest(entry, entry->nblocks);
		merge->total += entry->nrows - entry->first_ordinal;
	}
	merge->piece_blocks = rose_merge_piece_blocks(nblocks);
}

/* ---- planning a stride ---- */

typedef struct StridePlan
{
	RoseMerge  *merge;
	RoseTree   *tree;
	const RoseManifest *manifest;
	uint64		horizon;
	RoseStridesTaken taken;		/* by other processes, before this one */
	uint64		ends[ROSE_MAX_COMPONENTS];	/* of the inputs, at the piece at hand */
	uint64		nblocks;		/* that it will read */
	uint64		nrows;
} StridePlan;

/* Ordinal of the input's first row that is greater than this key. */
static uint64
find_end(const RoseMerge *merge, RoseMergeInput *input, const Datum *key)
{
	uint64		ordinal;

	if (input->from == input->entry.nrows)
		return input->from;
	rose_component_cursor_set_first(input->seeker, input->from);
	if (!rose_component_cursor_seek(input->seeker, key,
									rose_schema_key_width(merge->schema), 0))
		return input->entry.nrows;
	ordinal = rose_component_cursor_row(input->seeker)->ordinal;
	return Max(ordinal, input->from);
}

static uint64
rest_blocks(const RoseComponentEntryDisk *entry)
{
	return rose_component_rest(entry, entry->nblocks);
}

static int
count_pieces(const StridePlan *plan)
{
	return plan->manifest->ncomponents - rose_manifest_first_piece(plan->manifest);
}

static bool
inputs_have_rows(const StridePlan *plan, bool up_to_ends)
{
	const RoseMerge *merge = plan->merge;

	for (int i = 0; i < merge->ninputs; i++)
		if (merge->inputs[i].from < (up_to_ends ? plan->ends[i] : merge->inputs[i].entry.nrows))
			return true;
	return false;
}

/* Does a stride have to begin at this piece?  plan->ends are set. */
static bool
must_take(const StridePlan *plan, const RoseComponentEntryDisk *entry, bool last)
{
	bool		small = rose_pieces_is_small(plan->merge->piece_blocks, rest_blocks(entry));

	if (inputs_have_rows(plan, true) ||
		needs_cleaning(plan->merge, plan->tree, entry, plan->horizon))
		return true;
	if (last)
		return small && inputs_have_rows(plan, false);
	return small && count_pieces(plan) > ROSE_PIECES_MANY;
}

/* Should the stride take this one, too?  So far it has little to do. */
static bool
should_join(const StridePlan *plan, const RoseComponentEntryDisk *next)
{
	return rose_pieces_should_join(plan->merge->piece_blocks, count_pieces(plan), plan->nblocks,
								   rest_blocks(next));
}

static void
take_piece(StridePlan *plan, const RoseComponentEntryDisk *entry, RoseComponent *component)
{
	RoseMerge  *merge = plan->merge;
	RoseMergeInput *piece = &merge->stride.pieces[merge->stride.npieces++];

	memset(piece, 0, sizeof(*piece));
	piece->entry = *entry;
	piece->component = component;
	piece->from = entry->first_ordinal;
	piece->to = entry->nrows;
	plan->nblocks += rest_blocks(entry);
	plan->nrows += piece->to - piece->from;
}

static void
take_inputs(StridePlan *plan, bool up_to_ends)
{
	RoseMerge  *merge = plan->merge;

	for (int i = 0; i < merge->ninputs; i++)
	{
		RoseMergeInput *input = &merge->inputs[i];
		uint64		end = up_to_ends ? plan->ends[i] : input->entry.nrows;
		uint64		start = Max(input->to, input->from);

		plan->nrows += end - start;
		plan->nblocks += (uint64) ((double) input->entry.nblocks * (end - start) /
								   input->entry.nrows);
		input->to = end;
	}
}

/* Go through the pieces from this manifest index on, until the stride is full. */
static void
choose_pieces(StridePlan *plan, RoseTree *tree, int index)
{
	RoseMerge  *merge = plan->merge;

	for (; index < plan->manifest->ncomponents; index++)
	{
		const RoseComponentEntryDisk *entry = &plan->manifest->components[index];
		bool		last = index == plan->manifest->ncomponents - 1;
		RoseComponent *component;

		if (merge->stride.npieces > 0 && !should_join(plan, entry))
			return;
		component = rose_component_open(tree->rel, merge->schema, entry,
										merge->stride.context);
		for (int i = 0; i < merge->ninputs; i++)
			plan->ends[i] = find_end(merge, &merge->inputs[i],
									 rose_component_info(component)->max_key);
		if (merge->stride.npieces > 0 || must_take(plan, entry, last))
		{
			take_piece(plan, entry, component);
			take_inputs(plan, !last);
		}
		else
		{
			rose_component_close(component);
			merge->total -= entry->nrows - entry->first_ordinal;
		}
	}
}

/* How many outputs, and how large? */
static int
size_outputs(StridePlan *plan)
{
	RoseMerge  *merge = plan->merge;
	int			others = count_pieces(plan) - merge->stride.npieces + plan->taken.noutputs;
	int			room = ROSE_MERGE_MOST_COMPONENTS - plan->manifest->ncomponents - plan->taken.noutputs;
	uint64		n = rose_pieces_to_make(merge->piece_blocks, plan->nblocks, others, room);

	merge->stride.cut_rows = n > 1 ? plan->nrows / n + 1 : PG_UINT64_MAX;
	merge->stride.expected_rows = plan->nrows / n + 1;
	return (int) n;
}

/* What others have published since is not this process's business any more. */
static void
look_at_inputs(StridePlan *plan)
{
	RoseMerge  *merge = plan->merge;

	for (int i = 0; i < merge->ninputs; i++)
	{
		RoseMergeInput *input = &merge->inputs[i];
		const RoseComponentEntryDisk *entry = rose_manifest_find(plan->manifest, input->entry.id);

		input->from = input->to = entry != NULL ? entry->first_ordinal : input->entry.nrows;
		rose_component_cursor_rebind(input->seeker, plan->tree->rel);
	}
}

/* Behind the latest stride that is taken and not published. */
static int
go_behind(StridePlan *plan, int piece)
{
	RoseMerge  *merge = plan->merge;
	RoseComponent *component = rose_component_open(plan->tree->rel, merge->schema,
												   &plan->manifest->components[piece],
												   merge->stride.context);

	for (int i = 0; i < merge->ninputs; i++)
	{
		RoseMergeInput *input = &merge->inputs[i];

		input->from = input->to = find_end(merge, input, rose_component_info(component)->max_key);
	}
	rose_component_close(component);
	return piece + 1;
}

/* The first piece that is neither done nor taken.  Those that the pass has made are younger than it is. */
static int
first_piece_to_do(StridePlan *plan)
{
	const RoseManifest *manifest = plan->manifest;

	for (int i = manifest->ncomponents - 1; i >= rose_manifest_first_piece(manifest); i--)
	{
		if (manifest->components[i].id == plan->taken.last_piece)
			return go_behind(plan, i);
		if (manifest->components[i].id > plan->merge->ticket.begun)
			return i + 1;
	}
	return rose_manifest_first_piece(manifest);
}

/* What is next; false: nothing. */
static bool
find_stride(StridePlan *plan, RoseStridesTaken *stride)
{
	RoseMerge  *merge = plan->merge;

	merge->stride.npieces = 0;
	merge->stride.behind = merge->last_output = 0;
	if (plan->taken.takes_rest)
		return false;
	plan->manifest = rose_tree_manifest(plan->tree);
	plan->horizon = rose_merge_at_bottom(merge, plan->tree) ?
		rose_horizon_oldest(plan->tree->rel) : 0;
	look_at_inputs(plan);
	choose_pieces(plan, plan->tree, first_piece_to_do(plan));
	if (merge->stride.npieces == 0)
	{
		/* behind the last piece, which is large enough already */
		if (!inputs_have_rows(plan, false))
			return false;
		take_inputs(plan, false);
	}
	else
		stride->last_piece = merge->stride.pieces[merge->stride.npieces - 1].entry.id;
	stride->takes_rest = merge->stride.npieces == 0 ||
		stride->last_piece == plan->manifest->components[plan->manifest->ncomponents - 1].id;
	stride->noutputs = size_outputs(plan);
	return true;
}

RoseMergePlanned
rose_merge_pass_plan(RoseMerge *merge, RoseTree *tree)
{
	RoseClaimsShared *claims = &tree->shared->claims;
	StridePlan *plan = palloc0(sizeof(StridePlan));
	RoseStridesTaken stride = {0};
	bool		shared = rose_merge_is_shared(merge);
	bool		found;

	plan->merge = merge;
	plan->tree = tree;
	if (shared && !rose_claims_plan(claims, &merge->ticket, &plan->taken))
		return ROSE_PLANNED_LATER;
	ROSE_STOP_POINT("pass-plans");
	PG_TRY();
	{
		found = find_stride(plan, &stride);
	}
	PG_CATCH();
	{
		if (shared)
			rose_claims_take_stride(claims, &merge->ticket, NULL);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (shared)
		rose_claims_take_stride(claims, &merge->ticket, found ? &stride : NULL);
	pfree(plan);
	return found ? ROSE_PLANNED_STRIDE : ROSE_PLANNED_NOTHING;
}

/* ---- outputs ---- */

bool
rose_merge_pass_output_full(const RoseMerge *merge)
{
	return merge->out.nread >= merge->stride.cut_rows;
}

/*
 * Where the first output of a stride goes: behind the piece before it, or in front of all
 * of C2.  All strides before are published, so nobody changes what is there.
 */
static uint32
place_of_output(const RoseMerge *merge, const RoseManifest *manifest)
{
	int			first = rose_manifest_first_piece(manifest);
	int			place = manifest->ncomponents;

	for (int i = first; merge->stride.npieces > 0 && i < place; i++)
		if (manifest->components[i].id == merge->stride.pieces[0].entry.id)
			place = i;
	return place > first ? manifest->components[place - 1].id : ROSE_ADD_BY_LEVEL;
}

/* Are the inputs trimmed up to where the stride begins? */
static bool
is_all_before_published(const RoseMerge *merge, const RoseManifest *manifest)
{
	for (int i = 0; i < merge->ninputs; i++)
	{
		const RoseMergeInput *input = &merge->inputs[i];
		const RoseComponentEntryDisk *entry = rose_manifest_find(manifest, input->entry.id);

		if ((entry != NULL ? entry->first_ordinal : input->entry.nrows) != input->from)
			return false;
	}
	return true;
}

bool
rose_merge_pass_publish(RoseMerge *merge, RoseTree *tree)
{
	const RoseManifest *manifest;

	if (rose_merge_is_shared(merge) &&
		rose_claims_turn(&tree->shared->claims, &merge->ticket) != ROSE_STRIDE_NEXT)
	{
		ROSE_STOP_POINT("pass-waits");
		return false;
	}
	manifest = rose_tree_manifest(tree);
	if (!is_all_before_published(merge, manifest))
		elog(ERROR, "a part of a merge of \"%s\" does not follow what was merged before",
			 RelationGetRelationName(tree->rel));
	if (merge->stride.behind == 0)
		merge->stride.behind = place_of_output(merge, manifest);
	rose_merge_publish_part(merge, tree, merge->stride.behind);
	return true;
}
