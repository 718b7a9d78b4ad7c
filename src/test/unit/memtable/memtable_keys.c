/*-------------------------------------------------------------------------
 *
 * memtable_keys.c
 *	  Unit test of the prefixes of keys: what they say is true of the keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memtable_unit.h"

#include "common/pg_prng.h"
#include "util/rose_key_internal.h"

/*
 * Keys of these columns, over any number of them: what prefixes say is true.
 */
static void
check_prefixes(const RoseKeyColumn *columns, int nkeys)
{
	RoseSchema	schema = {0};
	const int	nvalues = 2000;
	int			decided = 0;

	schema.nkeys = nkeys;
	memcpy(schema.keys, columns, nkeys * sizeof(RoseKeyColumn));
	rose_key_prefix_plan(&schema);
	for (int i = 0; i < nvalues; i++)
	{
		Datum		a[4];
		Datum		b[4];
		RoseKeyPrefix x;
		RoseKeyPrefix y;
		int			ncols = 1 + i % nkeys;
		int			cmp;
		bool		equal;

		for (int k = 0; k < nkeys; k++)
		{
			uint64		bits = pg_prng_uint64(&pg_global_prng_state);
			int			shift = bits & 63;

			/* near and far, and often the same */
			a[k] = Int64GetDatum((int64) pg_prng_uint64(&pg_global_prng_state) >> shift);
			b[k] = bits & 64 ? a[k] : Int64GetDatum(DatumGetInt64(a[k]) + (int64) (bits >> 62) - 1);
			if (columns[k].attlen == 4)
			{
				a[k] = Int32GetDatum((int32) a[k]);
				b[k] = Int32GetDatum((int32) b[k]);
			}
			else if (columns[k].attlen == 2)
			{
				a[k] = Int16GetDatum((int16) a[k]);
				b[k] = Int16GetDatum((int16) b[k]);
			}
		}
		rose_key_prefix_make(&schema, a, nkeys, &x);
		rose_key_prefix_make(&schema, b, ncols, &y);
		CHECK(x.mask[0] == PG_UINT64_MAX && x.mask[1] == PG_UINT64_MAX);
		CHECK(rose_key_prefix(&schema, a) == x.word[0]);
		x.word[0] &= y.mask[0];
		x.word[1] &= y.mask[1];
		cmp = rose_key_compare(&schema, a, b, ncols);
		equal = x.word[0] == y.word[0];
		if (!equal)
			CHECK((x.word[0] < y.word[0]) == (cmp < 0) && cmp != 0);
		else if (x.word[1] != y.word[1])
			CHECK((x.word[1] < y.word[1]) == (cmp < 0) && cmp != 0);
		if (equal)
			CHECK(rose_key_compare(&schema, a, b, Min(ncols, schema.prefix_columns)) == 0);
		decided += !equal;
	}
	CHECK(decided > 0);
	CHECK(rose_key_prefix_exact(&schema) == (schema.prefix_columns == nkeys));
}

void
test_prefixes(void)
{
	RoseKeyColumn columns[3][4] = {0};
	const int16 lengths[3][4] = {{4, 4, 8, 2}, {2, 8, 4, 4}, {8, 2, 2, 2}};

	for (int i = 0; i < 3; i++)
	{
		for (int k = 0; k < 4; k++)
		{
			columns[i][k].int_order = true;
			columns[i][k].attlen = lengths[i][k];
			columns[i][k].attbyval = true;
			columns[i][k].prefix_kind = ROSE_PREFIX_INT;
		}
		for (int nkeys = 1; nkeys <= 4; nkeys++)
			check_prefixes(columns[i], nkeys);
	}
}
