/*-------------------------------------------------------------------------
 *
 * rose_options.h
 *	  Options of one table: their names, their values, and where they are kept.
 *
 * They stand in pg_class.reloptions with their whole names ("rose.filter_bits=12"), so
 * that what copies, shows, dumps and restores storage parameters does that with them.
 * Core would refuse such a name; tableam/rose_table_options.c keeps the two apart.
 *
 * The engine reads them where it has no business with catalogs.  So whoever opens a
 * table puts its options into its shared state, and reads that from then on.  Indexes
 * have those of their table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OPTIONS_H
#define ROSE_OPTIONS_H

#include "postgres.h"

#include "port/atomics.h"

#define ROSE_OPTION_PREFIX	"rose."

typedef enum RoseOption
{
	ROSE_OPTION_SPILL_INTERVAL, /* ms */
	ROSE_OPTION_FILTER_BITS,	/* a key of the lowest level */
	ROSE_OPTION_CODEC_EFFORT,	/* a RoseEffort */
	ROSE_OPTION_WAL_COMPONENTS	/* 0 or 1 */
} RoseOption;

#define ROSE_NOPTIONS		4

/* Not set for the table: the server's setting, or the default, counts. */
#define ROSE_OPTION_UNSET	(-1)

/* How hard codecs are looked for. */
typedef enum RoseEffort
{
	ROSE_EFFORT_LOW,			/* cheap codecs only */
	ROSE_EFFORT_NORMAL,
	ROSE_EFFORT_HIGH			/* the smallest, for each page anew */
} RoseEffort;

typedef struct RoseOptionsShared
{
	pg_atomic_uint32 values[ROSE_NOPTIONS]; /* int32; no lock */
	pg_atomic_uint32 stale;		/* they may have been changed since; no lock */
} RoseOptionsShared;

extern void rose_options_init(RoseOptionsShared *shared);

/* Let the shared state say what the catalog says of the table.  Needs a transaction. */
extern void rose_options_publish(RoseOptionsShared *shared, Oid relid);

static inline int
rose_options_get(RoseOptionsShared *shared, RoseOption option)
{
	return (int) pg_atomic_read_u32(&shared->values[option]);
}

/* Its name without the prefix. */
extern const char *rose_options_name(RoseOption option);

/* Is this the name of an option of rose, one that exists or not? */
extern bool rose_options_has_prefix(const char *name);

/* Raise an error unless there is such an option; and unless it takes that value. */
extern void rose_options_check_name(const char *name);
extern void rose_options_check_value(const char *name, const char *value);

#endif							/* ROSE_OPTIONS_H */
