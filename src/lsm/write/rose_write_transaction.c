/*-------------------------------------------------------------------------
 *
 * rose_write_transaction.c
 *	  What ends of (sub)transactions mean to those who write.
 *
 * What a transaction keeps for its writes is with those who use it: the memory of an
 * insert, the table that is written past C0, the waits for room.  They are told here that
 * it has ended.  Locks that were held go with core's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm/write/rose_direct.h"
#include "lsm/write/rose_insert.h"
#include "lsm/write/rose_make_room.h"
#include "lsm/write/rose_write_transaction.h"

void
rose_write_transaction_end(void)
{
	rose_direct_abort(0);
	rose_make_room_end_transaction();
}

void
rose_write_transaction_abort_sub(int level)
{
	rose_insert_abort_subtransaction(level);
	rose_direct_abort(level);
}
