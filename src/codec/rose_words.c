/*-------------------------------------------------------------------------
 *
 * rose_words.c
 *	  Arrays of words as they are stored: 1, 2, 4 or 8 bytes each, unaligned.
 *
 * Pure functions; no locks.  One word at a time is in rose_codec.h, inline.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "codec/rose_codec.h"

char *
rose_words_store(char *out, const int64 *words, int n, int size)
{
	int			i;

	switch (size)
	{
		case 1:
			for (i = 0; i < n; i++)
				rose_word_store(out + i, words[i], 1);
			break;
		case 2:
			for (i = 0; i < n; i++)
				rose_word_store(out + 2 * i, words[i], 2);
			break;
		case 4:
			for (i = 0; i < n; i++)
				rose_word_store(out + 4 * i, words[i], 4);
			break;
		default:
			memcpy(out, words, n * sizeof(int64));
			break;
	}
	return out + (Size) n * size;
}

void
rose_words_load(int64 *words, const char *p, int n, int size)
{
	int			i;

	switch (size)
	{
		case 1:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + i, 1);
			break;
		case 2:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + 2 * i, 2);
			break;
		case 4:
			for (i = 0; i < n; i++)
				words[i] = rose_word_load(p + 4 * i, 4);
			break;
		default:
			memcpy(words, p, n * sizeof(int64));
			break;
	}
}
