/*-------------------------------------------------------------------------
 *
 * unit_util.c
 *	  Tests of src/util.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "util/rose_bitpack.h"
#include "util/rose_bloom.h"
#include "util/rose_losertree.h"
#include "util/rose_varint.h"

#include "unit.h"

void
test_varint(void)
{
	bool		good = true;
	bool		short_is_error = true;
	int			i;

	for (i = 0; i < 2000; i++)
	{
		uint64		value = unit_random() >> (i % 64);
		char		buffer[ROSE_VARINT_MAX_SIZE];
		char	   *end;
		uint64		back = 0;

		if (i < 4)
			value = i == 0 ? 0 : i == 1 ? PG_UINT64_MAX : i == 2 ? 127 : 128;
		end = rose_varint_write(buffer, value);
		good &= end - buffer == rose_varint_size(value);
		good &= rose_varint_read(buffer, end, &back) == end && back == value;
		good &= rose_zigzag_encode(rose_zigzag_decode(value)) == value;
		short_is_error &= rose_varint_read(buffer, end - 1, &back) == NULL;
	}
	unit_ok(good, "varint: round trip");
	unit_ok(short_is_error, "varint: a number that is cut off is refused");
	unit_ok(rose_zigzag_encode(-1) == 1 && rose_zigzag_encode(1) == 2 &&
			rose_zigzag_decode(rose_zigzag_encode(PG_INT64_MIN)) == PG_INT64_MIN,
			"varint: zigzag keeps small magnitudes small");
}

static bool
bitpack_round_trip(int width, int n)
{
	uint64		values[300] = {0};
	uint64		back[300];
	char		buffer[300 * 8 + ROSE_BITPACK_SLOP];
	Size		size = rose_bitpack_size(n, width);
	uint64		sum = 0;
	int			from = n > 0 ? (int) unit_random_below(n) : 0;
	int			i;

	for (i = 0; i < n; i++)
		values[i] = unit_random_below(8) == 0 ? rose_width_mask(width) :
			unit_random() & rose_width_mask(width);
	memset(buffer, 0xa5, sizeof(buffer));
	rose_bitpack_write(buffer, width, values, n);
	if ((uint8) buffer[size] != 0xa5)
		return false;
	for (i = 0; i < n; i++)
	{
		if (rose_bitpack_get(buffer, width, i) != values[i])
			return false;
	}
	rose_bitpack_read(buffer, width, from, n - from, back);
	for (i = from; i < n; i++)
	{
		sum += values[i];
		if (back[i - from] != values[i])
			return false;
	}
	return rose_bitpack_sum(buffer, width, from, n - from) == sum;
}

void
test_bitpack(void)
{
	int			width;
	bool		good = true;

	for (width = 0; width <= 64; width++)
	{
		int			k;

		for (k = 0; k < 20; k++)
			good &= bitpack_round_trip(width, k < 3 ? k : (int) unit_random_below(300));
	}
	unit_ok(good, "bitpack: round trip of all widths, nothing written past the end");
	unit_ok(rose_bits_needed(0) == 0 && rose_bits_needed(1) == 1 &&
			rose_bits_needed(255) == 8 && rose_bits_needed(PG_UINT64_MAX) == 64,
			"bitpack: bits needed");
}

static double
bloom_false_positives(uint64 nkeys, double bits_per_key, bool *complete)
{
	RoseBloomShape shape = rose_bloom_shape(nkeys, bits_per_key);
	char	   *bits = calloc(1, rose_bloom_bytes(&shape));
	uint64		salt = unit_random();
	int			nfalse = 0;
	uint64		i;

	*complete = true;
	for (i = 0; i < nkeys; i++)
		rose_bloom_add(bits, &shape, rose_bloom_hash_finish(salt + i));
	for (i = 0; i < nkeys; i++)
		*complete &= rose_bloom_test(bits, &shape, rose_bloom_hash_finish(salt + i));
	for (i = 0; i < 100000; i++)
		nfalse += rose_bloom_test(bits, &shape, rose_bloom_hash_finish(~salt - i));
	free(bits);
	return nfalse / 100000.0;
}

void
test_bloom(void)
{
	bool		complete;
	bool		complete14;
	double		rate10 = bloom_false_positives(100000, 10, &complete);
	double		rate14 = bloom_false_positives(100000, 14, &complete14);
	RoseBloomShape none = rose_bloom_shape(0, 10);

	unit_ok(complete && complete14, "bloom: every key that was added is found");
	unit_ok(rate10 < 0.016, "bloom: 10 bits a key, %.2f %% false positives", rate10 * 100);
	unit_ok(rate14 < 0.006, "bloom: 14 bits a key, %.2f %% false positives", rate14 * 100);
	unit_ok(none.nblocks == 1, "bloom: no keys still make a filter");
	unit_ok(rose_bloom_hash_combine(rose_bloom_hash_combine(0, 1), 2) !=
			rose_bloom_hash_combine(rose_bloom_hash_combine(0, 2), 1),
			"bloom: the order of key columns matters to the hash");
}

typedef struct MergeSources
{
	int			n;
	int			length[16];
	int			at[16];
	int			row[16][64];
} MergeSources;

static int
compare_sources(int a, int b, void *arg)
{
	MergeSources *sources = arg;
	int			x = sources->row[a][sources->at[a]];
	int			y = sources->row[b][sources->at[b]];

	return x < y ? -1 : x > y;
}

static bool
merge_once(int nsources)
{
	MergeSources sources = {.n = nsources};
	RoseLoserTree *tree = rose_losertree_create(nsources, compare_sources, &sources,
												TopMemoryContext);
	int			total = 0;
	int			last_value = -1;
	int			last_source = -1;
	int			source;
	int			i;
	bool		good = true;

	for (source = 0; source < nsources; source++)
	{
		sources.length[source] = (int) unit_random_below(64);
		for (i = 0; i < sources.length[source]; i++)
			sources.row[source][i] = (i == 0 ? 0 : sources.row[source][i - 1]) +
				(int) unit_random_below(3);
		total += sources.length[source];
		if (sources.length[source] == 0)
			rose_losertree_set_empty(tree, source);
	}
	rose_losertree_build(tree);
	while ((source = rose_losertree_winner(tree)) >= 0)
	{
		int			value = sources.row[source][sources.at[source]];
		int			second = rose_losertree_runner_up(tree);

		good &= value > last_value || (value == last_value && source >= last_source);
		if (second >= 0)
			good &= compare_sources(second, source, &sources) >= 0;
		for (i = 0; i < nsources && second >= 0; i++)
		{
			if (i != source && sources.at[i] < sources.length[i])
				good &= compare_sources(i, second, &sources) >= 0;
		}
		last_value = value;
		last_source = source;
		total--;
		sources.at[source]++;
		rose_losertree_advanced(tree, sources.at[source] < sources.length[source]);
	}
	rose_losertree_free(tree);
	return good && total == 0;
}

void
test_losertree(void)
{
	bool		good = true;
	int			i;

	for (i = 0; i < 400; i++)
		good &= merge_once(i % 17);
	unit_ok(good, "losertree: merges 0 to 16 sources, ties by source, runner-up is right");
}
