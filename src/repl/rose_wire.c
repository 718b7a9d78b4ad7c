/*-------------------------------------------------------------------------
 *
 * rose_wire.c
 *	  Reads pgoutput's Insert, Update and Delete messages in place.
 *
 * Core's functions for this (logicalproto.h) copy each value to memory of its own, which
 * costs as much as all that is done with it afterwards.  Here values stay where they are
 * in the message, and nothing is allocated.
 *
 *	  message:	relation id (4) | 'I': 'N' tuple
 *								| 'U': ['K' or 'O' tuple] 'N' tuple
 *								| 'D': 'K' or 'O' tuple
 *	  tuple:	number of columns (2) | column ...
 *	  column:	'n' | 'u' | 't' or 'b', length (4), value
 *
 * Whatever the upstream sends, nothing beyond the message is read; a message that is not
 * of this form, or is longer, is an error.
 *
 * Pure: no memory, no locks, no catalog.  What the values mean is rose_repl_value.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"

#include "repl/rose_wire.h"

typedef struct Reader
{
	char	   *at;
	char	   *end;
	char		command;		/* for error messages */
} Reader;

static void
malformed(const Reader *reader, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("malformed logical replication message \"%c\": %s", reader->command, what)));
}

static inline void
need(const Reader *reader, int n)
{
	if (unlikely(reader->end - reader->at < n))
		malformed(reader, "it is too short");
}

static inline char
read_letter(Reader *reader)
{
	need(reader, 1);
	return *reader->at++;
}

static inline uint32
read_uint32(Reader *reader)
{
	uint32		value;

	need(reader, sizeof(value));
	memcpy(&value, reader->at, sizeof(value));
	reader->at += sizeof(value);
	return pg_ntoh32(value);
}

static inline uint16
read_uint16(Reader *reader)
{
	uint16		value;

	need(reader, sizeof(value));
	memcpy(&value, reader->at, sizeof(value));
	reader->at += sizeof(value);
	return pg_ntoh16(value);
}

static void
read_tuple(Reader *reader, RoseWireTuple *tuple)
{
	tuple->has_text = false;
	tuple->ncols = read_uint16(reader);
	if (tuple->ncols > MaxHeapAttributeNumber)
		malformed(reader, "it has too many columns");

	for (int i = 0; i < tuple->ncols; i++)
	{
		RoseWireColumn *column = &tuple->columns[i];

		column->kind = read_letter(reader);
		column->data = NULL;
		column->len = 0;
		switch (column->kind)
		{
			case ROSE_WIRE_NULL:
			case ROSE_WIRE_UNCHANGED:
				break;
			case ROSE_WIRE_TEXT:
			case ROSE_WIRE_BINARY:
				{
					uint32		len = read_uint32(reader);

					if (len > reader->end - reader->at)
						malformed(reader, "a value is longer than the message");
					column->data = reader->at;
					column->len = len;
					reader->at += len;
					tuple->has_text |= column->kind == ROSE_WIRE_TEXT;
					break;
				}
			default:
				malformed(reader, "it has a column of unknown kind");
		}
	}
}

/* What follows a text in the message has been read: put a zero there. */
static void
end_texts(RoseWireTuple *tuple)
{
	if (!tuple->has_text)
		return;
	for (int i = 0; i < tuple->ncols; i++)
	{
		if (tuple->columns[i].kind == ROSE_WIRE_TEXT)
			tuple->columns[i].data[tuple->columns[i].len] = '\0';
	}
}

void
rose_wire_read_change(char command, char *data, int len, RoseWireChange *change)
{
	Reader		reader = {data, data + len, command};
	char		letter;

	Assert(command == 'I' || command == 'U' || command == 'D');
	change->relid = read_uint32(&reader);
	change->has_old = false;
	letter = read_letter(&reader);
	if (command != 'I' && (letter == 'K' || letter == 'O'))
	{
		read_tuple(&reader, &change->old);
		change->has_old = true;
		if (command == 'U')
			letter = read_letter(&reader);
	}
	if (command == 'D' ? !change->has_old : letter != 'N')
		malformed(&reader, "it has no row where one is due");
	if (command != 'D')
		read_tuple(&reader, &change->new);
	if (reader.at != reader.end)
		malformed(&reader, "it is too long");

	if (change->has_old)
		end_texts(&change->old);
	if (command != 'D')
		end_texts(&change->new);
}
