//go:build !race

package offload

import "golang.org/x/sys/unix"

// limitsMemory is true if limitMemory has an effect.
const limitsMemory = true

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
