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
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return fmt.Errorf("bound the size of files: %w", err)
	}
	limit.Cur = min(limit.Cur, uint64(bytes))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return fmt.Errorf("bound the size of files: %w", err)
	}
	return nil
}

// limitCPU lets the system end this process when it has used so much processor time, or up to a
// second less.
func limitCPU(most time.Duration) {
	seconds := max(uint64(most/time.Second), 1)
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds}) // its context ends it otherwise
}
