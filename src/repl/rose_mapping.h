/*-------------------------------------------------------------------------
 *
 * rose_mapping.h
 *	  Which names the upstream's tables have here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_MAPPING_H
#define ROSE_MAPPING_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "repl/rose_repl.h"

/* Each pair of a JSON object, whose value is a scalar; error if it is no such object.  what: the option. */
typedef void (*RoseMappingPair) (void *arg, const char *key, const JsonbValue *value);
extern void rose_mapping_walk(const char *json, const char *what, RoseMappingPair pair, void *arg);

/* Its text as it is kept, or NULL if there is nothing in it; error if it is no mapping of tables. */
extern char *rose_mapping_check(const char *json);

/* The name that a table of the upstream is to have here; mapping may be NULL.  relid is not set. */
extern RoseUpstreamTable rose_mapping_target(const char *mapping, const RoseUpstreamTable *remote);

#endif							/* ROSE_MAPPING_H */
