package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback has the disk write a part of a file, without waiting for it,
// and reports whether it does. Nothing is durable before a sync.
func startWriteback(f *os.File, off, n int64) bool {
	return unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE) == nil
}
