/*-------------------------------------------------------------------------
 *
 * rose_release.h
 *	  The version of the library, and of the extension in a database.
 *
 * The two part when a library was installed and ALTER EXTENSION rose UPDATE has not been
 * run yet, in each database by itself.  Until then everything works that the extension's
 * version has.  The other way round, nothing is promised but an error that says so.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_RELEASE_H
#define ROSE_RELEASE_H

#include "postgres.h"

#include "compat/rose_compat.h"

/* The default_version of rose.control, and what the setting rose.version shows. */
#define ROSE_RELEASE	"1.1"

extern void rose_release_define_settings(void);

/*
 * Error with this message: an object of the extension in this database is not as this
 * library needs it.  Says which versions they are, and what to do.  REQUIRES a
 * transaction.
 */
pg_noreturn extern void rose_release_mismatch(const char *message);

#endif							/* ROSE_RELEASE_H */
