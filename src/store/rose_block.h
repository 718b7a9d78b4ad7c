/*-------------------------------------------------------------------------
 *
 * rose_block.h
 *	  Pages of components: writing them in regions of their owner, and reading them.
 *
 * No lock is held between calls.  Which region is free is rose_region.c's to find.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BLOCK_H
#define ROSE_BLOCK_H

#include "postgres.h"

#include "storage/block.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "store/rose_store.h"

typedef struct RoseBlockWriter RoseBlockWriter;

/*
 * Writes pages of one owner into regions allocated as it goes, contiguous where
 * possible, through a bulk-write ring.
 *
 * reserve() gives the block number the next page will get, before its content
 * is known (sibling links); pages may be written in any order within what was
 * reserved, and again before finish().  Each page starts with a page header
 * (pd_lower behind the data) and a RosePageHeaderDisk (page/rose_page.h) with
 * magic and component_id = owner; anything else is an error.
 *
 * finish() writes what is still in memory and gives unused regions back; then
 * everything is redo-able, or on disk (rose.wal_components = off), and can be
 * published.  A writer that is not finished is simply freed with its context.
 */
extern RoseBlockWriter *rose_blockwriter_create(Relation rel, RoseStoreShared *store,
												uint32 owner, MemoryContext context);
extern BlockNumber rose_blockwriter_reserve(RoseBlockWriter *writer);
extern void rose_blockwriter_write(RoseBlockWriter *writer, BlockNumber block,
								   const char *page);

/* Where what the caller puts on a page has to end; the store does the rest. */
extern int	rose_blockwriter_page_end(const RoseBlockWriter *writer);

/* Blocks reserved so far. */
extern uint64 rose_blockwriter_nblocks(const RoseBlockWriter *writer);
extern void rose_blockwriter_finish(RoseBlockWriter *writer);

/* The relation was closed and opened again between two steps of a merge. */
extern void rose_blockwriter_rebind(RoseBlockWriter *writer, Relation rel);

/*
 * Copy a page into dst (BLCKSZ, MAXALIGNed) and check that it is a component
 * page.  strategy may be NULL.  _owned also checks that the page belongs to
 * that component, so that a page that is missing or was reused (possible on a
 * standby only) is an error: prefer it wherever the component is known.
 */
extern void rose_block_read(Relation rel, BlockNumber block, char *dst,
							BufferAccessStrategy strategy);
extern void rose_block_read_owned(Relation rel, BlockNumber block, uint32 owner,
								  char *dst, BufferAccessStrategy strategy);

/*
 * The same without a copy: the page's buffer, locked for reading.  For a look of a
 * moment; UnlockReleaseBuffer it.
 */
extern Buffer rose_block_lock_owned(Relation rel, BlockNumber block, uint32 owner);

/* The same, pinned and not locked: pages of components never change.  ReleaseBuffer it before the statement ends. */
extern Buffer rose_block_pin_owned(Relation rel, BlockNumber block, uint32 owner);

#endif							/* ROSE_BLOCK_H */
