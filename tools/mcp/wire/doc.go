// Package wire reads, changes and writes JSON-RPC messages of any size.
//
// A message of at most 1 MiB is in memory; a larger one is in a temporary file, and
// only positions of its parts are in memory. All bytes that nobody changes are passed
// on as they came.
package wire
