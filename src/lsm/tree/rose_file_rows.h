/*-------------------------------------------------------------------------
 *
 * rose_file_rows.h
 *	  What the rows of a tree's file look like.
 *
 * In the file of a table they are what the catalog says of the table.  In that of an
 * index they are its entries, which the catalog does not know; the metapage tells them.  So
 * a worker can work on an index without a look at its table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_FILE_ROWS_H
#define ROSE_FILE_ROWS_H

#include "postgres.h"

#include "utils/rel.h"

#include "store/rose_metapage.h"

/*
 * Columns of the rows; those of a table are the relcache's, those of an index made in the
 * current context.
 */
extern TupleDesc rose_file_descriptor(Relation rel, const RoseMetaInfo *meta);

/* The schema of these rows, by columns that a table may have had before (NULL: that it has). */
extern RoseSchema *rose_file_schema(Relation rel, TupleDesc tupdesc, const RoseMetaInfo *meta,
									MemoryContext context);

/* What a metapage says of the entries of an index; errors if they cannot be. */
extern void rose_file_index_def(Relation rel, const RoseMetaInfo *meta, RoseIndexDef *def);

#endif							/* ROSE_FILE_ROWS_H */
