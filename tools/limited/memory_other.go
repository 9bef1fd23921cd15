//go:build !linux || race

package limited

// Memory reports whether Serve can end a process that needs too much memory.
const Memory = false

// limitMemory does nothing: other systems do not count the memory of Go, and the race
// detector needs too much. The process still checks its heap, and the worker is
// another process.
func limitMemory(uint64) error { return nil }
