package state

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// syncDir does nothing: Windows has no fsync of a directory, and NTFS journals
// its renames.
func syncDir(*os.Root) error { return nil }

// tryLock takes a lock on f, which ends with its handle and so with the
// process. It reports false if another one has it. Locks are mandatory here, so
// it is on a byte far beyond the content, which stays readable.
func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: 0x7fff_ffff})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
