# DuckDB's part of benchmarks that ask queries of several tables (lib_queries.sh).
#
#	queries_duckdb.py SCRATCH ROUNDS COUNTED TABLE PROGRAM DEFINITION ...
#
# Makes each table by its definition, fills it with what the program writes, and asks the queries of SCRATCH/queries, by one thread.
# Prints for each its number, the least processor time in ms, and "same", or a difference from heap's answer in SCRATCH/answers. Numbers
# are compared as such, to nine digits: averages have other types.
import datetime
import os
import sys
import time

import duckdb


def text(value):
	if isinstance(value, datetime.datetime):
		return value.strftime('%Y-%m-%d %H:%M:%S')
	return str(value)


def is_same(ours, theirs):
	if ours == theirs:
		return True
	try:
		a, b = float(ours), float(theirs)
	except ValueError:
		return False
	return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def compare(rows, path, counted):
	with open(path, encoding='utf-8', newline='\n') as answer:
		expected = [line.rstrip('\n').split('\t') for line in answer]
	found = [[text(value) for value in row] for row in rows]
	if len(found) != len(expected):
		return f'{len(found)}_rows_for_{len(expected)}'
	if counted:
		return 'same'
	for i, (a, b) in enumerate(zip(found, expected)):
		if len(a) != len(b) or not all(map(is_same, a, b)):
			return f'row_{i + 1}:{a}:{b}'.replace(' ', '_')
	return 'same'


def main():
	scratch, rounds, counted = sys.argv[1], int(sys.argv[2]), sys.argv[3].split()
	tables = sys.argv[4:]
	db = duckdb.connect(config={'threads': 1})

	for table, program, definition in zip(tables[0::3], tables[1::3], tables[2::3]):
		db.execute(definition)
		pipe = os.path.join(scratch, 'duckdb.pipe')
		os.mkfifo(pipe)
		os.system(f'{program} >{pipe} &')
		db.execute(f"COPY {table} FROM '{pipe}' (FORMAT csv, DELIMITER '\t', QUOTE '', ESCAPE '', NULLSTR '\\N', HEADER false)")
		os.remove(pipe)
	with open(os.path.join(scratch, 'queries'), encoding='utf-8') as queries:
		for line in queries:
			number, query = line.rstrip('\n').split('\t', 1)
			least = None
			for i in range(rounds + 1):
				before = time.process_time()
				rows = db.execute(query).fetchall()
				ms = (time.process_time() - before) * 1000
				# the first round maps memory
				if i > 0 and (least is None or ms < least):
					least = ms
			print(number, f'{least:.2f}', compare(rows, os.path.join(scratch, 'answers', number + '.heap'), number in counted))


main()
