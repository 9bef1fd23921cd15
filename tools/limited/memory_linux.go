//go:build !race

package limited

import "golang.org/x/sys/unix"

// Memory reports whether Serve can end a process that needs too much memory.
const Memory = true

// limitMemory bounds the private memory that this process may write to. An allocation
// above the bound ends the process.
func limitMemory(bytes uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	limit.Cur = min(limit.Cur, bytes)
	return unix.Setrlimit(unix.RLIMIT_DATA, &limit)
}
