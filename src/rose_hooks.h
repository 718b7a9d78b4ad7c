/*-------------------------------------------------------------------------
 *
 * rose_hooks.h
 *	  Core's hooks that rose uses.
 *
 * Installed once, by _PG_init.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_HOOKS_H
#define ROSE_HOOKS_H

extern void rose_hooks_install(void);

#endif							/* ROSE_HOOKS_H */
