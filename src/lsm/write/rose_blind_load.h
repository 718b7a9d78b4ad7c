/*-------------------------------------------------------------------------
 *
 * rose_blind_load.h
 *	  Entries of rows that a subscription has loaded in bulk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLIND_LOAD_H
#define ROSE_BLIND_LOAD_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "lsm/write/rose_blind_entries.h"

/*
 * The entries of all rows that this snapshot sees, which the current transaction has written:
 * into one private run of each index, as durable as the transaction is.  Calls functions of users,
 * as the table's owner.
 */
extern void rose_blind_load_entries(RoseBlindIndexes *indexes, Snapshot snapshot);

#endif							/* ROSE_BLIND_LOAD_H */
