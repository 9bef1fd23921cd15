//go:build !race

package limited

import "golang.org/x/sys/unix"

// Memory reports whether Serve can end a process that needs too much memory.
const Memory = true

// limitMemory bounds the private memory that this process may write to. An allocation
// above the bound ends the process.
func limitMemory(bytes uint64) error {
	return bound(unix.RLIMIT_DATA, bytes)
}
