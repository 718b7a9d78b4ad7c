/*-------------------------------------------------------------------------
 *
 * rose_node_kernel_parts.h
 *	  What rose_node_kernel.c and its parts are made with.
 *
 * For this folder only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NODE_KERNEL_PARTS_H
#define ROSE_NODE_KERNEL_PARTS_H

#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "nodes/nodeFuncs.h"

#include "scan/rose_node_kernel.h"

/* A new one. */
static inline RoseNodeKernel *
rose_node_kernel_make(RoseNodeKernelKind kind, const Node *expr)
{
	RoseNodeKernel *kernel = palloc0(sizeof(RoseNodeKernel));

	kernel->kind = kind;
	kernel->expr = expr;
	return kernel;
}

/* One that is there; or NULL. */
static inline RoseNodeKernel *
rose_node_kernel_find(const RoseNodeKernels *kernels, const Node *expr, bool is_decimal)
{
	ListCell   *cell;

	foreach(cell, kernels->all)
	{
		RoseNodeKernel *kernel = lfirst(cell);

		if (kernel->is_decimal == is_decimal && equal(kernel->expr, expr))
			return kernel;
	}
	return NULL;
}

/* Its values, or the one that it is. */
static inline RoseVecOperand
rose_node_kernel_operand(const RoseNodeKernel *kernel)
{
	if (kernel->kind == ROSE_KERNEL_CONSTANT)
		return (RoseVecOperand) {NULL, kernel->constant};
	return (RoseVecOperand) {kernel->values, 0};
}

#endif							/* ROSE_NODE_KERNEL_PARTS_H */
