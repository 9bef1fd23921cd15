package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback starts to write a part of a file to the disk while the caller produces
// more. The part is durable only after a sync, which also reports errors.
func startWriteback(f *os.File, off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}
