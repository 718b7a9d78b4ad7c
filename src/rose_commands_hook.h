/*-------------------------------------------------------------------------
 *
 * rose_commands_hook.h
 *	  The hook on commands.
 *
 * Installed once, by rose_hooks.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROSE_COMMANDS_HOOK_H
#define ROSE_COMMANDS_HOOK_H

extern void rose_commands_hook_install(void);

#endif							/* ROSE_COMMANDS_HOOK_H */
