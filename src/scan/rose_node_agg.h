/*-------------------------------------------------------------------------
 *
 * rose_node_agg.h
 *	  Rose Aggregate: which aggregates it knows, and their states.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_AGG_H
#define ROSE_NODE_AGG_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "nodes/primnodes.h"

#include "scan/rose_node_agg_extreme.h"
#include "scan/rose_node_agg_numeric.h"
#include "scan/rose_node_agg_text.h"

struct RoseNodeScan;

/* What is done with the values of a column that are not NULL. */
typedef enum RoseNodeAggKind
{
	ROSE_AGG_NONE,				/* not known */
	ROSE_AGG_ROWS,				/* rows are counted, whatever is in them */
	ROSE_AGG_COUNT,
	ROSE_AGG_SUM,				/* int8, modulo 2^64, or NULL */
	ROSE_AGG_AVG,				/* int8[2]: number, sum modulo 2^64 */
	ROSE_AGG_SUM_WIDE,			/* int8_avg_serialize's: number, sum */
	ROSE_AGG_SUM_NUMERIC,		/* numeric_avg_serialize's */
	ROSE_AGG_SUM_FLOAT4,
	ROSE_AGG_SUM_FLOAT8,
	ROSE_AGG_ACCUM_FLOAT4,		/* float8[3]: number, sum, and sum of squared differences as far as it shows */
	ROSE_AGG_ACCUM_FLOAT8,
	ROSE_AGG_MIN,
	ROSE_AGG_MAX,
	ROSE_AGG_MIN_FLOAT4,
	ROSE_AGG_MIN_FLOAT8,
	ROSE_AGG_MAX_FLOAT4,
	ROSE_AGG_MAX_FLOAT8,
	ROSE_AGG_AND,
	ROSE_AGG_OR,
	ROSE_AGG_MIN_TEXT,
	ROSE_AGG_MAX_TEXT,
	ROSE_AGG_MIN_NUMERIC,
	ROSE_AGG_MAX_NUMERIC
} RoseNodeAggKind;

/* Is the kind of texts?  Then its values are Datums. */
#define ROSE_AGG_IS_OF_TEXT(kind) ((kind) == ROSE_AGG_MIN_TEXT || (kind) == ROSE_AGG_MAX_TEXT)

/* Or of numerics?  Then they are Datums, or integers. */
#define ROSE_AGG_IS_OF_NUMERIC(kind) \
	((kind) == ROSE_AGG_SUM_NUMERIC || (kind) == ROSE_AGG_MIN_NUMERIC || (kind) == ROSE_AGG_MAX_NUMERIC)
#define ROSE_AGG_IS_BY_REFERENCE(kind) (ROSE_AGG_IS_OF_TEXT(kind) || ROSE_AGG_IS_OF_NUMERIC(kind))

/* Does it add up floats?  Then the order in which values come shows, and which of them are added up apart from others. */
#define ROSE_AGG_ADDS_FLOATS(kind) \
	((kind) >= ROSE_AGG_SUM_FLOAT4 && (kind) <= ROSE_AGG_ACCUM_FLOAT8)

/* Is a state of it serialised, and read again by core? */
#define ROSE_AGG_IS_WIDE(kind) ((kind) == ROSE_AGG_SUM_WIDE || (kind) == ROSE_AGG_SUM_NUMERIC)

/* The state of an aggregate over the values so far. */
typedef struct RoseNodeAggState
{
	RoseNodeAggKind kind;
	Oid			type;			/* of the values; of ROWS and COUNT: nobody's business */
	int			column;			/* rose_node_agg.c's number of it; ROWS: none */
	int64		n;				/* values */
	int64		word;			/* sum, extreme or bits */
#ifdef HAVE_INT128
	int128		wide;			/* sum */
#endif
	float4		real4;			/* sum */
	float8		real8;			/* sum or extreme, also of float4; of ACCUM the sum, ... */
	float8		squares;		/* ... and this, but for what never shows (rose_node_float_average) */
	void	   *room;			/* for what is emitted */
	RoseNodeNumericSum numeric;
	RoseNodeAggMemory *memory;	/* of numerics, texts */
	RoseNodeTextExtreme text;
	RoseNodeNumericExtreme extreme;
	RoseNodeTextOrder order;	/* of texts */
} RoseNodeAggState;

/* --- what can be aggregated (rose_node_agg_kinds.c) --- */

/*
 * ROSE_AGG_NONE: this node cannot do it.  *argument: what it takes, a column of the relation (Var) or an expression; NULL: it counts rows, with
 * a FILTER those that this selects, as ROSE_AGG_COUNT.
 */
extern RoseNodeAggKind rose_node_agg_kind(const Aggref *aggref, const Node **argument);

/* May values of the argument be integers in the place of numerics (rose_node_exprs_add_decimals)? */
extern bool rose_node_agg_takes_decimals(RoseNodeAggKind kind, const Node *argument);

/* --- states (rose_node_agg_state.c) --- */
extern void rose_node_agg_state_reset(RoseNodeAggState *state);

/*
 * Take so many values, none of them NULL, as rose_batch_words has them; of COUNT only their number.
 * What is detoasted is left in the current context.
 */
extern void rose_node_agg_state_take(RoseNodeAggState *state, const int64 *values, int n);

/* Does the state need no more of values than their extremes, in the order of words, and how many there are? */
extern bool rose_node_agg_state_needs_extremes(const RoseNodeAggState *state);

/* Of such a one: take so many values, none of them NULL, with these extremes. */
extern void rose_node_agg_state_take_extremes(RoseNodeAggState *state, int64 min, int64 max, int n);

/*
 * The same of a kind that takes decimals, of integers, but for those of NULLs (nulls: NULL, there are none).
 */
extern void rose_node_agg_state_take_decimals(RoseNodeAggState *state, const RoseNodeDecimals *decimals, const int64 *values,
											  const bool *nulls, int n);

/*
 * The state as core's Finalize Aggregate takes it, in the current context, or in room: of rose_node_agg_room, which is what the kind needs
 * for that, until the next one is made there.
 */
extern void *rose_node_agg_room(RoseNodeAggKind kind);
extern Datum rose_node_agg_state_emit(const RoseNodeAggState *state, void *room, bool *isnull);

/* The same of one value, or of none, without a state.  A text is the value itself. */
extern Datum rose_node_agg_single(RoseNodeAggKind kind, Oid type, int64 value, bool none, void *room,
								  bool *isnull);

/* The same of one integer among such that stand for numerics. */
extern Datum rose_node_agg_single_decimal(RoseNodeAggKind kind, const RoseNodeDecimals *decimals, int row, int64 value,
										  bool none, bool *isnull);

/* Are emitted states those of core's functions?  Asked once in a session. */
extern bool rose_node_agg_states_agree(void);

/* --- rows of the scan below (rose_node_agg_rows.c) --- */

/* The scan's next rows, as if it were run: in scan->rows; false: there are none. */
extern bool rose_node_agg_next_rows(struct RoseNodeScan *scan);

/* --- the plan (rose_node_agg_plan.c, rose_node_agg.c) --- */

/*
 * scanrelid is 0, custom_scan_tlist is a list of partial Aggrefs of columns of the scan's table, and of expressions of these; custom_plans is the
 * Rose Scan.  With groups (custom_private is not NIL: rose_node_group.h) columns and expressions are among the list, too.
 */
extern const CustomScanMethods rose_node_agg_methods;

/* A path of the scan's partial aggregates, as target says; costs are to be filled in. */
extern CustomPath *rose_node_agg_path(PlannerInfo *root, RelOptInfo *grouped, PathTarget *target,
									  CustomPath *scan);

/* The states of all processes, of such a path of a partial scan. */
extern Path *rose_node_agg_gather_path(PlannerInfo *root, CustomPath *path);

#endif							/* ROSE_NODE_AGG_H */
