/*-------------------------------------------------------------------------
 *
 * server_unit.h
 *	  What the unit tests that need a server share: the rows of an index's table as
 *	  entries, and how the index itself orders them.
 *
 * Linked with rose's own objects, so nothing of the library under test is exported for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_UNIT_H
#define SERVER_UNIT_H

#include "postgres.h"

#include "utils/rel.h"

#include "util/rose_index_def.h"
#include "lsm/component/rose_component_internal.h"

#define MAX_ROWS	200

typedef struct Row
{
	Datum	   *values;			/* of the table */
	bool	   *nulls;
	int64		rowid;
	MinimalTuple entry;
	Datum		key[INDEX_MAX_KEYS];
	RoseKeyPrefix prefix;
	uint64		hash;
} Row;

typedef struct Tester
{
	Relation	heap;
	Relation	index;
	Relation	primary;		/* or NULL */
	RoseSchema *base;
	RoseIndexDef def;
	RoseSchema *schema;
	int			nrows;
	Row			rows[MAX_ROWS];
	Row		   *sorted[MAX_ROWS];	/* as the tree has them, by the twin */
	int64		ncompared;
} Tester;

/* A format that begins with the index's name, NAME(tester). */
#define CHECK(condition, ...) \
	do { \
		if (!(condition)) \
			elog(ERROR, "index %s: " __VA_ARGS__); \
	} while (0)

#define NAME(tester)	RelationGetRelationName((tester)->index)

/* server_unit_rows.c */
extern Tester *tester_open(Oid indexid);
extern void tester_close(Tester *tester);

/* The order of the index's columns, from its catalog entry alone. */
extern int	twin_columns(Relation index, int ncolumns, const Row *a, const Row *b);

/* That of rows in the tree. */
extern int	twin_compare(const Tester *tester, const Row *a, const Row *b);

/* server_unit_inner.c */
extern void check_inner_pages(Tester *tester);

#endif							/* SERVER_UNIT_H */
