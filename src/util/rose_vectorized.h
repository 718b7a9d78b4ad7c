/*-------------------------------------------------------------------------
 *
 * rose_vectorized.h
 *	  ROSE_VECTORIZED marks loops that are compiled twice: for processors with AVX2, and for all.
 *
 * The better one is chosen when rose is loaded.  The Makefile compiles files that have such loops
 * with -O3.  No locks, no state.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_VECTORIZED_H
#define ROSE_VECTORIZED_H

/* sanitizers are not ready yet when such a choice is made */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && \
	defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define ROSE_VECTORIZED	__attribute__((target_clones("avx2", "default")))
#else
#define ROSE_VECTORIZED
#endif

#endif							/* ROSE_VECTORIZED_H */
