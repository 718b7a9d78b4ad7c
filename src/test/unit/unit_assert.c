/*
 * unit_assert.c
 *	  What a failing Assert calls.  Kept apart from PostgreSQL's headers, because
 *	  its parameters differ between releases; the first is always the condition.
 */
#include <stdio.h>
#include <stdlib.h>

void		ExceptionalCondition(const char *condition);

void
ExceptionalCondition(const char *condition)
{
	fprintf(stderr, "assertion failed: %s\n", condition);
	abort();
}
