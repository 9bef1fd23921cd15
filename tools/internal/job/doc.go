// Package job groups the processes of a command on Windows, so that all of them end with
// the worker. On other systems it is empty.
package job
