// Package task shows calls as tasks: get, list and cancel them, find the worker that
// runs one, and read its stored results.
package task
