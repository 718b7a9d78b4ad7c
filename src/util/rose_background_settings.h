/*-------------------------------------------------------------------------
 *
 * rose_background_settings.h
 *	  Settings that background processes must not inherit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_BACKGROUND_SETTINGS_H
#define ROSE_BACKGROUND_SETTINGS_H

#include "postgres.h"

/* From here on, for the life of this process.  REQUIRES: connected to its database. */
extern void rose_background_settings_fix(void);

#endif							/* ROSE_BACKGROUND_SETTINGS_H */
