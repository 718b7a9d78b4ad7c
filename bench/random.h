/*-------------------------------------------------------------------------
 *
 * random.h
 *	  Random numbers of the programs that make data: the same ones everywhere, from one seed.
 *
 * SplitMix64: each number is a hash of its state.  One stream a program.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_RANDOM_H
#define BENCH_RANDOM_H

#include <stdint.h>

#define RANDOM_GAMMA		UINT64_C(0x9e3779b97f4a7c15)

/* From one number's state to the next one's; who wants to go to the n-th number defines one of his own before. */
#ifndef RANDOM_STRIDE
#define RANDOM_STRIDE		RANDOM_GAMMA
#endif

static uint64_t random_state;

static inline uint64_t
random_hash(uint64_t z)
{
	z += RANDOM_GAMMA;
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint64_t
next_random(void)
{
	uint64_t	z = random_hash(random_state);

	random_state += RANDOM_STRIDE;
	return z;
}

static inline int
below(int limit)
{
	return (int) ((next_random() >> 33) % (uint64_t) limit);
}

#endif							/* BENCH_RANDOM_H */
