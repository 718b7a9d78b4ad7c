/*-------------------------------------------------------------------------
 *
 * test_tail_pack.c
 *	  Unit test of src/store/rose_tail_pack.c: what is packed comes back, what is alike takes
 *	  little room, what is not is left alone, and no bytes whatsoever lead out of the buffers.
 *
 * A program of its own; run.sh builds and runs it.  A failed check aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/rose_store_internal.h"
#include "unit_check.h"

static uint64 random_state = 1;

static uint32
random_below(uint32 n)
{
	random_state = random_state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) (random_state >> 33) % n;
}

/* Exactly as large as they are said to be: a sanitizer sees who goes beyond. */
static char *records;
static char *scratch;
static char *packed;
static char *back;

static void
get_buffers(Size nbytes)
{
	records = malloc(nbytes);
	scratch = malloc(ROSE_TAIL_PACK_MAX);
	packed = malloc(nbytes);
	back = malloc(ROSE_TAIL_PACK_MAX);
}

static void
free_buffers(void)
{
	free(records);
	free(scratch);
	free(packed);
	free(back);
}

/* Pack and unpack; returns the packed size, 0 if it was not worth it. */
static Size
round_trip(Size nbytes, Size stride)
{
	char	   *small = malloc(nbytes);
	Size		size = rose_tail_pack(records, nbytes, stride, small, packed);
	RoseTailPackedDisk head;

	free(small);
	if (size == 0)
		return 0;
	CHECK(size <= nbytes - nbytes / 8);
	memcpy(&head, packed, sizeof(head));
	CHECK(head.raw_bytes == nbytes && head.stride == stride);
	CHECK(rose_tail_unpack(&head, packed + sizeof(head), size - sizeof(head), scratch, back));
	CHECK(memcmp(records, back, nbytes) == 0);
	return size;
}

/* Records of one length: a header that is always the same, and numbers of four bytes, of which the lower bytes differ. */
static void
test_numbers(void)
{
	for (int n = 2; n <= 900; n = n * 3 / 2 + 1)
	{
		Size		stride = 14 + 4 * 12;
		Size		size;

		get_buffers(n * stride);
		for (int i = 0; i < n; i++)
		{
			char	   *record = records + i * stride;

			memset(record, 7, 14);
			for (int j = 0; j < 12; j++)
			{
				uint32		value = random_below(j % 2 == 0 ? 256 : 65536);

				memcpy(record + 14 + 4 * j, &value, 4);
			}
		}
		size = round_trip(n * stride, stride);
		/* 18 bytes of 62 differ */
		if (n >= 200)
			CHECK(size > 0 && size < n * 22);
		free_buffers();
	}
}

/* Records of different lengths, with words in them. */
static void
test_words(void)
{
	static const char *const words[] = {"sunny", "rain", "wind from the west", "fog in the morning", ""};

	for (int round = 0; round < 200; round++)
	{
		Size		nbytes = 1000 + random_below(60000);
		Size		at = 0;

		get_buffers(nbytes);
		while (at < nbytes)
		{
			const char *word = words[random_below(lengthof(words))];
			Size		length = Min(strlen(word) + 1, nbytes - at);

			memcpy(records + at, word, length);
			at += length;
		}
		CHECK(round_trip(nbytes, 0) > 0);
		free_buffers();
	}
}

static void
test_noise(void)
{
	for (int round = 0; round < 100; round++)
	{
		Size		nbytes = 1 + random_below(5000);

		get_buffers(nbytes);
		for (Size i = 0; i < nbytes; i++)
			records[i] = (char) random_below(256);
		CHECK(round_trip(nbytes, 0) == 0);
		CHECK(round_trip(nbytes, nbytes) == 0);
		free_buffers();
	}
}

/* Damaged: it may come out as anything, or be refused, but must not touch anything else. */
static void
test_damaged(void)
{
	Size		stride = 40;
	Size		nbytes = 500 * stride;

	for (int round = 0; round < 20000; round++)
	{
		RoseTailPackedDisk head;
		Size		size;
		Size		cut;
		char	   *exact;

		if (round % 1000 == 0)
		{
			get_buffers(nbytes);
			for (Size i = 0; i < nbytes; i++)
				records[i] = (char) random_below(i % stride < 10 ? 200 : 3);
			CHECK(round_trip(nbytes, stride) > 0);
		}
		size = rose_tail_pack(records, nbytes, stride, scratch, packed);
		memcpy(&head, packed, sizeof(head));
		size -= sizeof(head);
		for (int n = random_below(4); n > 0; n--)
			packed[sizeof(head) + random_below(size)] ^= 1 + random_below(255);
		if (random_below(3) == 0)
			head.raw_bytes = random_below(2) ? random_below(100000) : PG_UINT32_MAX - random_below(3);
		if (random_below(3) == 0)
			head.stride = random_below(2) ? random_below(2 * nbytes) : PG_UINT32_MAX - random_below(3);
		cut = random_below(3) == 0 ? random_below(size + 1) : size;
		exact = malloc(cut);
		memcpy(exact, packed + sizeof(head), cut);
		(void) rose_tail_unpack(&head, exact, cut, scratch, back);
		free(exact);
		if (round % 1000 == 999)
			free_buffers();
	}
}

int
main(void)
{
	test_numbers();
	test_words();
	test_noise();
	test_damaged();
	printf("ok - tail log records packed and unpacked\n");
	return 0;
}
