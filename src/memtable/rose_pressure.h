/*-------------------------------------------------------------------------
 *
 * rose_pressure.h
 *	  The watermarks of memory: what happens as the arena fills up, and who may
 *	  have how much of it.
 *
 * All of them are parts of the arena, in 1024ths, and stand here together because they
 * lean on each other: what frees memory has to begin before what slows writers down, and
 * that before what they cannot do without is used up.  The order is asserted below.
 *
 * What is done about it is for those who ask.  Marks that are not about memory (numbers
 * of runs, of tail segments) are where they are used.
 *
 * No locks: how full the arena is may be an old answer by the time it is used.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PRESSURE_H
#define ROSE_PRESSURE_H

#include "memtable/rose_memtable.h"

#define ROSE_PRESSURE_UNIT	1024

/* How full the arena is, and what happens from there on. */
typedef enum RoseMark
{
	/*
	 * 1/8: tables that have few rows in memory are spilled when these are old, as others
	 * are.  Below they may stay much longer: nobody needs the memory.
	 */
	ROSE_MARK_SPILL_SMALL = 128,

	/*
	 * 45 %: a subscription's epoch is due, if it has a part in it (ROSE_SHARE_OWN_EPOCH).
	 * Its memory is free only when the epoch is committed; a little more than the other
	 * half takes what is applied meanwhile.
	 */
	ROSE_MARK_EPOCH = 461,

	/*
	 * 1/2: tables that only their writer can spill have to get by with less, since by now
	 * two of them may have taken the most that each is allowed (ROSE_SHARE_LOCKED).
	 */
	ROSE_MARK_LOCKED_LESS = 512,

	/*
	 * 60 %: workers spill the largest tables, whatever their age.  They take a quarter of
	 * the arena or so at a time and free it at the end, while the rest fills up.
	 */
	ROSE_MARK_SPILL = 614,

	/*
	 * 3/4: memory is short; spills are behind.  Writers of large tables are slowed down,
	 * at first next to nothing; spills carry over next to nothing, and free an epoch's
	 * memtables before the epoch is committed.
	 */
	ROSE_MARK_SHORT = 768,

	/*
	 * 80 %: the apply worker cuts its batch for an epoch, or writes a large transaction
	 * to private runs.  Behind SHORT, so that slower writers and early frees may help
	 * before.
	 */
	ROSE_MARK_APPLY_CUT = 819,

	/* 7/8: tables that only their writer can spill keep as good as nothing. */
	ROSE_MARK_LOCKED_NOTHING = 896,

	/* 15/16: where writers are slowed down most, and find no room: the rest is the reserve. */
	ROSE_MARK_FULL = 960
} RoseMark;

/* What one of many may have, or has to have. */
typedef enum RoseShare
{
	/* 1/2: the size of C0 by which merges find out how large C1 should be: what it has between two spills. */
	ROSE_SHARE_C0 = 512,

	/* 1/4: the largest row.  It has to fit beside others, in one piece. */
	ROSE_SHARE_ROW = 256,

	/* 1/4: a table with so much is spilled before memory is short, so that it is under way before anybody waits. */
	ROSE_SHARE_SPILL_EARLY = 256,

	/* 1/4, 1/64, 1/256, 1/1024: a table that only its writer can spill, the fuller the arena the less, so that they do not add up to all of it. */
	ROSE_SHARE_LOCKED = 256,
	ROSE_SHARE_LOCKED_LESS = 16,
	ROSE_SHARE_LOCKED_SHORT = 4,
	ROSE_SHARE_LOCKED_NOTHING = 1,

	/* 1/16: for those who make room: spills, which carry versions over, and recovery. */
	ROSE_SHARE_RESERVE = 64,

	/* 1/16: the versions of a transaction in progress that a spill carries over: copied and logged once more each time. */
	ROSE_SHARE_CARRY = 64,

	/*
	 * 1/256: what may always be carried over, and the most when memory is short: many
	 * tables with idle transactions could else fill the arena with what each may carry,
	 * and be spilled in vain.
	 */
	ROSE_SHARE_CARRY_SHORT = 4,

	/* 1/32: with so much to be spilled in other tables, a worker that spills one asks for another worker. */
	ROSE_SHARE_HELP = 32,

	/* 2 %: who has received so much since the last epoch has a part in it that memory fills up. */
	ROSE_SHARE_OWN_EPOCH = 20,

	/* 1/64: a table with so much has its writers slowed down; with less it is others who fill the arena. */
	ROSE_SHARE_PACED = 16,

	/*
	 * 1/32: where writers have superseded so much themselves, if that is half of what the
	 * table has, the next of them spills it, and has little to write down then.  Mostly it
	 * is the tail log that has so much; memory is used again before.
	 */
	ROSE_SHARE_SUPERSEDED = 32,

	/* 1/128: a table with less is not worth a spill by a writer who finds no room. */
	ROSE_SHARE_WORTH_SPILL = 8
} RoseShare;

StaticAssertDecl(ROSE_MARK_SPILL_SMALL < ROSE_MARK_EPOCH && ROSE_MARK_EPOCH < ROSE_MARK_LOCKED_LESS &&
				 ROSE_MARK_LOCKED_LESS < ROSE_MARK_SPILL && ROSE_MARK_SPILL < ROSE_MARK_SHORT && ROSE_MARK_SHORT < ROSE_MARK_APPLY_CUT &&
				 ROSE_MARK_APPLY_CUT < ROSE_MARK_LOCKED_NOTHING && ROSE_MARK_LOCKED_NOTHING < ROSE_MARK_FULL,
				 "memory is freed before writers are slowed down, and that before it is full");
StaticAssertDecl((int) ROSE_MARK_FULL + (int) ROSE_SHARE_RESERVE == ROSE_PRESSURE_UNIT,
				 "what is not for everybody is the reserve");
StaticAssertDecl(2 * (int) ROSE_SHARE_LOCKED <= (int) ROSE_MARK_LOCKED_LESS,
				 "two tables may have the largest share before the next one counts");

/* So many 1024ths of so many bytes. */
static inline Size
rose_pressure_part(Size bytes, int part)
{
	return bytes * part / ROSE_PRESSURE_UNIT;
}

/* A share in bytes. */
static inline Size
rose_pressure_share(RoseShare share)
{
	return rose_pressure_part(rose_arena_total_bytes(), share);
}

/* Is the arena as full as that? */
static inline bool
rose_pressure_reached(RoseMark mark)
{
	return rose_arena_used_bytes() >= rose_pressure_part(rose_arena_total_bytes(), mark);
}

#endif							/* ROSE_PRESSURE_H */
