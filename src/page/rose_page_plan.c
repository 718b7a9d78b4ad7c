/*-------------------------------------------------------------------------
 *
 * rose_page_plan.c
 *	  How the columns of a page that is being built will be represented.
 *
 * Each column has a plan (rose_codec.h).  On the first page of a builder all codecs are
 * tried on all columns each time the number of rows has grown eightfold, and when the
 * page seems full ("tight" plans, without room for surprises).  A plan looks at all
 * values, so growth by a factor, not by an amount, is what keeps the work in proportion
 * to the rows.  Plans with items are also made anew when the items have grown by a
 * quarter.
 *
 * That costs far more than all the rest, so further pages learn from the ones before.
 * Each column goes on with the codec and the parameters it had; following the values
 * tells exactly what they take, and frames widen by themselves.  When the page is full, a
 * column whose values take noticeably more than a full choice led to ("rate") gets
 * another full choice.  Now and then a page is explored: when it is full, all its columns
 * get one.  If that finds nothing new, the next exploration comes later.
 *
 * With little effort (rose_options.h) only explorations choose; with much, each page is one.
 *
 * A new plan is taken only if it is no larger, so what was accepted always fits.
 *
 * Backend-local; no locks.  Which codec wins among several is
 * codec/rose_codec_choose.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "page/rose_page_build.h"

/* Pages between two explorations. */
#define MIN_EXPLORE_INTERVAL	8
#define MAX_EXPLORE_INTERVAL	128

/*
 * Rows are settled at least this often, while they are still in the processor's caches: a
 * page may have many.
 */
#define MAX_PENDING_ROWS	2048

/*
 * Bytes of a segment of words that no better codec is looked for: so many at most, and
 * this part of what a column has on a page.  Of many columns each takes few, but not all
 * of them together.
 */
#define NEGLIGIBLE_SIZE			32
#define NEGLIGIBLE_PART			8

/* Fewer values than this tell too little about a rate. */
#define MIN_LEARNED_VALUES		16

/* ---- Budget ---- */

int
rose_builder_total_size(const RosePageBuilder *builder)
{
	int64		total = 0;
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		const BuilderColumn *column = &builder->columns[c];

		/* without values there is no segment, whatever the first one will add */
		if (column->buffer.nvalues > 0)
			total += column->buffer.plan.size + rose_builder_nullmap_size(builder, column);
	}
	return (int) Min(total, PG_INT32_MAX);
}

/* Count what a value of the column will take: most words what usual ones do. */
static void
foresee_values(RosePageBuilder *builder, BuilderColumn *column)
{
	const RosePlan *plan = &column->buffer.plan;

	if (plan->usual.kind == ROSE_USUAL_NONE)
	{
		builder->row_bits += plan->value_bits;
		return;
	}
	builder->row_bits += plan->usual.bits;
	builder->budget_bits -= plan->usual.slack;
	column->unusual_bits = plan->usual.unusual_bits;
	builder->unusual_bits += column->unusual_bits;
}

void
rose_builder_renew_budget(RosePageBuilder *builder, int total)
{
	int			c;

	builder->npending = 0;
	builder->pending_bits = builder->reach_bits = 0;
	builder->pending_item_bytes = 0;
	builder->pending_limit = builder->pending_most = MAX_PENDING_ROWS;
	builder->budget_bits = Max(0, builder->available - total) * (int64) 8;
	builder->row_bits = builder->unusual_bits = 0;
	builder->nlooked = builder->nrows;
	builder->dense = builder->nrows > 0;
	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		const RosePlan *plan = &column->buffer.plan;

		column->in_row_bits = column->buffer.nvalues > 0;
		column->unusual_bits = 0;
		column->ahead.values = 0;
		if (!column->in_row_bits)
			continue;
		foresee_values(builder, column);
		builder->dense &= column->nnulls == 0;
		if (column->nnulls > 0)
			builder->row_bits += ROSE_NULLMAP_ROW_BITS;
		builder->pending_limit = Min(builder->pending_limit, plan->spare);
		if (plan->codec->reach == NULL)
			builder->pending_most = Min(builder->pending_most, plan->spare);
	}
	if (builder->dense)
		rose_builder_begin_dense(builder);
}

void
rose_builder_reset_plans(RosePageBuilder *builder)
{
	builder->planned_rows = 0;
	builder->tight_rows = 0;
	builder->headroom = BLCKSZ;
	builder->exploring = builder->explore_in-- <= 0;
	rose_builder_renew_budget(builder, 0);
}

/* ---- Following ---- */

void
rose_builder_settle(RosePageBuilder *builder, const bool *last_nulls)
{
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		RoseColumnBuffer *buffer = &column->buffer;
		int			n = buffer->nvalues;

		if (n == 0)
			continue;
		if (last_nulls != NULL && !last_nulls[c])
			n--;
		if (buffer->plan.n < n && !buffer->plan.codec->extend(buffer, &buffer->plan, n))
			elog(ERROR, "codec \"%s\" refused a value that it had promised to take",
				 buffer->plan.codec->name);
		column->saved = buffer->plan;
	}
}

/* ---- Planning ---- */

static int
rate_of(const RoseColumnBuffer *buffer)
{
	return (int) (buffer->plan.size * INT64CONST(1024) / buffer->nvalues);
}

/* Do the values take about what a full choice led to before?  Or is that all the same? */
static bool
rate_is_good(const RosePageBuilder *builder, const BuilderColumn *column)
{
	int			rate = column->rate;

	if (builder->effort == ROSE_EFFORT_LOW)
		return true;

	/* some bytes are taken once a segment */
	return column->buffer.plan.size <=
		(rate + rate / 32) * (int64) column->buffer.nvalues / 1024 + 16;
}

/* The best plan there is, or one that the page before has taught. */
static bool
make_plan(RosePageBuilder *builder, BuilderColumn *column, bool tight, int headroom,
		  RosePlan *plan)
{
	RoseColumnBuffer *buffer = &column->buffer;
	bool		full_choice = builder->exploring ? tight : tight && !rate_is_good(builder, column);

	if (column->learned.codec != NULL && !full_choice &&
		rose_codec_follow(buffer, &column->learned, tight, headroom, plan))
		return true;
	column->chosen = true;
	return rose_codec_choose(buffer, tight, headroom,
							 Min(NEGLIGIBLE_SIZE,
								 builder->available / builder->ncols / NEGLIGIBLE_PART),
							 builder->effort, plan);
}

/*
 * Plan a column anew; false if it cannot hold its values at all.  The plan that it has
 * stays if it covers all values and is smaller.  For items that is so for tight
 * plans only: otherwise the old plan may have no headroom left.
 */
static bool
replan_column(RosePageBuilder *builder, BuilderColumn *column, bool tight, int headroom)
{
	RoseColumnBuffer *buffer = &column->buffer;
	RosePlan	old = buffer->plan;
	bool		covered = old.n == buffer->nvalues;
	RosePlan	plan;

	if (make_plan(builder, column, tight, headroom, &plan) &&
		(!covered || plan.size <= old.size || (!buffer->is_words && !tight)))
	{
		buffer->plan = plan;
		return true;
	}
	rose_column_buffer_restore(buffer, buffer->nvalues, &old);
	if (!buffer->is_words)
		buffer->plan.spare = 0;
	return covered;
}

/*
 * A new plan is not worth the work if the one at hand goes on with what the page
 * before has taught, needs no headroom for items, and is as good as can be expected.
 */
static bool
may_improve(const RosePageBuilder *builder, const BuilderColumn *column, bool tight)
{
	const RoseColumnBuffer *buffer = &column->buffer;

	if (buffer->nvalues == 0)
		return false;
	if (builder->exploring || column->learned.codec == NULL ||
		buffer->plan.codec != column->learned.codec ||
		(!buffer->is_words && buffer->plan.headroom != PG_INT32_MAX))
		return true;
	return tight && !rate_is_good(builder, column);
}

/* Plan all columns anew; false if one of them cannot hold its values at all. */
static bool
replan(RosePageBuilder *builder, bool tight)
{
	int			headroom = 0;
	int			c;

	if (!tight)
		headroom = (int) Max(builder->available / 4, builder->item_bytes / 4);

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];

		if (may_improve(builder, column, tight) &&
			!replan_column(builder, column, tight, headroom))
			return false;
	}
	builder->planned_rows = builder->nrows;
	if (tight)
		builder->tight_rows = builder->nrows;
	builder->headroom = headroom;
	return true;
}

/* Whatever was accepted unseen fits, if the budget was right. */
static inline void
assert_budget_held(const RosePageBuilder *builder)
{
#ifdef USE_ASSERT_CHECKING
	int64		total = 0;
	int			c;

	for (c = 0; c < builder->ncols; c++)
		total += builder->columns[c].buffer.plan.n > 0 ? builder->columns[c].buffer.plan.size : 0;
	Assert(total <= builder->available);
#endif
}

/* Let the plans follow the last row; those that refuse are made anew. */
static bool
try_last_row(RosePageBuilder *builder)
{
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		RoseColumnBuffer *buffer = &column->buffer;

		if (buffer->plan.n == buffer->nvalues ||
			buffer->plan.codec->extend(buffer, &buffer->plan, buffer->nvalues))
			continue;
		/* it may have moved on before it refused */
		buffer->plan = column->saved;
		if (!replan_column(builder, column, builder->tight_rows > 0,
						   (int) Max(0, builder->headroom)))
			return false;
	}
	return true;
}

/*
 * Is it time to look for better plans?  They are expensive, so on a page that
 * seems full only after it has grown by a few per cent.
 */
static bool
replan_is_due(const RosePageBuilder *builder, int total)
{
	if (total > builder->available)
		return builder->nrows > builder->tight_rows + builder->tight_rows / 32;
	return builder->nrows >= builder->planned_rows * 8 ||
		(builder->headroom <= 0 && builder->tight_rows == 0);
}

bool
rose_builder_settle_last_row(RosePageBuilder *builder, const bool *nulls)
{
	int			total;
	bool		fits;
	bool		seemed_full = false;

	rose_builder_settle(builder, nulls);
	assert_budget_held(builder);
	builder->headroom -= builder->pending_item_bytes;
	fits = try_last_row(builder);
	total = rose_builder_total_size(builder);
	if (fits && replan_is_due(builder, total))
	{
		/* the plans that a page begins with do not tell whether it is full */
		bool		tight = builder->planned_rows > 0 &&
			(total > builder->available || builder->tight_rows > 0);

		seemed_full = tight;
		fits = replan(builder, tight);
		total = rose_builder_total_size(builder);
		if (fits && !tight && total > builder->available)
		{
			fits = replan(builder, true);
			total = rose_builder_total_size(builder);
		}
	}
	if (!fits || total > builder->available)
		return false;
	if (seemed_full && total < builder->available - builder->available / 8)
	{
		/* not full at all: make room for surprises again */
		builder->tight_rows = 0;
		builder->planned_rows = builder->nrows;
	}
	rose_builder_renew_budget(builder, total);
	return true;
}

void
rose_builder_finish_plans(RosePageBuilder *builder)
{
	rose_builder_settle(builder, NULL);
	if (builder->nrows > builder->planned_rows + builder->planned_rows / 8 &&
		builder->tight_rows == 0)
	{
		builder->exploring = true;
		replan(builder, true);
	}
}

/* ---- Learning ---- */

void
rose_builder_learn(RosePageBuilder *builder)
{
	bool		news = false;
	int			c;

	for (c = 0; c < builder->ncols; c++)
	{
		BuilderColumn *column = &builder->columns[c];
		const RosePlan *plan = &column->buffer.plan;
		int			rate;

		if (column->buffer.nvalues < MIN_LEARNED_VALUES && column->learned.codec != NULL)
			continue;
		if (column->buffer.nvalues == 0)
			continue;
		rate = rate_of(&column->buffer);
		if (column->chosen || rate < column->rate)
			column->rate = rate;
		news |= column->learned.codec != plan->codec;
		column->learned = *plan;
		column->chosen = false;
	}
	if (builder->effort == ROSE_EFFORT_HIGH)
		builder->explore_in = 0;
	else if (news)
		builder->explore_in = builder->explore_interval = MIN_EXPLORE_INTERVAL;
	else if (builder->exploring)
		builder->explore_in = builder->explore_interval =
			Min(builder->explore_interval * 2, MAX_EXPLORE_INTERVAL);
}
