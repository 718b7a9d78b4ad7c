/*-------------------------------------------------------------------------
 *
 * unit_wire.c
 *	  Changes as pgoutput sends them: what was put in comes out, and whatever
 *	  else comes gives an error or values that lie within the message.
 *
 * Each message is an allocation of its own, so reads out of bounds show under
 * SANITIZE=1.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "repl/rose_wire.h"

#include "unit.h"

#define WIRE_MAX		4096

typedef struct Message
{
	int			len;
	char		data[WIRE_MAX];
} Message;

static uint64 wire_sum;
static RoseWireChange change;

static void
put_byte(Message *message, char byte)
{
	message->data[message->len++] = byte;
}

static void
put_number(Message *message, uint32 number, int nbytes)
{
	while (nbytes-- > 0)
		put_byte(message, (char) (number >> (nbytes * 8)));
}

static void
put_tuple(Message *message, RoseWireTuple *expect)
{
	static const char kinds[] = "nutbtb";

	expect->ncols = unit_random_below(8);
	put_number(message, expect->ncols, 2);
	for (int i = 0; i < expect->ncols; i++)
	{
		RoseWireColumn *column = &expect->columns[i];

		column->kind = kinds[unit_random_below(lengthof(kinds) - 1)];
		column->len = 0;
		put_byte(message, column->kind);
		if (column->kind == ROSE_WIRE_NULL || column->kind == ROSE_WIRE_UNCHANGED)
			continue;
		column->len = unit_random_below(unit_random_below(4) == 0 ? 200 : 12);
		put_number(message, column->len, 4);
		column->data = message->data + message->len;
		for (int j = 0; j < column->len; j++)
			put_byte(message, (char) unit_random());
	}
}

/* A well-formed message; the letter that it would begin with. */
static char
make_message(Message *message, RoseWireChange *expect)
{
	char		command = "IUD"[unit_random_below(3)];

	message->len = 0;
	expect->relid = (uint32) unit_random();
	put_number(message, expect->relid, 4);
	expect->has_old = command == 'D' || (command == 'U' && unit_random_below(2) == 0);
	if (expect->has_old)
	{
		put_byte(message, "KO"[unit_random_below(2)]);
		put_tuple(message, &expect->old);
	}
	if (command != 'D')
	{
		put_byte(message, 'N');
		put_tuple(message, &expect->new);
	}
	return command;
}

static bool
same_tuple(const RoseWireTuple *tuple, const RoseWireTuple *expect)
{
	if (tuple->ncols != expect->ncols)
		return false;
	for (int i = 0; i < tuple->ncols; i++)
	{
		const RoseWireColumn *a = &tuple->columns[i];
		const RoseWireColumn *b = &expect->columns[i];

		if (a->kind != b->kind || a->len != b->len)
			return false;
		if (a->len > 0 && memcmp(a->data, b->data, a->len) != 0)
			return false;
		if (a->kind == ROSE_WIRE_TEXT && a->data[a->len] != '\0')
			return false;
	}
	return true;
}

/* As libpq has it: with a zero behind. */
static char *
copy_message(const Message *message, int len)
{
	char	   *copy = malloc(len + 1);

	memcpy(copy, message->data, len);
	copy[len] = '\0';
	return copy;
}

static void
touch_tuple(const RoseWireTuple *tuple)
{
	for (int i = 0; i < tuple->ncols; i++)
	{
		for (int j = 0; j < tuple->columns[i].len; j++)
			wire_sum += (uint8) tuple->columns[i].data[j];
	}
}

/* Reads data; true if it was an error of the right kind. */
static bool
is_refused(char command, char *data, int len, bool *right_error)
{
	volatile bool failed;

	UNIT_CATCH(failed, rose_wire_read_change(command, data, len, &change));
	if (failed)
	{
		*right_error = unit_error_code == ERRCODE_PROTOCOL_VIOLATION;
		return true;
	}
	if (change.has_old)
		touch_tuple(&change.old);
	if (command != 'D')
		touch_tuple(&change.new);
	return false;
}

static void
test_round_trip(void)
{
	static Message message;
	static RoseWireChange expect;
	int			nbad = 0;
	int			naccepted = 0;
	bool		right_errors = true;

	for (int i = 0; i < 2000; i++)
	{
		char		command = make_message(&message, &expect);
		char	   *data = copy_message(&message, message.len);
		bool		right = true;

		if (is_refused(command, data, message.len, &right) ||
			change.relid != expect.relid || change.has_old != expect.has_old ||
			(expect.has_old && !same_tuple(&change.old, &expect.old)) ||
			(command != 'D' && !same_tuple(&change.new, &expect.new)))
			nbad++;
		free(data);

		/* no beginning of it is a message, nor is it with something behind */
		for (int len = 0; len < message.len; len++)
		{
			data = copy_message(&message, len);
			naccepted += !is_refused(command, data, len, &right);
			right_errors &= right;
			free(data);
		}
		put_byte(&message, 'n');
		data = copy_message(&message, message.len);
		naccepted += !is_refused(command, data, message.len, &right);
		right_errors &= right;
		free(data);
	}
	unit_ok(nbad == 0, "2000 changes are read as they were written");
	unit_ok(naccepted == 0, "no cut or lengthened change is accepted");
	unit_ok(right_errors, "each is a protocol violation");
}

static void
test_damaged(int iterations)
{
	static Message message;
	static RoseWireChange expect;
	int			nrefused = 0;
	bool		right_errors = true;

	for (int i = 0; i < iterations; i++)
	{
		char		command = make_message(&message, &expect);
		char	   *data = copy_message(&message, message.len);
		int			ndamages = unit_random_below(4);
		bool		right = true;

		if (ndamages == 0)
			command = "IUD"[unit_random_below(3)];
		for (int j = 0; j < ndamages; j++)
			data[unit_random_below(message.len)] = (char) unit_random();
		nrefused += is_refused(command, data, message.len, &right);
		right_errors &= right;
		free(data);
	}
	unit_ok(nrefused > 0 && right_errors,
			"of %d damaged changes those that were noticed were protocol violations",
			iterations);
}

void
test_wire(int iterations)
{
	test_round_trip();
	test_damaged(iterations);
	unit_note("checksum of what was read: " UINT64_FORMAT, wire_sum);
}
