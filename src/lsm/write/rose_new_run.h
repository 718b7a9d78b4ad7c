/*-------------------------------------------------------------------------
 *
 * rose_new_run.h
 *	  A run that a writer has built comes into the manifest.
 *
 * For this folder only: what spills and merges build is published by them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_NEW_RUN_H
#define ROSE_NEW_RUN_H

#include "postgres.h"

#include "store/rose_manifest.h"
#include "lsm/component/rose_component.h"
#include "lsm/tree/rose_tree.h"

typedef struct RoseNewRun
{
	RoseTree   *tree;
	RoseManifestEdit *edit;
	RoseComponentEntryDisk *entry;	/* in the edit; may be changed until it is published */
} RoseNewRun;

/*
 * Finish a run, to be published in front of all components, on level 0.  next_seq:
 * numbers from here on are not taken.  Lives in the current context.
 */
extern void rose_new_run_finish(RoseNewRun *run, RoseTree *tree, RoseComponentBuilder *builder,
								uint64 next_seq);

extern void rose_new_run_publish(RoseNewRun *run);
extern void rose_new_run_note(const RoseNewRun *run);

#endif							/* ROSE_NEW_RUN_H */
