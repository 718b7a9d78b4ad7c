/*-------------------------------------------------------------------------
 *
 * rose_adopt.h
 *	  Files that another cluster has written.
 *
 * A file names collations and operator families by OID.  pg_upgrade hands files over to a
 * cluster in which these have other OIDs, and the file's own says which cluster they
 * belong to.  There the table's primary key tells them, which is the physical key
 * whenever no ALTER TABLE is under way.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_ADOPT_H
#define ROSE_ADOPT_H

#include "postgres.h"

#include "store/rose_metapage.h"


/*
 * Bring what the metapage says up to this cluster, in info only; true if the file should
 * be told (rose_meta_adopt).  Raises an error if nobody can say it now.  Looks up
 * catalogs; no LWLock.
 */
extern bool rose_adopt_plan(Relation rel, RoseMetaInfo *info);

/* The key that an index asks for; returns the number of columns. */
extern int	rose_adopt_index_key(Relation index, RoseKeyColumnDisk *keys);

#endif							/* ROSE_ADOPT_H */
