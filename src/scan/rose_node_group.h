/*-------------------------------------------------------------------------
 *
 * rose_node_group.h
 *	  Rose Aggregate with groups: its keys, columns and table.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_GROUP_H
#define ROSE_NODE_GROUP_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "vector/rose_vec_group.h"
#include "scan/rose_node_agg.h"
#include "scan/rose_node_column.h"
#include "scan/rose_node_expr.h"
#include "scan/rose_node_group_intern.h"

/* custom_private of a plan with groups */
typedef enum RoseNodeGroupPrivate
{
	ROSE_GROUP_ORDERED,			/* groups are given out in the order of the table's key: rows of one come together */
	ROSE_GROUP_ESTIMATE,		/* how many groups the planner expects */
	ROSE_GROUP_PRIVATE
} RoseNodeGroupPrivate;

/*
 * Rows of a group from which on it pays that states are made of them, which core puts together.  Wide ones (ROSE_AGG_IS_WIDE) take
 * core long to read.
 */
#define ROSE_GROUP_ROWS_THAT_PAY(wide)	((wide) ? 16 : 4)

/* How a column's values are made words, so that equal words are equal values. */
typedef enum RoseNodeKeyKind
{
	ROSE_KEY_NONE,				/* not known */
	ROSE_KEY_WORD,				/* they are words */
	ROSE_KEY_FLOAT4,			/* -0 is 0, NaN is NaN */
	ROSE_KEY_FLOAT8,
	ROSE_KEY_BYTES,				/* by reference: the number of their bytes */
	ROSE_KEY_BPCHAR,			/* the same without blanks at the end */
	ROSE_KEY_NUMERIC			/* the same without zeros at the end */
} RoseNodeKeyKind;

/* --- what may be a key (rose_node_group_kinds.c) --- */

/*
 * ROSE_KEY_NONE: this node cannot group by it.  *key: what it is, a column of the relation (Var) or an expression.  equality: the operator
 * by which values are to be told apart; or InvalidOid, that of the type.
 */
extern RoseNodeKeyKind rose_node_group_key_kind(const Node *expr, Oid equality, const Node **key);

/* Are values of such keys equal if, and only if, this node takes them for one?  Else some that are equal may be several. */
extern bool rose_node_group_keys_are_exact(List *exprs);

/* Is what is at i in the target one of the query's GROUP BY, and if so, told apart by which operator? */
extern bool rose_node_group_is_key(PlannerInfo *root, const PathTarget *target, int i,
								   Oid *equality);

/* --- columns of the rows at hand, and expressions (rose_node_group_columns.c) --- */
typedef struct RoseNodeGroupColumn
{
	AttrNumber	attno;			/* 0: none */
	RoseNodeExpr *expr;			/* or NULL; with neither, there are values but where the filter leaves rows out */
	int			length;			/* of a column's value; -1: it is by reference, and values are Datums */
	int16		typlen;			/* of its type */
	bool		by_value;
	bool		wanted;			/* somebody asks what is in it, not only which are NULL */
	RoseNodeExpr *filter;		/* rows that it leaves out have NULL; or NULL */
	bool		loaded;
	bool		any_null;
	const RoseNodeDecimals *decimals;	/* values are integers in the place of numerics; NULL: they are not */
	int64	   *values;			/* of selected rows, one after the other; of NULLs 0 */
	bool	   *nulls;
} RoseNodeGroupColumn;

typedef struct RoseNodeGroupColumns
{
	const RoseNodeRows *rows;
	RoseNodeExprSet *exprs;
	int			ncolumns;
	RoseNodeGroupColumn *columns;
} RoseNodeGroupColumns;

/*
 * The number of a column (Var), an expression or, NULL, neither, which is added if it is not there.  There is room for it.  takes_decimals: as
 * rose_node_exprs_add_decimals.
 */
extern int	rose_node_group_columns_add(RoseNodeGroupColumns *columns, TupleDesc desc,
										const Node *node, bool takes_decimals, RoseNodeExpr *filter);

/* These are the rows at hand.  REQUIRES: nobody needs values of others by reference. */
extern void rose_node_group_columns_start(RoseNodeGroupColumns *columns, const RoseNodeRows *rows);

extern RoseNodeGroupColumn *rose_node_group_columns_load(RoseNodeGroupColumns *columns, int number);

/* --- keys (rose_node_group_keys.c) --- */
typedef struct RoseNodeKeyMemo
{
	Datum		value;
	uint32		stamp;
	uint32		number;
} RoseNodeKeyMemo;

typedef struct RoseNodeGroupKey
{
	RoseNodeKeyKind kind;
	int			typlen;
	int			column;			/* its number */
	int			target;			/* where it goes, in a slot */
	int64	   *words;			/* of selected rows; NULL: the column's values are it */

	/* if words do not tell the value */
	Datum	   *values;			/* of groups, that of the row that came first */
	RoseNodeIntern *intern;		/* by reference only; or NULL */
	RoseNodeIntern *forms;		/* of values that are equal and may differ, those that do not look as intern has them; or NULL */
	uint32		stamp;			/* counts rows at hand */
	RoseNodeKeyMemo *memo;		/* of values that stand in one place */
} RoseNodeGroupKey;

extern void rose_node_group_key_init(RoseNodeGroupKey *key);

/* There are other rows at hand. */
extern void rose_node_group_key_start(RoseNodeGroupKey *key);

/* Bytes that its values are in. */
extern Size rose_node_group_key_memory(const RoseNodeGroupKey *key);

/* The same, and what one value more takes beside itself. */
extern Size rose_node_group_key_needs(const RoseNodeGroupKey *key);

/* A row's value, whose word was made; by reference: a copy of it that stays until values are forgotten. */
extern Datum rose_node_group_key_kept(const RoseNodeGroupKey *key, Datum value, int64 word);

/* Forget all values. */
extern void rose_node_group_key_reset(RoseNodeGroupKey *key);

/* Forget all values but that of the first group, whose word is given, and may become another one. */
extern void rose_node_group_key_forget(RoseNodeGroupKey *key, int64 *word);

/* Make words of rows [from, to); returns the row before which there is too much in memory, more than limit, or to. */
extern int	rose_node_group_key_words(RoseNodeGroupKey *key, const RoseNodeGroupColumn *column,
									  int from, int to, Size limit);

/*
 * The same, but of values that have a word, no others get one: unknown[i] becomes true of row from + i whose value has none.  What is detoasted is
 * left in the current context.
 */
extern void rose_node_group_key_look_up(RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int from, int to,
										bool *unknown);

/*
 * A hash of a row's value, whose words were made or looked up, and a seed: the same of all values that are equal.  The same of what is detoasted.
 */
extern uint64 rose_node_group_key_hash(const RoseNodeGroupKey *key, const RoseNodeGroupColumn *column, int row, uint64 seed);

/* The value of a group's key. */
extern Datum rose_node_group_key_value(const RoseNodeGroupKey *key, const RoseVecGroups *groups,
									   uint32 group, int number, bool *isnull);

/* --- groups (rose_node_group_table.c) --- */
typedef struct RoseNodeGroupAgg
{
	RoseNodeAggKind kind;
	Oid			type;
	int			column;			/* its number; of ROSE_AGG_ROWS: -1 */
	int			target;
	int			same;			/* another one's number, whose states are its own; or its own */
	char	   *cells;			/* rose_node_group_cells.h */
	RoseNodeTextOrder order;	/* of texts */
	RoseNodeAggMemory memory;	/* of cells */
	void	   *room;			/* for a state that is emitted */
} RoseNodeGroupAgg;

typedef struct RoseNodeGroupTable
{
	MemoryContext context;
	Size		limit;			/* bytes */
	Size		peak;
	int			nkeys;
	RoseNodeGroupKey *keys;
	int			naggs;
	RoseNodeGroupAgg *aggs;
	RoseVecGroups groups;
	RoseVecDense dense;
} RoseNodeGroupTable;

/* Bytes that groups may take, with all that they need. */
extern Size rose_node_group_table_limit(void);

/* keys and aggs are there. */
extern void rose_node_group_table_init(RoseNodeGroupTable *table, Size limit);

/* Room for n groups more; false: give out those that there are first, all but those that stay. */
extern bool rose_node_group_table_make_room(RoseNodeGroupTable *table, int n, uint32 stay);

/* The same of as many of n as there is room for; returns how many, or 0. */
extern int	rose_node_group_table_make_some_room(RoseNodeGroupTable *table, int n);

/* Bytes that it takes, with all that is in it. */
extern Size rose_node_group_table_bytes(const RoseNodeGroupTable *table);

/* Bytes that keys' values may take beside it. */
extern Size rose_node_group_table_rest(const RoseNodeGroupTable *table);

/* So many groups like those that there are may be there, about. */
extern double rose_node_group_table_most(const RoseNodeGroupTable *table);

/* Notes the values of groups from first on: rows[] of the vector. */
extern void rose_node_group_table_note(RoseNodeGroupTable *table,
									   const RoseNodeGroupColumns *columns, uint32 first,
									   int from, const uint16 *rows, int n);

/* Forget groups [0, n); those behind stay, of which there is one at most. */
extern void rose_node_group_table_forget(RoseNodeGroupTable *table, uint32 n);

/* --- execution (rose_node_group.c) --- */

/* Does a plan of a Rose Aggregate have groups?  If so, its state. */
extern bool rose_node_group_is(const CustomScan *plan);
extern Node *rose_node_group_create(CustomScan *plan);

typedef enum RoseNodeGroupStrategy
{
	ROSE_GROUP_ONE,				/* all rows at hand are of one group */
	ROSE_GROUP_RUNS,
	ROSE_GROUP_DENSE,
	ROSE_GROUP_HASHED,
	ROSE_GROUP_PASSED,
	ROSE_GROUP_STRATEGIES
} RoseNodeGroupStrategy;

typedef struct RoseNodeGroup
{
	CustomScanState css;		/* first */
	struct RoseNodeScan *scan;
	bool		ordered;
	RoseNodeGroupColumns columns;
	RoseNodeGroupTable table;

	/* rows at hand */
	int			nrows;
	int			taken;			/* of them */
	RoseVecKeys keys;
	uint32	   *flags;			/* arrays as long as a vector */
	uint32	   *hashes;
	uint32	   *found;
	uint32	   *kept;
	int64	   *values;
	uint16	   *added;
	uint16	   *starts;			/* of runs */
	uint32	   *run_groups;
	int			nruns;			/* 0: nothing is known of runs */
	bool		spread;			/* found tells rows' groups, also where runs are known */

	struct RoseNodeGroupSpill *spill;	/* for rows of groups that there is no room for; NULL: groups are given out in parts */

	/* what is given out */
	bool		ended;			/* there are no rows any more */
	uint32		at;				/* groups before this one were ... */
	uint32		end;			/* ... and those from this one on are not ready */

	/* others are not given out (rose_node_top.h) */
	struct RoseNodeTop *top;	/* NULL: all are */
	int			top_target;		/* the number of rows by which they are ordered */
	uint64		skipped;

	/* does grouping make fewer of them?  (rose_node_group_pass.c) */
	bool		in_one_part;	/* who adds up floats has each group in one part */
	bool		judged;			/* it was asked since the table was empty */
	uint64		rows_since;		/* since the table was empty */
	uint64		rows_seen;		/* since the scan began */
	uint64		passing;		/* rows that are passed on without asking */
	bool		may_retreat;	/* there is another plan (rose_node_choice.h) ... */
	bool		retreated;		/* ... which is to be run */
	bool		must_be_whole;	/* parts of groups are good for nothing */
	bool		whole_pays;		/* groups that all fit are worth it, however few rows they have */
	uint64		sample;			/* rows after which it is asked whether it is; 0: it is not asked any more */
	bool		wide;			/* states are large, and core takes long to read them */
	double		expected;		/* groups */
	int			passed;			/* rows at hand before this one were given out ... */
	int			passed_end;		/* ... and those before this one will be */

	uint64		strategies[ROSE_GROUP_STRATEGIES];	/* vectors, or parts of one */
	uint64		flushes;
} RoseNodeGroup;

/*
 * Before the first row is asked for: will each group be given out once, as they come in order, or all fit into memory, or go on on tapes?  To know that, they
 * are made, as far as they fit.
 */
extern bool rose_node_group_are_whole(RoseNodeGroup *group);

/* Ordered groups that are given out together. */
#define ROSE_GROUP_ORDERED_GROUPS	1024

/* Which keys of rows [from, to) are NULL, into group->keys.flags (rose_node_group_keys.c).  REQUIRES: they are loaded. */
extern void rose_node_group_find_flags(RoseNodeGroup *group, int from, int to);

/* --- rows of groups that there is no room for (rose_node_group_spill.c) --- */

/* From now on, before the first row is asked for: groups are given out once, whatever there is room for. */
extern void rose_node_group_spill_init(RoseNodeGroup *group);

/* Is there no room for more?  Then rows are taken by the next one. */
extern bool rose_node_group_spill_is_writing(const RoseNodeGroup *group);

/* There is no room for more groups than there are; until the rows end. */
extern void rose_node_group_spill_start(RoseNodeGroup *group);

/* Take the rest of the rows at hand: those of groups that are there, and others to the tapes.  Returns how many. */
extern int	rose_node_group_spill_take(RoseNodeGroup *group);

/* There are no rows any more, of the scan or the batch: groups are complete. */
extern void rose_node_group_spill_finish(RoseNodeGroup *group);

/* Groups were given out.  False: there are no rows on tapes; else they are to be read. */
extern bool rose_node_group_spill_next_batch(RoseNodeGroup *group);

/* Are rows at hand from tapes?  If so, the next ones; false: there are none. */
extern bool rose_node_group_spill_is_reading(const RoseNodeGroup *group);
extern bool rose_node_group_spill_next_rows(RoseNodeGroup *group);

/* There are no rows any more. */
extern void rose_node_group_spill_reset(RoseNodeGroup *group);

/* What there was so far: batches, 0 if there was room for all groups; bytes of the disk. */
extern uint64 rose_node_group_spill_batches(const RoseNodeGroup *group);
extern uint64 rose_node_group_spill_disk(const RoseNodeGroup *group);

/* --- rows that are not grouped (rose_node_group_pass.c) --- */

/* keys and aggregates are there. */
extern void rose_node_group_pass_init(RoseNodeGroup *group);

/* The scan begins anew. */
extern void rose_node_group_pass_reset(RoseNodeGroup *group);

/* Rows were grouped.  True: it is not worth it, as it seems. */
extern bool rose_node_group_pass_judge(RoseNodeGroup *group);

/* About so many groups are all of the rows of which those that were grouped are the first. */
extern double rose_node_group_pass_extrapolate(const RoseNodeGroup *group);

/* Rows were grouped; full: and there is no room.  True: nothing was given out, and another plan had better be run. */
extern bool rose_node_group_pass_retreats(RoseNodeGroup *group, bool full);

/* The table is given out, as it is full, or was judged: are rows to be passed on next? */
extern void rose_node_group_pass_choose(RoseNodeGroup *group, bool judged);

/* Have the rows at hand that were not taken be passed on. */
extern void rose_node_group_pass_rows(RoseNodeGroup *group);

/* One of them. */
extern void rose_node_group_pass_emit(RoseNodeGroup *group, TupleTableSlot *slot);

/* What EXPLAIN says of it (rose_node_group_explain.c). */
extern void rose_node_group_explain(CustomScanState *css, List *ancestors,
									struct ExplainState *es);

/* --- how many groups (rose_node_group_estimate.c) --- */

/* Of so many rows, by these expressions; never more than core expects. */
extern double rose_node_group_estimate(PlannerInfo *root, List *exprs, double rows);

/* --- costs, paths (rose_node_group_paths.c) --- */

/* Is each row a group of its own, whatever is estimated? */
extern bool rose_node_group_is_row(const RelOptInfo *rel, List *exprs);

/* Bytes that so many groups take in memory, with what target says; and may they? */
extern double rose_node_group_expected_bytes(const PathTarget *target, double ngroups);
extern bool rose_node_group_fits_memory(const PathTarget *target, double ngroups);

/* Offer paths that group by the query's GROUP BY; target: of partial aggregates and keys. */
extern void rose_node_group_add_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
									  void *extra, PathTarget *partial, PathTarget *scanned);

#endif							/* ROSE_NODE_GROUP_H */
