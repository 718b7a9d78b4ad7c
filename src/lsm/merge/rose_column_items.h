/*-------------------------------------------------------------------------
 *
 * rose_column_items.h
 *	  What a sort of columns sorts in memory: the first bytes of a key, and the row that has
 *	  it.
 *
 * Core's sort template, for rose_column_sort.c alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COLUMN_ITEMS_H
#define ROSE_COLUMN_ITEMS_H

#include "postgres.h"

/* A row in memory. */
typedef struct RoseSortItem
{
	uint64		word[2];		/* of its key, as rose_key_prefix_make says them */
	uint32		row;
} RoseSortItem;

/* Who compares the keys of items whose words are equal; NULL: they never are. */
typedef struct RoseSortTies
{
	int			(*compare) (const RoseSortItem *a, const RoseSortItem *b, void *arg);
	void	   *arg;
} RoseSortTies;

static inline int
rose_sort_compare_items(const RoseSortItem *a, const RoseSortItem *b, const RoseSortTies *ties)
{
	if (a->word[0] != b->word[0])
		return a->word[0] < b->word[0] ? -1 : 1;
	if (a->word[1] != b->word[1])
		return a->word[1] < b->word[1] ? -1 : 1;
	return ties->compare == NULL ? 0 : ties->compare(a, b, ties->arg);
}

#define ST_SORT rose_sort_items
#define ST_ELEMENT_TYPE RoseSortItem
#define ST_COMPARE(a, b, ties) rose_sort_compare_items(a, b, ties)
#define ST_COMPARE_ARG_TYPE RoseSortTies
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

#endif							/* ROSE_COLUMN_ITEMS_H */
