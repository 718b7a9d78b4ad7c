/*-------------------------------------------------------------------------
 *
 * rose_objects_hook.h
 *	  The hook on objects.
 *
 * Installed once, by rose_hooks.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_OBJECTS_HOOK_H
#define ROSE_OBJECTS_HOOK_H

extern void rose_objects_hook_install(void);

#endif							/* ROSE_OBJECTS_HOOK_H */
