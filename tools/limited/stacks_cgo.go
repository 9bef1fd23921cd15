//go:build cgo

package limited

// stacks is what the stacks of 32 threads count in the limit of memory: with cgo, the C library
// reserves 8 MiB for each, and a busy machine needs more threads.
const stacks = 32 * 8 << 20
