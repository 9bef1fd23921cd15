package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback starts to write a part of a file to the disk, and reports whether the
// system supports that. The part is durable only after a sync.
func startWriteback(f *os.File, off, n int64) bool {
	return unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE) == nil
}
