/*-------------------------------------------------------------------------
 *
 * rose_index_settings.h
 *	  Settings that expressions of indexes follow, though core takes them for immutable.
 *
 * Entries are made with the defaults of these by everybody, so that whoever takes one out computes
 * what somebody else has written.  A session with others means other values in its conditions: such
 * an index is not for it.
 *
 * Backend-local; no locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_INDEX_SETTINGS_H
#define ROSE_INDEX_SETTINGS_H

#include "postgres.h"

#include "utils/rel.h"

/* What is evaluated up to the end has the defaults of these settings (ROSE_FOLLOWS_*).  Returns what that wants; if an error is raised, the end of the (sub)transaction does it. */
extern int	rose_index_settings_begin(int follows);
extern void rose_index_settings_end(int level);

/* Those that constants in an index are folded with, of which it follows some; lasting: it has no functions of users. */
extern int	rose_index_settings_of_folding(int follows, bool lasting);

/* Are its entries of text as the session does not write it? */
extern bool rose_index_settings_differ(Oid indexid);

/*
 * ON CONFLICT is about to look for a value that core has computed, as the session has it: an error if entries may have another
 * one.  No such unique index can be made, but pg_upgrade brings those that older versions have made.
 */
extern void rose_index_settings_check_arbiter(Relation index);

#endif							/* ROSE_INDEX_SETTINGS_H */
