package integration

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitFiles lets a process write no file beyond size bytes, as if its disk were full.
func limitFiles(pid int, size uint64) error {
	var former unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &former); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: former.Max}, nil)
}

// ignoreFileLimit makes writes beyond the limit fail; otherwise they end the process.
func ignoreFileLimit() { signal.Ignore(syscall.SIGXFSZ) }
