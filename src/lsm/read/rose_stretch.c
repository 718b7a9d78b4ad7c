/*-------------------------------------------------------------------------
 *
 * rose_stretch.c
 *	  Stretches: rows in place that a scan passes on as they are.
 *
 * A source says which of its rows are results if no other source has their keys
 * (rose_source.h).  A stretch goes as far as they go, or to the next key of another
 * source.
 *
 * Where no other source has any rows left, a stretch that was taken to the end of its
 * rows may be followed by the next rows of its source, of which nothing but their number
 * needs to be known: who only counts reads no leaves.
 *
 * What a stretch is for the scan is in rose_output.h.  Nothing is judged here.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lsm/read/rose_output.h"

bool
rose_stretch_begin(RoseOutput *output, RoseSource *source, const RoseSource *rival)
{
	Assert(!rose_stretch_is_open(&output->stretch));
	Assert(output->reading->vis->kind == ROSE_SNAPSHOT_MVCC);
	if (!source->ops->at_hand(source, rival, &output->stretch))
		return false;
	output->source = source;
	output->first = output->stretch.next;
	output->alone = rival == NULL;
	return true;
}

bool
rose_stretch_is_last(const RoseOutput *output)
{
	Assert(!rose_stretch_has_row(&output->stretch));
	return output->stretch.last && output->alone && !rose_weave_is_open(output);
}

bool
rose_stretch_go_on(RoseOutput *output)
{
	RoseStretch *stretch = &output->stretch;
	RoseSource *source = output->source;

	if (stretch->rows == NULL || stretch->end < stretch->rows->nrows || !output->alone ||
		rose_weave_is_open(output) || source->ops->next_rows == NULL ||
		!source->ops->next_rows(source, stretch))
		return false;
	output->first = stretch->next;
	return true;
}

void
rose_stretch_forget(RoseOutput *output)
{
	(void) rose_weave_close(output, false);
	output->back_source = NULL;
	memset(&output->stretch, 0, sizeof(output->stretch));
	output->source = NULL;
}

/* The key of the row of the stretch that was taken last. */
static void
copy_last_key(const RoseStretch *stretch, Datum *key, MemoryContext context)
{
	const RoseSchema *schema = stretch->rows->schema;
	Datum		last[INDEX_MAX_KEYS];

	stretch->rows->ops->key(stretch->rows, stretch->next - 1, last);
	MemoryContextReset(context);
	rose_key_copy(schema, key, last, context);
}

RoseLeft
rose_stretch_leave(RoseOutput *output, Datum *key, MemoryContext context)
{
	RoseSource *source = output->source;
	bool		in_weave = rose_weave_is_open(output);
	bool		weave_done = in_weave && rose_weave_is_done(output);
	int			next = output->stretch.next;
	RoseLeft	left;

	left.taken = in_weave ? rose_weave_last_taken(output) : next > output->first;
	left.repeats = in_weave || source->repeats || source->entry == NULL;
	if (left.taken)
		copy_last_key(&output->stretch, key, context);

	/* lets go of leaves first, which may be loaded anew then */
	left.placed = in_weave && rose_weave_close(output, weave_done) && weave_done;
	rose_stretch_forget(output);
	if (!in_weave)
	{
		source->ops->go_to(source, next);
		left.placed = source->state != ROSE_SOURCE_GONE;
	}
	return left;
}

const RoseRow *
rose_stretch_next_row(RoseOutput *output)
{
	return output->source->ops->take(output->source, output->stretch.next++);
}

/* ---- backward ---- */

const RoseRow *
rose_stretch_begin_backward(RoseOutput *output, RoseSource *source, const RoseSource *rival)
{
	Assert(output->back_source == NULL);
	if (source->ops->at_hand_backward == NULL || output->reading->vis->kind != ROSE_SNAPSHOT_MVCC ||
		!source->ops->at_hand_backward(source, rival, &output->back))
		return NULL;
	output->back_source = source;
	return source->row;
}

const RoseRow *
rose_stretch_next_backward(RoseOutput *output)
{
	RoseSource *source = output->back_source;

	if (output->back.next <= output->back.end)
		return NULL;
	output->back.next--;
	rose_source_advance(source, BackwardScanDirection);
	return source->row;
}

RoseSource *
rose_stretch_leave_backward(RoseOutput *output, Datum *key, MemoryContext context)
{
	RoseSource *source = output->back_source;

	MemoryContextReset(context);
	rose_key_copy(output->reading->tree->schema, key, source->row->key, context);
	output->back_source = NULL;
	return source;
}
