/*-------------------------------------------------------------------------
 *
 * rose_publications.h
 *	  Commands that would publish rose tables.
 *
 * Asked when a publication is made or changed, and when a table becomes one of rose's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PUBLICATIONS_H
#define ROSE_PUBLICATIONS_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* CREATE PUBLICATION ... FOR ALL TABLES, or what is to be added to a publication. */
extern void rose_publications_check_all(void);
extern void rose_publications_check_objects(List *objects);

/* A table becomes a rose table. */
extern void rose_publications_check_table(Oid relid);

#endif							/* ROSE_PUBLICATIONS_H */
