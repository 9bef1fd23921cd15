// Package sandbox runs commands that the worker does not trust: the kernel confines them to
// some directories, without network, other processes or the worker's secrets.
//
// On Linux, the worker executes itself again. Package enter, which runs before the rest
// of the program is initialised, sets resource limits, builds a root directory from the
// allowed paths, drops all capabilities, and installs Landlock rules and a seccomp filter.
// On macOS, sandbox-exec confines the command. On Windows nothing confines its files.
package sandbox
