/*-------------------------------------------------------------------------
 *
 * vector_unit.h
 *	  Parts of the unit test of src/vector.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VECTOR_UNIT_H
#define VECTOR_UNIT_H

extern void test_expr(void);
extern void test_groups(void);

#endif							/* VECTOR_UNIT_H */
