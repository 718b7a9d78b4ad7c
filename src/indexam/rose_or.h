/*-------------------------------------------------------------------------
 *
 * rose_or.h
 *	  Conditions joined by OR, each looked up in an index of its own.
 *
 * Backend-local.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OR_H
#define ROSE_OR_H

#include "postgres.h"

struct CustomScanMethods;
struct PlannerInfo;
struct RelOptInfo;

/* Offer the planner such scans of a table; called when it has all other paths of it. */
extern void rose_or_add_paths(struct PlannerInfo *root, struct RelOptInfo *rel);

/*
 * The scan (rose_or_scan.c).  A child is an index scan of the same table for each arm;
 * custom_exprs is a list of two: the arms, in the same order, and the conditions on the
 * table.
 */
extern const struct CustomScanMethods rose_or_scan_methods;

extern void rose_or_register(void);

#endif							/* ROSE_OR_H */
