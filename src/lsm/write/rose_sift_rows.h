/*-------------------------------------------------------------------------
 *
 * rose_sift_rows.h
 *	  The entries that the versions of a table have, for a merge of an index that sifts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_SIFT_ROWS_H
#define ROSE_SIFT_ROWS_H

/* Sets rose_sift_hook. */
extern void rose_sift_rows_register(void);

#endif							/* ROSE_SIFT_ROWS_H */
