/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  What the fuzz targets share.
 *
 * A target is a program: its own LLVMFuzzerTestOneInput, linked with libFuzzer, the
 * modules under test and unit_shim.c in place of the server.  An error that a decoder
 * raises is an answer; a crash, a read out of bounds or a loop without end is a finding.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "postgres.h"

#include "utils/memutils.h"

#include "unit/unit.h"

/* Seeds unit_random from the input, so that an input always does the same. */
extern void fuzz_begin(const uint8 *data, Size size);

/* Memory of this input; freed by fuzz_end, whether or not there was an error. */
extern MemoryContext fuzz_context(void);
extern void fuzz_end(void);

/*
 * Stops the program unless the last error was one that corrupt data may raise: data
 * corrupted, or another version of the format.
 */
extern void fuzz_check_error(void);

#endif							/* FUZZ_H */
