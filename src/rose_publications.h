/*-------------------------------------------------------------------------
 *
 * rose_publications.h
 *	  Commands that would publish rose tables.
 *
 * Asked when a publication is made or changed, when a table becomes one of rose's, and when
 * one comes to where publications take all tables.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_PUBLICATIONS_H
#define ROSE_PUBLICATIONS_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* A command that may make a publication, or add something to one. */
extern void rose_publications_check_command(Node *stmt);

/* A table becomes a rose table. */
extern void rose_publications_check_table(Oid relid);

/* The table that a command may bring into publications, or NULL; and when it has been run. */
extern RangeVar *rose_publications_table_of(Node *stmt);
extern void rose_publications_check_member(const RangeVar *table);

#endif							/* ROSE_PUBLICATIONS_H */
