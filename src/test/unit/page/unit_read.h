/*-------------------------------------------------------------------------
 *
 * unit_read.h
 *	  Reading all of a page in each way there is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_READ_H
#define UNIT_READ_H

#include "page/rose_page.h"

/* May raise an error.  The image is BLCKSZ bytes, MAXALIGNed; descs are the reader's. */
extern void unit_read_page(RosePageReader *reader, const RoseColumnDesc *descs, const char *image);

#endif							/* UNIT_READ_H */
