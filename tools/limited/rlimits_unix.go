//go:build unix

package limited

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Files bounds the size in bytes of each file that this process writes. A write above the bound
// fails.
func Files(bytes int64) error {
	if err := bound(unix.RLIMIT_FSIZE, uint64(bytes)); err != nil {
		return fmt.Errorf("bound the size of files: %w", err)
	}
	return nil
}

// bound lowers the soft limit of a resource of this process.
func bound(resource int, most uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return err
	}
	limit.Cur = min(limit.Cur, most)
	return unix.Setrlimit(resource, &limit)
}

// LeastOpenFiles is how many files a worker may need at once: connections, streams, and the pipes of commands.
const LeastOpenFiles = 1024

// CheckOpenFiles returns an error if this process may open fewer files than LeastOpenFiles. Go has raised the soft
// limit to the hard one.
func CheckOpenFiles() error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= LeastOpenFiles {
		return nil
	}
	return fmt.Errorf("this process may open %d files at once, and may need %d", limit.Cur, LeastOpenFiles)
}

// limitCPU lets the system end this process when it has used so much processor time, or up to a
// second less.
func limitCPU(most time.Duration) {
	seconds := max(uint64(most/time.Second), 1)
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds}) // its context ends it otherwise
}
