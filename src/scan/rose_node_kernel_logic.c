/*-------------------------------------------------------------------------
 *
 * rose_node_kernel_logic.c
 *	  Conditions and choices of all selected rows at once: AND, OR, NOT, IS NULL, CASE, COALESCE.
 *
 * Values of all arguments are there, also of those that a row does not come to.  If one of these has an error, that is found before
 * (rose_node_kernel.c).
 *
 * Truth is a word, 1 or 0, and perhaps NULL, of which the word is 0.  Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat/rose_compat_am.h"	/* first: see there */

#include "scan/rose_node_kernel.h"

/* The value of a row of an argument, which may be a constant. */
static inline int64
value_at(const RoseNodeKernel *kernel, int i)
{
	return kernel->kind == ROSE_KERNEL_CONSTANT ? kernel->constant : kernel->values[i];
}

static inline bool
null_at(const RoseNodeKernel *kernel, int i)
{
	return kernel->kind == ROSE_KERNEL_CONSTANT ? kernel->is_null : kernel->any_null && kernel->nulls[i];
}

/* AND is true where no argument is false or NULL, and OR is false where none is true or NULL. */
static void
run_list(RoseNodeKernel *kernel, int n)
{
	bool		decides = kernel->kind == ROSE_KERNEL_OR;	/* what decides, whatever others are */
	ListCell   *cell;

	memset(kernel->nulls, false, n * sizeof(bool));
	for (int i = 0; i < n; i++)
		kernel->values[i] = !decides;
	foreach(cell, kernel->args)
	{
		const RoseNodeKernel *arg = lfirst(cell);

		for (int i = 0; i < n; i++)
		{
			bool		null = null_at(arg, i);

			kernel->nulls[i] |= null;
			if (!null && (value_at(arg, i) != 0) == decides)
				kernel->values[i] = decides;
		}
	}
	kernel->any_null = false;
	for (int i = 0; i < n; i++)
	{
		kernel->nulls[i] &= kernel->values[i] != decides;
		kernel->any_null |= kernel->nulls[i];
		if (kernel->nulls[i])
			kernel->values[i] = 0;
	}
}

static void
run_not(RoseNodeKernel *kernel, int n)
{
	kernel->any_null = kernel->a->any_null;
	for (int i = 0; i < n; i++)
	{
		bool		null = null_at(kernel->a, i);

		kernel->nulls[i] = null;
		kernel->values[i] = !null && kernel->a->values[i] == 0;
	}
}

static void
run_null_test(RoseNodeKernel *kernel, int n)
{
	kernel->any_null = false;
	memset(kernel->nulls, false, n * sizeof(bool));
	for (int i = 0; i < n; i++)
		kernel->values[i] = null_at(kernel->a, i) == (kernel->kind == ROSE_KERNEL_IS_NULL);
}

static inline void
take(RoseNodeKernel *kernel, const RoseNodeKernel *from, int i)
{
	kernel->nulls[i] = null_at(from, i);
	kernel->values[i] = kernel->nulls[i] ? 0 : value_at(from, i);
	kernel->any_null |= kernel->nulls[i];
}

/* The first one whose condition is true. */
static void
run_case(RoseNodeKernel *kernel, int n)
{
	const List *args = kernel->args;
	int			nwhens = list_length(args) / 2;

	kernel->any_null = false;
	for (int i = 0; i < n; i++)
	{
		int			when = 0;

		while (when < nwhens && value_at(list_nth(args, 2 * when), i) == 0)
			when++;
		take(kernel, list_nth(args, when < nwhens ? 2 * when + 1 : 2 * nwhens), i);
	}
}

/* The first one that is not NULL, or the last one. */
static void
run_coalesce(RoseNodeKernel *kernel, int n)
{
	int			nargs = list_length(kernel->args);

	kernel->any_null = false;
	for (int i = 0; i < n; i++)
	{
		int			at = 0;

		while (at < nargs - 1 && null_at(list_nth(kernel->args, at), i))
			at++;
		take(kernel, list_nth(kernel->args, at), i);
	}
}

void
rose_node_kernel_logic_run(RoseNodeKernel *kernel, int n)
{
	switch (kernel->kind)
	{
		case ROSE_KERNEL_AND:
		case ROSE_KERNEL_OR:
			run_list(kernel, n);
			break;
		case ROSE_KERNEL_NOT:
			run_not(kernel, n);
			break;
		case ROSE_KERNEL_IS_NULL:
		case ROSE_KERNEL_IS_NOT_NULL:
			run_null_test(kernel, n);
			break;
		case ROSE_KERNEL_CASE:
			run_case(kernel, n);
			break;
		case ROSE_KERNEL_COALESCE:
			run_coalesce(kernel, n);
			break;
		default:
			Assert(false);
			break;
	}
}
